"""Snapshot files: Kafka's form, written and received in pieces, whole or refused."""

from __future__ import annotations

import hashlib
from itertools import pairwise
from pathlib import Path
from uuid import UUID

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.records.readers import read_batch

from node.core.messages import Batch
from node.core.types import (
    Endpoint,
    Listener,
    OffsetAndEpoch,
    ReplicaKey,
    SnapshotInfo,
    VersionRange,
    Voter,
    VoterSet,
)
from node.log import snapshot_files
from node.log.batch import decode_records, encode_batch, iter_batches
from node.log.control.records import SnapshotFooter, SnapshotHeader, encode_control
from node.log.disk import Disk, FileDisk, read_file
from node.log.memory_disk import MemoryDisk
from node.log.snapshot_files import SnapshotUseError
from node.log.snapshot_format import (
    SnapshotEncoder,
    SnapshotError,
    iter_snapshot,
    snapshot_values,
)
from node.log.snapshots import (
    BOOTSTRAP_SNAPSHOT,
    SnapshotNotFoundError,
    SnapshotStore,
    read_bootstrap_metadata,
    write_bootstrap_metadata,
    write_bootstrap_snapshot,
)

DIR = Path("/node")
PARTITION = DIR / "__cluster_metadata-0"
ID = OffsetAndEpoch(42, 3)
NAME = "00000000000000000042-0000000003.checkpoint"
LISTENER = Listener("CONTROLLER", Endpoint("h1", 9093))
VOTERS = VoterSet.of(
    Voter(ReplicaKey(1, UUID(int=9)), LISTENER.endpoint, (LISTENER,), VersionRange(0, 1))
)
VALUES = [b"record-%d" % i for i in range(30)]


def frozen(
    store: SnapshotStore, snapshot: OffsetAndEpoch = ID, values: list[bytes] = VALUES
) -> SnapshotInfo:
    writer = store.create(
        snapshot, last_contained_log_timestamp_ms=1234, kraft_version=1, voters=VOTERS
    )
    writer.append(values)
    return writer.freeze()


def read_whole(store: SnapshotStore) -> bytes:
    return store.read_chunk(ID, 0, 1 << 30)[0]


def raw(disk: Disk, name: str = NAME) -> bytes:
    data = read_file(disk, PARTITION / name)
    assert data is not None
    return data


# --------------------------------------------------------------------------- the form


def test_header_then_data_then_footer_with_offsets_from_zero_and_the_snapshots_epoch() -> None:
    disk = MemoryDisk()
    info = frozen(SnapshotStore(disk, PARTITION))
    data = raw(disk)
    assert info == SnapshotInfo(ID, len(data))
    batches = list(iter_batches(data))
    assert [(b.base_offset, b.last_offset, b.epoch, b.is_control) for b in batches] == [
        (0, 2, 3, True),
        (3, 32, 3, False),
        (33, 33, 3, True),
    ]
    keys = [[key for _, key, _ in decode_records(b)] for b in (batches[0], batches[2])]
    assert keys == [[b"\0\0\0\3", b"\0\0\0\5", b"\0\0\0\6"], [b"\0\0\0\4"]]
    assert [value for _, _, value in decode_records(batches[1])] == VALUES


def test_kio_reads_what_we_write() -> None:
    disk = MemoryDisk()
    frozen(SnapshotStore(disk, PARTITION))
    data, position, count = raw(disk), 0, 0
    while position < len(data):
        theirs, size = read_batch(data, position)
        assert theirs.partition_leader_epoch == 3
        assert theirs.base_timestamp == 1234
        position, count = position + size, count + 1
    assert count == 3


def test_before_kraft_version_1_there_is_the_header_only() -> None:
    disk = MemoryDisk()
    store = SnapshotStore(disk, PARTITION)
    store.create(ID, last_contained_log_timestamp_ms=7).freeze()
    first, last = iter_batches(raw(disk))
    assert len(decode_records(first)) == len(decode_records(last)) == 1
    with store.open(ID) as reader:
        assert (reader.kraft_version, reader.voters) == (0, None)
        assert reader.last_contained_log_timestamp_ms == 7
    with pytest.raises(ValueError, match=r"kraft\.version 0"):
        store.create(ID, last_contained_log_timestamp_ms=7, voters=VOTERS)


@given(
    st.lists(st.binary(max_size=60), max_size=40),
    st.lists(st.integers(0, 40)),
    st.integers(62, 400),
)
def test_equal_states_give_equal_bytes_however_they_are_handed_in(
    values: list[bytes], cuts: list[int], batch_bytes: int
) -> None:
    whole = SnapshotEncoder(5, 99, batch_bytes=batch_bytes)
    want = whole.header() + whole.add(values) + whole.footer()
    pieces = SnapshotEncoder(5, 99, batch_bytes=batch_bytes)
    got = pieces.header()
    bounds = [0, *sorted(min(c, len(values)) for c in cuts), len(values)]
    for low, high in pairwise(bounds):
        got += pieces.add(values[low:high])
    got += pieces.footer()
    assert got == want
    batches = list(iter_snapshot(ID, lambda at, n: got[at : at + n], len(got)))
    assert [v for b in batches if not b.is_control for _, _, v in decode_records(b)] == values
    longest = max(map(len, values), default=0)
    data = [b for b in batches if not b.is_control]
    assert all(len(b.data) <= max(batch_bytes, 61 + 20 + longest) for b in data)


def test_a_record_that_fits_no_batch_is_refused() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        SnapshotEncoder(1, 1).add([b"x" * (8 << 20)])
    with pytest.raises(ValueError, match="batch_bytes"):
        SnapshotEncoder(1, 1, batch_bytes=9 << 20)


# --------------------------------------------------------------------------- writing


def test_until_frozen_there_is_a_part_file_and_afterwards_a_read_only_one(tmp_path: Path) -> None:
    disk = FileDisk()
    store = SnapshotStore(disk, tmp_path)
    writer = store.create(ID, last_contained_log_timestamp_ms=1)
    writer.append(VALUES)
    (part,) = disk.listdir(tmp_path)
    assert part == "00000000000000000042-0000000003-1.checkpoint.part"
    assert ID not in store
    writer.freeze()
    assert disk.listdir(tmp_path) == [NAME]
    assert ID in store
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o444
    with store.open(ID) as reader:
        assert list(reader.values()) == VALUES
    assert SnapshotStore(disk, tmp_path).infos == store.infos


def test_what_is_aborted_is_gone_and_what_is_frozen_cannot_be() -> None:
    disk = MemoryDisk()
    store = SnapshotStore(disk, PARTITION)
    writer = store.create(ID, last_contained_log_timestamp_ms=1)
    writer.append(VALUES)
    writer.abort()
    writer.abort()
    assert disk.listdir(PARTITION) == []
    done = store.create(ID, last_contained_log_timestamp_ms=1)
    done.freeze()
    done.abort()
    assert disk.listdir(PARTITION) == [NAME]
    for use in (lambda: done.append([b"x"]), done.freeze, lambda: writer.append([])):
        with pytest.raises(SnapshotUseError):
            use()


def test_two_writers_of_one_id_do_not_meet() -> None:
    store = SnapshotStore(MemoryDisk(), PARTITION)
    one = store.create(ID, last_contained_log_timestamp_ms=1)
    two = store.create(ID, last_contained_log_timestamp_ms=1)
    one.append([b"1"])
    two.append([b"2"])
    one.freeze()
    two.abort()
    with store.open(ID) as reader:
        assert list(reader.values()) == [b"1"]


# --------------------------------------------------------------------------- receiving


@pytest.mark.parametrize("chunk", [1, 7, 100, 1 << 20])
def test_a_snapshot_travels_in_chunks_of_any_size(chunk: int) -> None:
    leader, follower = (SnapshotStore(MemoryDisk(), PARTITION) for _ in range(2))
    frozen(leader)
    partial = follower.open_partial(ID)
    size = leader.infos[0].size
    while partial.size < size:
        data, whole = leader.read_chunk(ID, partial.size, chunk)
        assert whole == size
        assert 0 < len(data) <= chunk
        partial.write(partial.size, data)
    assert partial.install() == leader.infos[0]
    assert follower.infos == leader.infos
    with follower.open(ID) as reader:
        assert reader.voters == VOTERS
        assert reader.kraft_version == 1
        assert list(reader.values()) == VALUES


@pytest.mark.parametrize("chunk", [1, 100, 1 << 20])
def test_a_snapshot_is_checked_as_it_comes_so_that_its_end_is_no_long_silence(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader, follower = (SnapshotStore(MemoryDisk(), PARTITION) for _ in range(2))
    info = frozen(leader, values=VALUES * 10)
    checked: list[int] = []

    def values(snapshot: OffsetAndEpoch, batch: Batch) -> list[bytes]:
        checked.append(batch.base_offset)
        return snapshot_values(snapshot, batch)

    monkeypatch.setattr(snapshot_files, "snapshot_values", values)
    partial = follower.open_partial(ID)
    while partial.size < info.size:
        partial.write(partial.size, leader.read_chunk(ID, partial.size, chunk)[0])
    before = list(checked)
    assert before == [batch.base_offset for batch in iter_batches(read_whole(leader))]
    partial.install()
    assert checked == before


@pytest.mark.parametrize("at", [70, -10])
def test_damage_is_told_at_the_end_and_not_before(at: int) -> None:
    data = bytearray(WHOLE)
    data[at] ^= 1
    store = SnapshotStore(MemoryDisk(), PARTITION)
    partial = store.open_partial(ID)
    for position in range(0, len(data), 10):
        partial.write(position, bytes(data[position : position + 10]))
    for _ in range(2):
        with pytest.raises(SnapshotError, match="CRC"):
            partial.install()
    assert ID not in store


def test_the_digest_is_that_of_the_file_whoever_wrote_it() -> None:
    disk, other = MemoryDisk(), MemoryDisk()
    made, received = SnapshotStore(disk, PARTITION), SnapshotStore(other, PARTITION)
    frozen(made)
    partial = received.open_partial(ID)
    for position in range(0, len(raw(disk)), 50):
        partial.write(position, made.read_chunk(ID, position, 50)[0])
    partial.install()
    want = hashlib.sha256(raw(disk)).hexdigest()
    assert [s.sha256(ID) for s in (made, received, SnapshotStore(disk, PARTITION))] == [want] * 3
    made.delete_before(OffsetAndEpoch(43, 3))
    with pytest.raises(SnapshotNotFoundError):
        made.sha256(ID)


def test_chunks_are_taken_in_order_only() -> None:
    partial = SnapshotStore(MemoryDisk(), PARTITION).open_partial(ID)
    partial.write(0, b"abc")
    for position in (0, 2, 4, -1):
        with pytest.raises(SnapshotUseError):
            partial.write(position, b"x")
    assert partial.size == 3


@pytest.mark.parametrize("position", [-1, 10**6])
def test_a_chunk_outside_of_the_snapshot_is_empty(position: int) -> None:
    store = SnapshotStore(MemoryDisk(), PARTITION)
    info = frozen(store)
    assert store.read_chunk(ID, position, 10) == (b"", info.size)
    assert store.read_chunk(ID, info.size, 10) == (b"", info.size)


def test_what_was_never_there_or_is_deleted_is_not_found() -> None:
    store = SnapshotStore(MemoryDisk(), PARTITION)
    frozen(store)
    frozen(store, OffsetAndEpoch(50, 3))
    store.delete_before(OffsetAndEpoch(50, 3))
    for missing in (ID, OffsetAndEpoch(50, 4)):
        with pytest.raises(SnapshotNotFoundError):
            store.read_chunk(missing, 0, 10)
        with pytest.raises(SnapshotNotFoundError):
            store.open(missing)


def _whole() -> bytes:
    disk = MemoryDisk()
    frozen(SnapshotStore(disk, PARTITION), values=[b"one", b"two"])
    return raw(disk)


WHOLE = _whole()


def test_a_snapshot_cut_short_anywhere_is_refused() -> None:
    for size in range(len(WHOLE)):
        disk = MemoryDisk()
        store = SnapshotStore(disk, PARTITION)
        partial = store.open_partial(ID)
        partial.write(0, WHOLE[:size])
        with pytest.raises(SnapshotError):
            partial.install()
        assert ID not in store, size
        partial.discard()
        partial.discard()
        assert disk.listdir(PARTITION) == []


# Offset, epoch and CRC lie before what the CRC covers; the epoch is the one that nothing checks.
EPOCHS = {
    at + i for at in (WHOLE.index(b.data) for b in iter_batches(WHOLE)) for i in range(12, 16)
}


@settings(max_examples=200)
@given(st.integers(0, len(WHOLE) - 1).filter(lambda at: at not in EPOCHS), st.integers(1, 255))
def test_a_snapshot_with_any_byte_changed_is_refused(position: int, flip: int) -> None:
    data = bytearray(WHOLE)
    data[position] ^= flip
    with pytest.raises(SnapshotError):
        list(iter_snapshot(ID, lambda at, n: bytes(data[at : at + n]), len(data)))


def _batch(base: int, *records: tuple[bytes | None, bytes | None], control: bool) -> bytes:
    return encode_batch(base, 3, records, control=control, timestamp_ms=1)


HEADER = _batch(0, encode_control(SnapshotHeader(1)), control=True)
FOOTER = encode_control(SnapshotFooter())


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no footer"),
        (HEADER, "no footer"),
        (_batch(0, FOOTER, control=True), "begin with a header"),
        (_batch(0, (None, b"x"), control=False) + _batch(1, FOOTER, control=True), "header"),
        (HEADER + _batch(2, FOOTER, control=True), "want 1"),
        (HEADER + _batch(0, FOOTER, control=True), "want 1"),
        (HEADER + _batch(1, FOOTER, control=True) * 2, "after the footer"),
        (HEADER + _batch(1, FOOTER, control=True) + b"x", "after the footer"),
        (HEADER + _batch(1, (None, FOOTER[1]), control=False), "no footer"),
    ],
)
def test_what_is_no_snapshot_says_why(data: bytes, reason: str) -> None:
    with pytest.raises(SnapshotError, match=reason) as caught:
        list(iter_snapshot(ID, lambda at, n: data[at : at + n], len(data)))
    assert caught.value.snapshot == ID


def test_a_data_batch_that_holds_no_records_is_refused_before_it_is_installed() -> None:
    good = _batch(1, (None, b"0123456789"), control=False)
    lying = bytearray(good)
    lying[61] ^= 0x7E
    lying[17:21] = crc32c(bytes(lying[21:])).to_bytes(4, "big")
    data = HEADER + bytes(lying) + _batch(2, FOOTER, control=True)
    partial = SnapshotStore(MemoryDisk(), PARTITION).open_partial(ID)
    partial.write(0, data)
    with pytest.raises(SnapshotError, match="batch 1"):
        partial.install()


def test_a_snapshot_larger_than_a_read_is_read(tmp_path: Path) -> None:
    store = SnapshotStore(FileDisk(), tmp_path)
    values = [bytes([i]) * 300_000 for i in range(9)] + [b"x" * 3_000_000] + [b"y"]
    frozen(store, values=values)
    with store.open(ID) as reader:
        assert list(reader.values()) == values


# --------------------------------------------------------------------------- the store


def ids(*pairs: tuple[int, int]) -> tuple[OffsetAndEpoch, ...]:
    return tuple(OffsetAndEpoch(*pair) for pair in pairs)


def test_snapshots_are_in_order_of_epoch_then_offset() -> None:
    disk = MemoryDisk()
    store = SnapshotStore(disk, PARTITION)
    assert (store.latest, store.earliest, store.infos) == (None, None, ())
    for snapshot in ids((100, 2), (9, 1), (10, 1), (20, 10)):
        frozen(store, snapshot)
    for one in (store, SnapshotStore(disk, PARTITION)):
        assert tuple(i.id for i in one.infos) == ids((9, 1), (10, 1), (100, 2), (20, 10))
        assert one.earliest == (9, 1)
        assert one.latest == (20, 10)
    assert store.delete_before(OffsetAndEpoch(100, 2)) == ids((9, 1), (10, 1))
    assert tuple(i.id for i in store.infos) == ids((100, 2), (20, 10))
    assert len(disk.listdir(PARTITION)) == 2


def test_the_time_of_a_snapshot_is_in_its_header() -> None:
    disk = MemoryDisk()
    frozen(SnapshotStore(disk, PARTITION))
    store = SnapshotStore(disk, PARTITION)
    assert store.timestamp_ms(ID) == store.timestamp_ms(ID) == 1234
    with pytest.raises(SnapshotNotFoundError):
        store.timestamp_ms(OffsetAndEpoch(1, 1))


def test_a_start_removes_what_is_unfinished_deleted_or_from_before_the_log() -> None:
    disk = MemoryDisk()
    store = SnapshotStore(disk, PARTITION)
    for snapshot in ids((10, 1), (20, 1), (30, 2)):
        frozen(store, snapshot)
    store.create(OffsetAndEpoch(40, 2), last_contained_log_timestamp_ms=1)
    store.open_partial(OffsetAndEpoch(50, 2)).write(0, b"x")
    others = ["quorum-state", "00000000000000000000.log", "notes.checkpoint", "x.checkpoint.part"]
    kafkas = ["00000000000000000030-0000000002-8251.checkpoint.part", NAME + ".deleted"]
    for name in [*others, *kafkas]:
        disk.open(PARTITION / name, create=True)
    again = SnapshotStore(disk, PARTITION)
    assert again.clean_up(20) == ids((10, 1))
    assert disk.listdir(PARTITION) == sorted(
        [
            *others,
            "00000000000000000020-0000000001.checkpoint",
            "00000000000000000030-0000000002.checkpoint",
        ]
    )


# --------------------------------------------------------------------------- bootstrap files


def test_the_bootstrap_snapshot_holds_the_first_voters() -> None:
    disk = MemoryDisk()
    write_bootstrap_snapshot(disk, DIR, VOTERS, timestamp_ms=5)
    name = "00000000000000000000-0000000000.checkpoint"
    assert [b.epoch for b in iter_batches(raw(disk, name))] == [0, 0]
    with SnapshotStore(disk, PARTITION).open(BOOTSTRAP_SNAPSHOT) as reader:
        assert (reader.kraft_version, reader.voters) == (1, VOTERS)
        assert list(reader.values()) == []


def test_a_node_that_is_to_find_its_quorum_begins_with_no_voters() -> None:
    disk = MemoryDisk()
    write_bootstrap_snapshot(disk, DIR, None, timestamp_ms=5, values=[b"feature"])
    with SnapshotStore(disk, PARTITION).open(BOOTSTRAP_SNAPSHOT) as reader:
        assert (reader.kraft_version, reader.voters) == (1, None)
        assert list(reader.values()) == [b"feature"]


def test_bootstrap_metadata_round_trip() -> None:
    disk = MemoryDisk()
    assert read_bootstrap_metadata(disk, DIR) is None
    write_bootstrap_metadata(disk, DIR, [b"one", b"two"])
    assert disk.listdir(DIR) == ["bootstrap.checkpoint"]
    assert read_bootstrap_metadata(disk, DIR) == (b"one", b"two")
    file = disk.open(DIR / "bootstrap.checkpoint")
    file.truncate(file.size() - 1)
    with pytest.raises(SnapshotError):
        read_bootstrap_metadata(disk, DIR)


@pytest.mark.parametrize("received", [False, True])
def test_the_end_of_a_long_snapshot_has_little_left_to_fsync(
    received: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A million partitions are more than a disk takes within an election timeout."""
    monkeypatch.setattr(snapshot_files, "SYNC_BYTES", 1000)
    disk = MemoryDisk()
    synced: list[bool] = []
    monkeypatch.setattr(
        disk, "_before", lambda operation, *_, **__: synced.append(operation == "fsync")
    )
    store = SnapshotStore(disk, PARTITION)
    if received:
        partial = store.open_partial(ID)
        for position in range(0, 5000, 500):
            partial.write(position, bytes(500))
        partial.discard()
        wanted = 5000 // 1000
    else:
        writer = store.create(ID, last_contained_log_timestamp_ms=1, batch_bytes=1500)
        for _ in range(12):
            writer.append([bytes(400)])
        wanted = writer.size // 1000
        assert wanted > 1
        writer.abort()
    assert sum(synced) == wanted
