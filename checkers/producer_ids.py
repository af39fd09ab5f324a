"""``producer-ids``: ids that were given away, by blocks or one by one, judged by answers alone.

Source: KIP-730; C11 of the catalogue.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from checkers.invariants.brokers import BrokerEpochs
from checkers.invariants.metadata_log import C11
from checkers.invariants.reads import ReadsConfirmed
from checkers.replay.real_time import with_highest_before
from harness.contracts.checker import RunData
from harness.history.ops import Interval
from harness.registry import checkers
from harness.verdict import Anomaly, CheckResult, Valid

NAME = "producer-ids"
IDS, ORDER, EPOCHS = "C11", "S34", "C1"
F, STALE, INIT = "allocate", "allocate-stale", "init"


@dataclass(frozen=True, slots=True)
class Block:
    """Ids from ``start``, below ``end``, and the op that got them."""

    start: int
    end: int
    invoked_ns: int
    done_ns: int
    ops: tuple[int, int]


@checkers.register(NAME, judges=(C11, ReadsConfirmed.meaning, BrokerEpochs.meaning))
def producer_ids(run: RunData) -> CheckResult:
    """Producer ids are given once, and later blocks are above earlier ones. O(n log n)."""
    every = run.history.intervals()
    done = [i for i in every if i.invocation.f == F]
    stale = [i for i in every if i.invocation.f == STALE]
    blocks, anomalies = [], [*_unrefused(stale)]
    for interval in done:
        if interval.outcome != "ok" or interval.completion is None:
            continue
        block = _block(interval, interval.completion.value)
        if isinstance(block, Anomaly):
            anomalies.append(block)
        else:
            blocks.append(block)
    ids = list(_ids(i for i in every if i.invocation.f == INIT))
    anomalies += [*_overlaps([*blocks, *ids]), *_out_of_order(blocks)]
    given = blocks or ids or anomalies
    reason = None if given else "no id was given away: nothing was judged"
    verdict = Valid.UNKNOWN if reason else Valid.VALID
    return CheckResult(
        NAME,
        Valid.INVALID if anomalies else verdict,
        tuple(anomalies),
        checked={IDS: len(blocks) + len(ids), ORDER: len(blocks), EPOCHS: len(stale)},
        stats={"unknown": sum(i.outcome == "info" for i in done)},
        reason=reason,
    )


def _unrefused(stale: Sequence[Interval]) -> Iterator[Anomaly]:
    """Blocks that were given to a broker by an epoch that is not its own."""
    for interval in stale:
        end = interval.completion
        if end is not None and end.type == "ok" and end.value is not None:
            yield Anomaly(
                EPOCHS,
                f"op {end.index} got producer ids by a broker epoch that no registration gave",
                ops=(interval.invocation.index, end.index),
                time_ns=end.time_ns,
            )


def _block(interval: Interval, value: Any) -> Block | Anomaly:
    op, end = interval.invocation, interval.completion
    assert end is not None  # noqa: S101 - it was ok
    ops = op.index, end.index
    match value:
        case [int(start), int(count)] if start >= 0 and count > 0:
            return Block(start, start + count, op.time_ns, end.time_ns, ops)
        case _:
            return Anomaly(IDS, f"op {end.index} got {value!r}, no block of ids", ops=ops)


def _ids(intervals: Iterable[Interval]) -> Iterator[Block]:
    """The ids that producers got, each as a block of one."""
    for interval in intervals:
        op, end = interval.invocation, interval.completion
        if interval.outcome == "ok" and end is not None:
            for each in end.value:
                yield Block(each, each + 1, op.time_ns, end.time_ns, (op.index, end.index))


def _overlaps(blocks: Sequence[Block]) -> Iterator[Anomaly]:
    """Each block that begins before all those that begin lower have ended."""
    widest: Block | None = None
    for block in sorted(blocks, key=lambda b: (b.start, b.end, b.ops)):
        if widest is not None and block.start < widest.end:
            last = max(block.ops[1], widest.ops[1])
            yield Anomaly(
                IDS,
                f"producer ids {block.start} to {min(block.end, widest.end) - 1} were given away"
                f" twice, by ops {widest.ops[1]} and {block.ops[1]}",
                ops=(*widest.ops, *block.ops),
                time_ns=widest.done_ns if last == widest.ops[1] else block.done_ns,
            )
        if widest is None or block.end > widest.end:
            widest = block


def _out_of_order(blocks: Sequence[Block]) -> Iterator[Anomaly]:
    """Each block that is below one that had been given before this one was asked for."""
    for block, highest in with_highest_before(blocks, lambda b: b.start):
        if block.end <= highest.start:
            yield Anomaly(
                ORDER,
                f"op {block.ops[1]} got producer ids from {block.start}, though those from"
                f" {highest.start} had been given (op {highest.ops[1]}) before it was asked for",
                ops=(*highest.ops, *block.ops),
                time_ns=block.done_ns,
            )
