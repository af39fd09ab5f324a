"""``krucible zoo``: what counts as caught, what the arms do, and what the exit code says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from command import krucible

from harness import zoo
from harness.simulate import simulate
from harness.verdict import EXIT_INVALID, EXIT_UNKNOWN


def test_a_bug_is_caught_in_its_scenario_and_in_the_swarm() -> None:
    (bug,) = zoo.bugs(["ack-before-commit"])
    in_scenario, in_swarm = zoo.directed(bug), zoo.exploratory(bug, 60)
    assert "S17" in in_scenario.caught_by
    assert "S17" in in_swarm.caught_by or "linearizability" in in_swarm.caught_by
    assert (in_swarm.caught, in_swarm.seed) == (True, in_swarm.tried)


def test_a_catch_for_the_wrong_reason_does_not_count() -> None:
    (bug,) = zoo.bugs(["ack-before-commit"])
    other = replace(bug, breaks=frozenset({"S1"}))
    for hunt in (zoo.directed(other), zoo.exploratory(other, 0.1)):
        assert not hunt.caught
        assert hunt.seed is None
    assert "S17" in zoo.directed(other).wrong


def test_a_bug_without_a_scenario_is_not_caught_in_it() -> None:
    (bug,) = zoo.bugs(["ack-before-commit"])
    hunt = zoo.directed(replace(bug, scenario=None))
    assert (hunt.caught, hunt.tried) == (False, 0)


def test_the_command_says_who_was_caught_by_what() -> None:
    ended = krucible("zoo", "--only", "forgotten-vote", "--arm", "directed", "--jobs", "1")
    assert ended.code == 0
    assert "directed: 1 of 1 caught" in ended.out
    ended = krucible("zoo", "--arm", "control", "--control-seeds", "2", "--jobs", "2", "--json")
    assert (ended.code, ended.json["control"]) == (0, {"seeds": 2, "alarms": []})


def test_a_bug_that_gets_away_and_an_alarm_on_the_healthy_node_are_not_green(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (bug,) = zoo.bugs(["forgotten-vote"])
    monkeypatch.setattr(zoo, "bugs", lambda _: [replace(bug, breaks=frozenset({"S1"}))])
    ended = krucible("zoo", "--arm", "directed", "--jobs", "1")
    assert ended.code == EXIT_UNKNOWN
    assert "NOT CAUGHT (but S3, which it does not break)" in ended.err

    sick = zoo.directed(bug)
    assert sick.seed is not None
    assert bug.scenario is not None
    run = simulate(zoo.plan_of(bug.scenario, sick.seed, bug.name))
    monkeypatch.setattr(zoo, "control", lambda _: run)
    ended = krucible("zoo", "--arm", "control", "--control-seeds", "1", "--jobs", "1")
    assert ended.code == EXIT_INVALID
    assert "control: 1 alarms in 1 seeds" in ended.out
    assert "S3: " in ended.out


@pytest.mark.parametrize(
    ("argv", "what"),
    [
        (("--only", "forgoten-vote"), "did you mean 'forgotten-vote'"),
        (("--arm", "bogus"), "no arm is called"),
    ],
)
def test_bad_options_are_told(argv: tuple[str, ...], what: str) -> None:
    ended = krucible("zoo", *argv)
    assert ended.code == 254
    assert what in ended.complaint
