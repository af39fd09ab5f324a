"""The log: appending, reading, truncating, rolling, flushing; recovery of damaged files."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.core.messages import Batch
from node.log.batch import iter_batches
from node.log.disk import DirectoryLockedError, Disk, FileDisk
from node.log.epoch_checkpoint import read_epoch_checkpoint
from node.log.file_log import LOCK_FILE, FileLog, LogError, OffsetOutOfRangeError
from node.log.memory_disk import MemoryDisk
from node.log.recovery import RecoveryError
from tests.support.nodes.batches import batch

DIR = Path("/node")
PARTITION = DIR / "__cluster_metadata-0"
FIRST = PARTITION / "00000000000000000000.log"


def filled(
    disk: Disk, count: int, *, epoch: int = 1, **options: int
) -> tuple[FileLog, list[Batch]]:
    log = FileLog(disk, DIR, **options)
    batches = [batch(i, b"value-%d" % i, epoch=epoch) for i in range(count)]
    for one in batches:
        log.append_as_leader(one.data)
    return log, batches


def overwrite(disk: Disk, path: Path, position: int, data: bytes) -> None:
    file = disk.open(path)
    file.pwrite(position, data)
    file.close()


def test_an_empty_log_starts_at_zero() -> None:
    log = FileLog(MemoryDisk(), DIR)
    assert (log.start_offset, log.end_offset, log.flushed_offset, log.last_epoch) == (0, 0, 0, 0)
    assert log.epoch_entries == ()
    assert log.read(0, 100) == b""
    assert list(log.batches(0)) == []
    assert log.cut is None


@pytest.mark.parametrize("cache_bytes", [0, 300, 1 << 20])
@pytest.mark.parametrize("segment_bytes", [1, 200, 1 << 20])
def test_whatever_is_appended_can_be_read_from_any_offset(
    cache_bytes: int, segment_bytes: int
) -> None:
    log, batches = filled(MemoryDisk(), 12, cache_bytes=cache_bytes, segment_bytes=segment_bytes)
    log.append_batches([batch(12, b"a", b"b", b"c", epoch=2), batch(15, b"d", epoch=2)])
    for offset in range(12):
        assert list(log.batches(offset)) == [*batches[offset:], *log.batches(12)]
        (first, *_) = iter_batches(log.read(offset, 1 << 20))
        assert first == batches[offset]
    inside = list(log.batches(13))
    assert inside[0].base_offset == 12
    assert log.end_offset == 16
    assert log.epoch_entries == ((1, 0), (2, 12))


@pytest.mark.parametrize("cache_bytes", [0, 1 << 20])
def test_a_read_returns_whole_batches_within_the_limit_and_at_least_one(cache_bytes: int) -> None:
    log, batches = filled(MemoryDisk(), 10, cache_bytes=cache_bytes)
    size = len(batches[0].data)
    assert log.read(3, 1) == batches[3].data
    assert log.read(3, size * 2) == batches[3].data + batches[4].data
    assert log.read(3, size * 3 - 1) == batches[3].data + batches[4].data
    assert log.read(9, 1 << 30) == batches[9].data


def test_a_batch_larger_than_the_index_interval_is_found(tmp_path: Path) -> None:
    log = FileLog(FileDisk(), tmp_path, cache_bytes=0)
    values = [b"x" * 50_000, b"y", b"z" * 9_000, b"w"]
    batches = [batch(i, value) for i, value in enumerate(values)]
    log.append_batches(batches)
    for offset in range(4):
        assert list(log.batches(offset)) == batches[offset:]
        assert log.read(offset, 10) == batches[offset].data
    log.close()


@pytest.mark.parametrize("offset", [-1, 4, 100])
def test_reading_outside_of_the_log_is_refused(offset: int) -> None:
    log, _ = filled(MemoryDisk(), 3)
    with pytest.raises(OffsetOutOfRangeError, match="outside of"):
        log.read(offset, 100)


def test_batches_stops_before_a_bound_at_a_batch_boundary() -> None:
    log = FileLog(MemoryDisk(), DIR)
    log.append_batches([batch(0, b"a"), batch(1, b"b", b"c"), batch(3, b"d")])
    assert [b.base_offset for b in log.batches(0, until=3)] == [0, 1]
    assert [b.base_offset for b in log.batches(0, until=2)] == [0]


def test_a_gap_and_a_falling_epoch_are_refused_and_change_nothing() -> None:
    log, batches = filled(MemoryDisk(), 3, epoch=5)
    with pytest.raises(LogError, match="batch begins at 7, the log ends at 3"):
        log.append_batches([batch(7)])
    with pytest.raises(LogError, match="epoch 4"):
        log.append_batches([batch(3, epoch=5), batch(4, epoch=4)])
    assert list(log.batches(0)) == batches


def test_flushed_offset_moves_with_flush_only() -> None:
    log, _ = filled(MemoryDisk(), 3)
    assert log.flushed_offset == 0
    assert log.flush() == 3
    log.append_as_leader(batch(3))
    assert log.flushed_offset == 3


def test_a_flush_under_way_does_not_vouch_for_what_was_truncated_meanwhile() -> None:
    log, _ = filled(MemoryDisk(), 5)
    flush = log.start_flush()
    log.truncate_to(2)
    log.append_batches([batch(2, epoch=2), batch(3, epoch=2), batch(4, epoch=2)])
    flush.run()
    assert log.finish_flush(flush) == 2
    assert log.flush() == 5


def test_a_flush_under_way_survives_that_its_segment_is_dropped(tmp_path: Path) -> None:
    log = FileLog(FileDisk(), tmp_path, segment_bytes=100)
    log.append_batches([batch(i) for i in range(5)])
    flush = log.start_flush()
    log.truncate_to(1)
    flush.run()
    assert log.finish_flush(flush) == 1
    log.close()


def test_flushes_are_finished_in_order() -> None:
    log, _ = filled(MemoryDisk(), 2)
    first = log.start_flush()
    second = log.start_flush()
    with pytest.raises(LogError, match="order"):
        log.finish_flush(second)
    log.finish_flush(first)
    assert log.finish_flush(second) == 2


def test_truncation_lowers_flushed_offset_and_prunes_epochs() -> None:
    disk = MemoryDisk()
    log, batches = filled(disk, 4)
    log.append_batches([batch(4, epoch=3), batch(5, epoch=3)])
    log.flush()
    assert log.truncate_to(4) == 4
    assert log.flushed_offset == 4
    assert log.epoch_entries == ((1, 0),)
    assert read_epoch_checkpoint(disk, PARTITION) == ((1, 0),)
    assert list(log.batches(0)) == batches


def test_truncation_inside_a_batch_drops_all_of_it() -> None:
    log = FileLog(MemoryDisk(), DIR)
    log.append_batches([batch(0), batch(1, b"a", b"b", b"c")])
    assert log.truncate_to(2) == 1
    assert log.end_offset == 1


def test_truncation_at_the_end_does_nothing_and_below_the_start_is_refused() -> None:
    log, batches = filled(MemoryDisk(), 3)
    assert log.truncate_to(3) == 3
    assert log.truncate_to(10) == 3
    assert list(log.batches(0)) == batches
    with pytest.raises(LogError, match="-1"):
        log.truncate_to(-1)


def test_segments_are_named_by_their_first_offset_and_dropped_by_truncation(tmp_path: Path) -> None:
    log = FileLog(FileDisk(), tmp_path, segment_bytes=150)
    log.append_batches([batch(i) for i in range(6)])
    folder = tmp_path / "__cluster_metadata-0"
    names = sorted(path.name for path in folder.glob("*.log"))
    assert names == [f"{base:020d}.log" for base in (0, 2, 4)]
    log.truncate_to(3)
    assert sorted(path.name for path in folder.glob("*.log")) == names[:2]
    assert log.end_offset == 3
    log.close()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("aaaatfr"), st.integers(0, 30)), max_size=40))
def test_any_history_of_appends_truncations_and_restarts_matches_a_list(
    steps: list[tuple[str, int]],
) -> None:
    disk = MemoryDisk()
    log = FileLog(disk, DIR, segment_bytes=260, cache_bytes=200)
    model: list[Batch] = []
    epoch = 1
    for what, number in steps:
        end = model[-1].last_offset + 1 if model else 0
        if what == "a":
            model.append(batch(end, *[b"%d" % number] * (1 + number % 3), epoch=epoch))
            log.append_batches(model[-1:])
        elif what == "t":
            model = [b for b in model if b.last_offset < number]
            log.truncate_to(number)
            epoch += 1
        elif what == "f":
            assert log.flush() == end
        else:
            log.close()
            log = FileLog(disk, DIR, segment_bytes=260, cache_bytes=200)
            assert log.cut is None
        assert list(log.batches(0)) == model
    for expected in model:
        assert log.read(expected.base_offset, 1) == expected.data


# --------------------------------------------------------------------------- files on disk


def test_a_log_reopens_as_it_was_closed(tmp_path: Path) -> None:
    log = FileLog(FileDisk(), tmp_path, segment_bytes=300)
    batches = [batch(i, epoch=1 + i // 4) for i in range(9)]
    log.append_batches(batches)
    log.close()
    again = FileLog(FileDisk(), tmp_path, segment_bytes=300)
    assert list(again.batches(0)) == batches
    assert (again.end_offset, again.flushed_offset, again.last_epoch) == (9, 9, 3)
    assert again.epoch_entries == ((1, 0), (2, 4), (3, 8))
    assert again.cut is None
    again.close()
    text = (tmp_path / "__cluster_metadata-0" / "leader-epoch-checkpoint").read_text()
    assert text == "0\n3\n1 0\n2 4\n3 8\n"


def test_a_damaged_checkpoint_is_rebuilt_from_the_log() -> None:
    disk = MemoryDisk()
    log, _ = filled(disk, 3, epoch=2)
    log.close()
    overwrite(disk, PARTITION / "leader-epoch-checkpoint", 0, b"garbage")
    assert FileLog(disk, DIR).epoch_entries == ((2, 0),)
    assert read_epoch_checkpoint(disk, PARTITION) == ((2, 0),)


def test_one_directory_is_for_one_process(tmp_path: Path) -> None:
    log = FileLog(FileDisk(), tmp_path)
    with pytest.raises(DirectoryLockedError, match="in use by another process"):
        FileLog(FileDisk(), tmp_path)
    log.close()
    FileLog(FileDisk(), tmp_path).close()


def test_a_torn_tail_is_cut_and_reported() -> None:
    disk = MemoryDisk()
    log, batches = filled(disk, 3)
    log.close()
    size = sum(len(b.data) for b in batches)
    file = disk.open(FIRST)
    file.append(batch(3).data[:40])
    log = FileLog(disk, DIR)
    assert log.cut is not None
    assert (log.cut.position, log.cut.offset, log.cut.bytes_cut) == (size, 3, 40)
    assert "00000000000000000000.log" in str(log.cut)
    assert list(log.batches(0)) == batches
    assert file.size() == size


@pytest.mark.parametrize("tail", [b"\0", b"\0" * 4096, b"\xff" * 61, b"garbage" * 30])
def test_any_tail_that_is_no_batch_is_cut(tail: bytes) -> None:
    disk = MemoryDisk()
    log, batches = filled(disk, 2)
    log.close()
    disk.open(FIRST).append(tail)
    log = FileLog(disk, DIR)
    assert list(log.batches(0)) == batches
    assert log.cut is not None
    assert log.cut.bytes_cut == len(tail)


def test_a_flipped_bit_cuts_there_and_drops_later_segments() -> None:
    disk = MemoryDisk()
    log, batches = filled(disk, 8, segment_bytes=150)
    log.close()
    overwrite(disk, PARTITION / f"{2:020d}.log", len(batches[2].data) + 62, b"\xff")
    log = FileLog(disk, DIR, segment_bytes=150)
    assert log.end_offset == 3
    assert log.cut is not None
    assert "CRC" in log.cut.reason
    assert log.cut.dropped_segments == (f"{4:020d}.log", f"{6:020d}.log")
    assert list(log.batches(0)) == batches[:3]
    log.append_as_leader(batch(3, b"new", epoch=2))
    assert log.end_offset == 4


def test_a_batch_that_does_not_follow_is_cut() -> None:
    disk = MemoryDisk()
    log, batches = filled(disk, 2, epoch=5)
    log.close()
    disk.open(FIRST).append(batch(9, epoch=5).data)
    log = FileLog(disk, DIR)
    assert log.cut is not None
    assert "want 2" in log.cut.reason
    log.close()
    disk.open(FIRST).append(batch(2, epoch=4).data)
    log = FileLog(disk, DIR)
    assert log.cut is not None
    assert "epoch 4 after 5" in log.cut.reason
    assert list(log.batches(0)) == batches


def test_a_missing_segment_drops_all_after_it() -> None:
    disk = MemoryDisk()
    log, _ = filled(disk, 8, segment_bytes=150)
    log.close()
    disk.unlink(PARTITION / f"{2:020d}.log")
    log = FileLog(disk, DIR, segment_bytes=150)
    assert log.end_offset == 2
    assert log.cut is not None
    assert "the log ends at 2" in log.cut.reason
    assert len(log.cut.dropped_segments) == 2


def test_a_log_without_its_beginning_is_refused() -> None:
    disk = MemoryDisk()
    log, _ = filled(disk, 8, segment_bytes=150)
    log.close()
    disk.unlink(FIRST)
    with pytest.raises(RecoveryError, match="no snapshot"):
        FileLog(disk, DIR)
    with pytest.raises(RecoveryError):
        FileLog(disk, DIR)  # and the lock was given back


def test_a_file_that_is_no_segment_is_named() -> None:
    disk = MemoryDisk()
    disk.open(PARTITION / "abc.log", create=True)
    with pytest.raises(RecoveryError, match=r"abc\.log"):
        FileLog(disk, DIR)


def test_rot_after_opening_is_found_by_the_reader() -> None:
    disk = MemoryDisk()
    log, batches = filled(disk, 3, cache_bytes=0)
    overwrite(disk, FIRST, len(batches[0].data) + 65, b"\xff\xff")
    with pytest.raises(Exception, match="CRC"):
        list(log.batches(0))


def test_segment_bytes_must_make_sense() -> None:
    with pytest.raises(ValueError, match="segment_bytes=0"):
        FileLog(MemoryDisk(), DIR, segment_bytes=0)


def test_a_log_whose_flush_failed_is_closed_without_another_one() -> None:
    failing, tried = [False], []

    def fail(operation: str, path: Path) -> None:
        if failing[0] and operation == "fsync":
            tried.append(path)
            raise OSError(errno.EIO, "a broken disk")

    disk = MemoryDisk(fail)
    log, _ = filled(disk, 2)
    failing[0] = True
    with pytest.raises(OSError, match="a broken disk"):
        log.flush()
    log.close()
    assert tried == [FIRST]
    disk.lock(DIR / LOCK_FILE).release()
