"""``krucible zoo``: what counts as caught, what the arms do, and what the exit code says."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from harness.errors import HarnessError
from harness.processes.crew import Ended, Job, Local, Said, work_off
from harness.sessions import zoo
from harness.sessions.plan import Plan
from harness.sessions.simulated import SimRun, simulate
from harness.sessions.zoo import Hunt
from harness.verdict import EXIT_HARNESS, EXIT_INVALID, EXIT_UNKNOWN
from tests.support.commands.command import krucible


def last(hunts: Iterable[Hunt]) -> Hunt:
    """The hunt when it is over."""
    *_, over = hunts
    return over


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_bug_is_caught_in_its_scenario_and_in_the_swarm() -> None:
    (bug,) = zoo.bugs(["ack-before-commit"])
    in_scenario, in_swarm = last(zoo.directed(bug)), last(zoo.exploratory(bug, 60))
    assert "S17" in in_scenario.caught_by
    assert "S17" in in_swarm.caught_by or "linearizability" in in_swarm.caught_by
    assert (in_swarm.caught, in_swarm.seed) == (True, in_swarm.tried)


def test_a_catch_for_the_wrong_reason_does_not_count() -> None:
    (bug,) = zoo.bugs(["ack-before-commit"])
    other = replace(bug, breaks=frozenset({"S1"}))
    for hunt in (last(zoo.directed(other)), last(zoo.exploratory(other, 0.1))):
        assert not hunt.caught
        assert hunt.seed is None
    assert "S17" in last(zoo.directed(other)).wrong


def test_a_bug_without_a_scenario_is_not_caught_in_it() -> None:
    (bug,) = zoo.bugs(["ack-before-commit"])
    hunt = last(zoo.directed(replace(bug, scenario=None)))
    assert (hunt.caught, hunt.tried) == (False, 0)


def test_the_command_says_who_was_caught_by_what() -> None:
    ended = krucible("zoo", "--only", "forgotten-vote", "--arm", "directed", "--jobs", "1")
    assert ended.code == 0
    assert "directed: 1 of 1 caught" in ended.out
    ended = krucible("zoo", "--arm", "control", "--control-seeds", "1", "--jobs", "2", "--json")
    assert (ended.code, ended.json["control"]) == (0, {"seeds": 1, "alarms": []})


def test_each_bug_is_a_line_as_soon_as_it_is_done_with() -> None:
    names = ("forgotten-vote", "ack-before-commit")
    only = ("--only", ",".join(names))
    ended = krucible("zoo", *only, "--arm", "directed", "--jobs", "2", "--json")
    *hunts, every = lines(ended.out)
    assert (ended.code, every["got_away"], every["interrupted"]) == (0, [], False)
    assert every["hunts"] == sorted(hunts, key=lambda hunt: str(hunt["mutant"]))
    assert {hunt["mutant"] for hunt in hunts} == set(names)


def test_what_there_is_when_it_is_interrupted_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    (bug,) = zoo.bugs(["forgotten-vote"])
    endless = replace(bug, name="endless", breaks=frozenset({"S1"}))
    monkeypatch.setattr(zoo, "bugs", lambda _: [bug, endless])

    def until_the_first_is_caught(crew: Local, jobs: list[Job]) -> Iterator[Said | Ended]:
        for told in work_off(jobs, crew.places):
            yield told
            if isinstance(told, Ended):
                raise KeyboardInterrupt

    monkeypatch.setattr(Local, "work_off", until_the_first_is_caught)
    ended = krucible("zoo", "--arm", "directed", "--jobs", "1", "--json")
    hunt, every = lines(ended.out)
    assert (ended.code, hunt["mutant"], hunt["caught"]) == (130, "forgotten-vote", True)
    assert (every["hunts"], every["interrupted"]) == ([hunt], True)


def test_seeds_that_break_and_hunts_that_die_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(_: Plan) -> SimRun:
        raise HarnessError("n1 did not come up")

    (bug,) = zoo.bugs(["forgotten-vote"])
    with monkeypatch.context() as patched:
        patched.setattr(zoo, "simulate", breaks)
        hunt = last(zoo.directed(bug))
    assert not hunt.caught
    ((reason, times),) = hunt.broken.items()
    assert reason.startswith("harness.errors.HarnessError: n1 did not come up (")
    assert reason.endswith(", first in seed 1")
    assert times == hunt.tried

    monkeypatch.setattr(zoo, "directed", lambda _: os._exit(7))
    ended = krucible("zoo", "--only", bug.name, "--arm", "directed")
    assert ended.code == EXIT_HARNESS
    assert "NOT CAUGHT, 0 seeds, 0.0 s, BROKEN: its process exited with 7 (1)" in ended.err


def test_a_bug_that_gets_away_and_an_alarm_on_the_healthy_node_are_not_green(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (bug,) = zoo.bugs(["forgotten-vote"])
    monkeypatch.setattr(zoo, "bugs", lambda _: [replace(bug, breaks=frozenset({"S1"}))])
    ended = krucible("zoo", "--arm", "directed", "--jobs", "1")
    assert ended.code == EXIT_UNKNOWN
    assert "NOT CAUGHT (but S3, S36, S37, which it does not break)" in ended.err

    sick = last(zoo.directed(bug))
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
        (("--budget", "10 lightyears"), "want a time from 0.1s to 24h, as in 30s"),
        (("--budget", "0s"), "want a time from 0.1s to 24h"),
    ],
)
def test_bad_options_are_told(argv: tuple[str, ...], what: str) -> None:
    ended = krucible("zoo", *argv)
    assert ended.code == 254
    assert what in ended.complaint
