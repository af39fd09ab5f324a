"""The events of a simulated host agree with what a restart after a loss of power really finds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import msgspec
import pytest

from node.core.types import ElectionState, OffsetAndEpoch, ReplicaKey
from node.log.batch import encode_batch
from node.log.disk import replace_file
from node.log.file_log import FileLog, Flush
from node.log.layout import partition_dir, segment_name, snapshot_name
from node.log.memory_disk import MemoryDisk
from node.log.quorum_state import ElectionStateStore
from node.log.snapshot_format import SnapshotEncoder
from node.sim.fabric import Fabric
from node.sim.host import VirtualHost, VirtualTracer
from node.sim.loop import VirtualLoop
from node.sim.power_loss import PowerLoss, read_undated

DATA = Path("/data")
PARTITION = partition_dir(DATA)
Told = list[tuple[str, Mapping[str, Any]]]


def watched(disk: MemoryDisk) -> tuple[PowerLoss, Told]:
    told: Told = []
    looks = PowerLoss(disk, lambda kind, fields: told.append((kind, dict(fields))))
    disk.changed = looks.changed
    return looks, told


def batch(base: int, epoch: int, size: int = 1) -> bytes:
    return encode_batch(base, epoch, [(None, b"x" * size)], control=False, timestamp_ms=0)


def restarted(disk: MemoryDisk) -> list[tuple[int, int, int, int]]:
    """The batches that a node would start from if the power failed now."""
    copy = disk.killed()
    copy.crash()
    log = FileLog(copy, DATA, segment_bytes=300)
    found = [(b.base_offset, b.last_offset, b.epoch, b.crc) for b in log.batches(log.start_offset)]
    log.close()
    return found


def files_left(told: Told, name: str) -> list[Any]:
    return [fields["may"] for kind, fields in told if kind == "left" and fields["file"] == name]


@pytest.mark.parametrize("seed", range(20))
def test_the_durable_log_is_what_a_restart_finds(seed: int) -> None:
    rng, disk = Random(seed), MemoryDisk()
    log = FileLog(disk, DATA, segment_bytes=300)
    looks, told = watched(disk)
    epoch, known = 1, list[tuple[int, ...]]()
    for _ in range(120):
        match rng.choice(("append", "append", "append", "flush", "truncate", "look", "epoch")):
            case "append":
                for _ in range(rng.randint(1, 4)):
                    log.append_as_leader(batch(log.end_offset, epoch, rng.randint(1, 120)))
            case "flush":
                log.flush()
            case "truncate":
                log.truncate_to(rng.randint(max(0, log.end_offset - 5), log.end_offset))
            case "epoch":
                epoch += 1
            case _:
                pass
        if rng.random() < 0.5:
            looks.claimed()
            for kind, fields in told:
                if kind == "durable":
                    known = [each for each in known if each[0] < fields["from"]]
                    known += [tuple(each) for each in fields["batches"]]
                    assert fields["back"] == []
            told.clear()
            assert known == restarted(disk)


def test_a_log_that_begins_anew_is_told_as_such() -> None:
    disk = MemoryDisk()
    log = FileLog(disk, DATA)
    log.append_as_leader(batch(0, 1))
    log.flush()
    partial = log.snapshots.create(OffsetAndEpoch(9, 2), last_contained_log_timestamp_ms=0)
    partial.freeze()
    looks, told = watched(disk)
    looks.claimed()
    log.truncate_fully_to(OffsetAndEpoch(9, 2))
    looks.claimed()
    log.append_as_leader(batch(9, 3))
    log.flush()
    looks.claimed()
    ends = [(fields["begin"], fields["upto"]) for kind, fields in told if kind == "durable"]
    assert ends == [(0, 1), (9, 9), (9, 10)]


def test_segments_that_retention_removes_take_nothing_else_with_them() -> None:
    disk = MemoryDisk()
    log = FileLog(disk, DATA, segment_bytes=100)
    for offset in range(4):
        log.append_as_leader(batch(offset, 1, 60))
    log.flush()
    looks, told = watched(disk)
    looks.claimed()
    disk.unlink(PARTITION / segment_name(0))
    disk.fsync_dir(PARTITION)
    looks.claimed()
    assert told[-1][1] == {"begin": 1, "upto": 4, "from": 4, "batches": [], "back": []}


def test_a_file_that_is_not_fsynced_ends_the_durable_log() -> None:
    """Of two segments only the newer one is: recovery finds neither the older one's end nor it."""
    disk = MemoryDisk()
    log = FileLog(disk, DATA, segment_bytes=100)
    log.append_as_leader(batch(0, 1, 60))
    log.append_as_leader(batch(1, 1, 60))
    looks, told = watched(disk)
    flush = log.start_flush()
    Flush(flush.upto, flush.files[1:]).run()
    log.finish_flush(flush)
    looks.claimed()
    assert log.flushed_offset == 2
    assert told[-1][1]["upto"] == 0
    assert restarted(disk) == []


def test_a_name_that_is_not_fsynced_ends_the_durable_log() -> None:
    disk = MemoryDisk()
    log = FileLog(disk, DATA, segment_bytes=100)
    log.append_as_leader(batch(0, 1, 60))
    log.flush()
    file = disk.open(PARTITION / segment_name(1), create=True)
    file.append(batch(1, 1))
    file.fsync()
    looks, told = watched(disk)
    looks.claimed()
    assert told[-1][1]["upto"] == 1
    disk.fsync_dir(PARTITION)
    looks.claimed()
    assert told[-1][1]["upto"] == 2


def test_a_batch_that_is_damaged_ends_the_durable_log() -> None:
    disk = MemoryDisk()
    log = FileLog(disk, DATA)
    data = bytearray(batch(0, 1, 60))
    data[-1] ^= 1
    file = disk.open(PARTITION / segment_name(0))
    file.append(bytes(data))
    file.fsync()
    looks, told = watched(disk)
    looks.claimed()
    assert told[-1][1]["upto"] == log.end_offset == 0


def test_what_was_cut_without_an_fsync_may_come_back() -> None:
    disk = MemoryDisk()
    log = FileLog(disk, DATA)
    data = batch(0, 1)
    log.append_as_leader(data)
    log.append_as_leader(batch(1, 1))
    log.flush()
    looks, told = watched(disk)
    file = disk.open(PARTITION / segment_name(0))
    file.truncate(len(data))
    looks.claimed()
    assert told[-1][1]["upto"] == 1
    assert [each[0] for each in told[-1][1]["back"]] == [1]
    file.fsync()
    looks.claimed()
    assert told[-1][1]["back"] == []


def test_an_election_state_is_the_old_or_the_new_one_until_its_name_is_durable() -> None:
    disk = MemoryDisk()
    store = ElectionStateStore(disk, DATA)
    store.save(ElectionState(1, 2))
    _, told = watched(disk)
    voted = UUID(int=7)
    store.save(ElectionState(2, None, ReplicaKey(3, voted)))
    old = {"ep": 1, "leader": 2, "voted": None, "voted_dir": None}
    new = {"ep": 2, "leader": None, "voted": 3, "voted_dir": voted.hex}
    assert files_left(told, "quorum-state") == [[old], [old, new], [new]]
    assert not any(fields["torn"] for kind, fields in told if kind == "left")


def test_a_file_that_is_renamed_before_its_fsync_may_be_torn() -> None:
    disk = MemoryDisk()
    _, told = watched(disk)
    path = PARTITION / "quorum-state"
    temporary = PARTITION / "quorum-state.tmp"
    disk.open(temporary, create=True).append(b'{"leaderId":1}')
    disk.rename(temporary, path)
    assert told[-1][1]["torn"]
    assert [state and "bad" in state for state in told[-1][1]["may"]] == [None, True, True]


def test_a_snapshot_is_read_to_its_end() -> None:
    disk = MemoryDisk()
    log = FileLog(disk, DATA)
    whole = OffsetAndEpoch(5, 1)
    log.snapshots.create(whole, last_contained_log_timestamp_ms=0).freeze()
    _, told = watched(disk)
    content = disk.peek(PARTITION / snapshot_name(whole), 0, 10_000)
    half = OffsetAndEpoch(6, 1)
    replace_file(disk, PARTITION / snapshot_name(half), content[:-10])
    assert set(files_left(told, snapshot_name(whole))[-1][0]) == {"size", "sha"}
    assert set(files_left(told, snapshot_name(half))[-1][0]) == {"bad"}


def test_the_hash_of_kafkas_snapshots_is_of_what_they_say() -> None:
    snapshot = OffsetAndEpoch(5, 1)

    def undated(timestamp_ms: int, *values: bytes) -> dict[str, Any]:
        encoder = SnapshotEncoder(1, timestamp_ms)
        content = encoder.header(1) + encoder.add(values) + encoder.footer()
        return read_undated(snapshot_name(snapshot), content)

    one = undated(7, b"a", b"b")
    assert undated(8, b"a", b"b") == one
    assert undated(7, b"a", b"c")["sha"] != one["sha"]
    assert set(read_undated(snapshot_name(snapshot), b"")) == {"bad"}


def encoded_tracer() -> tuple[VirtualTracer, MemoryDisk, list[bytes]]:
    lines: list[bytes] = []
    host = VirtualHost(Fabric(VirtualLoop(), Random(1)), "h1", Random(1), lines.append)
    tracer = VirtualTracer(lines.append, {"node": 1, "inc": 1, "dir": "d"}, lambda: 5, host)
    return tracer, host.disk, lines


def test_encoded_events_have_the_disk_among_them() -> None:
    tracer, disk, lines = encoded_tracer()
    store = ElectionStateStore(disk, DATA)
    store.save(ElectionState(1, 2))
    log = FileLog(disk, DATA)
    tracer.emit_encoded(b',"ep":1,"t":"start","leo":0}')
    store.save(ElectionState(2, 3))
    tracer.emit_encoded(b',"ep":2,"t":"qs","leader":3,"voted":null,"voted_dir":null}')
    log.append_as_leader(batch(0, 2))
    log.flush()
    tracer.emit_encoded(b',"ep":2,"t":"flush","upto":1}')
    tracer.flush()
    events = [msgspec.json.decode(line) for line in lines]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    told = [(event["t"], event.get("upto")) for event in events if event.get("file") is None]
    assert told == [("start", None), ("durable", 0), ("qs", None), ("durable", 1), ("flush", 1)]
    left = [event["may"] for event in events if event.get("file") == "quorum-state"]
    assert [[state["ep"] for state in may] for may in left] == [[1], [1, 2], [2]]
    places = [event["t"] for event in events]
    assert places.index("start") == 0
    assert {event["ep"] for event in events[places.index("qs") :]} == {2}


def test_an_encoded_process_that_dies_before_its_start_tells_nothing_of_its_disk() -> None:
    tracer, disk, lines = encoded_tracer()
    ElectionStateStore(disk, DATA).save(ElectionState(2, 3))
    tracer.flush()
    assert lines == []


def test_nothing_is_told_twice() -> None:
    disk = MemoryDisk()
    log = FileLog(disk, DATA)
    looks, told = watched(disk)
    looks.claimed()
    told.clear()
    looks.claimed()
    log.flush()
    looks.claimed()
    assert told == []
