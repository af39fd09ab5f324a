"""L9 at the end of a reign: who is named first, when each stands, and that a leader resigns."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.invariants.succession import END, OrderlyEnd, Succession, SuccessorOrder
from checkers.monitor.monitor import Monitor
from checkers.replay.invariant import Invariant
from harness.verdict import Anomaly
from tests.support.traces.traces import Trace

LONGEST_MS = 1000


def judged(invariant: Invariant, trace: Trace, *, checked: int = 1) -> list[Anomaly]:
    found = Monitor([invariant]).feed_all(trace.run().events)
    assert invariant.checked == checked
    return found


def led(voters: int = 3) -> Trace:
    """Node 1 leads epoch 1."""
    trace = Trace(voters)
    trace.start()
    trace.elect(1, 1)
    return trace


def end(trace: Trace, node: int, *preferred: int, wait_ms: int = 0) -> None:
    """A voter is told by node 1 who should follow it."""
    keys = [[each, trace.disks[each].dir] for each in preferred]
    told: dict[str, Any] = {"preferred": keys, "wait_ms": wait_ms, "backoff_ms": LONGEST_MS}
    trace.emit(node, "rpc_ok", api=END, peer=1, peer_dir=None, req_ep=1, **told)


# --------------------------------------------------------------------------- when each stands


@pytest.mark.parametrize(
    ("node", "wait_ms"), [(2, 0), (3, LONGEST_MS // 4), (4, LONGEST_MS // 2), (5, LONGEST_MS)]
)
def test_each_stands_when_its_turn_comes(node: int, wait_ms: int) -> None:
    trace = led(5)
    end(trace, node, 2, 3, 4, wait_ms=wait_ms)
    assert judged(Succession(), trace) == []
    late = led(5)
    end(late, node, 2, 3, 4, wait_ms=wait_ms + 1)
    (found,) = judged(Succession(), late)
    assert found.message.endswith(f"should after {wait_ms} ms: the order is n2, n3, n4")


@pytest.mark.parametrize("wait_ms", [0, LONGEST_MS])
def test_where_nobody_is_named_no_order_is_asked_for(wait_ms: int) -> None:
    """Kafka's leader that was started again names nobody, and all stand at once; ours wait."""
    trace = led()
    end(trace, 2, wait_ms=wait_ms)
    assert judged(Succession(), trace, checked=0) == []


# --------------------------------------------------------------------------- who is named first


def resigned(*fetches: int) -> Trace:
    """A leader that writes before each of these voters fetches, and resigns in the end."""
    trace = led()
    for node in fetches:
        batch = trace.append(1)
        trace.flush(1)
        trace.store(node, batch)
        trace.fetch(node, 1)
    trace.role(1, "resigned")
    return trace


def test_who_has_fetched_further_is_named_first() -> None:
    trace = resigned(2, 2)
    end(trace, 2, 2, 3)
    assert judged(SuccessorOrder(), trace) == []


def test_a_leader_that_names_the_nearer_one_first_is_found_once() -> None:
    trace = resigned(2, 2)
    end(trace, 2, 3, 2)
    end(trace, 3, 3, 2)
    (found,) = judged(SuccessorOrder(), trace, checked=2)
    assert found.invariant == "L9"
    assert "n1 named n3 before n2 as its successor in epoch 1" in found.message
    assert found.message.endswith("which had fetched nothing and 3 records")


@pytest.mark.parametrize("order", [(2, 3), (3, 2)])
def test_of_equals_either_may_be_first(order: tuple[int, int]) -> None:
    trace = resigned()
    end(trace, 2, *order)
    assert judged(SuccessorOrder(), trace) == []


def test_what_is_fetched_after_the_end_does_not_count() -> None:
    trace = resigned(2)
    trace.served(3, 1)
    end(trace, 2, 2, 3)
    assert judged(SuccessorOrder(), trace) == []


def test_a_leader_whose_end_nobody_has_seen_is_not_judged() -> None:
    trace = led()
    end(trace, 2, 3, 2)
    assert judged(SuccessorOrder(), trace, checked=0) == []


# --------------------------------------------------------------------------- the end of a leader


def test_a_leader_resigns_before_it_ends() -> None:
    trace = resigned()
    trace.emit(1, "stop", why="signal")
    trace.emit(2, "stop", why="signal")
    assert judged(OrderlyEnd(), trace, checked=2) == []


def test_a_leader_that_just_ends_is_found() -> None:
    trace = led()
    trace.emit(1, "stop", why="signal")
    (found,) = judged(OrderlyEnd(), trace)
    assert found.invariant == "L9"
    assert "n1 was stopped in good order while it led epoch 1" in found.message


def test_a_lone_voter_has_nobody_to_tell() -> None:
    trace = led(1)
    trace.emit(1, "stop", why="signal")
    assert judged(OrderlyEnd(), trace, checked=0) == []


def test_a_leader_that_is_no_voter_any_more_may_just_end() -> None:
    trace = led()
    trace.change_voters(1, 2, 3)
    trace.emit(1, "stop", why="signal")
    assert judged(OrderlyEnd(), trace, checked=0) == []
