"""The disk of a replica in memory: what survives a crash, and what a snapshot holds."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

from node.core import effects as fx
from node.core.epoch_cache import EpochCache
from node.core.messages import Batch, ControlRecords, KRaftVersion, Voters
from node.core.replica import LogState
from node.core.types import ElectionState, OffsetAndEpoch, SnapshotInfo, VoterSet

SNAPSHOT_BYTES = 250
BOOTSTRAP = OffsetAndEpoch(0, 0)
Record = tuple[int, int]  # epoch and fingerprint, the same for all records of a batch


@dataclass(frozen=True)
class Snapshot:
    """A complete snapshot: the records it stands for, and the quorum as of its end."""

    id: OffsetAndEpoch
    records: tuple[Record, ...] = ()
    voters: VoterSet | None = None
    kraft_version: int = 0

    @property
    def data(self) -> bytes:
        """Its file: the id again and again."""
        return (f"{self.id.offset}@{self.id.epoch} " * SNAPSHOT_BYTES)[:SNAPSHOT_BYTES].encode()

    @property
    def info(self) -> SnapshotInfo:
        return SnapshotInfo(self.id, SNAPSHOT_BYTES)

    @property
    def sha(self) -> str:
        """Stands for the digest of the file: equal for equal content."""
        return hashlib.sha256(repr((self.id, self.records)).encode()).hexdigest()


@dataclass
class Disk:
    """The election state, the snapshots, and the log of which the flushed part survives."""

    election: ElectionState = field(default_factory=ElectionState)
    batches: list[Batch] = field(default_factory=list)
    flushed: int = 0
    start: int = 0
    snapshots: dict[OffsetAndEpoch, Snapshot] = field(default_factory=dict)
    partial: tuple[OffsetAndEpoch, bytes] | None = None

    @property
    def end(self) -> int:
        return self.batches[-1].last_offset + 1 if self.batches else self.start

    @property
    def last_epoch(self) -> int:
        if self.batches:
            return self.batches[-1].epoch
        return self.base.id.epoch

    @property
    def base(self) -> Snapshot:
        """The snapshot that the log begins after."""
        found = [s for i, s in self.snapshots.items() if i.offset == self.start]
        assert found or self.start == 0, f"SnapshotAtLogStart: none at {self.start}"
        return found[-1] if found else Snapshot(BOOTSTRAP)

    @property
    def latest(self) -> Snapshot | None:
        return max(self.snapshots.values(), key=lambda s: s.id.offset, default=None)

    def apply(self, effect: fx.Effect, count: Callable[[], int]) -> None:
        """Do what an effect asks of a disk; ``count`` gives the next fingerprint."""
        match effect:
            case fx.PersistElectionState(state):
                self.election = state
            case fx.AppendAsLeader(base, epoch, content):
                controls = content.records if isinstance(content, ControlRecords) else ()
                size = len(controls) if isinstance(content, ControlRecords) else content.count
                last = base + size - 1
                self.append(Batch(base, last, epoch, count(), bool(controls), b"", controls))
            case fx.AppendBatches(batches):
                for batch in batches:
                    self.append(batch)
            case fx.TruncateLog(to):
                self.truncate(to)
            case fx.OpenSnapshot(id_):
                self.partial = id_, b""
            case fx.WriteSnapshot(id_, position, data):
                self.write(id_, position, data)
            case fx.DiscardSnapshot(id_):
                assert self.partial is not None, f"there is no partial {id_}"
                assert self.partial[0] == id_, self.partial
                self.partial = None
            case _:
                pass

    # -------------------------------------------------------------- log

    def append(self, batch: Batch) -> None:
        assert batch.base_offset == self.end, f"append at {batch.base_offset}, end is {self.end}"
        self.batches.append(batch)

    def truncate(self, to: int) -> None:
        while self.batches and self.batches[-1].last_offset >= to:
            batch = self.batches.pop()
            assert batch.base_offset >= to, f"truncation to {to} cuts {batch}"
        self.flushed = min(self.flushed, to)

    def crash(self, keep: int) -> None:
        """Lose what is not flushed; a snapshot beyond the rest takes the log's place."""
        self.truncate(max(self.flushed, keep))
        self.partial = None
        latest = self.latest
        if latest is not None and (latest.id.epoch, latest.id.offset) > (self.last_epoch, self.end):
            self.begin_after(latest)

    def read(self, offset: int, max_bytes: int) -> tuple[Batch, ...]:
        """Whole batches from ``offset`` on: at least one, each counting 100 bytes."""
        assert offset >= self.start, f"read at {offset}, the log begins at {self.start}"
        found = [b for b in self.batches if b.last_offset >= offset]
        return tuple(found[: max(1, max_bytes // 100)])

    def records(self, end: int) -> list[Record]:
        """Every record below ``end``, those of the snapshot before the log included."""
        logged = [
            (batch.epoch, batch.crc)
            for batch in self.batches
            for offset in range(batch.base_offset, batch.last_offset + 1)
            if offset < end
        ]
        return [*self.base.records[:end], *logged]

    def voter_sets(self, end: int | None = None) -> list[tuple[int, VoterSet]]:
        """The voter sets in the log below ``end``, with that of the snapshot before it."""
        base = self.base
        found = [] if base.voters is None else [(self.start - 1, base.voters)]
        for batch in self.batches:
            for offset, record in enumerate(batch.controls, batch.base_offset):
                if isinstance(record, Voters) and (end is None or offset < end):
                    found.append((offset, record.voters))
        return found

    def kraft_versions(self, end: int | None = None) -> list[tuple[int, int]]:
        base = self.base
        found = [(self.start - 1, base.kraft_version)]
        for batch in self.batches:
            for offset, record in enumerate(batch.controls, batch.base_offset):
                if isinstance(record, KRaftVersion) and (end is None or offset < end):
                    found.append((offset, record.level))
        return found

    def state(self) -> LogState:
        cache = EpochCache()
        for batch in self.batches:
            cache.assign(batch.epoch, batch.base_offset)
        return LogState(
            self.start,
            self.end,
            self.flushed,
            cache.entries,
            self.infos,
            tuple(self.voter_sets()),
            tuple(self.kraft_versions()),
        )

    # -------------------------------------------------------------- snapshots

    @property
    def infos(self) -> tuple[SnapshotInfo, ...]:
        return tuple(s.info for s in sorted(self.snapshots.values(), key=lambda s: s.id.offset))

    def freeze(self, end: int) -> Snapshot:
        """Make a snapshot of the log up to ``end``, the end of a batch."""
        voters = self.voter_sets(end)
        made = Snapshot(
            OffsetAndEpoch(end, self.records(end)[-1][0]),
            tuple(self.records(end)),
            voters[-1][1] if voters else None,
            self.kraft_versions(end)[-1][1],
        )
        self.snapshots[made.id] = made
        return made

    def clean(self, start: int) -> None:
        """Begin the log after the snapshot at ``start``; older ones go."""
        self.snapshots = {i: s for i, s in self.snapshots.items() if i.offset >= start}
        self.start = start
        self.batches = [b for b in self.batches if b.base_offset >= start]
        assert self.base.id.offset == start

    def write(self, id_: OffsetAndEpoch, position: int, data: bytes) -> None:
        assert self.partial is not None, f"no partial snapshot to write {id_} to"
        opened, written = self.partial
        assert (opened, len(written)) == (id_, position), (self.partial, id_, position)
        self.partial = opened, written + data

    def install(self, snapshot: Snapshot) -> None:
        """Put the partial snapshot in place and begin the log after it."""
        assert self.partial == (snapshot.id, snapshot.data), f"{snapshot.id} is not whole"
        self.partial = None
        self.begin_after(snapshot)

    def begin_after(self, snapshot: Snapshot) -> None:
        self.snapshots = {snapshot.id: snapshot}
        self.batches = []
        self.start = self.flushed = snapshot.id.offset
