"""Rebuilds from a trace what each replica had on its disk, and what was committed.

Offsets are 0-based; ``end``, ``flushed`` and high watermarks are exclusive. Logs are kept as
batches, so memory is linear in the number of appends. Where the trace cannot know what lies in a
log (a process killed between writing its log and its trace) the log has a hole: looking there
gives None, and no invariant concludes anything from it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

from checkers.replay.trace import VOTE_LOST, Event, ReplicaId, replica_of, snapshots_of
from checkers.replay.voter_sets import NEVER, VoterHistory, VoterKey, VoterKeys, keys_of
from harness.contracts.evidence import LogBatch


class Batch(NamedTuple):
    """A record batch by what identifies it: position, epoch and fingerprint."""

    base: int
    last: int
    epoch: int
    h: int

    def __str__(self) -> str:
        return f"offsets {self.base}-{self.last} of epoch {self.epoch} (crc {self.h:08x})"


def appended(event: Event) -> Batch:
    """The batch of an ``append`` event."""
    return Batch(event["base"], event["last"], event["bep"], event["h"])


def stored(batch: LogBatch) -> Batch:
    """The batch of a final log."""
    return Batch(batch.base, batch.last, batch.epoch, batch.crc)


class Left(NamedTuple):
    """The contents that a loss of power may leave of a file, as objects; None = no such file."""

    may: tuple[Mapping[str, Any] | None, ...]
    torn: bool  # or a part of one

    @classmethod
    def of(cls, event: Event) -> Left:
        """Read a ``left`` event."""
        return cls(tuple(event["may"]), event["torn"])


class Durable(NamedTuple):
    """The log that a loss of power would leave: where it begins and ends, and what may return."""

    begin: int
    upto: int
    back: tuple[Batch, ...]  # that was cut

    @classmethod
    def of(cls, event: Event) -> Durable:
        """Read a ``durable`` event."""
        return cls(event["begin"], event["upto"], tuple(Batch(*each) for each in event["back"]))


class ReplicaLog:
    """The log of one replica: batches in order, its ends, and how much of it is on disk.

    What lies below ``start`` is in a snapshot, and so committed.
    """

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.start = 0
        self.end: int | None = None  # None = not known
        self.flushed = 0

    @property
    def tail(self) -> Batch | None:
        """The last batch; None when the log is empty or its end is a hole."""
        if self.batches and self.batches[-1].last + 1 == self.end:
            return self.batches[-1]
        return None

    def append(self, batch: Batch) -> None:
        """Add a batch at its place; what lay there or above is gone."""
        if self.end is not None and batch.base < self.end:
            self.truncate(batch.base)
        self.batches.append(batch)
        self.end = batch.last + 1

    def truncate(self, to: int) -> None:
        """Drop everything at or above ``to``."""
        while self.batches and self.batches[-1].last >= to:
            self.batches.pop()
        self.end = to
        self.flushed = min(self.flushed, to)

    def found(self, batches: Iterable[Batch]) -> int | None:
        """A start finds these batches on its disk; tell from which offset on the log was another.

        None: it was not. A loss of power may bring back what was cut, in the place of what was
        written after the cut, and what was never told may lie there, too.
        """
        rest = iter(batches)
        other = next((batch for batch in rest if self.at(batch.base) != batch), None)
        if other is None:
            return None
        while self.batches and self.batches[-1].last >= other.base:
            self.batches.pop()
        self.batches += [other, *rest]
        return other.base

    def begin_at(self, start: int) -> None:
        """Drop everything below ``start``."""
        self.start = start
        del self.batches[: bisect_left(self.batches, (start,))]

    def install(self, end: int) -> None:
        """A snapshot takes the place of the log, which begins and ends after it."""
        self.batches.clear()
        self.start = self.end = self.flushed = end

    def at(self, offset: int) -> Batch | None:
        """The batch that holds the offset."""
        place = self._place(offset)
        if place >= 0:
            batch = self.batches[place]
            if batch.last >= offset:
                return batch
        return None

    def between(self, low: int, high: int) -> Sequence[Batch]:
        """Batches that end in [low, high): wholly below ``high``, not wholly below ``low``."""
        found: list[Batch] = []
        if low >= high:
            return found
        batches = self.batches
        for place in range(max(0, self._place(low)), len(batches)):
            batch = batches[place]
            if batch.last >= high:
                break
            if batch.last >= low:
                found.append(batch)
        return found

    def _place(self, offset: int) -> int:
        """Tell where the last batch stands that begins at the offset or below; -1: there is none.

        Who asks, asks mostly for one of the last two.
        """
        batches = self.batches
        place = len(batches) - 1
        if place < 0 or batches[place].base <= offset:
            return place
        if place and batches[place - 1].base <= offset:
            return place - 1
        return bisect_right(batches, (offset, inf)) - 1

    def knows(self, offset: int) -> bool:
        """Tell whether the trace says what is at the offset, be it that nothing is there."""
        return self.end is not None and (offset >= self.end or self.at(offset) is not None)


class Commits:
    """The commit map C: what the first high watermark to cover an offset found there."""

    def __init__(self) -> None:
        self.end = 0
        self._bases: list[int] = []
        self._found: dict[int, tuple[Batch, Event]] = {}

    def __len__(self) -> int:
        return len(self._bases)

    def __iter__(self) -> Iterator[tuple[Batch, Event]]:
        return (self._found[base] for base in self._bases)

    def add(self, batch: Batch, event: Event) -> None:
        """Define the offsets of a batch, unless some of them are defined already."""
        if self.overlapping(batch) is not None:
            return
        if self._bases and batch.base < self._bases[-1]:
            insort(self._bases, batch.base)
        else:
            self._bases.append(batch.base)
        self._found[batch.base] = batch, event
        self.end = max(self.end, batch.last + 1)

    def since(self, offset: int) -> Iterator[tuple[Batch, Event]]:
        """The committed batches that begin at an offset or above."""
        for place in range(bisect_left(self._bases, offset), len(self._bases)):
            yield self._found[self._bases[place]]

    def overlapping(self, batch: Batch) -> tuple[Batch, Event] | None:
        """A committed batch that shares an offset with this one, and the event that committed it.

        The batch itself, when it is committed.
        """
        exact = self._found.get(batch.base)
        if exact is not None:
            return exact
        if batch.base >= self.end:
            return None
        place = bisect_right(self._bases, batch.last) - 1
        if place >= 0:
            found = self._found[self._bases[place]]
            if found[0].last >= batch.base:
                return found
        return None

    def contradicts(self, batch: Batch) -> bool:
        """Tell whether another batch is committed on one of its offsets."""
        found = self.overlapping(batch)
        return found is not None and found[0] != batch

    def contains(self, batch: Batch) -> bool:
        """Tell whether exactly this batch is committed."""
        found = self._found.get(batch.base)
        return found is not None and found[0] == batch


class Persisted(NamedTuple):
    """The content of ``quorum-state`` on disk."""

    epoch: int
    leader: int | None
    voted: int | None
    voted_dir: str | None

    def names(self, candidate: int, directory: str | None) -> bool:
        """Tell whether the vote is for that candidate; an unknown directory fits any."""
        return self.voted == candidate and same_directory(self.voted_dir, directory)

    def gives_way(self, node: int, leader: int | None) -> bool:
        """Tell whether a node may write the leader in the place of this vote: itself, elected."""
        return leader == node == self.voted

    def __str__(self) -> str:
        voted = "no vote" if self.voted is None else f"a vote for n{self.voted}"
        leader = "no leader" if self.leader is None else f"leader n{self.leader}"
        return f"epoch {self.epoch}, {leader}, {voted}"


def same_directory(one: str | None, other: str | None) -> bool:
    """Tell whether two directory ids do not contradict each other."""
    return one is None or other is None or one == other


def persisted(epoch: int | None, fields: Mapping[str, Any]) -> Persisted:
    """The quorum state in a ``qs`` event or in the ``qs`` of a ``start``."""
    return Persisted(
        0 if epoch is None else epoch,
        fields.get("leader"),
        fields.get("voted"),
        fields.get("voted_dir"),
    )


@dataclass(slots=True)
class Replica:
    """One replica as far as the trace tells; ``known`` is False after a loss of events."""

    id: ReplicaId
    log: ReplicaLog = field(default_factory=ReplicaLog)
    quorum: Persisted | None = None
    incarnation: int = 0
    known: bool = True
    sets: VoterHistory = field(default_factory=VoterHistory)
    snapshots: dict[int, int] = field(default_factory=dict)  # epoch by end offset, on its disk
    hurt: bool = False  # its disk, and it has not heard of a high watermark since
    hwm: int | None = None  # of this incarnation
    hwm_max: int = 0  # of all incarnations
    agreed: int = 0  # its log is in the commit map up to here
    epoch_starts: dict[int, int] = field(default_factory=dict)
    leads: int | None = None  # the epoch that it leads at present
    told: Event | None = None  # its last event so far
    applied: int | None = None  # its state is that of all below; None until it says so
    files: dict[str, Left] = field(default_factory=dict)  # of a simulated disk, by name
    durable: Durable | None = None  # the log there; None until all that a start finds was told
    key: VoterKey = field(init=False)  # as which a quorum counts it
    counted: tuple[object, VoterKeys, VoterKeys] | None = None  # see ``membership.voters_of``

    def __post_init__(self) -> None:
        self.key = VoterKey(*self.id)

    @property
    def voters(self) -> frozenset[int]:
        """Node ids of the voter set in force in its log."""
        return self.sets.nodes

    def begin(self, incarnation: int, *, whole: bool) -> None:
        """A new process runs; what an incomplete trace told of its disk is forgotten."""
        if not self.known:
            self.log, self.quorum, self.agreed = ReplicaLog(), None, 0
            self.sets = VoterHistory()
        self.incarnation, self.known, self.hwm = incarnation, whole, None
        self.files, self.durable = {}, None
        self.leads = self.applied = None


Change = Callable[[Replica, Event], None]


class World:
    """All replicas and the commit map, as they were just before the event being judged."""

    def __init__(self) -> None:
        self.replicas: dict[tuple[int, str], Replica] = {}  # by ReplicaId
        self.commits = Commits()
        self.leader_hwm_max: int | None = None
        self.whole = True  # False once any replica's trace is known to have lost something
        self._now: Event = {}  # the event that is being judged; ``here`` is whose it is
        self.here = Replica(ReplicaId(0, ""))
        self._batch: tuple[Event, Batch] | None = None
        self.asker: tuple[Event | None, VoterKey | None] = None, None  # see ``quorum.asker_of``
        self._current: dict[int, ReplicaId] = {}

    def changes(self) -> Mapping[str, Change]:
        """Say how events change a replica, by type; to be called after they were judged."""
        return {
            "start": _start,
            "disk": _disk,
            "left": _left,
            "durable": _durable,
            "qs": _qs,
            "role": _role,
            "append": self._append,
            "flush": _flush,
            "trunc": _trunc,
            "elected": _elected,
            "snap": _snap,
            "lstart": _lstart,
            "voters": _voters,
            "hwm": self._hwm,
            "apply": self._applied,
        }

    def replica(self, event: Event) -> Replica:
        """The replica that wrote the event."""
        if event is self._now:
            return self.here
        found = self.replicas.get((event["node"], event["dir"]))
        if found is None:
            key = replica_of(event)
            found = self.replicas[key] = Replica(key)
        return found

    def appended(self, event: Event) -> Batch:
        """The batch of an ``append`` event, made once for all who look at it."""
        if self._batch is None or self._batch[0] is not event:
            self._batch = event, appended(event)
        return self._batch[1]

    def current(self, node: int) -> Replica | None:
        """The replica that node is at present (its newest directory)."""
        key = self._current.get(node)
        return None if key is None else self.replicas[key]

    def voter(self, key: VoterKey) -> Replica | None:
        """The replica that a voter's key means; by its node id where the directory is not said."""
        if key.directory is None:
            return self.current(key.node)
        return self.replicas.get(ReplicaId(key.node, key.directory))

    def arrive(self, event: Event, *, blind: bool) -> Replica:
        """Note whose event comes, before it is judged; ``blind``: its disk is not known."""
        replica = self.replicas.get((event["node"], event["dir"]))  # a call costs more
        if replica is None:
            replica = self.replica(event)
        self.here, self._now = replica, event
        if event["inc"] != replica.incarnation:
            self._current[event["node"]] = replica.id
            replica.begin(event["inc"], whole=event["t"] in ("start", "disk"))
        if blind:
            replica.known = self.whole = False
        return replica

    def committed_voters(self) -> VoterKeys | None:
        """The newest voter set that is committed; None while there is none in the log."""
        found = [replica.sets.entry_at(self.commits.end) for replica in self.replicas.values()]
        newest = max((entry for entry in found if entry), key=lambda entry: entry[0], default=None)
        return None if newest is None or newest[0] == NEVER else newest[1]

    def hurt(self) -> frozenset[str]:
        """Name the nodes whose disks were damaged, and which were not back since."""
        return frozenset(
            f"n{node}" for node, key in self._current.items() if self.replicas[key].hurt
        )

    def sees_all(self, nodes: Iterable[int]) -> bool:
        """Tell whether nothing that one of these nodes has told can have escaped the trace."""
        return self.whole and all(node in self._current for node in nodes)

    def _hwm(self, replica: Replica, event: Event) -> None:
        value: int = event["v"]
        replica.hurt = False
        if replica.hwm is None or value > replica.hwm:
            replica.hwm = value
            if value > replica.hwm_max:  # noqa: PLR1730 - a call costs more
                replica.hwm_max = value
        if event["as"] == "leader":
            known = self.leader_hwm_max
            if known is None or value > known:
                self.leader_hwm_max = value
        self._commit(replica, value, event)

    def _append(self, replica: Replica, event: Event) -> None:
        batch = self.appended(event)
        if batch.base < replica.agreed:  # noqa: PLR1730 - as above
            replica.agreed = batch.base
        replica.log.append(batch)

    def _applied(self, replica: Replica, event: Event) -> None:
        replica.applied = event["off"]
        self._commit(replica, event["off"], event)

    def _commit(self, replica: Replica, below: int, event: Event) -> None:
        if not replica.known:
            return
        for batch in replica.log.between(replica.agreed, below):
            self.commits.add(batch, event)
            replica.agreed = batch.last + 1


def _start(replica: Replica, event: Event) -> None:
    log = replica.log
    leo: int = event["leo"]
    if log.end is not None and log.end > leo:
        log.truncate(leo)
    log.begin_at(event["log_start"])
    log.end = leo  # what was appended but not traced before a kill is a hole
    log.flushed = event["flushed"]
    replica.agreed = max(min(replica.agreed, leo), log.start)
    replica.sets.truncate(leo)
    replica.sets.begin(keys_of(event["voters"]) or (), leo)
    replica.snapshots = snapshots_of(event)
    state = event["qs"]
    epoch = state.get("ep")
    if isinstance(epoch, int):
        replica.quorum = persisted(epoch, state)


def _disk(replica: Replica, event: Event) -> None:
    """Somebody damaged the disk: nothing is known of the log, nor of a vote that it has lost."""
    replica.log, replica.agreed, replica.hurt = ReplicaLog(), 0, True
    replica.sets, replica.snapshots = VoterHistory(), {}
    if event["what"] in VOTE_LOST:
        replica.quorum = None


def _left(replica: Replica, event: Event) -> None:
    replica.files[event["file"]] = Left.of(event)


def _durable(replica: Replica, event: Event) -> None:
    if replica.durable is None and replica.known and replica.log.end is not None:
        other = replica.log.found(Batch(*each) for each in event["batches"])
        if other is not None:
            replica.agreed = min(replica.agreed, other)
    replica.durable = Durable.of(event)


def _qs(replica: Replica, event: Event) -> None:
    replica.quorum = persisted(event["ep"], event)


def _role(replica: Replica, event: Event) -> None:
    if event["to"] != "leader":
        replica.leads = None


def _flush(replica: Replica, event: Event) -> None:
    end = replica.log.end
    upto: int = event["upto"]
    replica.log.flushed = upto if end is None else min(upto, end)


def _trunc(replica: Replica, event: Event) -> None:
    replica.agreed = min(replica.agreed, event["to"])
    replica.log.truncate(event["to"])
    replica.sets.truncate(event["to"])


def _elected(replica: Replica, event: Event) -> None:
    replica.epoch_starts[event["ep"]] = event["es"]
    replica.leads = event["ep"]


def _snap(replica: Replica, event: Event) -> None:
    end, epoch = event["id"]
    if event["op"] == "delete":
        replica.snapshots.pop(end, None)
    elif event["op"] in ("freeze", "install"):
        replica.snapshots[end] = epoch
    if event["op"] == "install":
        replica.log.install(end)
        replica.agreed = end
        replica.hwm = max(end, replica.hwm or 0)
        replica.hwm_max = max(end, replica.hwm_max)
        replica.sets.truncate(end)
        keys = keys_of(event.get("voters"))
        if keys is not None:
            replica.sets.add(end - 1, keys)


def _lstart(replica: Replica, event: Event) -> None:
    replica.log.begin_at(event["v"])


def _voters(replica: Replica, event: Event) -> None:
    keys = keys_of(event["set"])
    if keys is not None:
        replica.sets.add(event.get("off"), keys)
