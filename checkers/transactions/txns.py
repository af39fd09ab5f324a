"""From ops to transactions: columns of what each began, when, how it ended and what it did.

Two forms are read, and may be mixed: Jepsen's transactions, whose value is a list of micro-ops
``[["append", k, v], ["r", k, [v, ...]]]``, and our single ops ``append`` and ``read`` of a key.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

from checkers.limits.budget import Budget, watched
from harness.contracts.model import freeze
from harness.errors import HistoryFormatError, UsageError
from harness.history.ops import NEMESIS, History, Op

OK, INFO, FAIL = 0, 1, 2
NEVER = -1  # the end of a transaction of which nobody knows when, or whether, it took effect
APPENDS, READS = frozenset(("append",)), frozenset(("r", "read"))
FS = frozenset(("txn", "append", "read"))
_OUTCOMES = {"ok": OK, "info": INFO, "fail": FAIL, "invoke": INFO}
_PLAIN = frozenset((int, str))
_new = tuple.__new__  # a named tuple in half the time, which millions notice

Append = tuple[Hashable, Hashable]  # key and element


class Mop(NamedTuple):
    """A micro-op: an append of ``element``, or (``append`` False) a read that saw ``seen``.

    ``seen`` None: what was read is not known.
    """

    append: bool
    key: Hashable
    element: Hashable = None
    seen: list[Any] | None = None


@dataclass(slots=True)
class Transactions:
    """One column a property; a transaction is its number, in order of invocation.

    ``begins`` and ``ends`` are places in the order of events; an end is ``NEVER`` when the
    transaction did not end as ok.
    """

    begins: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    outcomes: bytearray = field(default_factory=bytearray)
    processes: list[int | str] = field(default_factory=list)
    mops: list[list[Mop]] = field(default_factory=list)
    ops: list[tuple[Op, Op | None]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.begins)

    def indices(self, txn: int) -> tuple[int, ...]:
        """The indices of its ops in the history."""
        begin, end = self.ops[txn]
        return tuple(dict.fromkeys((begin.index,) if end is None else (begin.index, end.index)))

    def part(self, kept: Sequence[int], others: Sequence[Append] = ()) -> Transactions:
        """Keep some of the transactions, and before them appends by others at an unknown time."""
        columns = (self.begins, self.ends)
        places = {column[txn] for column in columns for txn in kept} - {NEVER}
        rank = {place: at for at, place in enumerate(sorted(places))} | {NEVER: NEVER}
        begins, ends = ([rank[column[txn]] for txn in kept] for column in columns)
        never = [NEVER] * len(others)
        who = [f"another {at}" for at in range(len(others))]
        return Transactions(
            never + begins,
            never + ends,
            bytearray([*(INFO for _ in others), *(self.outcomes[txn] for txn in kept)]),
            [*who, *(self.processes[txn] for txn in kept)],
            [*([Mop(True, *each)] for each in others), *(self.mops[txn] for txn in kept)],
            [
                *((Op(-1, 0, name, "invoke", "append"), None) for name in who),
                *(self.ops[txn] for txn in kept),
            ],
        )


def transactions_of(
    history: History, *, ordered: bool = True, budget: Budget | None = None
) -> Transactions:
    """Pair the client ops of a history and read their micro-ops. O(n).

    Raises:
        BudgetError: The budget has run out.
        UsageError: An op that is neither a transaction nor an append or read.
        HistoryFormatError: Ops that do not pair, or values of another shape.
    """
    txns = paired(history, ordered=ordered, budget=budget)
    txns.mops = [_mops(begin, end) for begin, end in watched(txns.ops, budget)]
    return txns


def paired(history: History, *, ordered: bool = True, budget: Budget | None = None) -> Transactions:
    """The transactions of a history, without their micro-ops. O(n).

    ``ordered`` False: neighbouring events with one time stamp are concurrent.
    In a history without any invocation, as Elle's small ones are, a completion stands for the
    whole transaction, and nobody knows when that began.

    Raises:
        BudgetError: The budget has run out.
        HistoryFormatError: Ops that do not pair.
    """
    clients = [op for op in history if op.process != NEMESIS]
    places = None if ordered else _places(clients)
    bare = all(op.type != "invoke" for op in clients)
    begins, processes, ops = list[int](), list[int | str](), list[tuple[Op, Op | None]]()
    most = len(clients)
    ends, outcomes = [NEVER] * most, bytearray((INFO,)) * most
    open_: dict[int | str, int] = {}
    for place, op in enumerate(watched(clients, budget)):
        at = place if places is None else places[place]
        if bare or op.type == "invoke":
            if op.process in open_:
                raise HistoryFormatError(
                    f"op {op.index}: process {op.process!r} invokes {op.f!r} while its op "
                    f"{ops[open_[op.process]][0].index} is still open"
                )
            number = len(begins)
            begins.append(NEVER if bare else at)
            processes.append(op.process)
            ops.append((op, None))
            if not bare:
                open_[op.process] = number
        else:
            found = open_.pop(op.process, None)
            if found is None:
                raise HistoryFormatError(
                    f"op {op.index}: {op.type} of process {op.process!r} has no invocation"
                )
            number = found
        if op.type != "invoke":
            ops[number] = (ops[number][0], op)
            outcomes[number] = _OUTCOMES[op.type]
            ends[number] = at if op.type == "ok" else NEVER
    n = len(begins)
    return Transactions(begins, ends[:n], outcomes[:n], processes, [[] for _ in ops], ops)


def _places(ops: list[Op]) -> list[int]:
    """The place of each event; of neighbours with one time, those that begin come first."""
    if not ops or ops[0].time_ns == ops[-1].time_ns:
        return list(range(len(ops)))
    order: list[int] = []
    for _, group in groupby(range(len(ops)), key=lambda at: ops[at].time_ns):
        order += sorted(group, key=lambda at: ops[at].type != "invoke")
    places = [0] * len(ops)
    for place, at in enumerate(order):
        places[at] = place
    return places


def _mops(begin: Op, end: Op | None) -> list[Mop]:
    """Tell what a transaction did; what it read counts only when it is known to have ended well."""
    done = end is not None and end.type == "ok"
    told = end if done and end is not None else begin
    try:
        match begin.f:
            case "append":
                return [Mop(True, begin.key, _element(begin.value))]
            case "read":
                return [Mop(False, begin.key, None, _seen(told.value) if done else None)]
            case "txn":
                value = begin.value if told.value is None else told.value
                return _plain(_list(value), known=done and told.value is not None)
            case _:
                raise UsageError(
                    f"op {begin.index} is a {begin.f!r}, which list-append does not know; it "
                    f"knows {', '.join(sorted(FS))}: choose another model"
                )
    except ValueError as error:
        raise HistoryFormatError(f"op {told.index} ({begin.f}): {error}") from error


def _plain(values: list[Any], *, known: bool) -> list[Mop]:
    """The micro-ops of a transaction; nearly all are as plain as these, and millions are read."""
    mops: list[Mop] = []
    for value in values:
        if type(value) is list and len(value) == 3:  # noqa: PLR2004 - [f key value]
            f, key, what = value
            if type(key) in _PLAIN:
                if f == "append":
                    if type(what) in _PLAIN:
                        mops.append(_new(Mop, (True, key, what, None)))
                        continue
                elif (
                    f == "r" and known and type(what) is list and _PLAIN.issuperset(map(type, what))
                ):
                    mops.append(_new(Mop, (False, key, None, what)))
                    continue
        mops.append(_any_mop(value, known=known))
    return mops


def _any_mop(value: Any, *, known: bool) -> Mop:
    parts = value if type(value) is list else _list(value)
    size = len(parts)
    if size < 2:  # noqa: PLR2004 - [f key value]
        raise ValueError(f"micro-op {value!r}, want [append KEY VALUE] or [r KEY VALUES]")
    f, key = parts[0], parts[1]
    if type(key) not in _PLAIN:
        key = freeze(key)
    if f in APPENDS and size == 3:  # noqa: PLR2004
        return _new(Mop, (True, key, _element(parts[2]), None))
    if f in READS and size < 4:  # noqa: PLR2004
        seen = parts[2] if size == 3 else None  # noqa: PLR2004
        return _new(Mop, (False, key, None, _seen(seen) if known else None))
    raise ValueError(f"micro-op {value!r}, want [append KEY VALUE] or [r KEY VALUES]")


def _element(value: Any) -> Hashable:
    if value is None:
        raise ValueError("nothing is appended: value None, want an element")
    return value if type(value) in _PLAIN else freeze(value)


def _seen(value: Any) -> list[Any]:
    """The elements of a list that was read; nil is the empty one."""
    if value is None:
        return []
    seen = value if type(value) is list else _list(value)
    return seen if _PLAIN.issuperset(map(type, seen)) else [_element(each) for each in seen]


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"value {value!r}, want a list")
    return value if isinstance(value, list) else list(value)
