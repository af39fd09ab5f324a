"""C4 by the log: why a partition's leader epoch rises (KAFKA-15021, KIP-455)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from checkers.invariants.metadata_log import MetadataLog
from node.metadata import schemas as s
from node.metadata.features import IBP_3_6_IV0
from node.metadata.schemas import MetadataRecord
from tests.support.traces.brokers import change, walked

Batch = Sequence[MetadataRecord]


def level(metadata_version: int) -> Batch:
    return [s.FeatureLevelRecord(name="metadata.version", feature_level=metadata_version)]


NEW, OLD = level(IBP_3_6_IV0), level(IBP_3_6_IV0 - 1)
LEADERLESS: Batch = change(leader=-1, isr=(2,))


def judged(*batches: Batch) -> list[str]:
    found: MetadataLog = walked(*batches)
    assert found.checked["C4"]
    return [each.message for each in found.anomalies if each.invariant == "C4"]


@pytest.mark.parametrize(
    "batches",
    [
        [NEW, change(leader=2)],
        [NEW, change(isr=(1,))],
        [NEW, change(leader=1, replicas=(1,), isr=(1,))],
        [OLD, change(leader=1, isr=(1,))],
        [OLD, LEADERLESS, change(leader=-1)],
        [NEW, change(leader_recovery_state=1)],
    ],
    ids=(
        "another leader",
        "who leaves the ISR",
        "a replica that goes",
        "who leaves the ISR, once",
        "nobody leads, once",
        "something else",
    ),
)
def test_a_leader_epoch_rises_with_a_reason(batches: list[Batch]) -> None:
    assert judged(*batches) == []


def test_it_does_not_rise_for_nothing() -> None:
    (told,) = judged(NEW, change(leader=1, isr=(1,)))
    assert "rises by 1, though nobody else leads and no replica goes: " in told
    (told,) = judged(NEW, LEADERLESS, change(leader=-1))
    assert "rises by 1, though nobody else leads and no replica goes: " in told


def test_a_replica_that_goes_hears_of_it() -> None:
    (told,) = judged(NEW, change(replicas=(1,), isr=(1,)))
    assert "rises by 0, though [2] are no replicas any more: " in told


def test_before_3_6_who_leaves_an_isr_hears_of_it() -> None:
    (told,) = judged(OLD, change(isr=(1,)))
    assert "rises by 0, though [2] leave the ISR: " in told
