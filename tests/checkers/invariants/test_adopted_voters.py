"""S28, of a voter set that is in a log and not in force."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from checkers.invariants.adopted_voters import VotersOnceAppended
from checkers.invariants.membership import OneChangeAtATime
from checkers.monitor.monitor import Monitor
from harness.contracts.evidence import LogBatch
from tests.support.traces.traces import Trace


def changed() -> tuple[Trace, LogBatch]:
    """Node 1 leads epoch 1 and removes node 3."""
    trace = Trace(3)
    trace.start()
    trace.elect(1, 1)
    return trace, trace.change_voters(1, 1, 2)


def miss(trace: Trace, batch: LogBatch, node: int = 2) -> None:
    """A node appends the change, and does not tell that it goes by it."""
    trace.disks[node].log.append(batch)
    fields = {"base": batch.base, "last": batch.last, "bep": batch.epoch, "h": batch.crc}
    trace.emit(node, "append", **fields, ctl=batch.control, src="follower")


def judged(trace: Trace) -> tuple[list[str], int]:
    invariant = VotersOnceAppended()
    found = Monitor([invariant]).feed_all(trace.run().events)
    return [anomaly.message for anomaly in found], invariant.checked


@pytest.mark.parametrize(
    ("act", "told"),
    [
        (lambda trace: trace.fetch(2, 1), "n2 fetches"),
        (lambda trace: trace.emit(2, "votereq", pre=False, to=1), "n2 asks for votes"),
    ],
)
def test_who_has_a_set_in_its_log_goes_by_it_before_it_asks(
    act: Callable[[Trace], object], told: str
) -> None:
    trace, batch = changed()
    miss(trace, batch)
    act(trace)
    (message,), _ = judged(trace)
    assert message.startswith(told)
    assert f"though its log has others at {batch.base}" in message


def test_who_is_elected_by_a_set_of_before_is_told_apart() -> None:
    """It may lead with the votes of a minority."""
    trace, batch = changed()
    miss(trace, batch)
    trace.elect(2, 2)
    messages, _ = judged(trace)
    assert [message.split(" (")[0] for message in messages] == [
        "n2 asks for votes",
        "n2 is elected",
    ]
    assert f"and those of {batch.base} are in its log" in messages[1]


def test_it_is_told_once() -> None:
    trace, batch = changed()
    miss(trace, batch)
    trace.fetch(2, 1)
    trace.fetch(2, 1)
    messages, checked = judged(trace)
    assert (len(messages), checked) == (1, 2)


def test_who_goes_by_it_at_once_may_ask() -> None:
    trace, batch = changed()
    trace.store(2, batch)
    trace.fetch(2, 1)
    assert judged(trace) == ([], 1)


@pytest.mark.parametrize(
    "end",
    [
        lambda trace, batch: trace.truncate(2, batch.base),
        lambda trace, _: trace.start(2),
        lambda trace, _: trace.damage(2, "wipe"),
    ],
)
def test_a_set_that_is_cut_off_or_read_anew_is_not_owed(
    end: Callable[[Trace, LogBatch], object],
) -> None:
    trace, batch = changed()
    miss(trace, batch)
    end(trace, batch)
    trace.fetch(2, 1)
    assert judged(trace) == ([], 0)


def test_a_cut_behind_the_set_leaves_it_owed() -> None:
    trace, batch = changed()
    miss(trace, batch)
    trace.truncate(2, batch.last + 1)
    trace.fetch(2, 1)
    assert len(judged(trace)[0]) == 1


def test_other_batches_hold_no_set() -> None:
    trace, _ = changed()
    miss(trace, trace.append(1))
    trace.fetch(2, 1)
    assert judged(trace) == ([], 0)


def test_the_set_of_a_snapshot_is_no_batch_of_the_log() -> None:
    """It has the offset of the last record of the snapshot, which the log may still have."""
    trace, batch = changed()
    last = trace.append(1)
    trace.start(1)
    keys = trace.in_force(1)
    trace.emit(1, "voters", off=last.last, set=keys, kv=1, revert=False)
    miss(trace, last)
    trace.fetch(2, 1)
    assert batch.last < last.base
    assert judged(trace) == ([], 0)


@pytest.mark.parametrize("at_once", [False, True])
def test_a_set_that_its_node_missed_is_between_two_others_all_the_same(*, at_once: bool) -> None:
    """S27 compares what follows each other in the log, as seed 5041 of Kafka 4.3.1 has it."""
    trace = Trace(4)
    trace.start()
    trace.elect(1, 1)
    if not at_once:
        missed = trace.change_voters(1, 1, 2, 3)
        trace.store(3, missed)
        trace.store(4, missed)
        miss(trace, missed)
    second = trace.change_voters(1, 1, 2)
    trace.store(2, second)
    found = Monitor([OneChangeAtATime()]).feed_all(trace.run().events)
    steps = [each.message for each in found if "in one step" in each.message]
    assert len(steps) == (2 if at_once else 0), "the leader, and who has it from the leader"
