"""What clients are told, and what is committed, as both happen: S17, S18 and S34; and how it is
read from a disk that a node is at work on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from checkers.monitor.promises import Promises
from harness.contracts.evidence import LogBatch
from harness.history.ops import NEMESIS, Op, OpType
from harness.systems.nodes.stored_log import LogTail
from node.log.layout import partition_dir, segment_name
from node.log.memory_disk import MemoryDisk
from tests.support.nodes.batches import batch as log_batch
from tests.support.traces.traces import register_record

BY = {"t": "hwm", "node": 1, "seq": 9, "rx_ns": 5}
LOG_DIR = Path("/data")


class Story:
    """Ops and commits one after the other, and what was found by the way."""

    def __init__(self) -> None:
        self.promises = Promises()
        self.found: list[str] = []
        self._count = 0
        self._end = 0

    def op(
        self, type_: OpType, f: str, value: Any = None, *, behind: bool = False, process: int = 0
    ) -> Story:
        key = "t0" if f == "create" else "r0"
        op = Op(self._count, self._count, process, type_, f, value, key)
        self._count += 1
        self.found += [a.invariant for a in self.promises.op(op, behind=behind)]
        return self

    def commit(self, *records: Any) -> Story:
        numbered = tuple({"offset": self._end + n, **r} for n, r in enumerate(records))
        last = self._end + len(records) - 1
        batch = LogBatch(self._end, last, 1, 1, False, numbered)
        self._end = last + 1
        self.found += [a.invariant for a in self.promises.batch(batch, BY)]
        return self


def topic(name: str, id_: str = "a" * 32) -> dict[str, Any]:
    return {"type": "TopicRecord", "fields": {"name": name, "topic_id": id_}}


WRITTEN = register_record("r0", 1)


@pytest.mark.parametrize("outcome", ["ok", "info"])
def test_what_is_asked_for_committed_and_answered_is_right(outcome: OpType) -> None:
    story = Story().op("invoke", "write", 1).commit(WRITTEN).op(outcome, "write", 1)
    assert story.op("invoke", "read").op("ok", "read", 1).found == []
    story.op("invoke", "create").commit(topic("t0")).op("ok", "create", {"id": "a" * 32})
    assert story.commit(topic("register-r1")).found == []


def test_an_answer_before_the_commit_stops_at_once() -> None:
    assert Story().op("invoke", "write", 1).op("ok", "write", 1).found == ["S17"]
    told = {"id": "a" * 32}
    assert Story().op("invoke", "create").op("ok", "create", told).found == ["S17"]


def test_nothing_is_missing_from_what_was_not_seen_whole() -> None:
    story = Story().op("invoke", "write", 1).op("ok", "write", 1, behind=True)
    assert story.op("invoke", "read").op("ok", "read", 1, behind=True).found == []


def test_a_refused_write_that_is_committed_whichever_comes_first() -> None:
    story = Story().op("invoke", "write", 1).op("fail", "write", 1)
    assert story.found == []
    assert story.commit(WRITTEN).found == ["S17"]
    story = Story().op("invoke", "write", 1).commit(WRITTEN)
    assert story.op("fail", "write", 1).found == ["S17"]


def test_a_write_that_is_committed_twice() -> None:
    assert Story().op("invoke", "write", 1).commit(WRITTEN).commit(WRITTEN).found == ["S17"]


@pytest.mark.parametrize("record", [WRITTEN, topic("t0")])
def test_what_is_committed_was_asked_for_before(record: dict[str, Any]) -> None:
    assert Story().commit(record).found == ["S18"]


def test_a_read_of_what_is_not_committed_yet_is_told_with_what_was() -> None:
    early = Story().op("invoke", "write", 1)
    early.op("invoke", "read", process=1).op("ok", "read", 1, process=1)
    assert early.promises.anomalies[0].details == {"committed": "none yet"}
    story = Story().op("invoke", "write", 1).commit(topic("t9"), WRITTEN).op("ok", "write", 1)
    story.op("invoke", "write", 2).op("invoke", "read", process=1).op("ok", "read", 2, process=1)
    (found,) = (a for a in story.promises.anomalies if a.invariant == "S34")
    assert found.details == {"committed": "1 (offset 1)"}


@pytest.mark.parametrize("f", ["read", "local-read"])
def test_a_read_of_what_is_not_committed_yet(f: str) -> None:
    story = Story().op("invoke", "write", 1)
    assert story.op("invoke", f, process=1).op("ok", f, 1, process=1).found == ["S34"]
    story = Story().op("invoke", "write", 1)
    story.op("invoke", f, process=1).op("fail", f, 1, process=1)
    story.op("invoke", f, process=1).op("ok", f, 7, process=1)  # of nobody: not for S34
    assert story.op("invoke", f, process=1).op("ok", f, process=1).found == []


def test_the_nemesis_asks_for_nothing() -> None:
    op = Op(0, 0, NEMESIS, "info", "write", 1, "r0")
    assert Promises().op(op, behind=False) == []
    assert Story().commit(WRITTEN).found == ["S18"]


# ---------------------------------------------------------------------- the tail of a log


class Tail:
    """A log on a disk that is written to and read in turn."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.tail = LogTail(LOG_DIR, {})

    def write(self, segment: int, *bases: int, torn: int = 0) -> None:
        file = self.disk.open(self.path(segment), create=True)
        data = b"".join(log_batch(n, b"junk").data for n in bases)
        file.append(data[: len(data) - torn])

    def path(self, segment: int) -> Path:
        return partition_dir(LOG_DIR) / segment_name(segment)

    def read(self, begin: int, below: int) -> list[int]:
        return [found.base for found in self.tail.read(self.disk, begin, below)]


def test_a_tail_is_read_as_far_as_it_is_committed_each_batch_once() -> None:
    log = Tail()
    assert log.read(0, 9) == []
    log.write(0, 0, 1, 2)
    assert log.read(0, 2) == [0, 1]
    assert log.read(2, 2) == []
    log.write(0, 3)
    log.write(4, 4, 5)
    assert log.read(2, 6) == [2, 3, 4, 5]
    assert log.read(1, 3) == [1, 2]


def test_a_tail_begins_where_it_is_asked_to() -> None:
    log = Tail()
    log.write(0, 0, 1)
    log.write(2, 2, 3, 4)
    assert log.read(3, 9) == [3, 4]


def test_a_tail_that_was_cut_and_written_anew() -> None:
    log = Tail()
    log.write(0, 0, 1, 2)
    assert log.read(0, 9) == [0, 1, 2]
    log.disk.open(log.path(0)).truncate(len(log_batch(0, b"junk").data))
    assert log.read(3, 9) == []
    log.write(0, 1, 2, 3)
    assert log.read(3, 9) == [3]


def test_a_tail_goes_on_behind_a_segment_that_was_deleted() -> None:
    log = Tail()
    log.write(0, 0, 1)
    log.write(2, 2, 3)
    assert log.read(2, 2) == []  # it waits at the beginning of the second segment
    log.disk.unlink(log.path(0))
    log.disk.unlink(log.path(2))
    log.write(4, 4, 5)
    assert log.read(4, 9) == [4, 5]


def test_what_is_torn_or_damaged_is_not_there_until_it_is_whole() -> None:
    log = Tail()
    log.write(0, 0, 1, torn=3)
    assert log.read(0, 9) == [0]
    size = len(log_batch(0, b"junk").data)
    log.disk.open(log.path(0)).truncate(size)
    log.write(0, 1, torn=size - 20)
    assert log.read(1, 9) == []
    log.disk.open(log.path(0)).truncate(size)
    log.write(0, 1)
    assert log.read(1, 9) == [1]


def test_a_disk_that_fails_does_not_notice_who_reads_its_tail() -> None:
    log = Tail()
    log.write(0, 0, 1)

    def fail(operation: str, path: Path) -> None:
        raise OSError(f"{operation} {path}")

    log.disk.fault = fail
    assert log.read(0, 9) == [0, 1]
