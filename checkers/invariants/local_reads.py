"""Local reads: a node's own image may be stale, but never goes back and invents nothing."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from checkers.committed.effects import write_of_op, write_of_record
from checkers.committed.reference import Reference
from checkers.replay.clocks import Clock
from checkers.replay.real_time import with_highest_before
from checkers.replay.trace import Event
from harness.history.ops import Interval
from harness.verdict import Anomaly

NAME = "C8"
NOTHING = -1  # the offset of "never written"
START_SLACK_NS = 50_000_000  # a process takes longer than this from its start to its first answer


@dataclass(frozen=True, slots=True)
class Read:
    """A local read that returned: ``offset`` is where its value was written."""

    interval: Interval
    invoked_ns: int
    done_ns: int
    offset: int


class Written:
    """The places where each (key, value) was written, and all that anybody tried to write."""

    def __init__(
        self, known: Reference, intervals: Sequence[Interval], *, stopped: bool = False
    ) -> None:
        self.stopped = stopped  # so that what is not committed may still become so
        self.complete = bool(known.log) and known.start == 0
        self.start = known.start  # what a snapshot holds has a place below, not its own
        self._offsets: dict[tuple[str, str], list[int]] = defaultdict(list)
        self._versions: dict[str, list[tuple[int, str]]] = defaultdict(list)  # of a key, in order
        for batch in known.log:
            for place, record in enumerate(batch.records):
                write = write_of_record(record)
                if write is not None:
                    self._offsets[write].append(batch.base + place)
        for record in known.snapshot.records if known.snapshot else ():
            write = write_of_record(record)
            if write is not None and write not in self._offsets:
                self._offsets[write].append(known.start - 1)  # before all that the log has
        for (key, value), offsets in self._offsets.items():
            self._versions[key] += ((offset, value) for offset in offsets)
        for versions in self._versions.values():
            versions.sort()
        self._tried = {write_of_op(i.invocation) for i in intervals}

    def tried(self, key: str, value: object) -> bool:
        """Tell whether somebody ever tried to write that."""
        return (key, str(value)) in self._tried

    def offset(self, key: str, value: object) -> int | None:
        """The one offset where it was written; None when there is none or more than one."""
        if value is None:
            return NOTHING
        found = self._offsets.get((key, str(value)), [])
        return found[0] if len(found) == 1 else None

    def missing(self, key: str, value: object) -> bool:
        """Tell whether the log, known from its beginning, holds no such write, and never will."""
        return not self.stopped and self._lacks(key, value)

    def not_yet(self, key: str, value: object) -> bool:
        """Tell whether a value was tried, but the run stopped before it was committed."""
        return self.stopped and self._lacks(key, value) and self.tried(key, value)

    def before(self, key: str, end: int) -> tuple[int, str] | None:
        """The last offset below ``end`` at which a key was written, and the value."""
        versions = self._versions.get(key, [])
        place = bisect_left(versions, (end, ""))
        return versions[place - 1] if place else None

    def _lacks(self, key: str, value: object) -> bool:
        return self.complete and value is not None and (key, str(value)) not in self._offsets


class Starts:
    """The times at which each node's processes started, to tell its incarnations apart."""

    def __init__(self, starts: Iterable[Event], clock: Clock) -> None:
        self._starts: dict[str, list[int]] = defaultdict(list)
        for event in starts:
            time = clock.of(event)
            if time is not None:
                insort(self._starts[f"n{event['node']}"], time - START_SLACK_NS)

    def number(self, node: str | None, time_ns: int) -> int:
        """Tell how many processes of the node had been started by then."""
        return bisect_right(self._starts.get(node or "", []), time_ns)


class CommitTimes:
    """The times from which on any node knew each offset to be committed."""

    def __init__(self, commits: Iterable[Event], clock: Clock) -> None:
        told = ((time, event["v"]) for event in commits if (time := clock.of(event)) is not None)
        self._times: list[int] = []
        self._ends: list[int] = []  # the highest so far, ascending with the times
        for time, end in sorted(told):
            if not self._ends or end > self._ends[-1]:
                self._times.append(time)
                self._ends.append(end)

    def of(self, offset: int) -> int | None:
        """The first moment; None when nobody ever said so."""
        found = bisect_right(self._ends, offset)
        return self._times[found] if found < len(self._times) else None

    def end(self, time_ns: int) -> int:
        """How far the log was committed at a time; 0 before anybody had said so."""
        found = bisect_right(self._times, time_ns)
        return self._ends[found - 1] if found else 0


def judge_dirty_reads(
    intervals: Sequence[Interval], written: Written, commits: CommitTimes, slack_ns: int
) -> Iterator[Anomaly]:
    """S34: a read that returned a value before that was committed. O(n log n).

    ``slack_ns`` is by how much the clocks of nodes and harness may disagree.
    """
    for interval in intervals:
        done = interval.completion
        if not interval.invocation.f.endswith("read") or done is None or done.type != "ok":
            continue
        if done.key is None:
            continue
        instead = written.before(done.key, commits.end(done.time_ns))
        if written.not_yet(done.key, done.value):
            yield dirty(interval, instead)
        offset = written.offset(done.key, done.value)
        if offset is None or offset < written.start:
            continue
        committed_ns = commits.of(offset)
        if committed_ns is not None and done.time_ns + slack_ns < committed_ns:
            late_ms = (committed_ns - done.time_ns) / 1e6
            yield dirty(interval, instead, f" (offset {offset}) {late_ms:.3f} ms")


def dirty(interval: Interval, instead: tuple[int, str] | None, when: str = "") -> Anomaly:
    """S34 for a read; ``when``: where it was committed then, and how much later.

    ``instead``: offset and value of what was committed last when it was answered.
    """
    committed = "none yet" if instead is None else f"{instead[1]} (offset {instead[0]})"
    done = interval.completion or interval.invocation
    return Anomaly(
        "S34",
        f"{done.f} of {done.key} (op {done.index}) returned {done.value}{when} before that was"
        " committed",
        ops=(interval.invocation.index, done.index),
        details={"committed": committed},
        time_ns=done.time_ns,
    )


def judge_local_reads(
    intervals: Sequence[Interval], written: Written, starts: Starts
) -> Iterator[Anomaly]:
    """Tell what is wrong with the local reads of a history. O(n log n)."""
    sessions: dict[tuple[str | None, int, str], list[Read]] = defaultdict(list)
    for interval in intervals:
        done, invocation = interval.completion, interval.invocation
        if invocation.f != "local-read" or done is None or done.type != "ok" or done.key is None:
            continue
        if done.value is not None and not written.tried(done.key, done.value):
            yield _anomaly(interval, f"returned {done.value}, which nobody ever wrote")
            continue
        if written.missing(done.key, done.value):
            yield _anomaly(interval, f"returned {done.value}, which was never committed")
            continue
        offset = written.offset(done.key, done.value)
        node = invocation.node or done.node
        process = starts.number(node, done.time_ns)
        if offset is not None and process == starts.number(node, invocation.time_ns):
            read = Read(interval, invocation.time_ns, done.time_ns, offset)
            sessions[node, process, done.key].append(read)
    for reads in sessions.values():
        yield from _never_back(reads)


def _never_back(reads: list[Read]) -> Iterator[Anomaly]:
    """A read must see no less than every read that was answered before it was asked."""
    for read, newest in with_highest_before(reads, lambda read: read.offset):
        if read.offset < newest.offset:
            before, now = newest.interval.completion, read.interval.completion
            assert before is not None  # noqa: S101 - only answered reads are kept
            assert now is not None  # noqa: S101
            yield _anomaly(
                read.interval,
                f"went back to {now.value} (offset {read.offset}) after op {before.index} had"
                f" returned {before.value} (offset {newest.offset})",
                before.index,
            )


def _anomaly(interval: Interval, what: str, *others: int) -> Anomaly:
    done = interval.completion or interval.invocation
    node = interval.invocation.node or done.node or "a node"
    return Anomaly(
        NAME,
        f"local read of {done.key} at {node} (op {done.index}) {what}",
        ops=(*others, interval.invocation.index, done.index),
        time_ns=done.time_ns,
    )
