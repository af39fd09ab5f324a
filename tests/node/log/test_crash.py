"""Power cuts at every disk operation and in every byte written: promises made before are kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from node.core.messages import Batch, KRaftVersion, LeaderChange, Voters
from node.core.types import (
    ElectionState,
    Endpoint,
    Listener,
    OffsetAndEpoch,
    ReplicaKey,
    VersionRange,
    Voter,
    VoterSet,
)
from node.log.batch import encode_batch, parse_batch
from node.log.cleaning import Retention
from node.log.control.records import encode_control
from node.log.file_log import FileLog
from node.log.layout import is_leftover
from node.log.memory_disk import MemoryDisk, PowerCutError
from node.log.meta_properties import format_directory, load_meta_properties
from node.log.quorum_state import ElectionStateStore
from node.log.snapshots import SnapshotStore, write_bootstrap_snapshot
from tests.support.nodes.batches import batch

DIR = Path("/node")
PARTITION = DIR / "__cluster_metadata-0"
DIRECTORY_ID = UUID(int=7 << 64)
ME = ReplicaKey(1, DIRECTORY_ID)
LISTENER = Listener("C", Endpoint("h", 9093))
VOTERS = VoterSet.of(Voter(ME, LISTENER.endpoint, (LISTENER,), VersionRange(0, 1)))
INSTALLED = OffsetAndEpoch(40, 6)


@dataclass
class Promises:
    """What the node could have told others before the power went."""

    flushed: list[Batch] = field(default_factory=list)  # must be there, or a snapshot for it
    written: list[Batch] = field(default_factory=list)  # may be there, in this order
    states: list[ElectionState | None] = field(default_factory=lambda: [None])  # one of these is
    frozen: OffsetAndEpoch | None = None  # this snapshot or a later one must be there
    snapshots: set[OffsetAndEpoch] = field(default_factory=set)  # no others may be there
    installing: OffsetAndEpoch | None = None  # the log may be this one's, and empty


class Script:
    """A node's storage at work, noting what it may promise."""

    def __init__(self, disk: MemoryDisk, promises: Promises) -> None:
        self.promises = promises
        self.log = FileLog(disk, DIR, segment_bytes=200, cache_bytes=300)
        self.store = ElectionStateStore(disk, DIR)
        self.store.load()

    def append(self, count: int, epoch: int) -> None:
        end = self.log.end_offset
        new = [batch(end + i, b"%d/%d" % (epoch, end + i), epoch=epoch) for i in range(count)]
        self.promises.written += new
        self.log.append_batches(new)

    def elected(self, epoch: int) -> None:
        """The control batch that opens an epoch of a dynamic quorum."""
        records = (LeaderChange(1, (1,), (1,), {1: DIRECTORY_ID}), KRaftVersion(1), Voters(VOTERS))
        encoded = [encode_control(record) for record in records]
        new = parse_batch(
            encode_batch(self.log.end_offset, epoch, encoded, control=True, timestamp_ms=5)
        )
        self.promises.written.append(new)
        self.log.append_batches([new])

    def flush(self) -> None:
        self.log.flush()
        self.promises.flushed = list(self.promises.written)

    def truncate(self, offset: int) -> None:
        self.promises.flushed = [b for b in self.promises.flushed if b.base_offset < offset]
        self.log.truncate_to(offset)
        self.promises.written = [b for b in self.promises.written if b.base_offset < offset]

    def save(self, state: ElectionState, kraft_version: int = 1) -> None:
        self.promises.states.append(state)
        self.store.save(state, kraft_version=kraft_version, voter_ids=(1, 2, 3))
        self.promises.states = [state]

    def snapshot(self, offset: int, epoch: int) -> None:
        made = OffsetAndEpoch(offset, epoch)
        writer = self.log.create_snapshot(made, high_watermark=self.log.flushed_offset)
        assert writer is not None
        for _ in range(2):
            writer.append([b"state"])
        self.promises.snapshots.add(made)
        writer.freeze()
        self.promises.frozen = made

    def give_up_a_snapshot(self) -> None:
        made = OffsetAndEpoch(self.log.end_offset, self.log.last_epoch)
        writer = self.log.create_snapshot(made, high_watermark=self.log.end_offset)
        assert writer is not None
        writer.append([b"state"])
        writer.abort()

    def install(self, made: OffsetAndEpoch) -> None:
        other = SnapshotStore(MemoryDisk(), PARTITION)
        writer = other.create(
            made, last_contained_log_timestamp_ms=7, kraft_version=1, voters=VOTERS
        )
        writer.append([b"theirs"])
        size = writer.freeze().size
        partial = self.log.snapshots.open_partial(made)
        while partial.size < size:
            partial.write(partial.size, other.read_chunk(made, partial.size, 100)[0])
        self.promises.snapshots.add(made)
        self.promises.installing = made
        partial.install()
        self.promises.frozen = made
        self.log.truncate_fully_to(made)
        self.promises.written = []
        self.promises.flushed = []

    def clean(self) -> None:
        assert self.log.clean(now_ms=0, retention=Retention(0, -1)) is not None

    def run(self) -> None:
        """Elections, appends over segments, truncations; snapshots made, cleaned, installed."""
        self.save(ElectionState(1, None, ReplicaKey(1)), kraft_version=0)
        self.save(ElectionState(1, 1, ME))
        self.elected(epoch=1)
        self.append(3, epoch=1)
        self.flush()
        self.append(4, epoch=1)
        self.save(ElectionState(2, None, ReplicaKey(2)))
        self.append(2, epoch=2)
        self.flush()
        self.snapshot(4, epoch=1)
        self.truncate(11)
        self.append(1, epoch=3)
        self.truncate(5)
        self.save(ElectionState(4, 3))
        self.append(5, epoch=4)
        self.flush()
        self.snapshot(8, epoch=4)
        self.give_up_a_snapshot()
        self.clean()
        self.append(2, epoch=4)
        self.save(ElectionState(6, 2))
        self.install(INSTALLED)
        self.append(4, epoch=6)
        self.flush()
        self.snapshot(43, epoch=6)
        self.append(2, epoch=6)
        self.clean()
        self.log.close()


def check(disk: MemoryDisk, promises: Promises, *, go_on: bool = True) -> None:
    log = FileLog(disk, DIR, segment_bytes=200)
    start, latest = log.start_offset, log.snapshots.latest
    found = list(log.batches(start))
    if promises.installing is not None and start >= promises.installing.offset:  # S24
        written = [b for b in promises.written if b.base_offset >= promises.installing.offset]
        flushed = [b for b in promises.flushed if b.base_offset >= promises.installing.offset]
    else:
        written, flushed = promises.written, promises.flushed
    written = [b for b in written if b.base_offset >= start]
    assert found == written[: len(found)]  # S25: a prefix, nothing that was truncated
    assert all(b in found for b in flushed if b.base_offset >= start)  # S16
    ids = [info.id for info in log.snapshots.infos]
    assert set(ids) <= promises.snapshots
    for snapshot in ids:  # complete, and durable since it has its name
        with log.snapshots.open(snapshot) as reader:
            assert list(reader.values())
    assert start == 0 or start in [snapshot.offset for snapshot in ids]  # S23
    if promises.frozen is not None:
        assert latest is not None
        assert latest.offset >= promises.frozen.offset
    assert not [name for name in disk.listdir(PARTITION) if is_leftover(name)]
    assert log.flushed_offset == log.end_offset == (found[-1].last_offset + 1 if found else start)
    assert log.epoch_entries == epochs(found, ids, start)
    assert log.voter_history() == voters(found, latest)
    state = ElectionStateStore(disk, DIR).load()
    assert state in promises.states  # S2, S3, S26: the vote and the reign are remembered
    if go_on:
        # Of the last epoch: a new one would be a checkpoint, and make all names durable.
        new = log.append_as_leader(batch(log.end_offset, b"after", epoch=log.last_epoch or 1))
        log.close()
        promises.flushed = promises.written = [*found, new]
        promises.states = [state]


def epochs(
    found: list[Batch], ids: list[OffsetAndEpoch], start: int
) -> tuple[tuple[int, int], ...]:
    if not found:
        return tuple((s.epoch, start) for s in ids if s.offset == start)
    return tuple(sorted({b.epoch: b.base_offset for b in reversed(found)}.items()))


def voters(found: list[Batch], latest: OffsetAndEpoch | None) -> tuple[tuple[int, VoterSet], ...]:
    begin = latest.offset if latest else 0
    in_snapshot = [(begin - 1, VOTERS)] if latest else []
    in_log = chain.from_iterable(
        enumerate(b.controls, b.base_offset) for b in found if b.base_offset >= begin
    )
    return (*in_snapshot, *((at, c.voters) for at, c in in_log if isinstance(c, Voters)))


def cut_at_every_operation(run: Callable[[MemoryDisk, Promises], None], seed: int | None) -> int:
    """Runs the script once per disk operation with the power cut there; returns how many."""
    operation = 0
    while True:
        operation += 1
        disk, promises = MemoryDisk(), Promises()
        disk.cut_power_at(operation)
        try:
            run(disk, promises)
        except PowerCutError:
            disk.crash(None if seed is None else Random(seed * 1000 + operation))
            check(disk, promises)
            disk.crash(None)  # what the restart itself made durable must be enough too
            check(disk, promises)
        else:
            return operation


@pytest.mark.parametrize("seed", [None, *range(8)])
def test_no_promise_is_broken_by_a_power_cut(seed: int | None) -> None:
    operations = cut_at_every_operation(lambda d, p: Script(d, p).run(), seed)
    assert operations > 180


def test_no_promise_is_broken_by_a_kill_before_a_power_cut() -> None:
    """What a killed process left in the page cache, names too, the next one must not build upon."""
    operation = 0
    while True:
        operation += 1
        disk, promises = MemoryDisk(), Promises()
        disk.cut_power_at(operation)
        try:
            Script(disk, promises).run()
        except PowerCutError:
            disk.cut_at = None
            disk.kill()
            check(disk, promises)  # appends as well
            disk.crash()
            check(disk, promises)
        else:
            break
    assert operation > 180


def test_no_promise_is_broken_by_a_write_torn_at_any_byte() -> None:
    """Every write at every byte, and the moment before every other operation.

    Each twice: what other files had in the page cache is lost, or kept.
    """
    disk, promises = MemoryDisk(), Promises()
    points: dict[str, int] = {}

    def tear(operation: str, path: Path) -> None:
        if operation in ("read", "listdir"):
            return
        for size in range(len(disk.writing) + 1 if operation == "append" else 1):
            for lose_others in (True, False):
                points[operation] = points.get(operation, 0) + 1
                check(disk.torn(path, size, lose_others=lose_others), promises, go_on=False)

    disk.fault = tear
    Script(disk, promises).run()
    print(f"power cuts: {sum(points.values())} points, {points}")  # noqa: T201 - shown by pytest -s
    assert sum(points.values()) > 8000
    assert set(points) == {"open", "append", "truncate", "fsync", "fsync_dir", "rename", "unlink"}


def test_formatting_for_a_dynamic_quorum_makes_the_bootstrap_snapshot_whole_or_not_at_all() -> None:
    operation = 0
    while True:
        operation += 1
        disk = MemoryDisk()
        disk.cut_power_at(operation)
        try:
            write_bootstrap_snapshot(disk, DIR, VOTERS, timestamp_ms=1)
        except PowerCutError:
            disk.crash(Random(operation))
            log = FileLog(disk, DIR)
            assert log.voter_history() in ((), ((-1, VOTERS),))
            log.close()
        else:
            break
    assert operation > 5
    disk.crash()
    log = FileLog(disk, DIR)
    assert log.voter_history() == ((-1, VOTERS),)


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_recovery_itself_may_be_cut_anywhere(seed: int | None) -> None:
    disk, promises = MemoryDisk(), Promises()
    script = Script(disk, promises)
    script.append(9, epoch=1)
    script.flush()
    script.append(4, epoch=1)
    disk.kill()
    last = Path("/node/__cluster_metadata-0/00000000000000000008.log")
    first = Path("/node/__cluster_metadata-0/00000000000000000000.log")
    for damaged, lost in ((last, 8), (first, 0)):
        operation = 0
        while True:
            operation += 1
            copy = disk.clone()
            file = copy.open(damaged)
            file.pwrite(70, b"\xff\xff")
            file.fsync()
            copy.cut_power_at(operation)
            try:
                FileLog(copy, DIR).close()
            except PowerCutError:
                copy.crash(None if seed is None else Random(seed + operation))
            else:
                break
            log = FileLog(copy, DIR)
            assert list(log.batches(0)) == promises.written[: log.end_offset]
            assert log.end_offset == lost
            log.close()
        assert operation > 3


def test_a_log_that_is_never_flushed_does_lose_records() -> None:
    """The test disk forgets: without this the tests above would prove nothing."""
    disk = MemoryDisk()
    script = Script(disk, Promises())
    script.append(3, epoch=1)
    disk.crash()
    log = FileLog(disk, DIR)
    assert log.end_offset == 0
    log.close()


def test_a_segment_that_was_dropped_does_not_come_back_behind_what_is_written_later() -> None:
    disk = MemoryDisk()
    log = FileLog(disk, DIR, segment_bytes=200)
    log.append_batches([batch(i, b"old") for i in range(6)])
    log.flush()
    assert len([n for n in disk.listdir(PARTITION) if n.endswith(".log")]) > 1
    log.truncate_to(1)
    new = [batch(1, b"new")]  # of the same epoch, up to where the dropped segment began
    log.append_batches(new)
    log.flush()
    disk.crash()
    log = FileLog(disk, DIR, segment_bytes=200)
    assert list(log.batches(1)) == new


def test_what_a_restarted_process_calls_flushed_survives_a_power_cut() -> None:
    disk, promises = MemoryDisk(), Promises()
    script = Script(disk, promises)
    script.append(9, epoch=1)  # over several segments, only in the page cache
    disk.kill()
    log = FileLog(disk, DIR, segment_bytes=200)
    assert log.flushed_offset == 9
    disk.crash()
    promises.flushed = promises.written
    check(disk, promises)


def test_format_is_all_or_nothing() -> None:
    operation = 0
    while True:
        operation += 1
        disk = MemoryDisk()
        disk.cut_power_at(operation)
        try:
            format_directory(disk, DIR, cluster_id="c", node_id=1, directory_id=DIRECTORY_ID)
        except PowerCutError:
            disk.crash()
            assert load_meta_properties(disk, DIR) is None
        else:
            break
    assert operation > 4
    disk.crash()
    meta = load_meta_properties(disk, DIR)
    assert meta is not None
    assert meta.directory_id == DIRECTORY_ID
