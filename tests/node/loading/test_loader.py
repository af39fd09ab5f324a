"""The loader: what is published, when, and that deltas add up to the log whatever its cuts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.loading.committed import CommittedBatch, Provenance
from node.loading.loader import CatchUp, LoaderError, Manifest, MetadataLoader
from node.loading.snapshot_policy import SnapshotPolicy
from node.log.batch import encode_batch, parse_batch
from node.metadata import schemas as s
from node.metadata.delta import DeltaBuilder, MetadataDelta
from node.metadata.fold import apply_record
from node.metadata.image import MetadataImage
from node.metadata.records import RecordError, encode_record
from node.metadata.snapshot import image_records
from tests.support.nodes.deltas import apply

BEGIN, END, ABORT = (
    s.BeginTransactionRecord(),
    s.EndTransactionRecord(),
    s.AbortTransactionRecord(),
)
NO_OP = s.NoOpRecord()
SIZE = 10  # bytes of a batch here


def setting(name: str, value: str | None = "1", resource: str = "") -> s.ConfigRecord:
    return s.ConfigRecord(resource_type=4, resource_name=resource, name=name, value=value)


def batch(base: int, *records: s.MetadataRecord, epoch: int = 1) -> CommittedBatch:
    """A batch; one without records is a control batch of one record."""
    numbered = tuple(enumerate(records, base))
    last = base + max(len(records), 1) - 1
    return CommittedBatch(base, last, epoch, 1000 + last, SIZE, numbered)


@dataclass
class Copy:
    """A publisher that keeps an image of its own, made of nothing but deltas."""

    image: MetadataImage = field(default_factory=MetadataImage)
    manifests: list[Manifest] = field(default_factory=list)
    deltas: list[MetadataDelta] = field(default_factory=list)
    changes_only: bool = False

    def publish(self, delta: MetadataDelta, image: MetadataImage, manifest: Manifest) -> None:
        apply(delta, self.image)
        self.manifests.append(manifest)
        self.deltas.append(delta)
        assert self.image == image  # C9
        assert self.image.digest == image.digest
        assert self.image.end_offset == image.end_offset == manifest.provenance.offset + 1

    @property
    def offsets(self) -> list[int]:
        return [manifest.provenance.offset for manifest in self.manifests]

    @property
    def kinds(self) -> list[str]:
        return [manifest.kind for manifest in self.manifests]


class Loading:
    """A loader with one publisher, and its trace."""

    def __init__(self) -> None:
        self.trace: list[tuple[str, Mapping[str, Any]]] = []
        self.policy = SnapshotPolicy(max_bytes=10**9)
        self.loader = MetadataLoader(self.policy, lambda *event: self.trace.append(event))
        self.copy = Copy()
        self.loader.add_publisher(self.copy)

    def commit(self, *batches: CommittedBatch) -> None:
        """Load batches, the last of which is known to be the last committed one."""
        self.loader.high_watermark(batches[-1].last_offset + 1)
        self.loader.load_batches(batches, 0)


# --------------------------------------------------------------------------- the gate (C10)


def test_nothing_is_published_before_the_high_watermark_is_known() -> None:
    loading = Loading()
    loading.loader.load_batches([batch(0, setting("a"))], 0)
    assert loading.copy.offsets == []
    loading.loader.high_watermark(1)
    assert loading.copy.offsets == [0]


def test_nothing_is_published_before_the_high_watermark_is_reached() -> None:  # KAFKA-14857
    loading = Loading()
    loading.loader.high_watermark(3)
    for offset in range(3):
        assert loading.copy.offsets == []
        loading.loader.load_batches([batch(offset, setting(str(offset)))], 0)
    assert loading.copy.offsets == [2]
    assert loading.copy.kinds == ["full"]


def test_nothing_is_published_before_a_record_was_seen() -> None:  # KAFKA-15389
    loading = Loading()
    loading.commit(batch(0), batch(1, BEGIN), batch(2, END), batch(3))
    assert loading.copy.offsets == []
    loading.commit(batch(4, NO_OP))
    assert loading.copy.offsets == [4]


def test_once_open_the_gate_stays_open() -> None:
    loading = Loading()
    loading.commit(batch(0, NO_OP))
    loading.loader.high_watermark(100)
    loading.loader.load_batches([batch(1, NO_OP)], 0)
    assert loading.copy.offsets == [0, 1]


def test_a_high_watermark_that_is_told_late_and_lower_changes_nothing() -> None:
    loading = Loading()
    loading.loader.high_watermark(3)
    loading.loader.high_watermark(1)
    loading.loader.load_batches([batch(0, NO_OP)], 0)
    assert loading.copy.offsets == []


# --------------------------------------------------------------------------- publications


def test_the_first_publication_is_full_and_the_next_are_deltas() -> None:
    loading = Loading()
    loading.commit(batch(0, setting("a")), batch(1, setting("b"), setting("c")))
    loading.commit(batch(3, setting("a", "2")))
    assert loading.copy.kinds == ["full", "delta"]
    [full, delta] = loading.copy.deltas
    assert set(full.configs[4, ""]) == {"a", "b", "c"}
    assert {name: tuple(c) for name, c in delta.configs[4, ""].items()} == {"a": ("1", "2")}
    assert loading.copy.manifests == [
        Manifest("full", Provenance(2, 1, 1002), records=3, batches=2, bytes=2 * SIZE),
        Manifest("delta", Provenance(3, 1, 1003), records=1, batches=1, bytes=SIZE),
    ]


def test_one_commit_of_many_batches_is_one_publication() -> None:
    loading = Loading()
    loading.commit(*[batch(offset, NO_OP) for offset in range(5)])
    assert loading.copy.offsets == [4]


def test_a_batch_that_changes_nothing_moves_the_published_offset() -> None:
    loading = Loading()
    loading.commit(batch(0, setting("a")))
    loading.commit(batch(1, NO_OP))
    loading.commit(batch(2, epoch=2))
    assert loading.copy.offsets == [0, 1, 2]
    assert not loading.copy.deltas[-1]
    assert loading.loader.provenance == Provenance(2, 2, 1002)
    assert loading.loader.published_offset == 2


def test_what_comes_and_goes_in_one_commit_is_in_no_delta() -> None:  # KAFKA-19497
    loading = Loading()
    loading.commit(batch(0, NO_OP))
    topic = s.TopicRecord(name="ghost", topic_id=UUID(int=1))
    loading.commit(batch(1, topic), batch(2, s.RemoveTopicRecord(topic_id=UUID(int=1))))
    assert loading.copy.offsets == [0, 2]
    assert not loading.copy.deltas[-1]


def test_publishers_are_told_in_the_order_in_which_they_came() -> None:
    loading = Loading()
    told: list[str] = []

    class Named(Copy):
        def publish(self, delta: MetadataDelta, image: MetadataImage, manifest: Manifest) -> None:
            told.append(f"{self.name} {manifest.provenance.offset}")
            super().publish(delta, image, manifest)

        name = ""

    for name in ("first", "second"):
        publisher = Named()
        publisher.name = name
        loading.loader.add_publisher(publisher)
    loading.commit(batch(0, NO_OP))
    loading.commit(batch(1, NO_OP))
    assert told == ["first 0", "second 0", "first 1", "second 1"]


def test_a_late_publisher_gets_everything_first_and_deltas_from_then_on() -> None:
    loading = Loading()
    loading.commit(batch(0, setting("a")))
    late = Copy()
    loading.loader.add_publisher(late)
    assert (late.offsets, late.kinds) == ([0], ["full"])
    assert late.image == loading.loader.image
    loading.commit(batch(1, setting("b")))
    assert late.kinds == ["full", "delta"]
    assert loading.copy.offsets == [0, 1]


def test_where_nobody_is_told_nothing_is_compared_and_who_comes_then_misses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a delta for nobody: half a second with a million partitions")

    loader = MetadataLoader(SnapshotPolicy(), lambda *_: None)
    with monkeypatch.context() as patched:
        patched.setattr(MetadataDelta, "between", refuse)
        patched.setattr(DeltaBuilder, "take", refuse)
        loader.high_watermark(2)
        loader.load_batches([batch(0, setting("a")), batch(1, setting("b"))], 0)
        loader.load_snapshot(Provenance(9, 2, 5), [setting("b", "2"), setting("c")])
        loader.load_batches([batch(10, setting("d"))], 0)
    assert (loader.published_offset, loader.publications) == (10, 3)
    late = Copy()
    loader.add_publisher(late)
    loader.load_batches([batch(11, setting("e"))], 0)
    loader.load_snapshot(Provenance(19, 2, 5), [setting("e")])
    loader.load_batches([batch(20, setting("f"))], 0)
    assert late.kinds == ["full", "delta", "full", "delta"]
    assert late.image == loader.image


def test_who_takes_changes_only_is_told_of_no_whole_image(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a delta for nobody: half a second with a million partitions")

    monkeypatch.setattr(MetadataDelta, "between", refuse)
    loader = MetadataLoader(SnapshotPolicy(), lambda *_: None)
    changes = Changes()
    loader.add_publisher(changes)
    loader.high_watermark(1)
    loader.load_batches([batch(0, setting("a"))], 0)
    loader.load_batches([batch(1, setting("b"))], 0)
    loader.load_snapshot(Provenance(9, 2, 5), [setting("b", "2")])
    loader.load_batches([batch(10, setting("d"))], 0)
    assert changes.told == [("delta", 1), ("delta", 10)]


@dataclass
class Changes:
    """A publisher that keeps nothing."""

    told: list[tuple[str, int]] = field(default_factory=list)
    changes_only: bool = True

    def publish(self, delta: MetadataDelta, image: MetadataImage, manifest: Manifest) -> None:
        del delta, image
        self.told.append((manifest.kind, manifest.provenance.offset))


def test_the_trace_tells_of_each_image_before_publishers_see_it() -> None:
    loading = Loading()
    seen: list[int] = []

    class Watching(Copy):
        def publish(self, delta: MetadataDelta, image: MetadataImage, manifest: Manifest) -> None:
            del delta, manifest
            seen.append(len(loading.trace))
            assert loading.trace[-1][1]["digest"] == image.digest

    loading.loader.add_publisher(Watching())
    loading.commit(batch(0, setting("a")))
    loading.commit(batch(1, NO_OP))
    assert seen == [2, 3]
    assert [type_ for type_, _ in loading.trace] == ["catchup", "image", "image"]
    assert loading.trace[0][1] == {"off": 1, "from_snapshot": 0, "from_log": 1}
    assert {k: v for k, v in loading.trace[2][1].items() if k != "digest"} == {
        "off": 2,
        "kind": "delta",
        "n": 1,
    }


# --------------------------------------------------------------------------- transactions


def test_a_transaction_is_published_when_it_ends() -> None:
    loading = Loading()
    loading.commit(batch(0, setting("a")))
    loading.commit(batch(1, setting("b"), BEGIN, setting("c")))
    assert loading.copy.offsets == [0, 1]  # what came before it is not kept back
    assert loading.loader.provenance == Provenance(1, 1, 1003)
    assert loading.loader.in_transaction
    loading.commit(batch(4, setting("d")))
    loading.commit(batch(5))
    assert loading.copy.offsets == [0, 1]
    loading.commit(batch(6, END, setting("e")))
    assert loading.copy.offsets == [0, 1, 7]
    assert set(loading.copy.deltas[-1].configs[4, ""]) == {"c", "d", "e"}


def test_an_aborted_transaction_has_never_been() -> None:
    loading = Loading()
    loading.commit(batch(0, setting("a")))
    loading.commit(batch(1, BEGIN, setting("b")), batch(3, ABORT, setting("c")))
    assert loading.copy.offsets == [0, 4]
    assert set(loading.copy.deltas[-1].configs[4, ""]) == {"c"}


def test_the_gate_waits_for_the_end_of_a_transaction_at_the_high_watermark() -> None:
    loading = Loading()
    loading.commit(batch(0, setting("a")), batch(1, BEGIN, setting("b")))
    assert loading.copy.offsets == []
    loading.commit(batch(3, END))
    assert loading.copy.offsets == [3]


def test_no_snapshot_is_due_while_a_transaction_is_open() -> None:
    loading = Loading()
    loading.loader._policy = policy = SnapshotPolicy(max_bytes=1)
    loading.commit(batch(0, setting("a"), BEGIN))
    assert policy.due(0) is None
    loading.commit(batch(2, END))
    assert policy.due(0) is not None


# --------------------------------------------------------------------------- snapshots


def test_a_snapshot_deletes_what_it_lacks() -> None:  # KAFKA-14894
    loading = Loading()
    topic = s.TopicRecord(name="gone", topic_id=UUID(int=1))
    loading.commit(batch(0, setting("a"), setting("b"), topic))
    loading.loader.load_snapshot(Provenance(9, 2, 5), [setting("b", "2"), setting("c")])
    assert loading.copy.offsets == [2, 9]
    assert loading.copy.kinds == ["full", "full"]
    delta = loading.copy.deltas[-1]
    assert {name: tuple(c) for name, c in delta.configs[4, ""].items()} == {
        "a": ("1", None),
        "b": ("1", "2"),
        "c": (None, "1"),
    }
    assert [t.name for t in delta.deleted] == ["gone"]


def test_after_a_snapshot_the_log_goes_on_behind_it() -> None:
    loading = Loading()
    loading.commit(batch(0, setting("a")))
    loading.loader.load_snapshot(Provenance(9, 2, 5), [setting("b")])
    loading.commit(batch(10, setting("c")))
    assert loading.copy.kinds == ["full", "full", "delta"]
    assert set(loading.copy.deltas[-1].configs[4, ""]) == {"c"}


def test_a_snapshot_ends_a_transaction_that_it_covers() -> None:
    loading = Loading()
    loading.commit(batch(0, setting("a")))
    loading.commit(batch(1, BEGIN, setting("b")))
    loading.loader.load_snapshot(Provenance(9, 1, 5), [setting("a"), setting("b")])
    assert not loading.loader.in_transaction
    assert set(loading.copy.deltas[-1].configs[4, ""]) == {"b"}


def test_a_restart_reads_its_snapshot_and_only_what_came_after() -> None:
    loading = Loading()
    loading.loader.load_snapshot(Provenance(99, 1, 5), [setting("a"), setting("b")])
    loading.loader.load_batches([batch(100, NO_OP), batch(101, NO_OP, NO_OP)], 0)
    assert loading.copy.offsets == []
    loading.loader.high_watermark(103)
    assert loading.loader.catch_up == CatchUp(from_snapshot=2, from_log=3, full_log=103)
    loading.commit(batch(103, NO_OP))
    assert loading.loader.catch_up == CatchUp(2, 3, 103)  # of the start, once and for all
    assert (loading.loader.records_from_log, loading.loader.publications) == (4, 2)


def test_a_loaded_snapshot_resets_what_is_counted_for_the_next_one() -> None:
    loading = Loading()
    loading.commit(batch(0, setting("a"), BEGIN))
    assert loading.policy.bytes_since_snapshot == SIZE
    loading.loader.load_snapshot(Provenance(9, 1, 5), [])
    assert loading.policy.bytes_since_snapshot == 0


# --------------------------------------------------------------------------- faults


def test_a_record_that_does_not_fit_is_fatal_and_no_snapshot_is_made_of_it() -> None:
    loading = Loading()
    loading.commit(batch(0, NO_OP))
    with pytest.raises(LoaderError, match="does not exist"):
        loading.commit(batch(1, s.RemoveTopicRecord(topic_id=UUID(int=5))))
    assert loading.policy.disabled is not None
    assert loading.copy.offsets == [0]


@pytest.mark.parametrize("base", [0, 2])
def test_a_batch_out_of_order_is_fatal(base: int) -> None:
    loading = Loading()
    loading.commit(batch(0, NO_OP))
    with pytest.raises(LoaderError, match=f"at {base} came, want 1"):
        loading.loader.load_batches([batch(base, NO_OP)], 0)


def test_a_snapshot_from_the_past_is_fatal() -> None:
    loading = Loading()
    loading.commit(batch(0, NO_OP, NO_OP))
    with pytest.raises(LoaderError, match="the image is at 1"):
        loading.loader.load_snapshot(Provenance(0, 1, 5), [])


def test_a_broken_snapshot_is_fatal_and_changes_nothing() -> None:
    loading = Loading()
    loading.commit(batch(0, setting("a")))
    with pytest.raises(LoaderError, match="snapshot of 9"):
        loading.loader.load_snapshot(
            Provenance(9, 1, 5), [s.RemoveTopicRecord(topic_id=UUID(int=5))]
        )
    assert loading.loader.provenance.offset == 0
    assert loading.policy.disabled is not None


def test_a_second_begin_is_fatal() -> None:
    loading = Loading()
    with pytest.raises(LoaderError, match="begins within"):
        loading.commit(batch(0, BEGIN, BEGIN))


# --------------------------------------------------------------------------- batches of the log


def test_a_batch_of_the_log_is_read_with_its_records() -> None:
    values = [(None, encode_record(setting("a"))), (None, encode_record(NO_OP))]
    data = encode_batch(5, 3, values, control=False, timestamp_ms=77)
    read = CommittedBatch.of(parse_batch(data))
    assert read == (5, 6, 3, 77, len(data), ((5, setting("a")), (6, NO_OP)))


def test_a_record_without_a_value_is_refused() -> None:
    data = encode_batch(5, 3, [(None, None)], control=False, timestamp_ms=77)
    with pytest.raises(RecordError, match="at 5 has no value"):
        CommittedBatch.of(parse_batch(data))


# --------------------------------------------------------------------------- any cut


def history(choices: Sequence[int]) -> list[s.MetadataRecord]:
    """Records that fit one after another, one per choice; transactions may be left open."""
    records: list[s.MetadataRecord] = []
    image, kept = MetadataImage(), MetadataImage()
    open_ = False
    for number, choice in enumerate(choices):
        kind, detail = choice % 8, choice // 8
        if kind == 7 and detail % 4:
            kind = 0  # transactions often; the rest of 7 does nothing
        record: s.MetadataRecord
        if kind == 0 and open_:
            record = END if detail % 2 else ABORT
            image = image if detail % 2 else kept
            open_ = False
        elif kind == 0:
            record, open_, kept = BEGIN, True, image.copy()
        else:
            record = _fitting(image, kind, detail, number)
        if record not in (BEGIN, END, ABORT):
            apply_record(image, record, max(number, image.end_offset))
        records.append(record)
    return records


def _fitting(image: MetadataImage, kind: int, detail: int, number: int) -> s.MetadataRecord:
    topic = image.topics.get(f"t{detail % 3}")
    broker = image.brokers.get(detail % 3)
    if kind in (1, 2) and topic is None:
        return s.TopicRecord(name=f"t{detail % 3}", topic_id=UUID(int=number + 1))
    if kind == 1 and topic is not None:
        return s.RemoveTopicRecord(topic_id=topic.id)
    if kind == 2 and topic is not None:
        if detail % 4 in topic.partitions:
            return s.PartitionChangeRecord(
                partition_id=detail % 4, topic_id=topic.id, leader=detail % 5, isr=(detail % 5,)
            )
        return s.PartitionRecord(
            partition_id=detail % 4, topic_id=topic.id, replicas=(1, 2), isr=(1,), leader=1
        )
    if kind == 3:
        value = None if detail % 3 == 0 else str(detail)
        return setting(f"k{detail % 2}", value, f"{detail % 2}")
    if kind == 4:
        return s.FeatureLevelRecord(name="group.version", feature_level=detail % 3)
    if kind in (5, 6) and broker is None:
        return s.RegisterBrokerRecord(
            broker_id=detail % 3,
            broker_epoch=number,
            incarnation_id=UUID(int=number + 1),
            end_points=(),
            features=(),
            rack=None,
        )
    if kind == 5 and broker is not None:
        return s.UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch)
    if kind == 6 and broker is not None:
        fence = s.FenceBrokerRecord if detail % 2 else s.UnfenceBrokerRecord
        return fence(id=broker.id, epoch=broker.epoch)
    return NO_OP


def folded(records: Sequence[s.MetadataRecord]) -> tuple[MetadataImage, int]:
    """The slow truth: what counts of these records, and how many of them are settled."""
    image = MetadataImage()
    settled: list[s.MetadataRecord] = []
    begun: list[s.MetadataRecord] | None = None
    for record in records:
        if record is BEGIN:
            begun = []
        elif record in (END, ABORT):
            settled += begun or [] if record is END else []
            begun = None
        else:
            (settled if begun is None else begun).append(record)
    for record in settled:
        apply_record(image, record, image.end_offset)
    start = max(i for i, r in enumerate(records) if r is BEGIN) if begun is not None else None
    return image, len(records) if start is None else start


def cut(items: Sequence[Any], sizes: Iterable[int]) -> list[Sequence[Any]]:
    """Items in pieces of those sizes; the last piece has what is left."""
    pieces, start = [], 0
    for size in sizes:
        if start + size < len(items):
            pieces.append(items[start : start + size])
            start += size
    return [*pieces, items[start:]]


NOTHING = 7  # the choice of a record that changes nothing
CHOICES = st.lists(st.integers(0, 199), min_size=10, max_size=40)
SIZES = st.lists(st.integers(1, 4), min_size=5, max_size=30)


def batches_of(records: Sequence[s.MetadataRecord], sizes: Iterable[int]) -> list[CommittedBatch]:
    made, base = [], 0
    for piece in cut(records, sizes):
        made.append(batch(base, *piece))
        base += len(piece)
    return made


@settings(deadline=None)
@given(CHOICES, SIZES, SIZES)
def test_any_cut_gives_the_image_of_the_log_and_deltas_that_add_up(
    choices: list[int], batch_sizes: list[int], commit_sizes: list[int]
) -> None:
    records = history([NOTHING, *choices])
    loading = Loading()
    if choices[0] % 2:  # the gate is open before the rest comes
        batch_sizes, commit_sizes = [1, *batch_sizes], [1, *commit_sizes]
    for commit in cut(batches_of(records, batch_sizes), commit_sizes):
        loading.commit(*commit)
        want, settled = folded(records[: commit[-1].last_offset + 1])
        if loading.copy.offsets:
            assert loading.copy.image == want  # C8, C9, C10: the fold of what is settled
            assert loading.copy.image.digest == want.digest
            assert loading.loader.provenance.offset == loading.copy.offsets[-1] == settled - 1
    assert loading.copy.offsets == sorted(set(loading.copy.offsets))
    images = [fields["digest"] for type_, fields in loading.trace if type_ == "image"]
    offsets = [fields["off"] for type_, fields in loading.trace if type_ == "image"]
    assert images == [folded(records[:off])[0].digest for off in offsets]


@settings(deadline=None)
@given(CHOICES, SIZES, st.integers(0, 40), st.integers(0, 40))
def test_a_snapshot_at_any_point_replaces_the_log_before_it(
    choices: list[int], sizes: list[int], read: int, covered: int
) -> None:
    records = history(choices)
    batches = batches_of(records, sizes)
    loading = Loading()
    first, rest = batches[: read % len(batches)], batches[read % len(batches) :]
    if first:
        loading.commit(*first)
    # a snapshot of a later point where no transaction is open, cut on a batch boundary
    ends = [
        each.last_offset + 1
        for each in rest
        if folded(records[: each.last_offset + 1])[1] == each.last_offset + 1
    ]
    if ends:
        end = ends[covered % len(ends)]
        image, _ = folded(records[:end])
        loading.loader.load_snapshot(Provenance(end - 1, 1, 0), list(image_records(image)))
        rest = [each for each in rest if each.base_offset >= end]
        loading.loader.high_watermark(end)
        assert loading.copy.offsets[-1] == end - 1
    if rest:
        loading.commit(*rest)
    want, settled = folded(records)
    if loading.copy.offsets:
        assert loading.copy.image == loading.loader.image == want
        assert loading.copy.image.digest == want.digest
        assert loading.loader.published_offset == settled - 1


@settings(deadline=None)
@given(CHOICES, SIZES, st.integers(1, 5))
def test_a_batch_in_slices_is_loaded_as_a_whole(
    choices: list[int], sizes: list[int], size: int
) -> None:
    records = history([NOTHING, *choices])
    whole, sliced = Loading(), Loading()
    for each in batches_of(records, [1, *sizes]):
        whole.commit(each)
        image, before = sliced.loader.image, sliced.loader.image.digest
        seen = (len(sliced.trace), sliced.loader.provenance, image.end_offset)
        sliced.loader.high_watermark(each.last_offset + 1)
        bare = each._replace(records=())
        for _ in sliced.loader.load_batch_slices(bare, each.records, size, 0):
            assert image.digest == before
            assert (len(sliced.trace), sliced.loader.provenance, image.end_offset) == seen
        assert image is sliced.loader.image
        assert (image, image.digest) == (whole.loader.image, whole.loader.image.digest)
        assert image.end_offset == whole.loader.image.end_offset
        assert sliced.loader.in_transaction == whole.loader.in_transaction
        assert sliced.policy.bytes_since_snapshot == whole.policy.bytes_since_snapshot
    assert sliced.trace == whole.trace
    assert sliced.copy.manifests == whole.copy.manifests
    assert sliced.copy.deltas == whole.copy.deltas


def test_a_snapshot_takes_the_place_of_a_batch_that_is_half_loaded() -> None:
    loading = Loading()
    loading.commit(batch(0, setting("a")))
    records = [(1, setting("b")), (2, setting("c"))]
    slices = loading.loader.load_batch_slices(batch(1)._replace(last_offset=2), records, 1, 0)
    next(slices)
    loading.loader.load_snapshot(Provenance(9, 2, 5), [setting("d")])
    loading.commit(batch(10, setting("e")))
    assert set(loading.loader.image.config((4, ""))) == {"d", "e"}
    assert loading.copy.image == loading.loader.image


def test_a_batch_that_does_not_fit_in_a_later_slice_shows_nothing() -> None:
    loading = Loading()
    loading.commit(batch(0, setting("a")))
    bad = [(1, setting("b")), (2, s.RemoveTopicRecord(topic_id=UUID(int=5)))]
    slices = loading.loader.load_batch_slices(batch(1)._replace(last_offset=2), bad, 1, 0)
    with pytest.raises(LoaderError, match="does not exist"):
        list(slices)
    assert set(loading.loader.image.config((4, ""))) == {"a"}
    assert loading.policy.disabled is not None


def test_what_a_snapshot_replaces_is_freed_some_at_a_time_and_what_is_shared_stays() -> None:
    loading = Loading()
    rows = [s.TopicRecord(name=f"t{n}", topic_id=UUID(int=n + 1)) for n in range(5)]
    loading.commit(batch(0, *rows))
    view = loading.loader.image.copy()
    loading.loader.load_snapshot(Provenance(9, 2, 5), rows[:1])
    [replaced] = loading.loader._unused
    left = [len(replaced.topics)]
    while loading.loader.let_go(2):
        left.append(len(replaced.topics))
    assert (left, replaced.topics) == ([5, 3, 1], {})
    assert not loading.loader.let_go(2)
    assert set(loading.loader.image.topics) == {"t0"}
    assert set(view.topics) == {"t0", "t1", "t2", "t3", "t4"}
