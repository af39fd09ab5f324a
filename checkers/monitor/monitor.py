"""All invariants at once, fed one event after the other: for a finished trace or a live one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from checkers.replay.invariant import FinalLogs, Invariant
from checkers.replay.trace import Event, Intake, Whole
from checkers.replay.world import Change, World
from harness.verdict import Anomaly

KEPT_PER_INVARIANT_MAX = 25
# The events that are wanted when the run is over, by what for.
GATHERED: Mapping[str, tuple[str, ...]] = {
    "images": ("apply", "image"),
    "brokers": ("reg", "hb", "alter", "let_go"),
    "answers": ("answered",),
    "claims": ("claim",),
    "contacts": ("contact",),
    "appends": ("append",),
    "commits": ("hwm",),
    "starts": ("start",),
    "stops": ("stop",),
}
Feed = Callable[[Event, World], Iterable[Anomaly]]
Row = tuple[list[Feed], Change | None, list[Event] | None]


class Monitor:
    """Judges events in the order in which they happened; memory is linear in their number.

    Anomalies are returned as they are found, and kept in ``anomalies``. Of one invariant only the
    first ``KEPT_PER_INVARIANT_MAX`` are; ``found`` counts them all.
    """

    def __init__(self, invariants: Iterable[Invariant]) -> None:
        self.world = World()
        self.anomalies: list[Anomaly] = []
        self.found: Counter[str] = Counter()
        self.undecided: set[str] = set()  # names of invariants of which events are not told
        self.events = 0
        self._last: list[Anomaly] | None = None  # of the end
        self._intake = Intake()
        self._invariants = list(invariants)
        self._gathered: dict[str, list[Event]] = {group: [] for group in GATHERED}
        self._table: dict[str, Row] = {}  # by type of event

    def told(self, group: str) -> Sequence[Event]:
        """The whole events of a group of types, which ``GATHERED`` has, in their order."""
        return self._gathered[group]

    @property
    def gaps(self) -> list[str]:
        """Tell what was missing from the trace, in sentences; at most a few dozen."""
        return self._intake.gaps

    @property
    def gaps_total(self) -> int:
        """Tell how much was missing from the trace."""
        return self._intake.gaps_total

    @property
    def checked(self) -> dict[str, int]:
        """Tell how much each invariant really examined."""
        return self.checked_by(None)

    def checked_by(self, checker: str | None) -> dict[str, int]:
        """Count what was checked, for the invariants of one checker or of all."""
        chosen = [each for each in self._invariants if checker in (None, each.checker)]
        total = dict.fromkeys((invariant.name for invariant in chosen), 0)
        for invariant in chosen:
            total[invariant.name] += invariant.checked
        return total

    def feed(self, event: Event) -> list[Anomaly]:
        """Judge one event and let it happen."""
        return self._judge(event) if self._intake.admit(event) else []

    def feed_all(self, events: Mapping[str, Iterable[dict[str, Any]]]) -> list[Anomaly]:
        """Judge the events of all nodes in their order; see ``feed_whole``."""
        return self.feed_whole(Whole.of(events))

    def of(self, checker: str) -> list[Anomaly]:
        """Tell what was found, as far as that checker tells of it."""
        names = self._names(checker)
        return [anomaly for anomaly in self.anomalies if anomaly.invariant in names]

    def found_by(self, checker: str) -> Counter[str]:
        """Tell how much was found of that, by name, with what was not kept."""
        names = self._names(checker)
        return Counter({name: count for name, count in self.found.items() if name in names})

    def _names(self, checker: str) -> set[str]:
        return {each.name for each in self._invariants if each.checker == checker}

    def feed_whole(self, trace: Whole) -> list[Anomaly]:
        """Judge the events of a finished trace.

        What is missing is known before, so that nothing is concluded from the time before a loss
        shows.
        """
        self._intake = trace.intake
        self.world.whole = not trace.intake.blind
        self._leave_out(trace.intake.untold)
        judge, found = self._judge, list[Anomaly]()
        for event in trace.events:
            broken = judge(event)
            if broken:
                found += broken
        return found

    def _leave_out(self, untold: Collection[str]) -> None:
        """Judge nothing by events of a type that some node cannot tell."""
        lacking = [
            each for each in self._invariants if not {*each.listens, *each.uses}.isdisjoint(untold)
        ]
        self.undecided.update(each.name for each in lacking)
        self._invariants = [each for each in self._invariants if each not in lacking]

    def _judge(self, event: Event) -> list[Anomaly]:
        self.events += 1
        world, blind = self.world, self._intake.blind
        replica = world.arrive(event, blind=bool(blind) and (event["node"], event["inc"]) in blind)
        row = self._table.get(event["t"])
        feeds, change, gathered = row if row is not None else self._row(event["t"])
        anomalies: list[Anomaly] = []
        for feed in feeds:
            found = feed(event, world)
            if found:  # a generator, of nothing perhaps
                anomalies += found
        replica.told = event
        if change is not None:
            change(replica, event)
        if gathered is not None:
            gathered.append(event)
        return self._keep(anomalies) if anomalies else anomalies

    def _row(self, kind: str) -> Row:
        """The handling of events of a type: who listens, what changes, who wants it."""
        feeds: list[Feed] = [each.feed for each in self._invariants if kind in each.listens]
        wanted = next((self._gathered[group] for group, of in GATHERED.items() if kind in of), None)
        row = self._table[kind] = feeds, self.world.changes().get(kind), wanted
        return row

    def finish(self, logs: FinalLogs) -> list[Anomaly]:
        """Judge the logs that the run left on the disks; once, whoever asks."""
        if self._last is None:
            self._last = self._keep(
                anomaly
                for invariant in self._invariants
                for anomaly in invariant.finish(logs, self.world)
            )
        return self._last

    def _keep(self, anomalies: Iterable[Anomaly]) -> list[Anomaly]:
        kept = []
        for anomaly in anomalies:
            self.found[anomaly.invariant] += 1
            if self.found[anomaly.invariant] <= KEPT_PER_INVARIANT_MAX:
                kept.append(anomaly)
        self.anomalies += kept
        return kept
