"""C15: who leads has its replica on a disk that works, and that is not empty (KIP-858)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from checkers.invariants.disks import EMPTY
from checkers.invariants.metadata_log import MetadataLog
from node.metadata import schemas as s
from node.metadata.schemas import MetadataRecord
from node.metadata.state import LOST_DIR, MIGRATING_DIR, UNASSIGNED_DIR
from tests.support.traces.brokers import ONE, TWO, change_broker, create, register, walked

A, B, OTHER, NEW = (UUID(int=200 + n) for n in range(4))  # disks: of 1 two, of 2 one, and another
Batch = Sequence[MetadataRecord]


def having(broker: int, epoch: int, *disks: UUID, incarnation: UUID = ONE) -> MetadataRecord:
    return register(broker, epoch, incarnation, version=3, log_dirs=disks)


def unfenced(broker: int, epoch: int) -> MetadataRecord:
    return change_broker(broker, epoch, fenced=-1)


# The topic of these is made anew: brokers 1 and 2 have disks, where its replicas are.
DISKS: list[Batch] = [
    [having(1, 0, A, B), having(2, 1, OTHER)],
    [unfenced(1, 0), unfenced(2, 1)],
    [s.RemoveTopicRecord(version=0, topic_id=UUID(int=7))],
    create("u", UUID(int=9), directories=(A, OTHER)),
]


def moved(**changes: Any) -> Batch:
    return [s.PartitionChangeRecord(version=2, partition_id=0, topic_id=UUID(int=9), **changes)]


def judged(*batches: Batch) -> list[str]:
    found: MetadataLog = walked(*DISKS, *batches)
    assert found.checked["C15"] > 0
    return [each.message for each in found.anomalies if each.invariant == "C15"]


def failed(*left: UUID) -> MetadataRecord:
    return change_broker(1, 0, version=2, log_dirs=left)


GONE: Batch = moved(isr=(2,), leader=2)


@pytest.mark.parametrize(
    "batches",
    [
        [],
        [[*GONE, failed(B)]],
        [[failed(A)]],
        [[failed(B)], moved(directories=(B, OTHER))][::-1],
        [moved(directories=(UNASSIGNED_DIR, OTHER)), [failed(B)]],
        [moved(directories=(MIGRATING_DIR, OTHER)), [failed(B)]],
        [[*moved(isr=(1,), leader=-1), failed(B)]],
        [[*GONE, failed(B)], moved(isr=(1, 2))],
        [moved(isr=(2,), leader=2, directories=(LOST_DIR, OTHER)), moved(isr=(1, 2)), [failed(A)]],
    ],
    ids=(
        "all work",
        "it left",
        "another",
        "moved",
        "not told",
        "migrating",
        "the last one",
        "joins",
        "joins, and another fails",
    ),
)
def test_a_disk_that_works_or_that_nobody_counts_on_is_no_matter(batches: list[Batch]) -> None:
    assert judged(*batches) == []


@pytest.mark.parametrize(
    ("batches", "told"),
    [
        ([[failed(B)]], "broker 1 leads partition u-0"),
        ([[*moved(leader=2), failed(B)]], "broker 1 is in sync in partition u-0"),
        ([moved(directories=(LOST_DIR, OTHER))], "broker 1 leads partition u-0"),
        ([[*GONE, failed(B)], moved(isr=(1,), leader=1)], "broker 1 leads partition u-0"),
        (
            [moved(isr=(1,), leader=-1), [unfenced(1, 0), *moved(leader=1), failed(B)]],
            "broker 1 is elected by the request that tells of its failed disk, and leads partition",
        ),
    ],
    ids=("leads", "in sync", "told lost", "elected", "at once"),
)
def test_who_leads_or_counts_has_a_disk_that_works(batches: list[Batch], told: str) -> None:
    (message,) = judged(*batches)
    assert message.startswith(told)


# Broker 1 is alone in sync, dies, and comes back with an empty disk in the place of A.
REPLACED: list[Batch] = [
    moved(isr=(1,), leader=-1),
    [having(1, 20, NEW, B, incarnation=TWO)],
    [unfenced(1, 20)],
]


@pytest.mark.parametrize(
    ("batches", "is_broken"),
    [
        ([moved(directories=(NEW, OTHER), leader=1)], True),
        ([moved(directories=(NEW, OTHER)), moved(leader=1)], True),
        ([moved(directories=(NEW, OTHER)), moved(leader=1, leader_recovery_state=1)], False),
        ([moved(directories=(NEW, OTHER)), moved(isr=(2,), leader=2)], False),
        (
            [
                moved(directories=(NEW, OTHER)),
                moved(isr=(2,), leader=2, leader_recovery_state=1),
                moved(isr=(1, 2), leader_recovery_state=0),
                moved(leader=1),
            ],
            False,
        ),
        ([moved(directories=(UNASSIGNED_DIR, OTHER))], False),
        (
            [
                moved(isr=(2,), leader=2, leader_recovery_state=1),
                moved(isr=(1, 2), leader_recovery_state=0),
                moved(directories=(NEW, OTHER)),
                moved(leader=1),
            ],
            False,
        ),
        ([[having(1, 30, A, B)], [unfenced(1, 30)], moved(leader=1)], False),
    ],
    ids=("at once", "later", "recovering", "another", "caught up", "not told", "late", "back"),
)
def test_who_begins_anew_is_not_elected(batches: list[Batch], *, is_broken: bool) -> None:
    found = judged(*REPLACED, *batches)
    assert [EMPTY in each for each in found] == ([True] if is_broken else [])


def test_a_replica_that_moves_between_disks_that_work_is_whole() -> None:
    assert judged(moved(isr=(1,), leader=-1), moved(directories=(B, OTHER)), moved(leader=1)) == []
