"""Reads the answered ops of the ``brokers`` workload: what played brokers said and were told."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from harness.errors import HistoryFormatError
from harness.history.ops import History, Interval
from harness.verdict import Anomaly

STOP = "shut-down"
HEARTBEATS = frozenset({"heartbeat", "fence", STOP, "revive"})
WANTS = frozenset({"fence", STOP})  # heartbeats that end a session by themselves


@dataclass(frozen=True, slots=True)
class Word:
    """One answered registration or heartbeat of a broker."""

    f: str
    broker: int
    epoch: int
    invoked_ns: int
    done_ns: int
    ops: tuple[int, int]
    incarnation: str = ""  # of registrations
    offset: int = -1  # of heartbeats, as the rest
    caught_up: bool = False
    fenced: bool = True
    shut_down: bool = False

    def anomaly(self, invariant: str, what: str, *others: Word) -> Anomaly:
        """One that this word and the others show."""
        return Anomaly(
            invariant,
            f"broker {self.broker} (op {self.ops[1]}) {what}",
            ops=tuple(sorted({i for word in (*others, self) for i in word.ops})),
            time_ns=self.done_ns,
        )


def words(history: History) -> list[Word]:
    """List all answered words of brokers, in the history's order; raises HistoryFormatError."""
    return [
        _word(interval)
        for interval in history.intervals()
        if interval.outcome == "ok" and interval.invocation.f in HEARTBEATS | {"register"}
    ]


@dataclass(frozen=True, slots=True)
class Registration:
    """A registration that was asked for and not refused: it was done then, if ever."""

    broker: int | None  # None where nobody was told
    incarnation: str
    invoked_ns: int
    done_ns: float  # infinite where nobody was told

    def may_be_between(self, first: Word, second: Word) -> bool:
        """Tell whether it may have been done after the first began and before the second was."""
        return self.invoked_ns < second.done_ns and first.invoked_ns < self.done_ns


def registrations(history: History) -> list[Registration]:
    """List all registrations, in the order in which they were asked for."""
    found = []
    for interval in history.intervals():
        op, end = interval.invocation, interval.completion
        if op.f == "register" and interval.outcome != "fail":
            told = end.value if end is not None and isinstance(end.value, dict) else {}
            done_ns = end.time_ns if end is not None and interval.outcome == "ok" else inf
            who = told.get("broker"), str(told.get("incarnation", ""))
            found.append(Registration(*who, op.time_ns, done_ns))
    return found


def caught_up(history: History) -> dict[tuple[int, int], int]:
    """Tell since when a broker may be in service, by broker and epoch: since it first asked.

    The controller may have let it in although the answer was lost.
    """
    since: dict[tuple[int, int], int] = {}
    for interval in history.intervals():
        op, end = interval.invocation, interval.completion
        value = None if end is None else end.value
        if op.f in HEARTBEATS and interval.outcome != "fail" and isinstance(value, dict):
            broker, epoch, offset = (value.get(name) for name in ("broker", "epoch", "offset"))
            if not (isinstance(broker, int) and isinstance(epoch, int)):
                continue
            if isinstance(offset, int) and offset >= epoch:
                key = broker, epoch
                since[key] = min(since.get(key, op.time_ns), op.time_ns)
    return since


def asked_to_stop(history: History) -> dict[tuple[int, int] | None, int]:
    """Tell since when a broker may have asked to be let go, by broker and epoch.

    Under None stands since when anybody may have: one of whom the history does not say who it was.
    """
    since: dict[tuple[int, int] | None, int] = {}
    for interval in history.intervals():
        op, end = interval.invocation, interval.completion
        if op.f == STOP and interval.outcome != "fail":
            told = end.value if end is not None and isinstance(end.value, dict) else {}
            is_known = "broker" in told and "epoch" in told
            who = (told["broker"], told["epoch"]) if is_known else None
            since[who] = min(since.get(who, op.time_ns), op.time_ns)
    return since


def _word(interval: Interval) -> Word:
    op, end = interval.invocation, interval.completion
    assert end is not None  # noqa: S101 - it was ok
    value = end.value
    try:
        common = (op.f, value["broker"], value["epoch"], op.time_ns, end.time_ns)
        ops = (op.index, end.index)
        if op.f == "register":
            return Word(*common, ops, incarnation=value["incarnation"])
        return Word(
            *common,
            ops,
            offset=value["offset"],
            caught_up=value["caught_up"],
            fenced=value["fenced"],
            shut_down=value["shut_down"],
        )
    except (TypeError, KeyError) as error:
        raise HistoryFormatError(f"op {end.index} ({op.f}): {value!r}: {error!r}") from error
