"""``isr``: changes of ISRs by compare-and-set, judged by what was asked for and answered alone.

A change is granted only to who has seen the partition as it is: one change per partition epoch,
none by an epoch that others had already been told was past, and no member by the epoch of an
incarnation that is known to be gone. Brokers are fenced and elected in between, which raises the
epochs too, so that gaps between them say nothing.

Source: KIP-497, KIP-841, KIP-903; C3 to C5 of the catalogue.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from checkers.invariants.brokers import PartitionEpochs, PartitionShape
from checkers.invariants.granted import C5
from harness.contracts.checker import RunData
from harness.contracts.workload import LOCAL
from harness.errors import HistoryFormatError
from harness.history.ops import Interval
from harness.registry import checkers
from harness.verdict import Anomaly, CheckResult, Valid

NAME = "isr"
LOOK = "describe"
LOOKS = (LOOK, LOCAL + LOOK)  # what one node shows may be old; that it was so counts all the same
SHAPE, EPOCHS, GUARD = "C3", "C4", "C5"


@dataclass(frozen=True, slots=True)
class Change:
    """An alter that was granted: asked for by these epochs, and what came of it."""

    key: str
    invoked_ns: int
    done_ns: int
    ops: tuple[int, int]
    leader: tuple[int, int]  # id and broker epoch
    members: Mapping[int, int]  # broker epochs by id
    registered: Mapping[int, int]  # the newest broker epochs that had been given by then
    lep: int
    pep: int
    got: tuple[int, int, int, tuple[int, ...]]  # leader, its epoch, partition epoch, ISR

    @property
    def wrote(self) -> bool:
        """Tell whether the partition was changed: it may have been so already."""
        return self.got[2] != self.pep


@dataclass(frozen=True, slots=True)
class Fact:
    """A lower bound: from ``since_ns`` on an epoch is at least ``epoch``, as op ``op`` was told."""

    since_ns: int
    epoch: int
    op: int


class Facts:
    """The knowledge about one epoch at each time; it only rises."""

    def __init__(self, facts: Sequence[Fact]) -> None:
        self._times: list[int] = []
        self._best: list[Fact] = []
        for fact in sorted(facts, key=lambda f: f.since_ns):
            if not self._best or fact.epoch > self._best[-1].epoch:
                self._times.append(fact.since_ns)
                self._best.append(fact)

    def before(self, time_ns: int) -> Fact | None:
        """The highest that somebody had been told before that time."""
        place = bisect_left(self._times, time_ns)
        return self._best[place - 1] if place else None


@checkers.register(NAME, judges=(PartitionShape.meaning, PartitionEpochs.meaning, C5))
def isr(run: RunData) -> CheckResult:
    """Each change of an ISR starts from the state that its leader knew. O(n log n).

    Raises:
        HistoryFormatError: Ops that do not pair, or values of another shape.
    """
    done = [i for i in run.history.intervals() if i.outcome == "ok"]
    changes = [_change(i) for i in done if i.invocation.f == "alter"]
    seen = [i for i in done if i.invocation.f in LOOKS and i.invocation.key is not None]
    anomalies = [a for change in changes for a in _answer(change)]
    by_key: dict[str, list[Change]] = defaultdict(list)
    for change in changes:
        by_key[change.key].append(change)
    told: dict[str, list[Interval]] = defaultdict(list)
    for look in seen:
        told[str(look.invocation.key)].append(look)
    for key in by_key.keys() | told.keys():
        granted, of_key = by_key.get(key, []), told.get(key, [])
        anomalies += _one_winner(granted)
        anomalies += _guards(granted, _led(granted, of_key))
        at_leader = [look for look in of_key if look.invocation.f == LOOK]
        anomalies += _looks(at_leader, _led(granted, of_key))
    anomalies.sort(key=lambda a: (a.time_ns or 0, a.message))
    reason = None if changes else "no change of an ISR was granted: nothing was judged"
    verdict = Valid.UNKNOWN if reason else Valid.VALID
    return CheckResult(
        NAME,
        Valid.INVALID if anomalies else verdict,
        tuple(anomalies),
        checked={SHAPE: len(changes), EPOCHS: len(changes) + len(seen), GUARD: len(changes)},
        stats={"changed": sum(c.wrote for c in changes), "partitions": len(by_key)},
        reason=reason,
    )


def _change(interval: Interval) -> Change:
    op, end = interval.invocation, interval.completion
    assert end is not None  # noqa: S101 - it was ok
    try:
        asked, got = end.value["asked"], end.value["got"]
        return Change(
            str(op.key),
            op.time_ns,
            end.time_ns,
            (op.index, end.index),
            (asked["leader"][0], asked["leader"][1]),
            dict(asked["isr"]),
            dict(asked["epochs"]),
            asked["lep"],
            asked["pep"],
            (got["leader"], got["lep"], got["pep"], tuple(got["isr"])),
        )
    except (TypeError, KeyError, ValueError, IndexError) as error:
        raise HistoryFormatError(f"op {end.index} (alter): {end.value!r}: {error!r}") from error


def _led(changes: Sequence[Change], looks: Sequence[Interval]) -> Facts:
    """The leader epochs of a partition that were told."""
    told = [Fact(c.done_ns, c.got[1], c.ops[1]) for c in changes]
    for look in looks:
        if look.completion is not None and isinstance(look.completion.value, dict):
            end = look.completion
            told.append(Fact(end.time_ns, end.value["lep"], end.index))
    return Facts(told)


# --------------------------------------------------------------------------- what is wrong


def _answer(change: Change) -> Iterator[Anomaly]:
    """The answer of one change against its question."""
    leader, lep, pep, isr = change.got
    if set(isr) != set(change.members):
        yield _anomaly(
            GUARD, change, f"asked for {sorted(change.members)} and was given {sorted(isr)}"
        )
    if leader not in isr:
        yield _anomaly(SHAPE, change, f"has leader {leader} out of its ISR {sorted(isr)}")
    if pep not in (change.pep, change.pep + 1) or lep not in (change.lep, change.lep + 1):
        yield _anomaly(
            EPOCHS, change, f"went from epochs {change.lep}/{change.pep} to {lep}/{pep} at once"
        )


def _one_winner(changes: Sequence[Change]) -> Iterator[Anomaly]:
    """One change from each partition epoch, which means one state."""
    winners: dict[int, Change] = {}
    states: dict[int, Change] = {}
    for change in sorted(changes, key=lambda c: c.ops):
        if change.wrote:
            first = winners.setdefault(change.pep, change)
            if first is not change:
                yield _anomaly(
                    GUARD,
                    change,
                    f"was granted from partition epoch {change.pep}, and so was op {first.ops[1]}",
                    first,
                )
        first = states.setdefault(change.got[2], change)
        if _state(first) != _state(change):
            yield _anomaly(
                EPOCHS,
                change,
                f"was told {_state(change)} of partition epoch {change.got[2]}, op"
                f" {first.ops[1]} was told {_state(first)}",
                first,
            )


def _state(change: Change) -> tuple[int, int, list[int]]:
    return change.got[0], change.got[1], sorted(change.got[3])


def _guards(changes: Sequence[Change], led: Facts) -> Iterator[Anomaly]:
    """Changes that somebody had been told were out of date before they were asked for."""
    epochs = Facts([Fact(c.done_ns, c.got[2], c.ops[1]) for c in changes])
    for change in changes:
        for what, known, asked in (
            ("partition epoch", epochs.before(change.invoked_ns), change.pep),
            ("leader epoch", led.before(change.invoked_ns), change.lep),
        ):
            if known is not None and known.epoch > asked:
                yield _anomaly(
                    GUARD,
                    change,
                    f"was granted by {what} {asked}, after op {known.op} was told {known.epoch}",
                )
        for broker, epoch in {**change.members, change.leader[0]: change.leader[1]}.items():
            newest = change.registered.get(broker, epoch)
            if 0 <= epoch < newest:
                yield _anomaly(
                    GUARD,
                    change,
                    f"took broker {broker} by broker epoch {epoch}, which had already registered"
                    f" again, with {newest}",
                )


def _looks(looks: Sequence[Interval], led: Facts) -> Iterator[Anomaly]:
    """Looks that show a leader epoch below one that somebody had been told before."""
    for look in looks:
        op, end = look.invocation, look.completion
        known = led.before(op.time_ns)
        if end is None or known is None or end.value["lep"] >= known.epoch:
            continue
        yield Anomaly(
            EPOCHS,
            f"partition {op.key} was seen at leader epoch {end.value['lep']} (op {end.index}),"
            f" after op {known.op} was told {known.epoch}",
            ops=(known.op, op.index, end.index),
            time_ns=end.time_ns,
        )


def _anomaly(invariant: str, change: Change, what: str, *others: Change) -> Anomaly:
    return Anomaly(
        invariant,
        f"the change of partition {change.key} by op {change.ops[1]} {what}",
        ops=tuple(sorted({i for c in (*others, change) for i in c.ops})),
        time_ns=change.done_ns,
    )
