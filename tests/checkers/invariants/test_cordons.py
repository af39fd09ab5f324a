"""C18: who is cordoned gets no new replica, by number or by hand (KIP-1066)."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest

from checkers.committed.reference import Reference
from checkers.invariants.cordons import FORGOTTEN
from checkers.invariants.metadata_log import MetadataLog
from harness.contracts.evidence import LogSnapshot
from node.metadata import schemas as s
from node.metadata.records import to_json
from node.metadata.schemas import MetadataRecord
from tests.support.traces.brokers import ONE, TWO, change_broker, create, log_of, register, walked

A, B, OTHER = (UUID(int=200 + n) for n in range(3))  # disks: of 1 two, of 2 one
U = UUID(int=9)
Batch = Sequence[MetadataRecord]


def having(broker: int, epoch: int, *disks: UUID, incarnation: UUID = ONE) -> MetadataRecord:
    return register(broker, epoch, incarnation, version=4, log_dirs=disks)


def cordoned(*disks: UUID, epoch: int = 0) -> MetadataRecord:
    return change_broker(1, epoch, version=3, cordoned_log_dirs=disks)


BROKERS: list[Batch] = [
    [having(1, 0, A, B), having(2, 1, OTHER)],
    [change_broker(broker, epoch, fenced=-1) for broker, epoch in ((1, 0), (2, 1))],
    [s.RemoveTopicRecord(version=0, topic_id=UUID(int=7))],
]
ALL, NONE = [cordoned(A, B)], [cordoned()]
END = sum(map(len, BROKERS))


def new(*replicas: int) -> Batch:
    """A topic with replicas at these brokers."""
    return create("u", U, replicas=replicas, isr=(2,), leader=2, directories=())


def moved(*replicas: int) -> Batch:
    change = s.PartitionChangeRecord(
        version=2, partition_id=0, topic_id=U, replicas=replicas, adding_replicas=(1,)
    )
    return [change]


def judged(*batches: Batch) -> list[str]:
    found: MetadataLog = walked(*BROKERS, *batches)
    return [each.message for each in found.anomalies if each.invariant == "C18"]


@pytest.mark.parametrize(
    "batches",
    [
        [new(1, 2)],
        [[cordoned(A)], new(1, 2)],
        [ALL, new(2)],
        [ALL, NONE, new(1, 2)],
        [new(2, 1), ALL, moved(1, 2)],
        [ALL, [having(1, END + 1, A, B, OTHER, incarnation=TWO)], new(1, 2)],
    ],
    ids=("open", "one of two", "another", "open again", "stays", "with a new disk"),
)
def test_who_is_not_cordoned_or_was_there_gets_it(batches: list[Batch]) -> None:
    assert judged(*batches) == []


@pytest.mark.parametrize("batches", [[ALL, new(1, 2)], [new(2), ALL, moved(2, 1)]])
def test_who_is_cordoned_may_get_none(batches: list[Batch]) -> None:
    (told,) = judged(*batches)
    assert told.startswith("broker 1 gets a replica of partition u-0 at offset ")
    assert FORGOTTEN not in told


def test_a_registration_does_not_open_it() -> None:
    again = having(1, END + 1, A, B, incarnation=TWO)
    (told,) = judged(ALL, [again], new(1, 2))
    assert FORGOTTEN in told


def test_who_was_forgotten_and_comes_back_is_open() -> None:
    gone = s.UnregisterBrokerRecord(version=0, broker_id=1, broker_epoch=0)
    back = having(1, END + 2, A, B, incarnation=TWO)
    assert judged(ALL, [gone], [back], new(1, 2)) == []


def test_a_snapshot_tells_who_is_cordoned() -> None:
    closed = register(1, 0, ONE, version=4, log_dirs=(A,), cordoned_log_dirs=(A,))
    state = tuple(map(to_json, (closed, having(2, 1, OTHER))))
    found = MetadataLog(Reference(log_of([new(1, 2)], 9), LogSnapshot(9, 1, state)), 99, ())
    assert [each.invariant for each in found.anomalies if each.invariant == "C18"] == ["C18"]
    assert found.checked["C18"] == 1
