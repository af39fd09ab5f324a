"""One snapshot as a file: being written, being received, being read.

A file gets its real name only when it is whole and on disk (KAFKA-15312), and is read-only from
then on; until then it is ``.part`` and removed at the next start. Nothing here is shared between
threads, so freezing and installing, which wait for the disk, may run on another one.
Source: Kafka's FileRawSnapshotWriter, FileRawSnapshotReader; KIP-630.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from node.core.messages import Batch
from node.core.types import OffsetAndEpoch, SnapshotInfo, VoterSet
from node.log.disk import Disk, File
from node.log.layout import partial_name, snapshot_name
from node.log.snapshot_format import (
    DEFAULT_BATCH_BYTES,
    SnapshotEncoder,
    SnapshotError,
    SnapshotWalk,
    iter_snapshot,
    iter_values,
    quorum_of,
    snapshot_header,
    snapshot_values,
)

SYNC_BYTES = 4 << 20  # at most so much waits for the fsync at the end


def _nobody(_: SnapshotInfo, __: str) -> None:
    """Do nothing; for snapshots that belong to no store."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a new snapshot: the partition's folder, and who is told when it is complete.

    ``installed`` takes its SHA-256 too, in hex.
    """

    disk: Disk
    directory: Path
    unique: str = "0"  # tells the part files of one id apart
    installed: Callable[[SnapshotInfo, str], None] = _nobody


class SnapshotUseError(Exception):
    """Raised when a snapshot file is used after its end, or not in order."""


class PartFile:
    """A ``.part`` file that becomes a snapshot or nothing."""

    def __init__(self, place: Place, snapshot: OffsetAndEpoch) -> None:
        self.id = snapshot
        self._place = place
        self._part = place.directory / partial_name(snapshot, place.unique)
        self._target = place.directory / snapshot_name(snapshot)
        place.disk.make_dirs(place.directory)
        self._file: File | None = place.disk.open(self._part, create=True)
        self._unsynced_bytes = 0
        self._sha = hashlib.sha256()

    @property
    def file(self) -> File:
        """The open file; raises SnapshotUseError after the end."""
        if self._file is None:
            raise SnapshotUseError(f"the snapshot {self._target} is finished or given up")
        return self._file

    def check_open(self) -> None:
        """Raise SnapshotUseError unless it can still be written."""
        _ = self.file

    def append(self, data: bytes) -> None:
        """Add to the file; now and then wait for the disk, so that the end has not all to do."""
        self.file.append(data)
        self._sha.update(data)
        self._unsynced_bytes += len(data)
        if self._unsynced_bytes >= SYNC_BYTES:
            self.file.fsync()
            self._unsynced_bytes = 0

    def publish(self) -> SnapshotInfo:
        """Make the content durable, then the name; the file is closed."""
        file = self.file
        info = SnapshotInfo(self.id, file.size())
        self.sync()
        file.close()
        self._file = None
        disk = self._place.disk
        disk.make_read_only(self._part)
        disk.rename(self._part, self._target)
        disk.fsync_dir(self._target.parent)
        self._place.installed(info, self._sha.hexdigest())
        return info

    def sync(self) -> None:
        """Make the content durable."""
        self.file.fsync()

    def discard(self) -> None:
        """Close and remove the file, unless it was published or discarded before."""
        if self._file is not None:
            self._file.close()
            self._file = None
            self._place.disk.unlink(self._part)


class SnapshotWriter:
    """Writes the state at ``id`` into a new snapshot. Ends with ``freeze`` or ``abort``."""

    part: type[PartFile] = PartFile

    def __init__(
        self,
        place: Place,
        snapshot: OffsetAndEpoch,
        *,
        last_contained_log_timestamp_ms: int,
        kraft_version: int = 0,
        voters: VoterSet | None = None,
        batch_bytes: int = DEFAULT_BATCH_BYTES,
    ) -> None:
        """Begin a file and write the header.

        ``kraft_version`` and ``voters`` are those in force at the last offset it covers.
        """
        self.id = snapshot
        self._encoder = SnapshotEncoder(
            snapshot.epoch, last_contained_log_timestamp_ms, batch_bytes=batch_bytes
        )
        header = self._encoder.header(kraft_version, voters)
        self._part = self.part(place, snapshot)
        self._part.append(header)

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._part.file.size()

    def append(self, values: Iterable[bytes]) -> None:
        """Add the values of data records, as many or few at a time as one likes."""
        part = self._part
        part.check_open()  # before the encoder takes the values
        if full := self._encoder.add(values):
            part.append(full)

    def freeze(self) -> SnapshotInfo:
        """Write the footer and put the snapshot in its place, durably. Blocks for the disk."""
        self._part.append(self._encoder.footer())
        return self._part.publish()

    def abort(self) -> None:
        """Remove what was written; nothing after ``freeze`` or a first ``abort``."""
        self._part.discard()


class PartialSnapshot:
    """A snapshot being fetched from the leader. Ends with ``install`` or ``discard``.

    It is checked as it comes: a million records at its end would keep the node silent for seconds.
    """

    def __init__(self, place: Place, snapshot: OffsetAndEpoch) -> None:
        self.id = snapshot
        self._part = PartFile(place, snapshot)
        self._walk = SnapshotWalk(snapshot, self._part.file.read)
        self._damage: SnapshotError | None = None

    @property
    def size(self) -> int:
        """Bytes received so far: the position to fetch next."""
        return self._part.file.size()

    def write(self, position: int, data: bytes) -> None:
        """Add what follows; raises SnapshotUseError when ``position`` is not ``size``."""
        file = self._part.file
        if position != file.size():
            raise SnapshotUseError(
                f"bytes for position {position} of {self.id}, which has {file.size()}"
            )
        self._part.append(data)
        self._check(growing=True)

    def install(self) -> SnapshotInfo:
        """Put it in its place, durably, if all of it is there and sound. Blocks for the disk.

        Raises:
            SnapshotError: It is incomplete or damaged; only ``discard`` is left to do.
        """
        self._check(growing=False)
        if self._damage is not None:
            raise self._damage
        self._walk.end(self.size)
        return self._part.publish()

    def _check(self, *, growing: bool) -> None:
        """Look at what was not looked at yet; damage is told at the end."""
        if self._damage is not None:
            return
        try:
            for batch in self._walk.forward(self.size, growing=growing):
                snapshot_values(self.id, batch)
        except SnapshotError as error:
            self._damage = error

    def discard(self) -> None:
        """Remove what was received; nothing after ``install`` or a first ``discard``."""
        self._part.discard()


class SnapshotReader:
    """A complete snapshot open for reading; also a context manager that closes it."""

    def __init__(self, disk: Disk, path: Path, snapshot: OffsetAndEpoch) -> None:
        """Open and read the first batch; raises FileNotFoundError, SnapshotError."""
        self.id = snapshot
        self._file = disk.open(path, write=False)
        self.size = self._file.size()
        try:
            first = next(self.batches())
            header = snapshot_header(snapshot, first)
        except BaseException:
            self.close()
            raise
        self.last_contained_log_timestamp_ms = header.last_contained_log_timestamp_ms
        self.kraft_version, self.voters = quorum_of(first.controls)

    def batches(self) -> Iterator[Batch]:
        """All batches, header and footer with them; raises SnapshotError.

        What was yielded is only to be trusted once the iteration has ended.
        """
        return iter_snapshot(self.id, self._file.read, self.size)

    def values(self) -> Iterator[bytes]:
        """The values of the data records, each decoded when it is taken; raises SnapshotError."""
        for batch in self.batches():
            yield from iter_values(self.id, batch)

    def read_chunk(self, position: int, max_bytes: int) -> bytes:
        """Read up to ``max_bytes`` raw bytes, which may begin and end inside of a batch."""
        return self._file.read(position, max_bytes)

    def close(self) -> None:
        """Release the file."""
        self._file.close()

    def __enter__(self) -> SnapshotReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
