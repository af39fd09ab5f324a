"""Record batches: our bytes are Kafka's, and damage never gets through."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.records.readers import read_batch

from node.log.batch import (
    HEADER_BYTES,
    CorruptBatchError,
    Record,
    decode_records,
    encode_batch,
    encode_record,
    encode_values,
    iter_batches,
    iter_records,
    parse_batch,
    timestamp_ms,
)

RECORDS = st.lists(
    st.tuples(st.none() | st.binary(max_size=80), st.none() | st.binary(max_size=5000)),
    min_size=1,
    max_size=20,
)


@given(RECORDS, st.integers(0, 2**62), st.integers(0, 2**31 - 1), st.booleans())
def test_kio_reads_what_we_write(
    records: list[Record], base: int, epoch: int, control: bool
) -> None:
    if control:  # of a type to come
        records = [(b"\0\0\x7f\xff", value) for _, value in records]
    data = encode_batch(base, epoch, records, control=control, timestamp_ms=1_700_000_000_000)
    theirs, size = read_batch(data, 0)
    assert size == len(data)
    assert (theirs.base_offset, theirs.partition_leader_epoch) == (base, epoch)
    assert theirs.last_offset_delta == len(records) - 1
    assert bool(theirs.attributes & 0x20) == control
    assert [(r.key, r.value) for r in theirs.records] == records
    (ours,) = iter_batches(data)
    assert ours.crc == theirs.crc
    assert decode_records(ours) == [(base + i, k, v) for i, (k, v) in enumerate(records)]


@given(
    st.lists(st.integers(0, 80) | st.integers(8150, 8230) | st.just(70_000), max_size=10),
    st.integers(0, 80) | st.integers(8150, 8230) | st.just(2**21),
)
def test_records_without_keys_are_encoded_as_all_are(sizes: list[int], first: int) -> None:
    values = [bytes([size & 0xFF]) * size for size in sizes]
    want = [encode_record(first + at, None, value) for at, value in enumerate(values)]
    assert encode_values(first, values) == want


def test_a_batch_knows_its_place_and_keeps_its_bytes() -> None:
    data = encode_batch(7, 3, [(None, b"a"), (b"k", None)], control=False, timestamp_ms=1234567)
    (batch,) = iter_batches(data)
    assert (batch.base_offset, batch.last_offset, batch.epoch) == (7, 8, 3)
    assert not batch.is_control
    assert batch.data == data
    assert timestamp_ms(batch) == 1234567


def test_offset_and_epoch_are_outside_the_crc() -> None:
    one = parse_batch(encode_batch(0, 1, [(None, b"v")], control=False, timestamp_ms=5))
    other = parse_batch(encode_batch(9, 4, [(None, b"v")], control=False, timestamp_ms=5))
    assert one.crc == other.crc


def test_every_flipped_bit_in_the_checked_part_is_found() -> None:
    data = encode_batch(0, 1, [(b"k", b"value")], control=False, timestamp_ms=5)
    for position in range(8 + 4 + 4, len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            with pytest.raises(CorruptBatchError):
                list(iter_batches(bytes(damaged)))


def test_damage_is_reported_where_it_is() -> None:
    good = encode_batch(0, 1, [(None, b"v")], control=False, timestamp_ms=5)
    batches = iter_batches(good + good[:-1] + b"\xff")
    next(batches)
    with pytest.raises(CorruptBatchError, match="CRC") as caught:
        next(batches)
    assert caught.value.position == len(good)


@pytest.mark.parametrize("cut", [1, 11, 12, 30, HEADER_BYTES])
def test_a_short_last_batch_is_corrupt_unless_it_may_be_partial(cut: int) -> None:
    good = encode_batch(0, 1, [(None, b"v")], control=False, timestamp_ms=5)
    data = good + good[:cut]
    with pytest.raises(CorruptBatchError):
        list(iter_batches(data))
    assert len(list(iter_batches(data, partial_tail=True))) == 1


@pytest.mark.parametrize("length", [-1, 0, 48, 49, 2**31 - 1])
def test_an_impossible_length_is_corrupt_even_where_a_tail_may_be_partial(length: int) -> None:
    good = encode_batch(0, 1, [(None, b"v")], control=False, timestamp_ms=5)
    damaged = good[:8] + length.to_bytes(4, "big", signed=True) + good[12:]
    with pytest.raises(CorruptBatchError):
        list(iter_batches(damaged, partial_tail=True))


@given(st.binary(max_size=200))
def test_garbage_is_corrupt_or_nothing(data: bytes) -> None:
    if data:
        with pytest.raises(CorruptBatchError):
            list(iter_batches(data))


def test_records_are_decoded_as_they_are_taken() -> None:
    """So a large batch is no long turn; what is wrong with it shows where it is."""
    two: list[Record] = [(None, b"a"), (None, b"b")]
    whole = parse_batch(encode_batch(0, 1, two, control=False, timestamp_ms=5))
    broken = whole.data[:-1] + b"\2"  # the last record has a header
    records = iter_records(replace(whole, data=broken))
    assert next(records) == (0, None, b"a")
    with pytest.raises(CorruptBatchError, match="record 1"):
        next(records)


def test_records_that_lie_about_their_lengths_are_corrupt() -> None:
    batch = parse_batch(encode_batch(0, 1, [(b"k", b"v" * 10)], control=False, timestamp_ms=5))
    for position in range(HEADER_BYTES, HEADER_BYTES + 6):
        data = bytearray(batch.data)
        data[position] ^= 0x7E
        lying = type(batch)(0, 0, 1, batch.crc, False, bytes(data))
        if position in (HEADER_BYTES + 1, HEADER_BYTES + 2, HEADER_BYTES + 5):
            continue  # attributes, timestamp delta and the key's byte: content, not structure
        with pytest.raises(CorruptBatchError):
            decode_records(lying)


VALUE = b"v" * 70  # record: length (2 bytes), attributes, times, delta, no key, length (2), headers
NOT_STRUCTURE = (2, 3)  # attributes, timestamp delta


@pytest.mark.parametrize("at", [0, 1, *NOT_STRUCTURE, 4, 5, 6, 7, -1])
@pytest.mark.parametrize("number", [0, 1])
def test_records_without_keys_that_lie_are_corrupt_too(at: int, number: int) -> None:
    batch = parse_batch(encode_batch(7, 1, [(None, VALUE)] * 2, control=False, timestamp_ms=5))
    size = (len(batch.data) - HEADER_BYTES) // 2
    for flip in (0x02, 0x7E):
        data = bytearray(batch.data)
        data[HEADER_BYTES + number * size + at % size] ^= flip
        lying = type(batch)(7, 8, 1, batch.crc, False, bytes(data))
        if at in NOT_STRUCTURE:
            assert decode_records(lying) == [(7, None, VALUE), (8, None, VALUE)]
            continue
        with pytest.raises(CorruptBatchError):
            decode_records(lying)


@pytest.mark.parametrize("cut", range(1, 20))
def test_records_without_keys_that_are_cut_short_are_corrupt(cut: int) -> None:
    batch = parse_batch(encode_batch(0, 1, [(None, b"0123456789")], control=False, timestamp_ms=5))
    short = type(batch)(0, 0, 1, batch.crc, False, batch.data[:-cut])
    with pytest.raises(CorruptBatchError):
        decode_records(short)


def test_no_records_and_too_many_bytes_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        encode_batch(0, 1, [], control=False, timestamp_ms=5)
    with pytest.raises(ValueError, match="split the operation"):
        encode_batch(0, 1, [(None, b"x" * (8 << 20))], control=False, timestamp_ms=5)
