"""Branches of a simulation: copies of it that go on with dice of their own."""

import os
from collections.abc import Container
from random import Random
from typing import Any

import pytest

from bench.branches import known_at
from bench.support.branches import Branching, Shown, shown
from harness.sessions.plan import Plan
from harness.sessions.swarm import draw
from harness.shrink.moves import Candidate

SHORT: dict[str, Any] = {
    "voters": 3,
    "observers": 0,
    "workload": "register",
    "time_limit_s": 2.0,
    "rate_hz": 5.0,
}


def candidate(**given: Any) -> Candidate:
    plan = Plan.simulated(draw(3, {**SHORT, **given}), asked_for=False)
    return Candidate(plan.spec, plan.faults)


def branched(its: Candidate, known: Container[str] = (), most: int = 1) -> list[Shown]:
    return shown(its, Branching(its.spec, known, Random(1), most, 300))


@pytest.fixture(scope="module")
def played() -> list[Shown]:
    """A simulation and two branches."""
    return branched(candidate(), most=2)


def test_a_branch_replays_from_zero_to_the_same_bytes(played: list[Shown]) -> None:
    trunk, *branches = played
    assert trunk.candidate == candidate()
    (alone,) = shown(candidate())
    assert (trunk.seen, trunk.trace_sha256) == (alone.seen, alone.trace_sha256), "as without"
    assert len(branches) == 2
    for branch in branches:
        ((number, salt),) = branch.candidate.spec.tape
        assert number > 0
        assert salt > 0
        (again,) = shown(branch.candidate)
        assert (again.seen, again.trace_sha256) == (branch.seen, branch.trace_sha256)
        assert branch.cpu_s > 0
    assert len({each.trace_sha256 for each in played}) == 3


def test_nothing_is_forked_where_nothing_is_new(played: list[Shown]) -> None:
    assert len(branched(candidate(), known=played[0].seen)) == 1


def test_a_branch_that_fails_fails_again() -> None:
    trunk, branch = branched(candidate(mutant="ack-before-commit", stop_at=()))
    (again,) = shown(branch.candidate)
    assert not trunk.valid
    assert not branch.valid
    assert again.trace_sha256 == branch.trace_sha256


def test_a_branch_that_dies_costs_itself_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(_: Branching, __: Any) -> None:
        os._exit(3)

    monkeypatch.setattr(Branching, "tell", dies)
    (trunk,) = branched(candidate())
    assert trunk.valid


def test_features_between_two_points_lie_on_the_line() -> None:
    points = [(0.0, 0), (10.0, 100), (20.0, 120)]
    assert [known_at(points, at) for at in (5.0, 10.0, 15.0, 99.0)] == [50.0, 100.0, 110.0, 120.0]
