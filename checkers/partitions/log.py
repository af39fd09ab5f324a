"""Model ``kafka``: partitions that records are sent to and polled from, by what offsets tell.

Each value is sent to a key once. Offsets order the records of a partition (holes are allowed:
control records take offsets too); from that order follows what a consumer must not skip, repeat
or miss. Linear in the records.

Anomalies, by the names of Jepsen's kafka workload: ``inconsistent-offsets``, ``duplicate``,
``lost-write``, ``unseen``, ``aborted-read`` (G1a), ``precommitted-read``, ``garbage-read``,
``poll-skip``, ``nonmonotonic-poll``, ``nonmonotonic-send`` and the ``int-`` ones within one op;
and cycles of wr edges with the order of processes and time, ``G1c``.

Source: jepsen.tests.kafka.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

from checkers.limits.budget import (
    MEMORY_LIMIT_BYTES,
    TIME_LIMIT_S,
    Budget,
    BudgetError,
    uncollected,
    watched,
)
from checkers.partitions.broken import Broken
from checkers.partitions.core import LogCores
from checkers.partitions.ops import RECORD_FS, LogOp, Record, log_ops
from checkers.partitions.orders import LogOrder, Partitions, partitions_of
from checkers.transactions.graph import KINDS, PROCESS, REALTIME, WR, Edges, add_order
from checkers.transactions.search import Cycle, find_cycles
from checkers.transactions.txns import NEVER, Transactions, paired
from harness.contracts.model import thaw
from harness.history.ops import History
from harness.verdict import CheckResult, Valid

NAME: Final = "kafka"
SHOWN_MAX = 20  # anomalies of one name; further ones are only counted
ALWAYS_ALLOWED = frozenset({"int-send-skip"})  # others may write in between
# A consumer that subscribes may lose and regain a partition between two polls.
ALLOWED_WHEN_SUBSCRIBED = frozenset({"poll-skip", "nonmonotonic-poll"})


def check_log(
    history: History,
    *,
    ordered: bool = True,
    time_limit_s: float = TIME_LIMIT_S,
    memory_limit_bytes: int | None = MEMORY_LIMIT_BYTES,
) -> CheckResult:
    """Check that nothing sent is lost, doubled, reordered, or seen when it must not be. O(n log n).

    ``ordered`` False: neighbouring events with one time stamp are concurrent. Where a limit is
    reached (memory is that of the whole process), what was found until then stands, and without
    any the verdict is UNKNOWN.

    Raises:
        UsageError: An op that is none of the kafka workload's.
        HistoryFormatError: Ops that do not pair, or values of another shape.
    """
    budget = Budget.of(time_limit_s, memory_limit_bytes)
    ops: list[LogOp] = []
    txns = Transactions()
    partitions = Partitions({}, {}, {})
    found: list[Broken] = []
    gave_up: str | None = None
    try:
        with uncollected():
            ops = log_ops(history, budget)
            txns = paired(history, ordered=ordered, budget=budget)
            partitions = partitions_of(ops, budget)
            found.extend(watched(_broken(ops, txns, partitions, budget), budget))
    except BudgetError as error:
        gave_up = f"{error.reason} ran out; all {len(history)} events are open"
    subscribed = any(op.interval.invocation.f == "subscribe" for op in ops)
    allowed = ALWAYS_ALLOWED | (ALLOWED_WHEN_SUBSCRIBED if subscribed else frozenset())
    counts = Counter(each.name for each in found)
    bad = [each for each in found if each.name not in allowed]
    polled = sum(1 for op in ops if op.outcome == "ok" for _ in op.polled())
    reason = gave_up or (None if polled else "nothing was polled: nothing was judged")
    verdict = Valid.UNKNOWN if reason else Valid.VALID
    cores = _cores(_first(bad), ops, txns, partitions, None if gave_up else budget)
    return CheckResult(
        NAME,
        Valid.INVALID if bad else verdict,
        tuple(
            sorted((each.anomaly() for each in cores), key=lambda a: (a.time_ns or 0, a.message))
        ),
        checked={"records polled": polled, "partitions": len(partitions.orders)},
        stats={
            "partitions": len(partitions.orders),
            "anomalies": dict(sorted(counts.items())),
            "allowed": sorted(allowed & set(counts)),
        },
        reason=None if bad else reason,
    )


def _broken(
    ops: Sequence[LogOp], txns: Transactions, partitions: Partitions, budget: Budget | None
) -> Iterator[Broken]:
    """Yield each anomaly of the ops; ``txns`` are the same ops, sorted by time."""
    yield from _offsets(partitions)
    yield from _strange(watched(ops, budget), partitions)
    yield from _lost(partitions)
    yield from _within(ops, partitions, budget)
    yield from _by_process(watched(ops, budget), partitions)
    yield from _unseen(partitions)
    yield from _cycles(txns, ops, partitions, budget)


def _first(broken: list[Broken]) -> Iterator[Broken]:
    shown: Counter[str] = Counter()
    for each in broken:
        shown[each.name] += 1
        if shown[each.name] <= SHOWN_MAX:
            yield each


def _cores(
    broken: Iterable[Broken],
    ops: Sequence[LogOp],
    txns: Transactions,
    partitions: Partitions,
    budget: Budget | None,
) -> Iterator[Broken]:
    """The same anomalies, each of as few ops as it takes while the budget lasts (None: no more)."""

    def alone(some: Sequence[LogOp], of_them: Transactions) -> list[Broken]:
        return list(_broken(some, of_them, partitions_of(some, budget), budget))

    cores = LogCores(ops, txns, partitions, alone)
    spent = budget is None
    for each in broken:
        told = replace(each, details={**each.details, "minimal": False})
        try:
            told = told if spent else cores.of(each)
        except BudgetError:
            spent = True
        yield told


def _offsets(partitions: Partitions) -> Iterator[Broken]:
    """Offsets of several values, and values at several offsets."""
    for key, order in partitions.orders.items():
        for offset, values in order.at.items():
            if len(values) > 1:
                told = " and ".join(map(repr, values))
                message = f"has {told} at offset {offset}"
                found = tuple(dict.fromkeys(values.values()))
                yield Broken("inconsistent-offsets", key, message, found, {"offset": offset})
        for value, offsets in order.offsets.items():
            if len(offsets) > 1:
                message = f"has {value!r} at offsets {', '.join(map(str, offsets))}"
                found = tuple(dict.fromkeys(offsets.values()))
                yield Broken("duplicate", key, message, found, {"value": thaw(value)})


def _strange(ops: Iterable[LogOp], partitions: Partitions) -> Iterator[Broken]:
    """Values that a poll must not return: of aborted sends, of its own, of nobody."""
    for op in ops:
        if op.outcome != "ok":
            continue
        for key, (_, value) in op.polled():
            writer = partitions.writers.get((key, value))
            if writer is None:
                message = f"returned {value!r}, which nobody sent"
                yield Broken("garbage-read", key, message, (op,), {"value": thaw(value)})
            elif writer is op:
                message = f"returned {value!r} to its own sender before that had committed"
                yield Broken("precommitted-read", key, message, (op,), {"value": thaw(value)})
            elif writer.outcome == "fail":
                message = f"returned {value!r}, whose send failed"
                yield Broken("aborted-read", key, message, (writer, op), {"value": thaw(value)})


def _lost(partitions: Partitions) -> Iterator[Broken]:
    """Committed sends that nobody polled, though somebody polled what lies behind them."""
    for key, order in partitions.orders.items():
        seen = partitions.readers.get(key, {})
        read = [(min(order.offsets[v]), v) for v in seen if v in order.offsets]
        if not read:
            continue
        bound, last = max(read, key=lambda each: each[0])
        for value, offsets in order.offsets.items():
            writer = partitions.writers.get((key, value))
            if max(offsets) > bound or value in seen or writer is None:
                continue
            if partitions.committed(writer):
                message = (
                    f"lost {value!r} at offset {max(offsets)}: nobody polled it, but {last!r} at "
                    f"offset {bound} behind it"
                )
                ops = dict.fromkeys((writer, offsets[max(offsets)], seen[last]))
                yield Broken("lost-write", key, message, tuple(ops), {"value": thaw(value)})


def _unseen(partitions: Partitions) -> Iterator[Broken]:
    """Acknowledged sends that nobody had polled when the history ended."""
    missing: dict[str, list[tuple[Hashable, LogOp]]] = {}
    for (key, value), writer in partitions.writers.items():
        if writer.outcome == "ok" and value not in partitions.readers.get(key, {}):
            missing.setdefault(key, []).append((value, writer))
    for key, values in missing.items():
        value, writer = values[0]
        message = f"has {len(values)} acknowledged records that nobody polled, first {value!r}"
        yield Broken("unseen", key, message, (writer,), {"count": len(values)})


def _jumps(
    order: LogOrder, key: str, pairs: Sequence[tuple[Record, Record, tuple[LogOp, ...]]], names: Any
) -> Iterator[Broken]:
    """Pairs of records that follow each other for somebody, but not in the partition."""
    skip, back = names
    for one, other, ops in pairs:
        first, second = order.place(one), order.place(other)
        if first is None or second is None:
            continue
        if second <= first:
            message = f"went from {_told(one)} back to {_told(other)}"
            yield Broken(back, key, message, tuple(dict.fromkeys(ops)))
        elif second > first + 1 and skip is not None:
            passed, teller = order.at_place(first + 1)
            others = second - first - 1
            what = f"{others} others, first " if others > 1 else ""
            message = f"went from {_told(one)} to {_told(other)}, past {what}{_told(passed)}"
            yield Broken(skip, key, message, tuple(dict.fromkeys((*ops, teller))))


def _told(record: Record) -> str:
    offset, value = record
    return repr(value) if offset is None else f"{value!r} (offset {offset})"


def _within(
    ops: Sequence[LogOp], partitions: Partitions, budget: Budget | None
) -> Iterator[Broken]:
    """Each op on its own: what it polled and sent of one key must follow each other."""
    subscribed = any(op.interval.invocation.f == "subscribe" for op in ops)
    for op in watched(ops, budget):
        if not op.sends and not op.polls:
            continue
        # between two polls of one op a partition may have been lost and found again
        for polls in ([poll] for poll in op.polls) if subscribed else (op.polls,):
            joined: dict[str, list[Record]] = {}
            for poll in polls:
                for key, records in poll.items():
                    joined.setdefault(key, []).extend(records)
            names: Any = ("int-poll-skip", "int-nonmonotonic-poll")
            for key, records in joined.items():
                if records:
                    pairs = [(one, other, (op,)) for one, other in pairwise(records)]
                    yield from _jumps(partitions.orders[key], key, pairs, names)
        names = ("int-send-skip", "int-nonmonotonic-send")
        for key, records in op.sends.items():
            if key in partitions.orders:
                pairs = [(one, other, (op,)) for one, other in pairwise(records)]
                yield from _jumps(partitions.orders[key], key, pairs, names)


def _by_process(ops: Iterable[LogOp], partitions: Partitions) -> Iterator[Broken]:
    """Each process over its ops: where it left off polling a key, and in what order it sent."""
    polled: dict[int | str, dict[str, tuple[Record, LogOp]]] = {}
    sent: dict[int | str, dict[str, tuple[Record, LogOp]]] = {}
    for op in ops:
        process = op.interval.invocation.process
        reads, writes = polled.setdefault(process, {}), sent.setdefault(process, {})
        if op.interval.invocation.f not in RECORD_FS:
            if op.outcome != "fail" and op.keys:
                for known in (reads, writes):
                    for key in set(known) - set(op.keys):
                        del known[key]
            continue
        if op.outcome == "ok":
            yield from _go_on(
                op, _joined(op), reads, partitions, ("poll-skip", "nonmonotonic-poll")
            )
        if op.outcome != "fail":
            yield from _go_on(op, op.sends, writes, partitions, (None, "nonmonotonic-send"))


def _go_on(
    op: LogOp,
    records: dict[str, list[Record]],
    known: dict[str, tuple[Record, LogOp]],
    partitions: Partitions,
    names: tuple[str | None, str],
) -> Iterator[Broken]:
    for key, of_key in records.items():
        if not of_key:
            continue
        if key in known and key in partitions.orders:
            last, before = known[key]
            yield from _jumps(partitions.orders[key], key, [(last, of_key[0], (before, op))], names)
        known[key] = (of_key[-1], op)


def _joined(op: LogOp) -> dict[str, list[Record]]:
    joined: dict[str, list[Record]] = {}
    for key, record in op.polled():
        joined.setdefault(key, []).append(record)
    return joined


def _cycles(
    txns: Transactions, ops: Sequence[LogOp], partitions: Partitions, budget: Budget | None
) -> Iterator[Broken]:
    """Information that flows in a circle: who polled what whom sent, in order of time."""
    numbers = {op: number for number, op in enumerate(ops)}
    edges = Edges(len(ops))
    for op in watched(ops, budget):
        if op.outcome != "ok":
            continue
        for key, (_, value) in op.polled():
            writer = partitions.writers.get((key, value))
            if writer is not None and writer.outcome != "fail":
                edges.add(numbers[writer], numbers[op], WR)
    committed = [partitions.committed(op) for op in watched(ops, budget)]
    add_order(edges, txns, committed, PROCESS | REALTIME, budget)

    def precedes(one: int, other: int) -> bool:
        return NEVER < txns.ends[one] < txns.begins[other]

    cycles: list[Cycle] = []
    stopped: BudgetError | None = None
    try:
        find_cycles(edges.graph(budget), PROCESS | REALTIME, precedes, budget, cycles)
    except BudgetError as error:
        stopped = error  # and passed on behind what it left
    yield from (_cycle(ops, cycle) for cycle in cycles)
    if stopped is not None:
        raise stopped


def _cycle(ops: Sequence[LogOp], cycle: Cycle) -> Broken:
    told = "; ".join(
        f"op {ops[one].number} {_WORDS[kind]} op {ops[other].number}"
        for one, kind, other in cycle.steps
    )
    steps = [
        {"from": ops[one].number, "kind": KINDS[kind], "to": ops[other].number}
        for one, kind, other in cycle.steps
    ]
    message = f"information went in a circle: {told}"
    of_them = tuple(dict.fromkeys(ops[one] for one, _, _ in cycle.steps))
    return Broken(cycle.name, None, message, of_them, {"cycle": steps})


_WORDS = {
    WR: "sent what was polled by",
    PROCESS: "was done by the same process before",
    REALTIME: "ended before the beginning of",
}
