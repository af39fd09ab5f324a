"""Crash points: counted, spread evenly, each a power failure just before its disk change."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from harness.contracts.nemesis import Fault
from harness.run.runner import RunOptions
from harness.sessions.crash_points import CrashPoint, points, spread
from harness.sessions.plan import Plan
from harness.sessions.simulated import simulate
from harness.sessions.zoo import found
from harness.spec import SIM, RunSpec
from tests.support.commands.command import krucible

SPEC = RunSpec(3, env=SIM, voters=3, observers=0, rate_hz=10.0, concurrency=2, time_limit_s=2.0)
BROKEN = "S37"  # a start is judged by what was written before it
WRITES = 5  # changes of a disk in which a small file is replaced
COUNTING = RunOptions(settle_s=0.0, count_changes=True)


def test_each_change_gives_two_points() -> None:
    assert points({"n2": 1, "n1": 2}) == [
        CrashPoint(node, number, clean)
        for clean in (True, False)
        for node, number in (("n1", 1), ("n1", 2), ("n2", 1))
    ]


@given(st.dictionaries(st.sampled_from(["n1", "n2", "n3"]), st.integers(0, 40)), st.integers(1, 50))
def test_points_are_spread_evenly(changes: dict[str, int], most: int) -> None:
    every = points(changes)
    chosen = spread(every, most)
    places = [every.index(point) for point in chosen]
    assert len(chosen) == min(most, len(every))
    assert places == sorted(set(places))
    if len(every) > most:
        gaps = [b - a for a, b in pairwise(places)]
        assert not gaps or max(gaps) - min(gaps) <= 1


def test_what_was_counted_is_there_to_be_struck() -> None:
    plan = Plan.simulated(SPEC, ())
    changes = simulate(plan, COUNTING).result.changes
    assert set(changes) == {"n1", "n2", "n3"}
    for node, count in changes.items():
        for number in (1, count):
            point = CrashPoint(node, number, clean=True)
            run = simulate(point.of(plan), COUNTING)
            assert point.struck(run.result.faults)
            assert run.result.faults[0].injection.targets == (node,)
            assert str(run.verdict) == "valid"
        beyond = CrashPoint(node, count + 1, clean=True).of(plan)
        struck = simulate(beyond, COUNTING)  # it may write more in time, but not because of that
        assert struck.result.changes[node] == count or struck.result.faults


def test_a_bug_that_shows_after_a_crash_at_one_place_alone_is_found() -> None:
    """A start from a vote never given takes a crash between two writes of one file."""
    spec = replace(SPEC, mutant="two-step-vote", stop_at=(BROKEN,))
    kill = Fault(0, "kill", 300, 800, {"target": "leader"}, 0.5)
    plan = Plan.simulated(spec, (kill,))
    base = simulate(plan, COUNTING)
    assert BROKEN not in found(base), "a kill alone does not show it"
    voter = next(
        f"n{event['node']}"
        for events in base.data.events.values()
        for event in events
        if event["t"] == "vote" and event["ok"] and not event["pre"] and event["ep"] > 1
    )
    numbers = range(1, base.result.changes[voter] + 1, WRITES - 1)
    runs = {n: simulate(CrashPoint(voter, n, clean=True).of(plan), COUNTING) for n in numbers}
    failing = [n for n, run in runs.items() if BROKEN in found(run)]
    assert failing
    assert failing[-1] - failing[0] <= WRITES


def test_the_command_tries_as_many_as_it_is_told_and_says_of_how_many(tmp_path: Path) -> None:
    args = [
        *("sim", "--seed", "3", "--voters", "3", "--observers", "0", "--nemesis", "none"),
        *("--workload", "register", "--time-limit", "2", "--rate", "10", "--jobs", "1"),
        *("--crash-points", "2", "--store", str(tmp_path)),
    ]
    told = krucible(*args, "--json").json
    assert (told["tried"], told["struck"], told["crashes_failing"]) == (2, 2, [])
    assert told["crash_points"] == 2 * sum(told["changes"].values())
    assert told["seeds"] == 3, "the seed itself, too"
    assert "one seed: give --seed N" in krucible(*args[:1], "--seeds", "1..2", *args[-4:]).complaint
