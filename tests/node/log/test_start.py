"""A log that begins at a snapshot: made, installed, cleaned, and found again at a start."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from node.core.messages import Batch, ControlRecord, KRaftVersion, LeaderChange, Voters
from node.core.types import (
    Endpoint,
    Listener,
    OffsetAndEpoch,
    ReplicaKey,
    VersionRange,
    Voter,
    VoterSet,
)
from node.log.batch import CorruptBatchError, encode_batch, parse_batch
from node.log.cleaning import Retention
from node.log.control.records import encode_control
from node.log.disk import FileDisk
from node.log.epoch_checkpoint import read_epoch_checkpoint
from node.log.file_log import FileLog, LogError, OffsetOutOfRangeError
from node.log.memory_disk import MemoryDisk
from node.log.recovery import RecoveryError
from node.log.snapshot_files import SnapshotReader
from node.log.snapshot_format import SnapshotError
from node.log.snapshots import SnapshotStore, write_bootstrap_snapshot
from tests.support.nodes.batches import batch

DIR = Path("/node")
PARTITION = DIR / "__cluster_metadata-0"
NOW = 1234567  # the time of all batches made by the helper


def voters(*ids: int) -> VoterSet:
    def voter(node: int) -> Voter:
        listener = Listener("C", Endpoint(f"h{node}", 9093))
        key = ReplicaKey(node, UUID(int=node))
        return Voter(key, listener.endpoint, (listener,), VersionRange(0, 1))

    return VoterSet.of(*map(voter, ids))


def control(base: int, epoch: int, *records: ControlRecord) -> Batch:
    encoded = [encode_control(record) for record in records]
    return parse_batch(encode_batch(base, epoch, encoded, control=True, timestamp_ms=NOW))


def opened(disk: MemoryDisk, *, segment_bytes: int = 200, cache_bytes: int = 300) -> FileLog:
    return FileLog(disk, DIR, segment_bytes=segment_bytes, cache_bytes=cache_bytes)


def filled(disk: MemoryDisk, count: int, *, epochs: tuple[int, ...] = (1,)) -> FileLog:
    """A log of ``count`` records per epoch, some three to a segment."""
    log = opened(disk)
    for epoch in epochs:
        for _ in range(count):
            log.append_as_leader(batch(log.end_offset, b"%d" % log.end_offset, epoch=epoch))
    log.flush()
    return log


def snapshot(log: FileLog, offset: int, epoch: int = 1) -> OffsetAndEpoch:
    made = OffsetAndEpoch(offset, epoch)
    writer = log.create_snapshot(made, high_watermark=log.end_offset)
    assert writer is not None
    writer.append([b"state"])
    writer.freeze()
    return made


def received(log: FileLog, made: OffsetAndEpoch, level: int = 1) -> OffsetAndEpoch:
    """Receive a snapshot that another node made."""
    other = SnapshotStore(MemoryDisk(), PARTITION)
    writer = other.create(
        made, last_contained_log_timestamp_ms=7, kraft_version=level, voters=voters(1, 2)
    )
    writer.append([b"theirs"])
    size = writer.freeze().size
    partial = log.snapshots.open_partial(made)
    partial.write(0, other.read_chunk(made, 0, size)[0])
    partial.install()
    return made


def base_offsets(disk: MemoryDisk) -> list[int]:
    return [int(name[:20]) for name in disk.listdir(PARTITION) if name.endswith(".log")]


# --------------------------------------------------------------------------- making one


def test_a_snapshot_is_of_the_time_of_its_last_record_with_the_voters_in_force_there() -> None:
    disk = MemoryDisk()
    log = opened(disk)
    change = LeaderChange(1, (1,), (1,))
    log.append_batches([control(0, 1, change, KRaftVersion(1), Voters(voters(1, 2, 3)))])
    log.append_batches([batch(3), control(4, 1, Voters(voters(1, 2))), batch(5)])
    with log.snapshots.open(snapshot(log, 4)) as early:
        assert (early.kraft_version, early.voters) == (1, voters(1, 2, 3))
        assert early.last_contained_log_timestamp_ms == NOW
    with log.snapshots.open(snapshot(log, 6)) as late:
        assert late.voters == voters(1, 2)


def test_a_static_quorum_has_no_voters_in_its_snapshots() -> None:
    log = filled(MemoryDisk(), 3)
    with log.snapshots.open(snapshot(log, 2)) as reader:
        assert (reader.kraft_version, reader.voters) == (0, None)


def test_no_snapshot_beyond_the_high_watermark_inside_a_batch_or_of_another_epoch() -> None:
    log = opened(MemoryDisk())
    log.append_batches([batch(0, b"a", b"b", b"c"), batch(3, epoch=2), batch(4, epoch=2)])
    cases = [((4, 2), 3, "high watermark"), ((6, 2), 9, "log end")]
    cases += [((2, 1), 5, "inside"), ((4, 1), 5, "epoch 2"), ((3, 2), 5, "epoch 1")]
    for made, high_watermark, reason in cases:
        with pytest.raises(LogError, match=reason):
            log.create_snapshot(OffsetAndEpoch(*made), high_watermark=high_watermark)
    assert log.snapshots.infos == ()
    assert log.create_snapshot(OffsetAndEpoch(5, 2), high_watermark=5) is not None


def test_no_snapshot_that_is_not_newer_than_the_latest() -> None:
    log = filled(MemoryDisk(), 6)
    snapshot(log, 3)
    for offset in (0, 2, 3):
        assert log.create_snapshot(OffsetAndEpoch(offset, 1), high_watermark=6) is None


# --------------------------------------------------------------------------- cleaning


def test_the_log_start_moves_to_a_snapshot_and_whole_segments_below_go() -> None:
    disk = MemoryDisk()
    log = filled(disk, 6, epochs=(1, 2))
    assert base_offsets(disk) == [0, 2, 4, 6, 8, 10]
    first, second = snapshot(log, 3), snapshot(log, 7, 2)
    assert log.advance_start(7) == (first,)
    assert base_offsets(disk) == [6, 8, 10]
    assert (log.start_offset, log.end_offset, log.last_epoch) == (7, 12, 2)
    assert log.epoch_entries == ((2, 7),)
    assert read_epoch_checkpoint(disk, PARTITION) == ((2, 7),)
    assert [info.id for info in log.snapshots.infos] == [second]
    assert [b.base_offset for b in log.batches(7)] == [7, 8, 9, 10, 11]
    assert log.read(8, 1) == batch(8, b"8", epoch=2).data
    for gone in (0, 6):
        with pytest.raises(OffsetOutOfRangeError):
            log.read(gone, 100)
        with pytest.raises(OffsetOutOfRangeError):
            list(log.batches(gone))
    assert log.advance_start(7) == ()
    assert log.advance_start(3) == ()
    log.close()
    again = opened(disk)
    assert (again.start_offset, again.end_offset, again.epoch_entries) == (7, 12, ((2, 7),))
    assert [b.base_offset for b in again.batches(7)] == [7, 8, 9, 10, 11]


def test_an_epoch_that_goes_on_over_the_log_start_is_moved_up_to_it() -> None:
    log = filled(MemoryDisk(), 4, epochs=(1, 2, 3))
    snapshot(log, 6, 2)
    log.advance_start(6)
    assert log.epoch_entries == ((2, 6), (3, 8))


def test_an_epoch_that_begins_at_the_log_start_stands_for_itself() -> None:
    log = filled(MemoryDisk(), 4, epochs=(1, 2))
    snapshot(log, 4)
    log.advance_start(4)
    assert log.epoch_entries == ((2, 4),)
    assert log.truncate_to(4) == 4  # ... and without it the snapshot's is the last epoch
    assert (log.epoch_entries, log.last_epoch) == (((1, 4),), 1)


def test_the_log_begins_at_a_snapshot_of_its_own_or_not_at_all() -> None:
    log = filled(MemoryDisk(), 6)
    received(log, OffsetAndEpoch(9, 1))
    for offset in (3, 9):
        with pytest.raises(LogError, match="cannot begin"):
            log.advance_start(offset)
    assert log.start_offset == 0


def test_cleaning_deletes_by_the_limits_and_tells() -> None:
    disk = MemoryDisk()
    log = filled(disk, 12)
    made = [snapshot(log, offset) for offset in (3, 6, 9)]
    assert log.clean(now_ms=NOW + 10, retention=Retention(1 << 30, 10)) is None
    cleaning = log.clean(now_ms=NOW + 11, retention=Retention(-1, 10))
    assert cleaning is not None
    assert (cleaning.start, cleaning.deleted) == (made[2], (made[0], made[1]))
    assert log.start_offset == 9
    assert [info.id for info in log.snapshots.infos] == [made[2]]
    assert base_offsets(disk) == [8, 10]
    assert log.clean(now_ms=NOW + 99, retention=Retention(0, 0)) is None


def test_nothing_is_truncated_that_a_snapshot_covers() -> None:
    log = filled(MemoryDisk(), 6)
    made = snapshot(log, 3)
    with pytest.raises(LogError, match=str(made.offset)):
        log.truncate_to(2)
    assert log.truncate_to(3) == 3
    log.advance_start(3)
    with pytest.raises(LogError):
        log.truncate_to(2)


# --------------------------------------------------------------------------- install


def test_an_installed_snapshot_takes_the_place_of_the_whole_log() -> None:
    disk = MemoryDisk()
    log = filled(disk, 6)
    snapshot(log, 3)
    made = received(log, OffsetAndEpoch(50, 4))
    log.truncate_fully_to(made)
    state = (log.start_offset, log.end_offset, log.flushed_offset, log.last_epoch)
    assert state == (50, 50, 50, 4)
    assert log.epoch_entries == ((4, 50),)
    assert base_offsets(disk) == [50]
    assert [info.id for info in log.snapshots.infos] == [made]
    assert log.read(50, 100) == b""
    assert log.voter_history() == ((49, voters(1, 2)),)
    assert log.kraft_version_history() == ((49, 1),)
    assert log.truncate_to(50) == 50
    assert log.last_epoch == 4
    log.append_as_leader(batch(50, epoch=5))
    assert log.epoch_entries == ((5, 50),)
    log.close()
    again = opened(disk)
    assert (again.start_offset, again.end_offset, again.last_epoch) == (50, 51, 5)
    assert again.voter_history() == ((49, voters(1, 2)),)
    assert not again.emptied


def test_an_install_reads_only_the_beginning_of_what_was_checked_when_it_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = MemoryDisk()
    log = filled(disk, 6)
    made = OffsetAndEpoch(50, 4)
    writer = log.snapshots.create(made, last_contained_log_timestamp_ms=0, batch_bytes=100)
    writer.append([b"x" * 50] * 20)
    writer.freeze()
    read: list[Batch] = []
    batches = SnapshotReader.batches

    def counted(reader: SnapshotReader) -> Iterator[Batch]:
        for each in batches(reader):
            read.append(each)
            yield each

    monkeypatch.setattr(SnapshotReader, "batches", counted)
    log.truncate_fully_to(made)
    assert (log.start_offset, log.end_offset) == (50, 50)
    assert {each.base_offset for each in read} == {0}  # of 22


def test_a_shorter_snapshot_of_a_later_epoch_replaces_a_log_that_went_astray() -> None:
    log = filled(MemoryDisk(), 6)
    log.truncate_fully_to(received(log, OffsetAndEpoch(4, 2)))
    assert (log.start_offset, log.end_offset, log.flushed_offset) == (4, 4, 4)


def test_a_flush_under_way_counts_nothing_that_an_install_dropped() -> None:
    log = filled(MemoryDisk(), 6)
    log.append_as_leader(batch(6))
    flush = log.start_flush()
    log.truncate_fully_to(received(log, OffsetAndEpoch(4, 2)))
    log.append_as_leader(batch(4, epoch=2))
    flush.run()
    assert log.finish_flush(flush) == 4
    assert log.flush() == 5


@pytest.mark.parametrize("made", [(9, 1), (6, 1), (4, 1), (3, 1)])
def test_a_tail_of_a_later_epoch_gives_way_to_the_snapshot_that_was_committed_instead(
    made: tuple[int, int],
) -> None:
    """A leader that nobody copied wrote it; an earlier one came back and committed its own.

    Kafka 4.1 goes by epoch first and stops (``truncateToLatestSnapshot``). The same at a start
    after a crash in between.
    """
    disk = MemoryDisk()
    log = filled(disk, 2, epochs=(1,))
    log.append_batches([batch(n, epoch=3) for n in range(2, 6)])
    log.flush()
    installed = received(log, OffsetAndEpoch(*made))
    crashed = disk.clone()
    log.truncate_fully_to(installed)
    again = opened(crashed)
    for one in (log, again):
        assert (one.start_offset, one.end_offset, one.last_epoch) == (made[0], *made)
    assert again.emptied


@pytest.mark.parametrize("made", [(6, 1), (3, 1)])
def test_a_snapshot_that_is_in_the_log_already_is_not_installed(made: tuple[int, int]) -> None:
    log = filled(MemoryDisk(), 6)
    with pytest.raises(LogError, match="goes through"):
        log.truncate_fully_to(received(log, OffsetAndEpoch(*made)))
    with pytest.raises(LogError, match="not there"):
        log.truncate_fully_to(OffsetAndEpoch(99, 9))
    assert log.end_offset == 6


def test_an_install_that_a_crash_interrupted_is_finished_at_the_start() -> None:
    disk = MemoryDisk()
    log = filled(disk, 6)
    snapshot(log, 3)
    made = received(log, OffsetAndEpoch(50, 4))
    disk.crash()
    again = opened(disk)
    assert again.emptied
    assert (again.start_offset, again.end_offset, again.last_epoch) == (50, 50, 4)
    assert [info.id for info in again.snapshots.infos] == [made]
    assert base_offsets(disk) == [50]


def test_a_partition_with_nothing_but_a_snapshot_begins_there() -> None:
    disk = MemoryDisk()
    store = SnapshotStore(disk, PARTITION)
    store.create(OffsetAndEpoch(50, 4), last_contained_log_timestamp_ms=1).freeze()
    log = opened(disk)
    assert (log.start_offset, log.end_offset, log.epoch_entries) == (50, 50, ((4, 50),))


def test_damage_before_the_snapshot_costs_the_log_but_not_the_state() -> None:
    disk = MemoryDisk()
    log = filled(disk, 9)
    made = snapshot(log, 7)
    disk.kill()
    disk.open(PARTITION / f"{2:020d}.log").pwrite(70, b"\xff")
    again = opened(disk)
    assert again.cut is not None
    assert again.emptied
    assert (again.start_offset, again.end_offset, again.last_epoch) == (7, 7, 1)
    assert made in again.snapshots


# --------------------------------------------------------------------------- starts


def test_without_the_snapshot_before_its_start_a_log_is_refused() -> None:
    disk = MemoryDisk()
    log = filled(disk, 9)
    made = snapshot(log, 7)
    log.advance_start(7)
    log.close()
    assert made in log.snapshots
    disk.unlink(PARTITION / "00000000000000000007-0000000001.checkpoint")
    names = disk.listdir(PARTITION)
    with pytest.raises(RecoveryError, match=r"starts at offset 6 .* no snapshot"):
        opened(disk)
    SnapshotStore(disk, PARTITION).create(
        OffsetAndEpoch(5, 1), last_contained_log_timestamp_ms=1
    ).freeze()
    with pytest.raises(RecoveryError, match="the latest: 5"):
        opened(disk)
    assert set(names) < set(disk.listdir(PARTITION)), "nothing may be deleted before the check"


@pytest.mark.parametrize("damage", ["empty", "torn", "flipped"])
def test_a_damaged_latest_snapshot_is_fatal(damage: str) -> None:
    disk = MemoryDisk()
    log = filled(disk, 9)
    made = snapshot(log, 7)
    size = log.snapshots.infos[0].size
    log.close()
    path = PARTITION / "00000000000000000007-0000000001.checkpoint"
    content = bytearray(log.snapshots.read_chunk(made, 0, size)[0])
    content[60] ^= 1
    disk.unlink(path)
    file = disk.open(path, create=True)
    file.append({"empty": b"", "torn": bytes(content[:80]), "flipped": bytes(content)}[damage])
    with pytest.raises(RecoveryError, match=r"0000000001\.checkpoint is damaged"):
        opened(disk)
    with contextlib.suppress(SnapshotError):
        pytest.fail(str(SnapshotStore(disk, PARTITION).open(made).last_contained_log_timestamp_ms))


def test_a_start_cleans_up_leftovers() -> None:
    disk = MemoryDisk()
    log = filled(disk, 9)
    snapshot(log, 3)
    log.snapshots.create(OffsetAndEpoch(9, 1), last_contained_log_timestamp_ms=1)
    disk.kill()
    opened(disk)
    assert [n for n in disk.listdir(PARTITION) if "checkpoint" in n and n[0] == "0"] == [
        "00000000000000000003-0000000001.checkpoint"
    ]


# --------------------------------------------------------------------------- who votes


def test_the_history_of_voters_follows_the_log() -> None:
    disk = MemoryDisk()
    write_bootstrap_snapshot(disk, DIR, voters(1, 2, 3), timestamp_ms=5)
    log = opened(disk)
    assert log.voter_history() == ((-1, voters(1, 2, 3)),)
    assert log.kraft_version_history() == ((-1, 1),)
    log.append_batches([control(0, 1, LeaderChange(1, (1, 2, 3), (1, 2))), batch(1)])
    log.append_batches([control(2, 1, Voters(voters(1, 2))), batch(3)])
    log.append_batches([control(4, 1, Voters(voters(1)))])
    want = ((-1, voters(1, 2, 3)), (2, voters(1, 2)), (4, voters(1)))
    assert log.voter_history() == want
    log.flush()
    disk.kill()
    log = opened(disk)
    assert log.voter_history() == want
    log.truncate_to(4)
    assert log.voter_history() == want[:2]
    snapshot(log, 4)
    log.close()
    log = opened(disk)
    assert log.voter_history() == ((3, voters(1, 2)),)
    assert log.kraft_version_history() == ((3, 1),)


def test_cleaning_keeps_the_voters_in_force_at_the_log_start() -> None:
    log = opened(MemoryDisk())
    for i in range(4):
        records = (Voters(voters(*range(1, i + 2))), KRaftVersion(1))
        log.append_batches([control(i * 2, 1, *records)])
    snapshot(log, 4)
    log.advance_start(4)
    assert [offset for offset, _ in log.voter_history()] == [2, 4, 6]
    assert [offset for offset, _ in log.kraft_version_history()] == [3, 5, 7]


# --------------------------------------------------------------------------- rot


@pytest.mark.parametrize("cache_bytes", [0, 300])
@pytest.mark.parametrize("position", [68, 76, 136])  # content, an offset, content
def test_what_rots_on_disk_is_never_served(position: int, cache_bytes: int) -> None:
    disk = MemoryDisk()
    filled(disk, 9).close()
    log = opened(disk, cache_bytes=cache_bytes)
    disk.open(PARTITION / f"{2:020d}.log").pwrite(position, b"\x7f")
    assert log.read(0, 1)
    with pytest.raises(CorruptBatchError):
        log.read(2, 1000)
    with pytest.raises(CorruptBatchError):
        list(log.batches(0))


def test_all_of_it_on_a_real_file_system(tmp_path: Path) -> None:
    disk = FileDisk()
    write_bootstrap_snapshot(disk, tmp_path, voters(1), timestamp_ms=5)
    log = FileLog(disk, tmp_path, segment_bytes=200)
    for offset in range(20):
        log.append_as_leader(batch(offset, b"%d" % offset))
    for offset in (5, 10, 15):
        snapshot(log, offset)
    cleaning = log.clean(now_ms=NOW, retention=Retention(max_bytes=1500, max_ms=-1))
    assert cleaning is not None
    assert log.start_offset == cleaning.start.offset > 0
    log.close()
    log = FileLog(disk, tmp_path, segment_bytes=200)
    assert log.start_offset == cleaning.start.offset
    assert log.voter_history() == ((14, voters(1)),)
    log.truncate_fully_to(received(log, OffsetAndEpoch(40, 2)))
    log.append_as_leader(batch(40, epoch=2))
    log.close()
    log = FileLog(disk, tmp_path)
    assert (log.start_offset, log.end_offset, log.last_epoch) == (40, 41, 2)
    log.close()
