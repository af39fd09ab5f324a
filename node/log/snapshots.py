"""All snapshots of a node: which there are, new ones, old ones to delete, and the bootstrap files.

A node formatted for a dynamic quorum begins with the snapshot (0, 0), which holds its voters and
is never replicated. ``bootstrap.checkpoint`` beside the partition's folder holds the first
metadata records for whoever becomes the first leader.
Source: Kafka's Snapshots, KafkaRaftLog, Formatter, BootstrapDirectory; KIP-630, KIP-778, KIP-853.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from node.core.types import OffsetAndEpoch, SnapshotInfo, VoterSet
from node.log.disk import Disk, read_file, replace_file
from node.log.layout import (
    BOOTSTRAP_SNAPSHOT,
    deleted_name,
    is_leftover,
    partition_dir,
    snapshot_name,
    snapshot_of_name,
)
from node.log.snapshot_files import PartialSnapshot, Place, SnapshotReader, SnapshotWriter
from node.log.snapshot_format import (
    DEFAULT_BATCH_BYTES,
    SnapshotEncoder,
    SnapshotError,
    iter_snapshot,
    snapshot_values,
)

BOOTSTRAP_FILE = "bootstrap.checkpoint"
_DIGEST_BYTES = 1 << 20


class SnapshotNotFoundError(Exception):
    """Raised when a snapshot is asked for that this node does not have (or not any more)."""


class SnapshotStore:
    """The complete snapshots of one partition's folder, oldest first."""

    def __init__(self, disk: Disk, directory: Path) -> None:
        """Look at what there is, without changing it; sizes are from the files."""
        self.writer: type[SnapshotWriter] = SnapshotWriter
        self._disk = disk
        self._dir = directory
        self._sizes: dict[OffsetAndEpoch, int] = {}
        self._timestamps: dict[OffsetAndEpoch, int] = {}
        self._digests: dict[OffsetAndEpoch, str] = {}  # of those made or received since the start
        self._created = 0
        for name in disk.listdir(directory):
            if (snapshot := snapshot_of_name(name)) is not None:
                file = disk.open(directory / name, write=False)
                self._sizes[snapshot] = file.size()
                file.close()

    # ------------------------------------------------------------------ what there is

    @property
    def infos(self) -> tuple[SnapshotInfo, ...]:
        """Id and size in bytes of each, oldest first; the bootstrap snapshot too."""
        sizes = dict(self._sizes)  # a snapshot may be frozen on another thread
        return tuple(SnapshotInfo(s, sizes[s]) for s in sorted(sizes, key=_age))

    @property
    def latest(self) -> OffsetAndEpoch | None:
        """The newest, None when there is none."""
        infos = self.infos
        return infos[-1].id if infos else None

    @property
    def earliest(self) -> OffsetAndEpoch | None:
        """The oldest, None when there is none."""
        infos = self.infos
        return infos[0].id if infos else None

    def __contains__(self, snapshot: object) -> bool:
        return snapshot in self._sizes

    def timestamp_ms(self, snapshot: OffsetAndEpoch) -> int:
        """Read when the last record it covers was appended, in ms since 1970, from its header.

        Raises:
            SnapshotNotFoundError, SnapshotError
        """
        if snapshot not in self._timestamps:
            with self.open(snapshot) as reader:
                self._timestamps[snapshot] = reader.last_contained_log_timestamp_ms
        return self._timestamps[snapshot]

    # ------------------------------------------------------------------ read and write

    def open(self, snapshot: OffsetAndEpoch) -> SnapshotReader:
        """Open for reading; raises SnapshotNotFoundError, SnapshotError."""
        try:
            return SnapshotReader(self._disk, self._dir / snapshot_name(snapshot), snapshot)
        except FileNotFoundError as error:
            raise _not_found(snapshot) from error

    def read_chunk(
        self, snapshot: OffsetAndEpoch, position: int, max_bytes: int
    ) -> tuple[bytes, int]:
        """Raw bytes from ``position``, for FetchSnapshot, and the size of the whole snapshot.

        Nothing when ``position`` is not inside of it. Raises SnapshotNotFoundError.
        """
        if snapshot not in self._sizes:
            raise _not_found(snapshot)
        try:
            file = self._disk.open(self._dir / snapshot_name(snapshot), write=False)
        except FileNotFoundError as error:
            raise _not_found(snapshot) from error
        try:
            size = file.size()
            inside = 0 <= position < size and max_bytes > 0
            return (file.read(position, max_bytes) if inside else b""), size
        finally:
            file.close()

    def sha256(self, snapshot: OffsetAndEpoch) -> str:
        """The SHA-256 of the whole file, in hex: equal on all nodes that have one of that id.

        Raises:
            SnapshotNotFoundError
        """
        if (known := self._digests.get(snapshot)) is not None:
            return known
        digest, position = hashlib.sha256(), 0
        while chunk := self.read_chunk(snapshot, position, _DIGEST_BYTES)[0]:
            digest.update(chunk)
            position += len(chunk)
        return digest.hexdigest()

    def create(
        self,
        snapshot: OffsetAndEpoch,
        *,
        last_contained_log_timestamp_ms: int,
        kraft_version: int = 0,
        voters: VoterSet | None = None,
        batch_bytes: int = DEFAULT_BATCH_BYTES,
    ) -> SnapshotWriter:
        """Begin a snapshot; it is in the store once frozen. ``FileLog.create_snapshot`` checks."""
        return self.writer(
            self._place(),
            snapshot,
            last_contained_log_timestamp_ms=last_contained_log_timestamp_ms,
            kraft_version=kraft_version,
            voters=voters,
            batch_bytes=batch_bytes,
        )

    def open_partial(self, snapshot: OffsetAndEpoch) -> PartialSnapshot:
        """Begin to receive a snapshot; it is in the store once installed."""
        return PartialSnapshot(self._place(), snapshot)

    # ------------------------------------------------------------------ delete

    def delete_before(self, snapshot: OffsetAndEpoch) -> tuple[OffsetAndEpoch, ...]:
        """Delete all that are older than ``snapshot``, durably; returns which."""
        return self._delete([info.id for info in self.infos if _age(info.id) < _age(snapshot)])

    def clean_up(self, log_start: int) -> tuple[OffsetAndEpoch, ...]:
        """At a start, remove leftovers and snapshots below the log's start; return their ids."""
        leftovers = [name for name in self._disk.listdir(self._dir) if is_leftover(name)]
        for name in leftovers:
            self._disk.unlink(self._dir / name)
        if leftovers:
            self._disk.fsync_dir(self._dir)
        return self._delete([info.id for info in self.infos if info.id.offset < log_start])

    def _delete(self, snapshots: list[OffsetAndEpoch]) -> tuple[OffsetAndEpoch, ...]:
        """First the names, so that half of them is never mistaken for one; then the files."""
        for snapshot in snapshots:
            del self._sizes[snapshot]
            self._timestamps.pop(snapshot, None)
            self._digests.pop(snapshot, None)
            source = self._dir / snapshot_name(snapshot)
            self._disk.rename(source, self._dir / deleted_name(snapshot))
        if snapshots:
            self._disk.fsync_dir(self._dir)
        for snapshot in snapshots:
            self._disk.unlink(self._dir / deleted_name(snapshot))
        return tuple(snapshots)

    # ------------------------------------------------------------------ inside

    def _add(self, info: SnapshotInfo, sha256: str) -> None:
        self._sizes[info.id] = info.size
        self._digests[info.id] = sha256

    def _place(self) -> Place:
        self._created += 1  # leftovers of earlier processes are gone, so counting is enough
        return Place(self._disk, self._dir, str(self._created), self._add)


# --------------------------------------------------------------------------- bootstrap files


def write_bootstrap_snapshot(
    disk: Disk,
    log_dir: Path,
    voters: VoterSet | None,
    *,
    timestamp_ms: int,
    kraft_version: int = 1,
    values: Iterable[bytes] = (),
) -> SnapshotInfo:
    """Make the snapshot (0, 0) of a directory being formatted for a dynamic quorum.

    ``voters`` is None for a node that is to find its quorum (``--no-initial-controllers``).
    ``values`` are metadata records, which Kafka puts here from 4.3 on.
    """
    writer = SnapshotWriter(
        Place(disk, partition_dir(log_dir)),
        BOOTSTRAP_SNAPSHOT,
        last_contained_log_timestamp_ms=timestamp_ms,
        kraft_version=kraft_version,
        voters=voters,
    )
    writer.append(values)
    return writer.freeze()


def write_bootstrap_metadata(disk: Disk, log_dir: Path, values: Iterable[bytes]) -> None:
    """Write the first metadata records of a cluster into ``bootstrap.checkpoint``, durably."""
    encoder = SnapshotEncoder(BOOTSTRAP_SNAPSHOT.epoch, 0)
    content = encoder.header() + encoder.add(values) + encoder.footer()
    replace_file(disk, log_dir / BOOTSTRAP_FILE, content)


def read_bootstrap_metadata(disk: Disk, log_dir: Path) -> tuple[bytes, ...] | None:
    """The record values in ``bootstrap.checkpoint``, None without that file.

    Raises:
        SnapshotError: The file is damaged.
    """
    content = read_file(disk, log_dir / BOOTSTRAP_FILE)
    if content is None:
        return None

    def read(position: int, size: int) -> bytes:
        return content[position : position + size]

    batches = iter_snapshot(BOOTSTRAP_SNAPSHOT, read, len(content))
    return tuple(v for batch in batches for v in snapshot_values(BOOTSTRAP_SNAPSHOT, batch))


def _age(snapshot: OffsetAndEpoch) -> tuple[int, int]:
    return snapshot.epoch, snapshot.offset


def _not_found(snapshot: OffsetAndEpoch) -> SnapshotNotFoundError:
    return SnapshotNotFoundError(
        f"there is no snapshot at offset {snapshot.offset}, epoch {snapshot.epoch}"
    )


__all__ = [
    "BOOTSTRAP_FILE",
    "BOOTSTRAP_SNAPSHOT",
    "PartialSnapshot",
    "SnapshotError",
    "SnapshotNotFoundError",
    "SnapshotReader",
    "SnapshotStore",
    "SnapshotWriter",
    "read_bootstrap_metadata",
    "write_bootstrap_metadata",
    "write_bootstrap_snapshot",
]
