"""S31, of roles that follow each other, and of those that processes begin in."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.invariants.role_order import FirstRole, RoleOrder
from checkers.monitor.monitor import Monitor
from harness.verdict import Anomaly
from tests.support.traces.traces import Trace, healthy


def judged(trace: Trace) -> list[Anomaly]:
    return Monitor([RoleOrder(), FirstRole()]).feed_all(trace.run().events)


def led() -> Trace:
    """Node 1 leads epoch 1, and 2 and 3 follow it."""
    trace = Trace(3)
    trace.start()
    trace.elect(1, 1)
    return trace


def test_healthy_roles_raise_no_alarm() -> None:
    orders = RoleOrder()
    assert not Monitor([orders, FirstRole()]).feed_all(healthy(3, 2).run().events)
    assert orders.checked > 10


@pytest.mark.parametrize(
    ("node", "to", "raised", "fields"),
    [
        (2, "leader", 0, {"leader": 2}),  # a follower
        (2, "resigned", 0, {"leader": 2}),
        (1, "follower", 0, {"leader": 2}),  # the leader
        (1, "prospective", 0, {}),
        (1, "leader", 0, {"leader": 1}),
        (1, "resigned", 1, {"leader": 1}),
        (2, "unattached", 0, {"voted": 1}),
        (2, "follower", 1, {"leader": None}),
        (2, "follower", 1, {"leader": 2}),
    ],
)
def test_a_role_that_cannot_follow(node: int, to: str, raised: int, fields: dict[str, Any]) -> None:
    trace = led()
    trace.disks[node].epoch += raised
    event = trace.role(node, to, **fields)
    (found,) = judged(trace)
    assert found.invariant == "S31"
    assert found.events[-1] == event


@pytest.mark.parametrize(
    ("node", "to", "raised", "fields"),
    [
        (1, "resigned", 0, {"leader": 1}),
        (1, "unattached", 1, {}),
        (1, "follower", 1, {"leader": 2}),
        (2, "prospective", 0, {}),
        (2, "unattached", 1, {}),
        (2, "follower", 0, {"leader": 1}),  # at another address
    ],
)
def test_a_role_that_may_follow(node: int, to: str, raised: int, fields: dict[str, Any]) -> None:
    trace = led()
    trace.disks[node].epoch += raised
    trace.role(node, to, **fields)
    assert not judged(trace)


def test_a_resigned_leader_follows_nobody_in_its_epoch() -> None:
    trace = led()
    trace.role(1, "resigned", leader=1)
    assert not judged(trace)
    trace.role(1, "follower", leader=2)
    assert judged(trace)


def test_a_vote_is_recorded_in_the_role_that_was_there() -> None:
    trace = Trace(3)
    trace.start()
    trace.role(2, "unattached")
    trace.role(2, "unattached", voted=1)
    assert not judged(trace)
    trace.role(2, "unattached", voted=None)
    assert judged(trace)


def test_who_asks_for_pre_votes_asks_already() -> None:
    trace = Trace(3)
    trace.start()
    trace.role(2, "prospective")
    trace.role(2, "prospective", voted=1)
    assert not judged(trace)
    trace.role(2, "prospective")
    assert judged(trace)


def begun(node: int, to: str, *, epoch: int | None = None, **fields: Any) -> list[Anomaly]:
    """Judge the first role of a process of a node that led, or followed node 1, in epoch 1."""
    trace = led()
    trace.start(node)
    if epoch is not None:
        trace.disks[node].epoch = epoch
    trace.role(node, to, **({"from": None, "voted": 1} | fields))
    return judged(trace)


def test_who_led_begins_as_resigned_or_without_a_role_in_elections() -> None:
    assert not begun(1, "resigned", leader=1)
    assert not begun(1, "unattached", leader=1)
    assert begun(1, "leader", leader=1)
    assert begun(1, "candidate")
    assert begun(1, "unattached", leader=None)


def test_who_followed_a_voter_follows_it_again() -> None:
    assert not begun(2, "follower", leader=1)
    assert begun(2, "unattached", leader=1)
    assert begun(2, "unattached", leader=None)
    assert begun(2, "follower", leader=3)
    assert begun(2, "prospective", leader=1)
    assert begun(2, "follower", leader=1, epoch=2)


def test_who_followed_one_that_is_no_voter_any_more_remembers_it_at_least() -> None:
    """KIP-853: only the endpoints of voters are in the log, so a start cannot find the others."""
    trace = led()
    trace.change_voters(1, 2, 3)
    trace.replicate(1)
    trace.start(2)
    trace.role(2, "unattached", **{"from": None}, leader=1, voted=1)
    assert not judged(trace)
    trace.start(2)
    trace.role(2, "unattached", **{"from": None})
    assert judged(trace)


def test_a_vote_is_remembered() -> None:
    def after(voted: int, to: str, told: int | None) -> list[Anomaly]:
        trace = Trace(3)
        trace.start()
        trace.persist(2, 4, voted=voted)
        trace.start(2)
        trace.role(2, to, **{"from": None}, voted=told)
        return judged(trace)

    assert not after(3, "unattached", 3)
    assert after(3, "unattached", None)
    assert after(3, "candidate", 2)
    assert not after(2, "candidate", 2)
    assert not after(2, "unattached", 2)


def test_a_log_of_a_newer_epoch_counts_for_more() -> None:
    trace = led()
    trace.replicate(1)
    trace.disks[2].epoch = 0
    trace.start(2)
    trace.disks[2].epoch = 1
    trace.role(2, "unattached", **{"from": None})
    assert not judged(trace)
    trace.start(2)
    trace.role(2, "follower", **{"from": None}, leader=3)
    assert judged(trace)
