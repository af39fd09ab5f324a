"""S8 and S10, of where a leader and a follower find that their logs part."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.invariants.divergence import FetchedPrefix, NeedlessTruncation
from checkers.monitor.monitor import Monitor
from tests.support.traces.traces import Trace, healthy, one_leader


def judged(trace: Trace) -> set[str]:
    invariants = [FetchedPrefix(), NeedlessTruncation()]
    found = Monitor(invariants).feed_all(trace.run().events)
    return {anomaly.invariant for anomaly in found}


def parted() -> Trace:
    """Node 1 wrote in epoch 1 what nobody has; node 2 leads epoch 2."""
    trace = one_leader()
    trace.append(1)
    trace.elect(2, 2)
    return trace


def test_healthy_logs_raise_no_alarm() -> None:
    invariant = FetchedPrefix()
    assert not Monitor([invariant]).feed_all(healthy(3, 2).run().events)
    assert invariant.checked


def test_what_parts_is_called_so_and_cut() -> None:
    trace = parted()
    trace.served(1, 2, res="diverging")
    trace.replicate(2)
    assert any(event["t"] == "trunc" for event in trace.events["n1"])
    assert judged(trace) == set()


def test_another_record_below_the_offset_is_not_served() -> None:
    trace = parted()
    trace.served(1, 2)
    assert judged(trace) == {"S8"}


def test_more_than_there_is_is_not_served() -> None:
    trace = parted()
    trace.served(3, 2, off=trace.disks[2].end + 2)
    assert judged(trace) == {"S8"}


@pytest.mark.parametrize("answer", ["diverging", "ok"])
def test_the_same_log_is_not_called_diverging(answer: str) -> None:
    trace = parted()
    trace.replicate(2)
    trace.served(3, 2, res=answer)
    assert judged(trace) == ({"S8"} if answer == "diverging" else set())


@pytest.mark.parametrize(
    "changes", [{"res": "FENCED_LEADER_EPOCH"}, {"ep": 1}, {"off": 0, "last_ep": 0}, {"off": None}]
)
def test_what_is_refused_or_asks_for_everything_is_not_compared(changes: dict[str, Any]) -> None:
    trace = parted()
    trace.served(1, 2, **changes)
    assert judged(trace) == set()


def test_a_follower_keeps_what_its_leader_has() -> None:
    trace = parted()
    trace.replicate(2)
    trace.truncate(3, trace.disks[3].end - 1)
    assert judged(trace) == {"S10"}


def test_a_follower_of_another_epoch_may_have_another_leader() -> None:
    trace = parted()
    trace.replicate(2)
    trace.disks[3].epoch = 3
    trace.truncate(3, trace.disks[3].end - 1)
    assert judged(trace) == set()


def test_a_cut_that_a_loss_of_power_takes_back_is_made_again() -> None:
    """The power failure also removes the batch that replaced the cut ones (seed 61044)."""
    trace = one_leader()
    trace.append(1)
    old = trace.append(1)
    trace.flush(1)
    trace.elect(2, 2)
    stale = list(trace.disks[1].log)
    first = next(batch for batch in trace.disks[2].log if batch not in stale)
    trace.truncate(1, first.base)
    trace.store(1, first)
    trace.disks[1].log = stale
    trace.start(1)
    trace.truncate(1, first.base)
    assert judged(trace) == set()
    trace.replicate(2, 1)
    trace.truncate(1, first.base)
    assert old.base > first.base
    assert judged(trace) == {"S10"}
