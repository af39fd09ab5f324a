"""S38, of who gives votes and pre-votes."""

from __future__ import annotations

import pytest

from checkers.invariants.grants import DeservedGrants
from checkers.monitor.monitor import Monitor
from harness.verdict import Anomaly
from tests.support.traces.traces import Trace, healthy

ROLES = ("unattached", "prospective", "candidate", "leader", "follower", "resigned")


def judged(trace: Trace, *, some: bool = True) -> list[Anomaly]:
    invariant = DeservedGrants()
    found = Monitor([invariant]).feed_all(trace.run().events)
    assert bool(invariant.checked) is some
    return found


def asked(role: str, *, pre: bool, ok: bool = True) -> Trace:
    """Node 2 is asked by node 3 in that role."""
    trace = Trace(3)
    trace.start()
    trace.role(2, role, leader={"leader": 2, "follower": 1}.get(role))
    trace.grant(2, 3, pre=pre, ok=ok)
    return trace


def test_healthy_elections_raise_no_alarm() -> None:
    assert not judged(healthy(3, 2))


@pytest.mark.parametrize("role", ROLES)
def test_votes_are_given_by_who_has_neither_voted_by_its_role_nor_a_leader(role: str) -> None:
    found = judged(asked(role, pre=False))
    assert [anomaly.invariant for anomaly in found] == ["S38"] * (
        role not in ("unattached", "prospective")
    )


@pytest.mark.parametrize("role", ROLES)
def test_pre_votes_are_given_by_all_but_a_leader(role: str) -> None:
    assert bool(judged(asked(role, pre=True))) is (role == "leader")


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("pre", [False, True])
def test_a_refusal_is_none_of_its_business(role: str, *, pre: bool) -> None:
    assert not judged(asked(role, pre=pre, ok=False), some=False)


def test_a_role_of_an_earlier_process_does_not_count() -> None:
    trace = Trace(3)
    trace.start()
    trace.role(2, "leader", leader=2)
    trace.start()
    trace.grant(2, 3)
    assert not judged(trace, some=False)
