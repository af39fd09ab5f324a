"""Makes the bytes of a snapshot and reads them back, without files.

A snapshot is a run of record batches whose offsets begin at 0 and whose epoch is the snapshot's:
a control batch (SnapshotHeader, and from kraft.version 1 on KRaftVersion and KRaftVoters), the
data batches, a control batch with the SnapshotFooter. Batch timestamps are the time of the last
record covered, so that equal states give equal bytes on all nodes; Kafka writes its present time.
Source: Kafka's RecordsSnapshotWriter, RecordsSnapshotReader, BatchAccumulator; KIP-630, KIP-853.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from node.core.messages import Batch, ControlRecord, KRaftVersion, Voters
from node.core.types import OffsetAndEpoch, VoterSet
from node.log.batch import (
    HEADER_BYTES,
    MAX_BATCH_BYTES,
    CorruptBatchError,
    batch_size,
    decode_records,
    encode_record,
    encode_values,
    frame_batch,
    iter_records,
    parse_batch,
)
from node.log.control.records import (
    ControlRecordError,
    SnapshotFooter,
    SnapshotHeader,
    decode_control,
    encode_control,
)

DEFAULT_BATCH_BYTES = 1 << 20
_RECORD_OVERHEAD = 20  # of one record beside its value, at most
_READ_BYTES = 1 << 20

ReadAt = Callable[[int, int], bytes]


class SnapshotError(Exception):
    """Raised when a file is no complete, undamaged snapshot: ``snapshot`` and ``reason``."""

    def __init__(self, snapshot: OffsetAndEpoch, reason: str) -> None:
        super().__init__(
            f"snapshot at offset {snapshot.offset}, epoch {snapshot.epoch} is not usable: {reason}"
        )
        self.snapshot = snapshot
        self.reason = reason


class SnapshotEncoder:
    """Turns the state at one offset into the bytes of its snapshot, piece by piece.

    Where batches end depends on the records alone, not on how they were handed in.
    """

    def __init__(
        self, epoch: int, timestamp_ms: int, *, batch_bytes: int = DEFAULT_BATCH_BYTES
    ) -> None:
        """Prepare for a snapshot of ``epoch`` whose last record was appended at ``timestamp_ms``.

        Raises:
            ValueError: ``batch_bytes`` is not possible.
        """
        if not HEADER_BYTES < batch_bytes <= MAX_BATCH_BYTES:
            raise ValueError(
                f"batch_bytes={batch_bytes}, want {HEADER_BYTES + 1}..{MAX_BATCH_BYTES}"
            )
        self._epoch = epoch
        self._timestamp_ms = timestamp_ms
        self._batch_bytes = batch_bytes
        self._next_offset = 0
        self._pending: list[bytes] = []  # encoded as they come, so that no batch takes long
        self._pending_bytes = HEADER_BYTES

    def header(self, kraft_version: int = 0, voters: VoterSet | None = None) -> bytes:
        """The first batch; raises ValueError for voters that kraft.version 0 cannot hold."""
        if voters is not None and not kraft_version:
            raise ValueError("kraft.version 0 has no voters in its snapshots")
        records = [encode_control(SnapshotHeader(self._timestamp_ms))]
        if kraft_version:
            records.append(encode_control(KRaftVersion(kraft_version)))
        if voters is not None:
            records.append(encode_control(Voters(voters)))
        return self._control(records)

    def add(self, values: Iterable[bytes]) -> bytes:
        """Take in the values of data records; returns the batches that are full by now.

        Raises:
            ValueError: A value does not fit the largest batch.
        """
        full = []
        taken: list[bytes] = []  # of the batch that is pending, not encoded yet
        pending_bytes, most = self._pending_bytes, self._batch_bytes
        for value in values:
            size = len(value) + _RECORD_OVERHEAD
            if pending_bytes + size > most:
                self._pend(taken, pending_bytes)
                if HEADER_BYTES + size > MAX_BATCH_BYTES:
                    raise ValueError(f"a record of {len(value)} bytes does not fit in a batch")
                if self._pending:
                    full.append(self._drain())
                taken, pending_bytes = [], HEADER_BYTES
            taken.append(value)
            pending_bytes += size
        self._pend(taken, pending_bytes)
        return b"".join(full)

    def footer(self) -> bytes:
        """Give the bytes of what is left of the data, and the last batch."""
        rest = self._drain() if self._pending else b""
        return rest + self._control([encode_control(SnapshotFooter())])

    def _pend(self, values: list[bytes], pending_bytes: int) -> None:
        self._pending += encode_values(len(self._pending), values)
        self._pending_bytes = pending_bytes

    def _drain(self) -> bytes:
        data = self._frame(self._pending, control=False)
        self._pending = []
        self._pending_bytes = HEADER_BYTES
        return data

    def _control(self, records: list[tuple[bytes, bytes]]) -> bytes:
        encoded = [encode_record(at, key, value) for at, (key, value) in enumerate(records)]
        return self._frame(encoded, control=True)

    def _frame(self, encoded: list[bytes], *, control: bool) -> bytes:
        data = frame_batch(
            self._next_offset,
            self._epoch,
            encoded,
            control=control,
            timestamp_ms=self._timestamp_ms,
        )
        self._next_offset += len(encoded)
        return data


class SnapshotWalk:
    """Goes through the batches of one snapshot, as far as its bytes have come.

    ``read`` gives the bytes at (position, count).
    """

    def __init__(self, snapshot: OffsetAndEpoch, read: ReadAt) -> None:
        self._snapshot = snapshot
        self._read = read
        self._position = 0  # of the next batch
        self._end = HEADER_BYTES  # so much must be there before it is worth a look
        self._next_offset = 0
        self._footer = False

    def forward(self, size: int, *, growing: bool) -> Iterator[Batch]:
        """The batches of the first ``size`` bytes that were not yielded before.

        ``growing``: the last one may be cut short, the rest of it is still to come.

        Raises:
            SnapshotError: These are not the bytes of a snapshot.
        """
        chunk, chunk_start = b"", 0
        while self._position < size and not (growing and size < self._end):
            position = self._position
            if self._footer:
                raise self._error(f"there is more after the footer, at byte {position}")
            try:
                local = position - chunk_start
                left = len(chunk) - local
                if left < HEADER_BYTES or left < batch_size(chunk, local):
                    chunk, chunk_start, local = _chunk(self._read, position), position, 0
                end = local + batch_size(chunk, local)
                self._end = chunk_start + end
                if growing and size < self._end:
                    return
                batch = parse_batch(chunk[local:end], local)
            except CorruptBatchError as error:
                raise self._error(f"at byte {position}: {error.reason}") from error
            self._pass(batch)
            yield batch

    def end(self, size: int) -> None:
        """Raise SnapshotError unless these ``size`` bytes were all, and a whole snapshot."""
        if not self._footer:
            raise self._error(f"it has no footer after {size} bytes")

    def _pass(self, batch: Batch) -> None:
        snapshot, position = self._snapshot, self._position
        if batch.base_offset != self._next_offset:
            raise self._error(
                f"at byte {position}: batch begins at {batch.base_offset}, want {self._next_offset}"
            )
        if not position:
            snapshot_header(snapshot, batch)
        self._footer = _is_footer(snapshot, batch)
        self._next_offset = batch.last_offset + 1
        self._position += len(batch.data)
        self._end = self._position + HEADER_BYTES

    def _error(self, reason: str) -> SnapshotError:
        return SnapshotError(self._snapshot, reason)


def iter_snapshot(snapshot: OffsetAndEpoch, read: ReadAt, size: int) -> Iterator[Batch]:
    """All batches of a snapshot of ``size`` bytes, the header and the footer with them.

    ``read`` gives the bytes at (position, count). What was yielded is only to be trusted once the
    iteration has ended: the footer comes last.

    Raises:
        SnapshotError: The bytes are no complete, undamaged snapshot.
    """
    walk = SnapshotWalk(snapshot, read)
    yield from walk.forward(size, growing=False)
    walk.end(size)


def snapshot_header(snapshot: OffsetAndEpoch, batch: Batch) -> SnapshotHeader:
    """The header in the first batch of a snapshot; raises SnapshotError when it is not there."""
    found = _first_control(snapshot, batch)
    if not isinstance(found, SnapshotHeader):
        raise SnapshotError(snapshot, "it does not begin with a header")
    return found


def snapshot_values(snapshot: OffsetAndEpoch, batch: Batch) -> list[bytes]:
    """The values of a data batch, nothing for a control batch; raises SnapshotError."""
    return list(iter_values(snapshot, batch))


def iter_values(snapshot: OffsetAndEpoch, batch: Batch) -> Iterator[bytes]:
    """Do as ``snapshot_values``, each decoded when it is taken; what is wrong shows there."""
    if batch.is_control:
        return
    try:
        for _, _, value in iter_records(batch):
            yield value or b""
    except CorruptBatchError as error:
        reason = f"batch {batch.base_offset}: {error.reason}"
        raise SnapshotError(snapshot, reason) from error


def quorum_of(controls: Iterable[ControlRecord]) -> tuple[int, VoterSet | None]:
    """The kraft.version and the voters that these control records leave in force."""
    level, voters = 0, None
    for record in controls:
        if isinstance(record, KRaftVersion):
            level = record.level
        elif isinstance(record, Voters):
            voters = record.voters
    return level, voters


def _chunk(read: ReadAt, position: int) -> bytes:
    """A large piece that holds at least the whole batch at ``position``, if it is there."""
    chunk = read(position, _READ_BYTES)
    size = batch_size(chunk, 0)
    return chunk if size <= len(chunk) else read(position, size)


def _is_footer(snapshot: OffsetAndEpoch, batch: Batch) -> bool:
    return batch.is_control and isinstance(_first_control(snapshot, batch), SnapshotFooter)


def _first_control(snapshot: OffsetAndEpoch, batch: Batch) -> object:
    if not batch.is_control:
        return None
    try:
        _, key, value = decode_records(batch)[0]
        return decode_control(key, value)
    except (ControlRecordError, CorruptBatchError) as error:
        raise SnapshotError(snapshot, f"control batch {batch.base_offset}: {error}") from error
