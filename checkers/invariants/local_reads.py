"""Local reads: a node's own image may be stale, but never goes back and invents nothing."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from checkers.committed.effects import (
    ISR_PREFIX,
    LIST_PREFIX,
    REGISTER_PREFIX,
    topic_id,
    write_of_op,
    write_of_record,
)
from checkers.committed.reference import Reference
from checkers.committed.topics import (
    Version,
    Versions,
    Wanted,
    elements,
    layout,
    layout_with_eligible,
    partition,
    register,
    whole,
)
from checkers.replay.clocks import Clock
from checkers.replay.trace import Event
from harness.contracts.workload import LOCAL
from harness.history.ops import Interval, Op
from harness.verdict import Anomaly

NAME = "C8"
BEHIND = "L8"
BY_ID = frozenset((layout, layout_with_eligible, whole))  # show the id of a topic, or None
ONCE = BY_ID | {elements, register}  # show nothing again that was over
NOTHING = -1  # the offset of "never written"
START_SLACK_NS = 50_000_000  # a process takes longer than this from its start to its first answer


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


@dataclass(frozen=True, slots=True)
class Look:
    """A local op that was answered: what of which topic it showed, and at which process."""

    interval: Interval
    done: Op
    wanted: Wanted
    shown: Hashable
    session: tuple[str, int]  # a node, and which of its processes

    @property
    def told(self) -> str:
        """Say which it is, in words."""
        what = self.done.f.replace("-", " ")
        return f"{what} of {self.done.key} at {self.session[0]} (op {self.done.index})"


@dataclass(frozen=True, slots=True)
class Floor:
    """The least that a node has of the log from some time on, and why."""

    end: int = 0
    look: Look | None = None  # which showed it
    version: Version | None = None

    @property
    def why(self) -> str:
        """Say since when."""
        if self.look is None or self.version is None:
            return f"all below offset {self.end} was committed when the system recovered"
        return (
            f"op {self.look.done.index} had returned {told(self.look.done)} {_place(self.version)}"
        )


@dataclass(slots=True)
class LocalReads:
    """Judges looks at nodes' own images.

    Each shows a prefix of the committed log. At one process the prefix only grows, over all
    keys, from a look that was answered to one that is asked for later. It is no longer than what
    was committed when the look was answered, and no shorter than ``recovered`` where it was
    asked for after the recovery of a system that promises it.

    Source: Lev-Ari et al., Composing ordered sequential consistency, 2017, whose updates are
    linearizable and whose reads are of a prefix (ZooKeeper); here a session is a process of a node.
    """

    written: Written
    versions: Versions
    commits: CommitTimes | None = None  # None: the clocks cannot be compared
    slack_ns: int = 0
    recovered: tuple[int, int] | None = None  # when, and the end of what was committed by then
    checked: int = 0
    late: int = 0  # of them, those that were asked for after the recovery

    def judge(self, looks: Sequence[Look]) -> Iterator[Anomaly]:
        """Tell what is wrong with them. O(n log n), and a search among a topic's versions."""
        floors: dict[tuple[str, int], Floor] = {}
        pending = sorted(looks, key=lambda look: look.done.time_ns)
        found: dict[int, Floor] = {}  # what a look showed of its node, by its completion
        place = 0
        for look in sorted(looks, key=lambda look: look.interval.invocation.time_ns):
            asked_ns = look.interval.invocation.time_ns
            while place < len(pending) and pending[place].done.time_ns < asked_ns:
                before = pending[place]
                seen = found.get(before.done.index, Floor())
                if seen.end > floors.get(before.session, Floor()).end:
                    floors[before.session] = seen
                place += 1
            floor = floors.get(look.session, Floor())
            if self.recovered is not None and asked_ns > self.recovered[0]:
                self.late += 1
                floor = max(floor, Floor(self.recovered[1]), key=lambda each: each.end)
            wrong, at = self._judge(look, floor)
            if wrong is not None:
                yield wrong
            if at is not None:
                found[look.done.index] = at

    def _judge(self, look: Look, floor: Floor) -> tuple[Anomaly | None, Floor | None]:
        """One look against what is known of its node; and what is known of it then."""
        done, written = look.done, self.written
        of_register = look.wanted[1] is register and done.value is not None
        if of_register and not written.tried(str(done.key), done.value):
            return _anomaly(look, f"returned {done.value}, which nobody ever wrote"), None
        versions = self.versions.of(look.wanted)
        fit = [place for place, each in enumerate(versions) if each.shown == look.shown]
        if not fit:
            if self._is_known(look, floor, versions) and not written.stopped:
                self.checked += 1
                return _anomaly(look, f"returned {told(done)}, which was never committed"), None
            return None, None  # nobody knows what there was before the log begins, or will be
        if self._may_be_older(look, floor) and fit[0] > 0:
            return None, None  # nor whether it was the same then
        self.checked += 1
        for place in fit:
            until = versions[place + 1].end if place + 1 < len(versions) else None
            if until is None or until > floor.end:
                return self._dirty(look, versions[place]), Floor(
                    max(floor.end, versions[place].end), look, versions[place]
                )
        last = versions[fit[-1]]
        others = () if floor.look is None else (floor.look.done.index,)
        name = NAME if floor.look is not None else BEHIND
        what = f"went back to {told(done)} {_place(last)} after {floor.why}"
        if floor.look is None:
            what = f"returned {told(done)} {_place(last)}, though {floor.why}"
        return _anomaly(look, what, *others, name=name), None

    def _is_known(self, look: Look, floor: Floor, versions: Sequence[Version]) -> bool:
        """Tell whether a right look must fit one of the versions, which begin at ``begin``.

        It must where the log is known from its beginning, where the process has shown before that
        it has all below ``begin``, and where the look shows a topic that was made later.
        """
        begin = self.versions.begin
        if begin is None:
            return False
        if floor.end >= begin:
            return True
        made = {id_of(each.shown) for each in versions} - {None, id_of(versions[0].shown)}
        return look.wanted[1] in BY_ID and id_of(look.shown) in made

    def _may_be_older(self, look: Look, floor: Floor) -> bool:
        """Tell whether a look may show a state from before the log begins, which came again."""
        comes_again = look.shown is None or look.wanted[1] not in ONCE
        begin = self.versions.begin
        return comes_again and (begin is None or floor.end < begin)

    def _dirty(self, look: Look, version: Version) -> Anomaly | None:
        """S34 for a look that shows what was not committed yet."""
        if self.commits is None or not version.end or look.wanted[1] is register:
            return None  # of registers ``judge_dirty_reads`` tells
        committed_ns = self.commits.of(version.end - 1)
        if committed_ns is None or look.done.time_ns + self.slack_ns >= committed_ns:
            return None
        late_ms = (committed_ns - look.done.time_ns) / 1e6
        return _anomaly(
            look,
            f"returned {told(look.done)} {_place(version)} {late_ms:.3f} ms before that was"
            " committed",
            name="S34",
        )


def id_of(shown: Hashable) -> object:
    """Give the id of the topic that a look or a version shows; None: there is none."""
    return shown[0] if isinstance(shown, tuple) else None


def looks_of(intervals: Iterable[Interval], starts: Starts) -> list[Look]:
    """The local ops that were answered by one process: a node may not have restarted meanwhile."""
    found = []
    for interval in intervals:
        invocation, done = interval.invocation, interval.completion
        if not invocation.f.startswith(LOCAL) or done is None or done.type != "ok":
            continue
        sight = sight_of(done)
        node = done.node or invocation.node or "a node"
        process = starts.number(node, done.time_ns)
        if sight is not None and process == starts.number(node, invocation.time_ns):
            found.append(Look(interval, done, sight[0], sight[1], (node, process)))
    return found


def sight_of(done: Op) -> tuple[Wanted, Hashable] | None:
    """Tell which topic a local op looked at, and what it showed, as ``committed.topics`` has it."""
    key, value = done.key, done.value
    if key is None:
        return None
    if done.f == LOCAL + "read":
        if isinstance(value, list):
            return (LIST_PREFIX + key, elements), tuple(value)
        return (REGISTER_PREFIX + key, register), None if value is None else str(value)
    if done.f == LOCAL + "layout":
        return _layout_of(key, value)
    if done.f != LOCAL + "describe":
        return None
    if isinstance(value, Mapping) and "lep" in value:
        shown = value["leader"], value["lep"], frozenset(value["isr"])
        return (ISR_PREFIX + key, partition(value.get("partition", 0))), shown
    if not isinstance(value, Mapping):
        return (key, whole), None
    configs = frozenset((str(k), str(v)) for k, v in value["configs"].items())
    return (key, whole), (topic_id(value["id"]), value["partitions"], configs)


def _layout_of(key: str, value: object) -> tuple[Wanted, Hashable]:
    """Partitions as rows; of an answer that tells who is eligible they are longer."""
    if not isinstance(value, Mapping):
        return (key, layout), None
    rows: list[tuple[Hashable, ...]] = []
    tells = False
    for index, leader, epoch, replicas, isr, eligible, last in value["partitions"]:
        row: tuple[Hashable, ...] = (index, leader, epoch, tuple(replicas), frozenset(isr))
        if eligible is not None:
            tells = True
            row = (*row, frozenset(eligible), frozenset(last))
        rows.append(row)
    view = layout_with_eligible if tells else layout
    return (key, view), (topic_id(value["id"]), tuple(rows))


def told(done: Op) -> str:
    """A value in words."""
    return "nothing" if done.value is None else str(done.value)


def _place(version: Version) -> str:
    return f"(offset {version.end - 1})"


def _anomaly(look: Look, what: str, *others: int, name: str = NAME) -> Anomaly:
    return Anomaly(
        name,
        f"{look.told} {what}",
        ops=(*others, look.interval.invocation.index, look.done.index),
        time_ns=look.done.time_ns,
    )
