"""Record batches in Kafka's format v2: encode, check, decode.

Our own and not kio's: kio keeps record timestamps in whole seconds, so what it reads it cannot
write back byte for byte, and a replicated log must. ``baseOffset`` and ``partitionLeaderEpoch``
lie outside the CRC-32C, everything from ``attributes`` on inside. Records of the metadata log are
never compressed, carry no headers and have contiguous offsets.

Source: Kafka's DefaultRecordBatch and DefaultRecord.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from struct import Struct

from crc32c import crc32c

from node.core.messages import Batch
from node.log.control.records import ControlRecordError, decode_controls

MAX_BATCH_BYTES = 8 * 1024 * 1024  # Kafka's KafkaRaftClient.MAX_BATCH_SIZE_BYTES
HEADER_BYTES = 61
_LENGTH_OVERHEAD = 12  # baseOffset and the length itself are not counted in the length field
_CRC_START = 21  # the CRC covers all from here
_MAGIC = 2
_CONTROL = 0x20
_COMPRESSION_MASK = 0x07
_NO_PRODUCER = -1

_PREFIX = Struct(">qiibI")  # baseOffset, length, epoch, magic, crc
_CHECKED = Struct(">hiqqqhii")  # attributes .. record count
_HEADER = Struct(">qiibIhiqqqhii")
_POSITION = Struct(">qi")  # baseOffset, length

Record = tuple[bytes | None, bytes | None]


class CorruptBatchError(Exception):
    """Raised when bytes are not a valid record batch: ``reason``, and ``position`` in the input."""

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(f"corrupt record batch at byte {position}: {reason}")
        self.reason = reason
        self.position = position


def encode_batch(
    base_offset: int,
    epoch: int,
    records: Sequence[Record],
    *,
    control: bool,
    timestamp_ms: int,
) -> bytes:
    """One batch of these (key, value) records, the first at ``base_offset``.

    Raises:
        ValueError: There are no records, or the batch is larger than MAX_BATCH_BYTES.
    """
    return frame_batch(
        base_offset,
        epoch,
        [encode_record(at, key, value) for at, (key, value) in enumerate(records)],
        control=control,
        timestamp_ms=timestamp_ms,
    )


def frame_batch(
    base_offset: int,
    epoch: int,
    encoded: Sequence[bytes],
    *,
    control: bool,
    timestamp_ms: int,
) -> bytes:
    """Encode a batch of records that ``encode_record`` has encoded."""
    count = len(encoded)
    if not count:
        raise ValueError("a batch needs at least one record")
    body = encoded[0] if count == 1 else b"".join(encoded)
    if len(body) + HEADER_BYTES > MAX_BATCH_BYTES:
        raise ValueError(
            f"a batch of {len(body) + HEADER_BYTES} bytes is larger than {MAX_BATCH_BYTES}: "
            "split the operation"
        )
    checked = (
        _CHECKED.pack(
            _CONTROL if control else 0,
            count - 1,
            timestamp_ms,
            timestamp_ms,
            _NO_PRODUCER,
            _NO_PRODUCER,
            _NO_PRODUCER,
            count,
        )
        + body
    )
    length = len(checked) + _CRC_START - _LENGTH_OVERHEAD
    return _PREFIX.pack(base_offset, length, epoch, _MAGIC, crc32c(checked)) + checked


def iter_batches(data: bytes, *, partial_tail: bool = False) -> Iterator[Batch]:
    """The batches in ``data``, each checked for length, magic, count and CRC.

    Args:
        data: Whole batches one after another.
        partial_tail: Stop in silence before a last batch that is cut short, as a Kafka broker
            may send it when a fetch limit falls inside a batch.

    Raises:
        CorruptBatchError: At the first batch that is not valid.
    """
    position = 0
    end = len(data)
    while position < end:
        if partial_tail and end - position < _LENGTH_OVERHEAD:
            return
        size = batch_size(data, position)
        if position + size > end:
            if partial_tail:
                return
            raise CorruptBatchError(
                f"{size} bytes announced, {end - position} bytes there", position
            )
        yield parse_batch(data[position : position + size], position)
        position += size


def verify_batches(data: bytes, base_offset: int) -> None:
    """Check length, CRC and contiguous offsets of whole batches without making objects.

    Raises:
        CorruptBatchError: At the first that is not valid.
    """
    view = memoryview(data)
    position = 0
    while position < len(data):
        end = position + batch_size(data, position)
        if end > len(data):
            raise CorruptBatchError(f"ends at {end}, there are {len(data)} bytes", position)
        base, _, _, _, crc, _, last_delta, *_ = _HEADER.unpack_from(data, position)
        if crc32c(view[position + _CRC_START : end]) != crc:
            raise CorruptBatchError("CRC-32C does not match", position)
        if base != base_offset:
            raise CorruptBatchError(f"begins at offset {base}, want {base_offset}", position)
        base_offset = base + last_delta + 1
        position = end


def batch_size(data: bytes, position: int) -> int:
    """Size in bytes of the batch at ``position``, from its length field.

    Raises:
        CorruptBatchError: The length field is not there or cannot be.
    """
    if len(data) - position < _LENGTH_OVERHEAD:
        raise CorruptBatchError(f"only {len(data) - position} bytes of a header", position)
    size: int = _POSITION.unpack_from(data, position)[1] + _LENGTH_OVERHEAD
    if not HEADER_BYTES < size <= MAX_BATCH_BYTES:
        raise CorruptBatchError(f"impossible batch size {size}", position)
    return size


def parse_batch(data: bytes, position: int = 0) -> Batch:
    """The one batch that ``data`` is, its control records decoded; raises CorruptBatchError.

    ``position`` is only for the error.
    """
    if len(data) < HEADER_BYTES:
        raise CorruptBatchError(f"only {len(data)} bytes of a header", position)
    (base, length, epoch, magic, crc, attributes, last_delta, *_, count) = _HEADER.unpack_from(data)
    if length + _LENGTH_OVERHEAD != len(data):
        raise CorruptBatchError(
            f"length field says {length + _LENGTH_OVERHEAD}, size is {len(data)}", position
        )
    if magic != _MAGIC:
        raise CorruptBatchError(f"magic {magic}, want {_MAGIC}", position)
    if crc32c(memoryview(data)[_CRC_START:]) != crc:
        raise CorruptBatchError(f"CRC-32C does not match {crc:#010x}", position)
    if base < 0 or epoch < 0:
        raise CorruptBatchError(f"negative offset {base} or epoch {epoch}", position)
    if count < 1 or last_delta != count - 1:
        raise CorruptBatchError(f"{count} records cannot end at +{last_delta}", position)
    if attributes & _COMPRESSION_MASK:
        raise CorruptBatchError("compressed batches do not occur in a metadata log", position)
    if not attributes & _CONTROL:
        return Batch(base, base + last_delta, epoch, crc, is_control=False, data=data)
    return _with_controls(
        Batch(base, base + last_delta, epoch, crc, is_control=True, data=data), position
    )


def _with_controls(batch: Batch, position: int) -> Batch:
    try:
        return replace(batch, controls=decode_controls(decode_records(batch)))
    except ControlRecordError as error:
        raise CorruptBatchError(f"control batch: {error}", position) from error
    except CorruptBatchError as error:
        raise CorruptBatchError(f"control batch: {error.reason}", position) from error


def decode_records(batch: Batch) -> list[tuple[int, bytes | None, bytes | None]]:
    """The records of a batch as (offset, key, value).

    Raises:
        CorruptBatchError: The CRC held but the content is not records; position is in the batch.
    """
    return list(iter_records(batch))


def iter_records(batch: Batch) -> Iterator[tuple[int, bytes | None, bytes | None]]:
    """Do as ``decode_records``, each decoded when it is taken; what is wrong shows at its place."""
    data = batch.data
    position = HEADER_BYTES
    try:
        for expected in range(batch.last_offset - batch.base_offset + 1):
            length, position = _read_varint(data, position)
            end = position + length
            head = b"\0\0" + _length(expected) + _NULL
            if data.startswith(head, position):  # as records are nearly always: a short cut
                size, start = _read_varint(data, position + len(head))
                if size >= 0 and start + size == end - 1 and not data[end - 1]:
                    position = end
                    yield batch.base_offset + expected, None, data[start : end - 1]
                    continue
            _, position = _read_varint(data, position + 1)  # skip attributes, timestamp delta
            delta, position = _read_varint(data, position)
            key, position = _read_bytes(data, position)
            value, position = _read_bytes(data, position)
            headers, position = _read_varint(data, position)
            if delta != expected or headers or position != end:
                raise CorruptBatchError(f"malformed record {expected}", position)
            yield batch.base_offset + delta, key, value
    except IndexError:
        raise CorruptBatchError("records run over the end of the batch", position) from None
    if position != len(data):
        raise CorruptBatchError(f"{len(data) - position} bytes after the last record", position)


def timestamp_ms(batch: Batch) -> int:
    """The base timestamp of a batch, in milliseconds since 1970."""
    return int(_HEADER.unpack_from(batch.data)[7])


# --------------------------------------------------------------------------- records


def _varint(value: int) -> bytes:
    """Zigzag varint, as records use it."""
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:  # noqa: PLR2004 - seven bits per byte
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_SMALL = tuple(_varint(n) for n in range(8192))
_NULL = _varint(-1)
_VALUE_OVERHEAD = 4  # of one record without a key: attributes, timestamp delta, no key, no headers
_VALUE_OVERHEAD_MAX = 8  # with its delta and the length of its value


def _length(value: int) -> bytes:
    return _SMALL[value] if value < len(_SMALL) else _varint(value)


def encode_record(delta: int, key: bytes | None, value: bytes | None) -> bytes:
    """One record, the ``delta``-th of its batch, of which the first is 0."""
    body = (
        b"\0\0"  # attributes, timestamp delta
        + _length(delta)
        + (_NULL if key is None else _length(len(key)) + key)
        + (_NULL if value is None else _length(len(value)) + value)
        + b"\0"  # no headers
    )
    return _length(len(body)) + body


def encode_values(first: int, values: Sequence[bytes]) -> list[bytes]:
    """Records without keys, the first of them the ``first``-th of its batch."""
    small, known, join = _SMALL, len(_SMALL), b"".join
    encoded = []
    for delta, value in enumerate(values, first):
        size = len(value)
        if delta >= known or size >= known - _VALUE_OVERHEAD_MAX:
            encoded.append(encode_record(delta, None, value))
            continue
        at, of = small[delta], small[size]
        whole = small[size + len(at) + len(of) + _VALUE_OVERHEAD]
        encoded.append(join((whole, b"\0\0", at, _NULL, of, value, b"\0")))
    return encoded


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    """A zigzag varint and the position after it; IndexError at the end of the data."""
    byte = data[position]
    position += 1
    value = byte & 0x7F
    shift = 7
    while byte & 0x80:
        if shift > 63:  # noqa: PLR2004 - ten bytes hold 64 bits
            raise CorruptBatchError("varint longer than ten bytes", position)
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
    return (value >> 1) ^ -(value & 1), position


def _read_bytes(data: bytes, position: int) -> tuple[bytes | None, int]:
    length, position = _read_varint(data, position)
    if length < 0:
        if length != -1:
            raise CorruptBatchError(f"negative length {length}", position)
        return None, position
    end = position + length
    if end > len(data):
        raise CorruptBatchError("a field runs over the end of the batch", position)
    return data[position:end], end
