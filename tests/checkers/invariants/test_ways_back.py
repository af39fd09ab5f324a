"""S31, of the roles after a lost pre-vote and after a resignation."""

from __future__ import annotations

import pytest

from checkers.invariants.ways_back import BackToLeader, StaysResigned
from checkers.monitor.monitor import Monitor
from checkers.replay.invariant import Invariant
from harness.verdict import Anomaly
from tests.support.traces.traces import Trace, changing, healthy


def judged(trace: Trace, invariant: Invariant) -> list[Anomaly]:
    return Monitor([invariant]).feed_all(trace.run().events)


def asking() -> Trace:
    """Node 2 has followed node 1 in epoch 1, and asks for pre-votes now."""
    trace = Trace(3)
    trace.start()
    trace.elect(1, 1)
    trace.role(2, "prospective", leader=1, by=None)
    return trace


def test_healthy_nodes_raise_no_alarm() -> None:
    for trace in (healthy(), changing()):
        assert judged(trace, BackToLeader()) == judged(trace, StaysResigned()) == []


@pytest.mark.parametrize("again", [0, 1])  # a role that it takes anew, to record a vote
def test_who_followed_somebody_goes_back_there(again: int) -> None:
    for to in ("follower", "unattached"):
        trace, invariant = asking(), BackToLeader()
        for _ in range(again):
            trace.role(2, "prospective", **{"from": "prospective"}, leader=1, voted=3)
        trace.role(2, to, **{"from": "prospective"}, leader=1, by=None)
        assert bool(judged(trace, invariant)) is (to == "unattached")
        assert invariant.checked == 1


def test_a_newer_epoch_has_no_leader_to_go_back_to() -> None:
    trace, invariant = asking(), BackToLeader()
    trace.persist(2, 2)
    trace.role(2, "unattached", **{"from": "prospective"}, by="VoteRequest")
    assert not judged(trace, invariant)


def test_who_was_unattached_has_nobody_to_go_back_to() -> None:
    trace, invariant = asking(), BackToLeader()
    trace.persist(2, 2)
    trace.role(2, "unattached", by="VoteRequest")
    trace.role(2, "prospective", by=None)
    trace.role(2, "unattached", **{"from": "prospective"}, by=None)
    assert not judged(trace, invariant)


def test_a_restart_forgets_where_the_leader_is() -> None:
    trace, invariant = asking(), BackToLeader()
    trace.start(2)
    trace.role(2, "unattached", **{"from": None}, leader=1)
    assert not judged(trace, invariant)


@pytest.mark.parametrize(
    ("why", "by", "right"),
    [
        ("shutdown", None, False),
        ("shutdown", "VoteRequest", True),
        ("the controller resigned", None, True),
    ],
)
def test_who_shuts_down_stays_resigned(why: str, by: str | None, *, right: bool) -> None:
    trace = Trace(3)
    trace.start()
    trace.elect(1, 1)
    trace.role(1, "resigned", **{"from": "leader"}, leader=1, why=why, by=None)
    trace.persist(1, 2)
    trace.role(1, "unattached", **{"from": "resigned"}, by=by)
    assert (not judged(trace, StaysResigned())) is right


def test_a_process_that_starts_anew_is_another_one() -> None:
    trace = Trace(3)
    trace.start()
    trace.elect(1, 1)
    trace.role(1, "resigned", **{"from": "leader"}, leader=1, why="shutdown", by=None)
    trace.start(1)
    trace.role(1, "unattached", **{"from": None}, by=None)
    assert not judged(trace, StaysResigned())
