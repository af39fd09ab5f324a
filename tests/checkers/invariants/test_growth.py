"""C3, of partitions that are added to a topic: as many replicas as others of it are to have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from harness.systems.kafka.known import known_of
from harness.systems.kafka.releases import Release
from node.metadata.schemas import MetadataRecord
from tests.support.traces.brokers import (
    TOPIC_ID,
    change,
    change_broker,
    create,
    register,
    walked,
)

THREE = UUID(int=103)  # an incarnation
THIRD = [register(3, 6, THREE, fenced=False)]
MOVES = change(replicas=(3, 1, 2), adding_replicas=(3,), removing_replicas=(1, 2))
ARRIVED = change(replicas=(3,), isr=(3,), leader=3, adding_replicas=(), removing_replicas=())


def more(*replicas: int, index: int = 1, topic: UUID = TOPIC_ID) -> list[MetadataRecord]:
    state: dict[str, Any] = {"replicas": replicas, "isr": replicas, "leader": replicas[0]}
    return create(id_=topic, partition_id=index, **state)[1:]


def faults(*batches: Sequence[MetadataRecord]) -> list[str]:
    found = walked(THIRD, *batches).anomalies
    known = known_of([Release("4.4.0")])
    assert all(any(each.covers(a) for each in known) for a in found)
    return [each.message for each in found if each.invariant == "C3"]


@pytest.mark.parametrize(
    "batches",
    [
        [more(2, 1)],
        [more(1, 2), more(3, 1, index=2)],
        [MOVES, more(2)],
        [MOVES, ARRIVED, more(1)],
        [MOVES, more(2), ARRIVED, more(1, index=2)],
        [[*MOVES, *more(1, 2)]],  # in one batch: as it was before
    ],
)
def test_a_new_partition_is_like_another_one(batches: list[list[MetadataRecord]]) -> None:
    assert faults(*batches) == []


@pytest.mark.parametrize("replicas", [(1,), (1, 2, 3)])
def test_one_that_is_not_is_told(replicas: tuple[int, ...]) -> None:
    (told,) = faults(more(*replicas))
    assert f"has {len(replicas)} replicas, where the topic's other partitions are to have 2" in told


def test_who_is_to_go_does_not_count() -> None:
    (told,) = faults(MOVES, more(3, 1, 2))
    assert "has 3 replicas, where the topic's other partitions are to have 1" in told


@pytest.mark.parametrize("isr", [(), (3,), (1,)])
def test_a_move_that_is_given_up_with_nobody_in_sync_is_told(isr: tuple[int, ...]) -> None:
    """Broker 1, which is fenced, is in sync of a sudden (seed 33 of ``admin``)."""
    moves = change(replicas=(3, 1, 2), adding_replicas=(3,))
    leader = isr[0] if isr else -1
    left = change(isr=isr, leader=leader, eligible_leader_replicas=(2,))
    gone = [change_broker(2, 1, fenced=1)]
    back = change(replicas=(1, 2), isr=(2,), leader=-1, adding_replicas=())
    found = walked(THIRD, moves, left, gone, back).anomalies
    (told,) = [each for each in found if each.invariant == "C2"]
    known = [each for each in known_of([Release("4.4.0")]) if each.covers(told)]
    assert bool(known) is (isr != (1,))
