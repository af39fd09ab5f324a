"""A node's log and snapshots as they lie on disk, read without opening (and so recovering) them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from harness.contracts.evidence import LogBatch, LogSnapshot
from node.core.messages import Batch
from node.core.types import OffsetAndEpoch
from node.log.batch import (
    HEADER_BYTES,
    CorruptBatchError,
    batch_size,
    decode_records,
    parse_batch,
)
from node.log.control.records import ControlRecordError, control_to_json
from node.log.disk import Disk, FileDisk, read_file
from node.log.layout import (
    BOOTSTRAP_SNAPSHOT,
    partition_dir,
    segment_base,
    segment_name,
    snapshot_of_name,
)
from node.log.segment import header_offsets
from node.log.snapshot_format import SnapshotError, iter_snapshot, snapshot_values
from node.metadata.records import RecordError, decode_record, to_json

UNREADABLE = "Unreadable"


@runtime_checkable
class Peekable(Protocol):
    """A disk that can be looked at while a node is at work, which notices nothing."""

    def has(self, path: Path) -> bool:
        """Tell whether a file is there."""
        ...

    def sizes(self) -> Mapping[Path, int]:
        """All files and their lengths in bytes, sorted."""
        ...

    def peek(self, path: Path, offset: int, size: int) -> bytes:
        """A part of a file; empty when it is not there, or ends before."""
        ...


@cache  # to look at each disk each time costs as much as to read its newest batch
def is_peekable(disk: type) -> bool:
    """Tell whether disks of a class can be looked at like that."""
    return issubclass(disk, Peekable)


def read_log(
    log_dir: Path, disk: Disk | None = None, known: dict[bytes, LogBatch] | None = None
) -> list[LogBatch]:
    """All batches of all segments in offset order, up to the first that is torn or corrupt.

    ``known`` keeps what was read, for the next replica of the same log: most batches are the same.
    """
    batches: list[LogBatch] = []
    known = {} if known is None else known
    for name, data in _files(disk or FileDisk(), partition_dir(log_dir)):
        if segment_base(name) is not None:
            try:
                batches.extend(_read(batch, known) for batch in _split(data()))
            except CorruptBatchError:
                # a killed node's tail may be torn; what is behind it was never acknowledged by it
                break
    return batches


def read_snapshots(log_dir: Path, disk: Disk | None = None) -> list[LogSnapshot]:
    """All snapshots that bear the name of a complete one, oldest first; not the bootstrap one."""
    found = {
        snapshot_of_name(name): data
        for name, data in _files(disk or FileDisk(), partition_dir(log_dir))
    }
    return [
        _snapshot(id_, found[id_]())
        for id_ in sorted(id_ for id_ in found if id_ is not None)
        if id_ != BOOTSTRAP_SNAPSHOT
    ]


class LogTail:
    """Reads what a running node appends to its log on a simulated disk, batch by batch.

    It goes on where it stopped, so that all readings together are O(bytes of the log).
    """

    def __init__(self, log_dir: Path, known: dict[bytes, LogBatch]) -> None:
        self._dir = partition_dir(log_dir)
        self._known = known
        self._path: Path | None = None  # of the segment where the next batch lies
        self._position, self._next = 0, 0  # its place there, and its offset

    def read(self, disk: Peekable, begin: int, below: int) -> list[LogBatch]:
        """The batches from ``begin`` on that end below ``below``, as far as they are sound."""
        if self._path is None or self._next > begin or not self._stands(disk):
            self._seek(disk, begin)
        found: list[LogBatch] = []
        try:
            found.extend(_read(batch, self._known) for batch in self._batches(disk, begin, below))
        except CorruptBatchError:
            self._path = None  # to be looked for again
        return found

    def _batches(self, disk: Peekable, begin: int, below: int) -> Iterator[bytes]:
        while self._path is not None and self._next < below:
            header = disk.peek(self._path, self._position, HEADER_BYTES)
            if not header:
                rolled = self._dir / segment_name(self._next)
                if rolled == self._path or not disk.peek(rolled, 0, 1):
                    return
                self._path, self._position = rolled, 0
                continue
            if len(header) < HEADER_BYTES:
                return
            size = batch_size(header, 0)
            base, last_delta = header_offsets(header)
            if base != self._next or base + last_delta >= below:
                return
            if base >= begin:
                yield disk.peek(self._path, self._position, size)
            self._position += size
            self._next = base + last_delta + 1

    def _stands(self, disk: Peekable) -> bool:
        """Tell whether the log still goes on, or ends, where it was left: it may have been cut."""
        assert self._path is not None  # noqa: S101 - asked only then
        header = disk.peek(self._path, self._position, HEADER_BYTES)
        if header:
            return len(header) == HEADER_BYTES and header_offsets(header)[0] == self._next
        if self._position == 0:
            return disk.has(self._path)
        return bool(disk.peek(self._path, self._position - 1, 1))

    def _seek(self, disk: Peekable, begin: int) -> None:
        """Go to the beginning of the segment that should have an offset."""
        names = [path.name for path in disk.sizes() if path.parent == self._dir]
        bases = [base for name in names if (base := segment_base(name)) is not None]
        self._position = 0
        self._next = max((base for base in bases if base <= begin), default=-1)
        self._path = None if self._next < 0 else self._dir / segment_name(self._next)


def _files(disk: Disk, folder: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """The names in a folder, sorted, and the way to the content of each."""
    for name in disk.listdir(folder):
        yield name, lambda name=name: read_file(disk, folder / name) or b""  # type: ignore[misc]


def _snapshot(id_: OffsetAndEpoch, data: bytes) -> LogSnapshot:
    try:
        batches = list(iter_snapshot(id_, lambda at, size: data[at : at + size], len(data)))
        values = [value for batch in batches for value in snapshot_values(id_, batch)]
    except SnapshotError as error:
        return LogSnapshot(id_.offset, id_.epoch, (), str(error))
    records = tuple(_record(None, value, control=False) for value in values)
    return LogSnapshot(id_.offset, id_.epoch, records)


def _split(data: bytes) -> Iterator[bytes]:
    """The batches of a segment by their length fields, the last perhaps cut short."""
    position = 0
    while position < len(data):
        size = batch_size(data, position)
        yield data[position : position + size]
        position += size


def _read(data: bytes, known: dict[bytes, LogBatch]) -> LogBatch:
    """Read a batch; one that was read before, from whatever disk, is not checked again."""
    read = known.get(data)
    if read is None:
        read = known[data] = _log_batch(parse_batch(data))
    return read


def _log_batch(batch: Batch) -> LogBatch:
    records = []
    for offset, key, value in decode_records(batch):
        records.append({"offset": offset, **_record(key, value, control=batch.is_control)})
    return LogBatch(
        base=batch.base_offset,
        last=batch.last_offset,
        epoch=batch.epoch,
        crc=batch.crc,
        control=batch.is_control,
        records=tuple(records),
    )


def _record(key: bytes | None, value: bytes | None, *, control: bool) -> Mapping[str, Any]:
    """A record's type and fields; one that cannot be read is told as such, for the checkers."""
    try:
        return control_to_json(key, value) if control else to_json(decode_record(value or b""))
    except (RecordError, ControlRecordError) as error:
        return {"type": UNREADABLE, "fields": {"error": str(error), "value": (value or b"").hex()}}
