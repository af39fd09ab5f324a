"""C14: who is chosen to lead a partition."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from node.metadata import schemas as s
from node.metadata.schemas import MetadataRecord
from tests.support.traces.brokers import change, change_broker, register, walked

Batch = Sequence[MetadataRecord]
THIRD: list[Batch] = [
    [register(3, 6)],
    [change_broker(3, 6, fenced=-1)],
    change(replicas=(1, 2, 3), isr=(1, 2, 3)),  # all three are in service, and 1 leads
]
FENCES_1: MetadataRecord = change_broker(1, 0, fenced=1)
FENCES_2: MetadataRecord = change_broker(2, 1, fenced=1)
STOPS_2: MetadataRecord = change_broker(2, 1, fenced=0, in_controlled_shutdown=1)


def told(*batches: Batch) -> list[str]:
    found = walked(*THIRD, *batches).anomalies
    return [each.message for each in found if " might lead it and comes first" in each.message]


def lead(leader: int, isr: tuple[int, ...], **fields: object) -> Batch:
    return change(leader=leader, isr=isr, **fields)


@pytest.mark.parametrize(
    "batches",
    [
        [[FENCES_1, *lead(2, (2, 3))]],
        [[FENCES_1, *lead(2, (2, 3))], [change_broker(1, 0, fenced=-1), *lead(1, (1, 2, 3))]],
        [[FENCES_2], [FENCES_1, *lead(3, (2, 3))]],
        [[STOPS_2], [FENCES_1, *lead(3, (2, 3))]],
        [[FENCES_2, FENCES_1, *lead(3, (3,))]],
        [lead(-1, (1,))],
        [lead(3, (3,), replicas=(3,))],
        [[FENCES_1, *lead(3, (3,), leader_recovery_state=1)]],
    ],
    ids=(
        "the first that is left",
        "the first again",
        "after one that is fenced",
        "after one that stops",
        "after one that the batch fences",
        "nobody",
        "after those that are no replicas any more",
        "at the cost of messages",
    ),
)
def test_the_first_who_may_lead_leads(batches: list[Batch]) -> None:
    assert told(*batches) == []


def test_another_than_the_first_is_told() -> None:
    (found,) = told([FENCES_1, *lead(3, (2, 3))])
    assert "is led by 3 and no more by 1, though 2 might lead it and comes first" in found


def test_a_leader_that_may_go_on_does() -> None:
    (found,) = told(lead(2, (1, 2, 3)))
    assert "is led by 2 and no more by 1, though 1 might lead it" in found
    fenced: Batch = [FENCES_1, *lead(2, (2, 3))]
    back: Batch = [change_broker(1, 0, fenced=-1)]
    (found,) = told(fenced, back, [*change(isr=(1, 2, 3))], [FENCES_1, *lead(3, (2, 3))])
    assert "is led by 3 and no more by 2, though 2 might" in found


@pytest.mark.parametrize(("leader", "is_found"), [(2, False), (3, True)])
def test_of_the_eligible_the_first_leads(leader: int, *, is_found: bool) -> None:
    elr = s.FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1)
    alone: Batch = lead(1, (1,), eligible_leader_replicas=(2, 3))
    left = (3,) if leader == 2 else (2,)
    next_: Batch = [FENCES_1, *lead(leader, (leader,), eligible_leader_replicas=left)]
    assert bool(told([elr], alone, next_)) is is_found
