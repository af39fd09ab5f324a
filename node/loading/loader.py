"""From the committed log to publishers: batches and snapshots in, deltas of the image out.

Pure but for the publishers, which are called in the order in which they were added. Rules:

- Nothing is published before the loader has come to the high watermark and has seen a record: a
  broker must not serve what it read in a log that is far behind (KAFKA-14857, KAFKA-15389).
- Each publisher first gets the whole image, as a delta against nothing, and from then on deltas,
  each from where the one before ended. One that takes changes only is left out when the whole
  image comes: its delta takes a second with a million partitions.
- A metadata transaction is published at its end or never (KIP-868). Until then the image is that
  of the record before it, and so are the offset and the provenance.
- A snapshot replaces the image; what it lacks is deleted by its delta (KAFKA-14894).

Source: Kafka's MetadataLoader and MetadataBatchLoader.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

from node.loading.committed import CommittedBatch, Provenance
from node.loading.snapshot_policy import SnapshotPolicy
from node.metadata.delta import DeltaBuilder, MetadataDelta
from node.metadata.fold import apply_record, apply_slices, load_records
from node.metadata.image import ImageError, MetadataImage
from node.metadata.schemas import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    MetadataRecord,
)
from node.metadata.transactions import Transactions

_MARKS = (BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord)
FULL, DELTA = "full", "delta"
_SLICE = 2_000  # records; matters only to who pauses between slices

Trace = Callable[[str, Mapping[str, Any]], None]


class LoaderError(Exception):
    """Raised when what is loaded does not fit: the image may be wrong, the node must stop."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The make-up of a publication.

    ``kind`` is "full" (a publisher's first, or a snapshot was loaded) or "delta"; the counts are
    of what was loaded since the publication before.
    """

    kind: str
    provenance: Provenance
    records: int
    batches: int
    bytes: int


class Publisher(Protocol):
    """Hears of the metadata; of whole images too, unless it takes ``changes_only``."""

    @property
    def changes_only(self) -> bool:
        """Tell whether the publisher is told only of changes from one publication to the next."""
        ...

    def publish(self, delta: MetadataDelta, image: MetadataImage, manifest: Manifest) -> None:
        """Take over what changed. ``image`` is read-only and goes on changing after the call."""
        ...


@dataclass(slots=True)
class _Loaded:
    """Counts of what was loaded since the last publication."""

    records: int = 0
    batches: int = 0
    bytes: int = 0
    snapshot: bool = False


@dataclass(frozen=True, slots=True)
class CatchUp:
    """The cost of the first catching up: records read, and all that the log has had.

    ``full_log`` is what a node without a snapshot would have had to read.
    """

    from_snapshot: int
    from_log: int
    full_log: int


class MetadataLoader:
    """Loads and publishes; read ``image``, ``provenance``, ``published_offset``, ``catch_up``.

    Args:
        policy: Told of all that is loaded, so that it knows when a snapshot is due.
        trace: Takes ``image`` before each publication and ``catchup`` before the first.
    """

    def __init__(self, policy: SnapshotPolicy, trace: Trace) -> None:
        self.image = MetadataImage()
        self.provenance = Provenance(-1, -1, -1)  # of the image
        self.published_offset = -1  # inclusive; -1 = nothing was published
        self.catch_up: CatchUp | None = None  # None = still catching up
        self.publications = 0
        self.records_from_snapshot = 0
        self.records_from_log = 0
        self._policy = policy
        self._trace = trace
        self._transactions = Transactions()
        self._builder: DeltaBuilder | None = None
        self._high_watermark: int | None = None
        self._next_offset = 0  # of the next batch
        self._seen_record = False
        self._loaded = _Loaded()
        self._replaced: MetadataImage | None = None  # the image published before a snapshot came
        self._unused: deque[MetadataImage] = deque()  # that nobody will look at again
        self._publishers: list[Publisher] = []
        self._new_publishers: list[Publisher] = []

    @property
    def in_transaction(self) -> bool:
        """Tell whether a metadata transaction is open: no snapshot may be made now."""
        return self._transactions.open

    @property
    def has_unused(self) -> bool:
        """Tell whether ``let_go`` has something to let go of."""
        return bool(self._unused)

    def let_go(self, partitions: int) -> bool:
        """Free some of what a snapshot has replaced; whether there is more, for another turn."""
        if self._unused and not self._unused[0].let_go(partitions):
            self._unused.popleft()
        return bool(self._unused)

    def add_publisher(self, publisher: Publisher) -> None:
        """Publish to one more; it gets the whole image first, as soon as there is one."""
        self._new_publishers.append(publisher)
        if self.published_offset >= 0:
            self._initialise(Manifest(FULL, self.provenance, 0, 0, 0))

    def high_watermark(self, high_watermark: int) -> None:
        """All below ``high_watermark`` is known to be committed; what was loaded may be due now."""
        self._high_watermark = max(high_watermark, self._high_watermark or 0)
        self._publish()

    def load_batches(self, batches: Iterable[CommittedBatch], now_ms: int) -> None:
        """Load committed batches, contiguous with what is loaded, and publish once at the end.

        Raises:
            LoaderError: A batch is out of order or a record does not fit; load nothing more.
        """
        try:
            for batch in batches:
                self._load(batch)
                self._policy.committed(batch.size, now_ms, in_transaction=self.in_transaction)
        except ImageError as error:
            raise self._fault(str(error)) from error
        self._publish()

    def load_batch_slices(
        self,
        batch: CommittedBatch,
        records: Iterable[tuple[int, MetadataRecord]],
        size: int,
        now_ms: int,
    ) -> Iterator[None]:
        """Load one committed batch as ``load_batches`` does, with a pause after ``size`` records.

        Its ``records`` are read as they are needed, those in ``batch`` do not count. A batch is
        atomic: until the iteration ends nothing has changed, and nothing else may be loaded.

        Raises:
            LoaderError: As ``load_batches``.
        """
        self._check_next(batch)
        image, gate = self.image.copy(), self._transactions.copy()
        stand = before = self.provenance
        seen, steps = False, 0
        try:
            for offset, record in records:
                if isinstance(record, BeginTransactionRecord):
                    stand = before
                elif not isinstance(record, _MARKS):
                    seen = True
                counts = gate.feed(record, offset)
                for each, at in counts:
                    yield from apply_slices(image, each, at, size)
                    if (steps := steps + 1) % size == 0:
                        yield
                if not counts and (steps := steps + 1) % size == 0:
                    yield  # a record that waits for the end of its transaction
                before = Provenance(offset, batch.epoch, batch.timestamp_ms)
        except ImageError as error:
            raise self._fault(str(error)) from error
        if stand != self.provenance or not gate.open:  # else all of it waits for its end
            self._replace_image(image)
        self._transactions = gate
        self._seen_record = self._seen_record or seen
        self._stand_at(stand)
        self._took(batch, batch.last_offset - batch.base_offset + 1)
        self._policy.committed(batch.size, now_ms, in_transaction=self.in_transaction)
        self._publish()

    def load_snapshot(self, provenance: Provenance, records: Iterable[MetadataRecord]) -> None:
        """Begin anew with a snapshot of all up to ``provenance.offset``, inclusive; publish it.

        Raises:
            LoaderError: It is older than what is loaded, or no image; load nothing more.
        """
        for _ in self.load_snapshot_slices(provenance, records, _SLICE):
            pass

    def load_snapshot_slices(
        self, provenance: Provenance, records: Iterable[MetadataRecord], size: int
    ) -> Iterator[None]:
        """Do as ``load_snapshot``, with a pause after every ``size`` records.

        Until the iteration ends nothing has changed, and nothing else may be loaded.
        """
        if provenance.offset < self.provenance.offset:
            raise self._fault(
                f"a snapshot of {provenance.offset} came, the image is at {self.provenance.offset}"
            )
        image, remaining = MetadataImage(), iter(records)
        try:
            while load_records(image, islice(remaining, size)) == size:
                yield
        except ImageError as error:
            raise self._fault(f"snapshot of {provenance.offset}: {error}") from error
        count, image.end_offset = image.end_offset, provenance.offset + 1
        self._begin_anew(image, provenance, count)

    def _begin_anew(self, image: MetadataImage, provenance: Provenance, count: int) -> None:
        """Take over the image of a snapshot of ``count`` records."""
        if self._replaced is None:
            self._replaced = self.image.copy()
        self._replace_image(image)
        self.provenance = provenance
        self._next_offset = provenance.offset + 1
        self._transactions = Transactions()
        self._seen_record = True
        self._loaded = _Loaded(records=count, snapshot=True)
        self.records_from_snapshot += count
        self._policy.loaded()
        self._publish()

    # ------------------------------------------------------------------ loading

    def _replace_image(self, image: MetadataImage) -> None:
        """Show the state of another image; publishers get the difference of the two."""
        if self._builder is not None:
            if self._replaced is None:
                self._replaced = self.image.copy()
            self.image.record_to(None)
            self._builder = None
        self.image.become(image)  # whoever looks at it goes on looking

    def _check_next(self, batch: CommittedBatch) -> None:
        if batch.base_offset != self._next_offset:
            raise self._fault(f"a batch at {batch.base_offset} came, want {self._next_offset}")

    def _load(self, batch: CommittedBatch) -> None:
        self._check_next(batch)
        before = self.provenance
        for offset, record in batch.records:
            if isinstance(record, BeginTransactionRecord):
                self._stand_at(before)  # the image ends here until the transaction does
            elif not isinstance(record, _MARKS):
                self._seen_record = True
            for each, at in self._transactions.feed(record, offset):
                apply_record(self.image, each, at)
            before = Provenance(offset, batch.epoch, batch.timestamp_ms)
        self._took(batch, len(batch.records))

    def _took(self, batch: CommittedBatch, records: int) -> None:
        """A batch of so many metadata records is loaded."""
        if not self._transactions.open:
            self._stand_at(Provenance(batch.last_offset, batch.epoch, batch.timestamp_ms))
        self._next_offset = batch.last_offset + 1
        self._loaded.records += records
        self._loaded.batches += 1
        self._loaded.bytes += batch.size
        self.records_from_log += records

    def _stand_at(self, provenance: Provenance) -> None:
        self.provenance = provenance
        self.image.end_offset = provenance.offset + 1

    def _fault(self, why: str) -> LoaderError:
        self._policy.fault(why)
        return LoaderError(why)

    # ------------------------------------------------------------------ publishing

    def _caught_up(self) -> bool:
        """Tell whether publishing may begin, or has begun."""
        if self.catch_up is not None:
            return True
        high_watermark = self._high_watermark
        offset = self.provenance.offset
        if high_watermark is None or offset < high_watermark - 1 or not self._seen_record:
            return False
        self.catch_up = CatchUp(self.records_from_snapshot, self.records_from_log, offset + 1)
        self._trace(
            "catchup",
            {
                "off": offset + 1,
                "from_snapshot": self.records_from_snapshot,
                "from_log": self.records_from_log,
            },
        )
        return True

    def _publish(self) -> None:
        """Tell publishers of what is new, if anything is and may be told."""
        offset = self.provenance.offset
        news = offset > self.published_offset or self._replaced is not None
        if not news or not self._caught_up():
            return
        first = self.published_offset < 0
        loaded = self._loaded
        manifest = Manifest(
            FULL if first or loaded.snapshot else DELTA,
            self.provenance,
            loaded.records,
            loaded.batches,
            loaded.bytes,
        )
        told = _told(self._publishers, manifest)
        # With a million partitions a delta that nobody wants costs half a second.
        delta = self._delta() if told else None
        self._announce(manifest)
        self.published_offset = offset
        self.publications += 1
        self._loaded = _Loaded()
        if self._replaced is not None:
            self._unused.append(self._replaced)
            self._replaced = None
        if not self._publishers:
            self._initialise(manifest)
            return
        self._record()
        if delta is not None:
            for publisher in told:
                publisher.publish(delta, self.image, manifest)

    def _record(self) -> None:
        """Write down what changes from now on, for publishers."""
        if self._builder is None:
            self._builder = DeltaBuilder(self.image)

    def _delta(self) -> MetadataDelta:
        """Build the delta since the last publication."""
        if self._replaced is not None:
            return MetadataDelta.between(self._replaced, self.image)
        assert self._builder is not None  # noqa: S101 - made with the first publisher
        return self._builder.take()

    def _initialise(self, manifest: Manifest) -> None:
        """Give new publishers all that there is."""
        new, self._new_publishers = self._new_publishers, []
        if not new:
            return
        self._publishers += new
        self._record()
        told = _told(new, manifest)
        if not told:
            return
        delta = MetadataDelta.between(MetadataImage(), self.image)
        for publisher in told:
            publisher.publish(delta, self.image, manifest)

    def _announce(self, manifest: Manifest) -> None:
        self._trace(
            "image",
            {
                "off": manifest.provenance.offset + 1,
                "digest": self.image.digest,
                "kind": manifest.kind,
                "n": manifest.records,
            },
        )


def _told(publishers: Sequence[Publisher], manifest: Manifest) -> list[Publisher]:
    """The publishers that hear of such a publication."""
    return [each for each in publishers if manifest.kind == DELTA or not each.changes_only]
