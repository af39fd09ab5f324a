"""An image as records, its copies and its indexes: equal states are equal in every way."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.metadata import partition_values
from node.metadata import schemas as s
from node.metadata.fold import apply_record
from node.metadata.image import NO_LEADER, ImageError, MetadataImage
from node.metadata.records import RecordError, encode_records
from node.metadata.snapshot import image_of_records, image_records, image_values
from node.metadata.state import PartitionState
from tests.support.nodes.metadata_streams import STREAM, TOPIC_IDS, fold

A = TOPIC_IDS[0]
LEVELS = (7, 17, 27)  # of metadata.version, where PartitionRecord has the versions 0, 1 and 2


def filled(level: int, **partition: object) -> MetadataImage:
    """An image of one partition at a level of metadata.version."""
    fields: dict[str, object] = {"replicas": (1, 2), "isr": (1,), "leader": 1, **partition}
    record = s.PartitionRecord(version=2, partition_id=0, topic_id=A, **fields)  # type: ignore[arg-type]
    records = (
        s.FeatureLevelRecord(name="metadata.version", feature_level=level),
        s.FeatureLevelRecord(name="group.version", feature_level=1),
        s.TopicRecord(name="a", topic_id=A),
        record,
    )
    return fold(MetadataImage(), records)


def partition_version(image: MetadataImage) -> int:
    return next(r.version for r in image_records(image) if isinstance(r, s.PartitionRecord))


@given(STREAM)
def test_an_image_is_the_fold_of_its_records(stream: list[s.MetadataRecord]) -> None:
    image = fold(MetadataImage(), stream)
    records = list(image_records(image))
    again = image_of_records(records, image.end_offset)
    assert (again, again.digest, again.end_offset) == (image, image.digest, image.end_offset)
    assert encode_records(image_records(again)) == encode_records(records)


@given(STREAM, st.sampled_from(LEVELS))
def test_the_bytes_of_an_image_are_those_of_its_records(
    stream: list[s.MetadataRecord], level: int
) -> None:
    features = s.FeatureLevelRecord(name="metadata.version", feature_level=level)
    image = fold(MetadataImage(), [features, *stream])
    assert tuple(image_values(image)) == encode_records(image_records(image))


@pytest.mark.parametrize("level", LEVELS)
def test_the_bytes_of_very_many_partitions_are_those_of_their_records(
    level: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all forms, also where so many sets of brokers and directories are not kept."""
    monkeypatch.setattr(partition_values, "_KNOWN_MAX", 40)
    rng = Random(level)
    image = filled(level)
    for index in range(1, 1500):
        replicas = tuple(rng.sample(range(-2, 2**31 - 1, 10**8), rng.randrange(5)))
        usual = rng.random() < 0.7
        directories = tuple(rng.choice([None, A, UUID(int=1)]) for _ in replicas)
        state = PartitionState(
            replicas,
            replicas[: rng.randrange(5)],
            rng.choice([-1, *replicas]),
            rng.randrange(2**31),
            rng.randrange(2**31),
            removing=replicas[: rng.choice([0, 0, 2])],
            adding=replicas[: rng.choice([0, 0, 1])],
            recovery=0 if usual else 1,
            directories=directories if rng.random() < 0.7 else (),
            eligible_leaders=() if usual else replicas[:1],
            last_known_leaders=() if usual else replicas[1:2],
        )
        image.put_partition(image.topics["a"], index, state)
    want = encode_records(image_records(image))
    assert tuple(image_values(image)) == want
    assert len(want) == len(image.features) + 1 + 1500


def test_a_partition_that_no_record_can_hold_is_refused() -> None:
    image = filled(20)
    state = PartitionState((1,), (1,), 2**31, 0, 0)
    image.put_partition(image.topics["a"], 0, state)
    with pytest.raises(RecordError, match="a partition of a cannot be written"):
        list(image_values(image))


@given(STREAM, STREAM)
@settings(max_examples=50)
def test_equal_states_have_equal_bytes_and_digests(
    one: list[s.MetadataRecord], other: list[s.MetadataRecord]
) -> None:
    left, right = fold(MetadataImage(), one), fold(MetadataImage(), other)
    same = encode_records(image_records(left)) == encode_records(image_records(right))
    assert same == (left == right) == (left.digest == right.digest)


@given(STREAM, STREAM, STREAM)
@settings(max_examples=50)
def test_a_copy_and_its_original_go_their_own_ways(
    first: list[s.MetadataRecord], mine: list[s.MetadataRecord], yours: list[s.MetadataRecord]
) -> None:
    image = fold(MetadataImage(), first)
    copy = image.copy()
    fold(image, mine)
    frozen = encode_records(image_records(copy))
    assert (copy, copy.digest) == ((fresh := fold(MetadataImage(), first)), fresh.digest)
    fold(copy, yours)
    assert fold(MetadataImage(), [*first, *mine]) == image
    assert fold(MetadataImage(), [*first, *yours]) == copy
    assert frozen == encode_records(image_records(fresh))
    _check_indexes(image)
    _check_indexes(copy)


def _check_indexes(image: MetadataImage) -> None:
    wanted: dict[tuple[str, int], list[tuple[UUID, int]]] = defaultdict(list)
    for topic in sorted(image.topics.values(), key=lambda topic: topic.id.int):
        for index, state in sorted(topic.partitions.items()):
            place = (topic.id, index)
            for broker in state.isr:
                wanted["isr", broker].append(place)
            for broker in state.eligible_leaders:
                wanted["elr", broker].append(place)
            wanted["led", state.leader].append(place)
            if state.replicas and state.leader != state.replicas[0]:
                wanted["imbalanced", 0].append(place)
            if state.adding or state.removing:
                wanted["reassigning", 0].append(place)
    for broker in range(4):
        assert list(image.isr_partitions(broker)) == wanted["isr", broker]
        assert list(image.elr_partitions(broker)) == wanted["elr", broker]
        assert list(image.led_partitions(broker)) == wanted["led", broker]
        assert image.led_count(broker) == len(wanted["led", broker])
    assert list(image.leaderless_partitions()) == wanted["led", NO_LEADER]
    assert list(image.imbalanced_partitions()) == wanted["imbalanced", 0]
    assert list(image.reassigning_partitions()) == wanted["reassigning", 0]
    for topic_id in TOPIC_IDS:
        leaderless = [index for topic, index in wanted["led", NO_LEADER] if topic == topic_id]
        imbalanced = [index for topic, index in wanted["imbalanced", 0] if topic == topic_id]
        assert list(image.leaderless_in(topic_id)) == leaderless
        assert list(image.imbalanced_in(topic_id)) == imbalanced


def test_metadata_version_comes_first() -> None:
    first, second, *_ = image_records(filled(20))
    assert isinstance(first, s.FeatureLevelRecord)
    assert isinstance(second, s.FeatureLevelRecord)
    assert (first.name, second.name) == ("metadata.version", "group.version")


def test_partitions_come_in_the_order_of_their_numbers() -> None:
    image = filled(27)
    for index in (2, 1):
        more = s.PartitionRecord(topic_id=A, partition_id=index, replicas=(1,), isr=(1,))
        apply_record(image, more, image.end_offset)
    indexes = [r.partition_id for r in image_records(image) if isinstance(r, s.PartitionRecord)]
    assert indexes == [0, 1, 2]


def test_versions_are_those_of_the_level_unless_state_would_be_lost() -> None:
    assert partition_version(filled(7)) == 0
    assert partition_version(filled(17)) == 1
    assert partition_version(filled(27)) == 2
    assert partition_version(filled(7, directories=(A, A))) == 1
    assert partition_version(filled(17, eligible_leader_replicas=(2,))) == 2


@pytest.mark.parametrize(
    "mark",
    [s.BeginTransactionRecord(), s.EndTransactionRecord(), s.AbortTransactionRecord()],
    ids=lambda mark: type(mark).__name__,
)
def test_a_snapshot_has_no_marks_of_transactions(mark: s.MetadataRecord) -> None:
    with pytest.raises(ImageError, match="in a snapshot, its record 1"):
        image_of_records([s.NoOpRecord(), mark], 2)


def test_copying_does_not_take_the_partitions_apart() -> None:
    image = filled(27)
    copy = image.copy()
    assert copy.topics["a"] is image.topics["a"]
    apply_record(
        image, s.PartitionChangeRecord(partition_id=0, topic_id=A, leader=2), image.end_offset
    )
    assert copy.topics["a"].partitions[0].leader == 1
    assert image.topics["a"].partitions[0].leader == 2
