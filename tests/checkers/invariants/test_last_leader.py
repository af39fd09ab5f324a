"""C14: who led a partition last is remembered while nobody leads it, and leads when it is back."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from harness.kafka.incarnation import next_incarnation
from node.metadata import schemas as s
from node.metadata.schemas import MetadataRecord
from tests.support.traces.brokers import change, change_broker, register, walked

Batch = Sequence[MetadataRecord]
ELR = s.FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1)
DIED = next_incarnation(Random(1), unclean=True)
GONE: Batch = [change_broker(each, each - 1, fenced=1) for each in (1, 2)]


def told(*batches: Batch) -> list[str]:
    """List what is told of last leaders; what else these break has tests of its own."""
    found = [each.message for each in walked(*batches).anomalies if each.invariant == "C14"]
    return [each for each in found if "as the last one" in each or "led it last" in each]


def lost(**fields: object) -> Batch:
    """Make the change by which the partition loses its leader; nobody is in its place."""
    return change(isr=(), leader=-1, eligible_leader_replicas=(), **fields)


def test_the_last_leader_is_remembered() -> None:
    assert told([ELR], GONE, lost(last_known_elr=(1,))) == []
    (found,) = told([ELR], GONE, lost())
    assert "has lost its leader 1, and remembers nobody as the last one" in found
    (found,) = told([ELR], GONE, lost(last_known_elr=(2,)))
    assert "remembers [2]" in found


def test_one_that_was_never_cleared_is_told_as_such() -> None:
    off = s.FeatureLevelRecord(name=ELR.name, feature_level=0)
    led: Batch = [off, *change(isr=(2,), leader=2), ELR]
    (found,) = told([ELR], GONE, lost(last_known_elr=(1,)), led, lost())
    assert "lost its leader 2, and remembers [1] as the last one, as before that one led" in found


def test_without_eligible_leaders_nobody_is_remembered() -> None:
    assert told(GONE, lost()) == []


def test_a_leader_that_died_may_be_forgotten() -> None:
    assert told([ELR], GONE, [register(1, 12, DIED), *lost()]) == []


def test_changes_of_one_batch_count_one_by_one() -> None:
    handed = change(isr=(2,), leader=2)
    assert told([ELR], GONE, [*handed, *lost(last_known_elr=(2,))]) == []
    assert told([ELR], GONE, [*handed, *lost(last_known_elr=(1,))])


@pytest.mark.parametrize(("back", "is_alone"), [(1, True), (2, False)])
def test_the_last_leader_leads_when_it_is_back_and_nobody_else_may(
    back: int, is_alone: bool
) -> None:
    batches: list[Batch] = [[ELR], GONE, lost(last_known_elr=(1,))]
    assert told(*batches) == []
    found = told(*batches, [change_broker(back, back - 1, fenced=-1)])
    assert any("are in service and led it last" in each for each in found) is is_alone
