"""Deltas: the difference of two states, whichever way it came about."""

from __future__ import annotations

import pytest
from hypothesis import given

from node.metadata import schemas as s
from node.metadata.delta import Change, DeltaBuilder, MetadataDelta, TopicDelta
from node.metadata.image import MetadataImage, PartitionState
from node.metadata.snapshot import image_of_records, image_records
from tests.support.nodes.deltas import apply
from tests.support.nodes.metadata_streams import STREAM, TOPIC_IDS, fold

A, B, _ = TOPIC_IDS


def topic(name: str, number: int) -> s.TopicRecord:
    return s.TopicRecord(name=name, topic_id=TOPIC_IDS[number])


def partition(number: int, index: int = 0) -> s.PartitionRecord:
    return s.PartitionRecord(
        topic_id=TOPIC_IDS[number], partition_id=index, replicas=(1,), isr=(1,), leader=1
    )


STATE = PartitionState((1,), (1,), 1, -1, -1)


def setting(value: str | None) -> s.ConfigRecord:
    return s.ConfigRecord(resource_type=2, resource_name="a", name="k", value=value)


def removed(number: int) -> s.RemoveTopicRecord:
    return s.RemoveTopicRecord(topic_id=TOPIC_IDS[number])


def delta(before: list[s.MetadataRecord], batch: list[s.MetadataRecord]) -> MetadataDelta:
    """What a batch changes, which is the same if the two images are compared."""
    image = fold(MetadataImage(), before)
    old = image.copy()
    builder = DeltaBuilder(image)
    fold(image, batch)
    taken = builder.take()
    assert taken == MetadataDelta.between(old, image)
    return taken


@given(STREAM, STREAM)
def test_an_image_and_a_delta_give_the_next_image(
    before: list[s.MetadataRecord], batch: list[s.MetadataRecord]
) -> None:
    image = fold(MetadataImage(), before)
    old = image.copy()
    far = image_of_records(image_records(old), old.end_offset)  # shares nothing
    builder = DeltaBuilder(image)
    fold(image, batch)
    taken = builder.take()
    assert taken == MetadataDelta.between(old, image) == MetadataDelta.between(far, image)
    assert bool(taken) == (old != image)
    apply(taken, old)
    assert (old, old.digest, old.end_offset) == (image, image.digest, image.end_offset)
    assert not builder.take()


@given(STREAM, STREAM)
def test_the_delta_to_a_snapshot_deletes_what_it_lacks(
    mine: list[s.MetadataRecord], snapshot: list[s.MetadataRecord]
) -> None:
    image, loaded = fold(MetadataImage(), mine), fold(MetadataImage(), snapshot)
    apply(MetadataDelta.between(image, loaded), image)  # KAFKA-14894
    assert (image, image.digest) == (loaded, loaded.digest)


def test_a_topic_that_came_and_went_leaves_nothing() -> None:
    batch = [topic("a", 0), setting("v"), partition(0), removed(0)]
    assert not delta([], batch)  # KAFKA-19497
    assert not delta([topic("b", 1), partition(1)], batch)


def test_a_new_topic_has_all_its_partitions() -> None:
    taken = delta([], [topic("a", 0), partition(0), partition(0, 1), setting("v")])
    new = Change(None, STATE)
    assert taken.topics == (TopicDelta(A, "a", False, True, {0: new, 1: new}),)
    assert list(taken.created) == list(taken.topics)
    assert taken.configs == {(2, "a"): {"k": Change(None, "v")}}
    assert taken.end_offset == 4


def test_a_deleted_topic_tells_what_it_was_when_the_batch_began() -> None:
    shrunk = s.PartitionChangeRecord(topic_id=A, partition_id=0, isr=())
    taken = delta(
        [topic("a", 0), partition(0), setting("v")], [shrunk, partition(0, 1), removed(0)]
    )
    assert taken.topics == (TopicDelta(A, "a", True, False, {0: Change(STATE, None)}),)
    assert list(taken.deleted) == list(taken.topics)
    assert taken.configs == {(2, "a"): {"k": Change("v", None)}}


def test_a_topic_of_the_same_name_is_another_one_and_the_old_goes_first() -> None:
    taken = delta([topic("a", 0), partition(0)], [removed(0), topic("a", 1), partition(1)])
    assert taken.topics == (
        TopicDelta(A, "a", True, False, {0: Change(STATE, None)}),
        TopicDelta(B, "a", False, True, {0: Change(None, STATE)}),
    )


def test_what_was_changed_back_has_not_changed() -> None:
    assert not delta([setting("1")], [setting("2"), setting("1")])
    assert not delta([], [setting("2"), setting(None)])
    assert delta([setting("1")], [setting(None)]).configs == {(2, "a"): {"k": Change("1", None)}}


def test_only_changed_partitions_are_told() -> None:
    led = s.PartitionChangeRecord(topic_id=A, partition_id=1, leader=1)
    taken = delta([topic("a", 0), partition(0), partition(0, 1)], [led])
    (changed,) = taken.topics
    assert (changed.existed, changed.exists, set(changed.partitions)) == (True, True, {1})


def test_producer_ids_and_features() -> None:
    ids = s.ProducerIdsRecord(broker_id=1, next_producer_id=1000)
    level = s.FeatureLevelRecord(name="metadata.version", feature_level=27)
    taken = delta([], [ids, level])
    assert taken.next_producer_id == 1000
    assert taken.features == {"metadata.version": Change(None, 27)}
    assert delta([ids, level], [s.NoOpRecord()]).next_producer_id is None


def test_one_builder_at_a_time() -> None:
    image = MetadataImage()
    builder = DeltaBuilder(image)
    with pytest.raises(RuntimeError, match="stop that first"):
        DeltaBuilder(image)
    builder.stop()
    fold(image, [setting("v")])
    assert not builder.take().configs
    DeltaBuilder(image)
    DeltaBuilder(image.copy())
