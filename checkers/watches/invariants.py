"""The invariants that go by events and committed records, watched as these come or run over later.

A simulation feeds its ``Online`` event by event and hands it on with all else that it leaves
behind; for a trace from files a ``Monitor`` is made, and fed in one pass, by the first checker
that asks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from checkers.committed.fold import MakeFold
from checkers.committed.reference import Reference, committed, reference
from checkers.monitor.catalogue import invariants_for
from checkers.monitor.content import NO_SETTINGS, WANTED, Content
from checkers.monitor.monitor import Monitor
from checkers.monitor.promises import Promises
from checkers.replay.clocks import CLOCK_RATE, kept_time
from checkers.replay.trace import Event, Whole
from checkers.replay.world import Batch
from harness.contracts.checker import RunData
from harness.contracts.evidence import LogBatch, ReadLog
from harness.contracts.nemesis import Fault
from harness.history.ops import Op
from harness.registry import watches
from harness.spec import RunSpec
from harness.verdict import Anomaly

NAME = "invariants"


class Online:
    """Judges each event, and what of the log it commits, read from the leader's disk at once.

    Where that disk does not have it, the others are asked. ``content`` has what was committed from
    the log's beginning on; each batch is read once.
    """

    def __init__(
        self, monitor: Monitor, read: ReadLog, settings: Mapping[str, str] = NO_SETTINGS
    ) -> None:
        self.monitor = monitor
        self.content = Content(settings=settings)
        self.promises = Promises()
        self._read = read
        self._below = 0  # what is committed, as leaders say
        self._nodes: dict[str, None] = {}  # who told of a high watermark, in the order of the first

    def feed(self, event: Event) -> list[Anomaly]:
        """Tell what an event breaks, and what it commits."""
        monitor, content = self.monitor, self.content
        before = monitor.events
        found = monitor.feed(event)
        if monitor.events == before:
            return found  # it is none
        if event["t"] == "hwm":
            self._nodes[f"n{event['node']}"] = None
            if event["as"] == "leader":
                self._below = max(self._below, event["v"])
                for batch in self._committed(event):
                    found = [*found, *content.batch(batch, event)]
                    found += self.promises.batch(batch, event)
        if content.due or event["t"] in WANTED:
            wrong = content.event(event)
            if wrong:
                return [*found, *wrong]
        return found

    def _committed(self, event: Event) -> Iterator[LogBatch]:
        """Read what a leader has committed, each batch once the one before it was taken in.

        A disk may not have all yet, or be damaged; and a log may begin behind what its leader has
        just committed, when that was cleaned away in the same turn. What is then in no log is asked
        for again with the next commit.
        """
        leader, content = f"n{event['node']}", self.content
        if content.end < self._below:
            yield from self._read(leader, content.end, self._below)
        for node in self._nodes:
            if content.end >= self._below:
                return
            for batch in () if node == leader else self._read(node, content.end, self._below):
                told = Batch(batch.base, batch.last, batch.epoch, batch.crc)
                if not self.monitor.world.commits.contains(told):
                    break
                yield batch

    def op(self, op: Op) -> list[Anomaly]:
        """Tell what an op breaks by the answer that it got."""
        return self.promises.op(op, behind=self.content.end < self._below)


@watches.register(NAME)
def watch(spec: RunSpec, faults: Sequence[Fault], read: ReadLog) -> Online:
    """Judges S1 to S38, L4 and C1 to C19 as the events happen and records are committed."""
    timed = all(fault.nemesis != CLOCK_RATE for fault in faults)
    return Online(Monitor(invariants_for(spec.settings, timed=timed)), read, spec.settings)


class _Newest:
    """The monitor of the run that is being judged: several checkers ask for it."""

    def __init__(self) -> None:
        self._run: RunData | None = None
        self._monitor = Monitor(())
        self._given: tuple[RunData, Whole, Collection[str]] | None = None

    def of(self, run: RunData) -> Monitor:
        """The one that has seen all of the run's events; it must not be fed any more."""
        if run is not self._run:
            self._run, self._monitor = run, self._made(run)
        return self._monitor

    def give(self, run: RunData, trace: Whole, without: Collection[str] = ()) -> None:
        """Say what the events of a run are in their order, and what others judge of them.

        Holds for the run until another one is given; ``without`` are names of invariants.
        """
        self._given = run, trace, without

    def _made(self, run: RunData) -> Monitor:
        online = run.watches.get(NAME)
        if isinstance(online, Online):
            return online.monitor
        given, trace, without = self._given or (None, None, ())
        if given is not run or trace is None:
            trace, without = Whole.of(run.events), ()
        wanted = invariants_for(run.spec.settings, timed=kept_time(run))
        monitor = Monitor(each for each in wanted if each.name not in without)
        monitor.feed_whole(trace)
        return monitor


_NEWEST = _Newest()
watched, give_trace = _NEWEST.of, _NEWEST.give


def content_of(run: RunData, monitor: Monitor, known: Reference, make_fold: MakeFold) -> Content:
    """Tell what the run's committed log holds, judged with all that nodes said of it.

    What was judged meanwhile is not judged again: only what a simulation could not read then.
    """
    below = max((event["v"] for event in monitor.told("commits")), default=0)
    online = run.watches.get(NAME)
    if isinstance(online, Online):
        content = online.content
        for batch in known.batches(below):
            if batch.base == content.end:
                content.batch(batch)
        if content.end < below and run.history.stopped is None:
            content.unread = below
    else:
        content = Content(known, make_fold, run.spec.settings)
        for event in monitor.told("brokers"):
            content.event(event)
        for batch in known.batches(below):
            content.batch(batch)
        for group in ("images", "answers"):
            for event in monitor.told(group):
                content.event(event)
    content.finish()
    return content


def told_meanwhile(run: RunData, seen: Iterable[Anomaly], *names: str) -> list[Anomaly]:
    """Tell what else ops had broken when a simulation was stopped, which its disks may not tell."""
    online = run.watches.get(NAME)
    if run.history.stopped is None or not isinstance(online, Online):
        return []
    known = {anomaly.message for anomaly in seen}
    found = online.promises.anomalies
    return [each for each in found if each.invariant in names and each.message not in known]


def known_log(run: RunData, monitor: Monitor) -> Reference:
    """The committed log as the disks have it: of a simulation that was stopped, from its start."""
    if run.history.stopped is not None:
        return committed(run, monitor.world.commits)
    return reference(run, monitor.world.commits)
