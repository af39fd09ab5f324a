"""C14: who leaves an ISR that gets too small is eligible (KIP-966)."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from uuid import UUID

import pytest

from checkers.invariants.metadata_log import MetadataLog
from checkers.invariants.shrinking import BY_THE_FIRST, SET_TO_NOBODY
from harness.kafka.incarnation import next_incarnation
from node.metadata import schemas as s
from node.metadata.schemas import MetadataRecord
from node.metadata.state import BROKER
from tests.support.traces.brokers import change, create, register, walked

Batch = Sequence[MetadataRecord]
T = UUID(int=9)


def minimum(value: str) -> s.ConfigRecord:
    return s.ConfigRecord(
        version=0, resource_type=BROKER, resource_name="", name="min.insync.replicas", value=value
    )


MINIMUM = minimum("2")
ENABLED: Batch = [
    s.FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1),
    MINIMUM,
]
LEFT: Batch = change(isr=(1,))  # of 1 and 2, which both are needed
NEXT = next_incarnation(Random(1))


def judged(*batches: Batch) -> list[str]:
    found: MetadataLog = walked(*batches)
    told = [each.message for each in found.anomalies if each.invariant == "C14"]
    return [each for each in told if " are not eligible" in each]


@pytest.mark.parametrize(
    "batches",
    [
        [ENABLED, change(isr=(1,), eligible_leader_replicas=(2,))],
        [LEFT],
        [[ENABLED[0]], LEFT],
        [ENABLED, [*LEFT, register(2, 13, NEXT)]],
        [ENABLED, [*LEFT, MINIMUM]],
        [ENABLED, [*LEFT, s.ClearElrRecord(topic_name="")]],
        [ENABLED, change(isr=(1,), replicas=(1,))],
        [ENABLED, change(isr=(), leader=-1, eligible_leader_replicas=(1, 2))],
        [ENABLED, change(isr=(2,), leader=2, leader_recovery_state=1)],
    ],
    ids=(
        "eligible",
        "switched off",
        "one is enough",
        "a new process",
        "another minimum",
        "cleared",
        "no replica any more",
        "the last one",
        "unclean",
    ),
)
def test_who_may_lead_or_may_lack_messages_is_no_matter(batches: list[Batch]) -> None:
    assert judged(*batches) == []


def test_who_leaves_an_isr_that_gets_too_small_is_eligible() -> None:
    (told,) = judged(ENABLED, LEFT)
    assert " has 1 in sync and needs 2, and of those who left brokers [2] " in told
    assert BY_THE_FIRST not in told


def test_a_minimum_of_nobody_is_told_of() -> None:
    """The last one in sync is needed, whatever is set."""
    nobody = minimum("0")
    one = change(isr=(1,), eligible_leader_replicas=(2,))
    (told,) = judged([ENABLED[0], MINIMUM], one, [nobody], change(isr=(), leader=-1))
    assert " has 0 in sync and needs 1, " in told
    assert SET_TO_NOBODY in told


def test_nor_is_who_was_eligible_forgotten() -> None:
    small = change(isr=(1,), eligible_leader_replicas=(2,))
    (told,) = judged(ENABLED, small, change(isr=(), leader=-1, eligible_leader_replicas=(1,)))
    assert "brokers [2] " in told


def test_each_partition_needs_what_its_own_replicas_allow() -> None:
    """Partition 0 has one replica; of the other one, which has two, both are needed."""
    topic = create("u", T, replicas=(1,), isr=(1,), directories=())
    other = create("u", T, partition_id=1, directories=())[1:]
    shrunk = s.PartitionChangeRecord(version=2, partition_id=1, topic_id=T, isr=(1,))
    (told,) = judged(ENABLED, [*topic, *other], [shrunk])
    assert told.startswith("partition u-1 ")
    assert f"{BY_THE_FIRST}1 replica(s): " in told
