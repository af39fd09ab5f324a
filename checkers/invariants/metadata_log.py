"""Judges the committed metadata batch by batch: S19, C1-C5, C7, C11, C13-C15, C18.

Source: KIP-500, KIP-631, KIP-841, KIP-966; ValidControllerState of the KRaft TLA+ specification.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from uuid import UUID

from checkers.committed.reference import Reference
from checkers.invariants.balance import Balance
from checkers.invariants.changes import Changes
from checkers.invariants.choice import LeaderChoice
from checkers.invariants.cordons import CordonGuard
from checkers.invariants.disks import DiskGuard
from checkers.invariants.eligible import GIVEN_UP, EligibleLeaders, is_given_up, min_isr
from checkers.invariants.epoch_rises import EpochRises
from checkers.invariants.granted import AlterGuard, LetGoGuard, Partition, named
from checkers.invariants.joined import Joined
from checkers.invariants.last_leader import LastLeaderGuard
from checkers.invariants.lasting import OfBrokers, disks, in_service
from checkers.invariants.minima import OneMinimum
from checkers.invariants.repeats import Repeats
from checkers.invariants.shrinking import ShrinkGuard
from checkers.replay.trace import Event, label
from harness.contracts.evidence import LogBatch, LogSnapshot
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly
from node.metadata import schemas as s
from node.metadata.fold import apply_record
from node.metadata.image import ImageError, MetadataImage
from node.metadata.records import RecordError, from_json
from node.metadata.snapshot import image_of_records
from node.metadata.state import PartitionState
from node.metadata.transactions import Transactions

SAME_INCARNATION = ", and is the same incarnation"  # in an anomaly's message
BEHIND = ", which is of an offset before its batch"
BEHIND_AGAIN = f"{SAME_INCARNATION}, by an offset before its batch"
GROWN = ", where the topic's other partitions are to have "  # likewise
BOTH_WAYS = "in one reassignment both added and removed"
JUDGED = ("S19", "C1", "C2", "C3", "C4", "C5", "C7", "C11", "C13", "C14", "C15", "C18", "L12")
C2 = Meaning(
    "C2",
    title="no fenced broker in sync",
    promise=(
        "No broker that is fenced or shutting down becomes the leader of a partition or joins an "
        "ISR. Who registers with a new process is in no ISR beside others."
    ),
    why=(
        "Clients of such a partition are sent to a broker that does not serve them. Producers with "
        "acks=all wait, or count on a copy that nobody writes."
    ),
    source="KIP-841; KIP-903; ReplicationControlManager; KAFKA-13916",
)
C11 = Meaning(
    "C11",
    title="unique names and ids",
    promise=(
        "Existing topics have different names, a topic id is never used again, and a producer id "
        "is given out once. A delegation token that was taken back does not exist again."
    ),
    why=(
        "A topic id that comes twice mixes the data of two topics. With one producer id for two "
        "producers, brokers drop messages of one as duplicates of the other's. Who has a token "
        "that comes back is let in again."
    ),
    source="KIP-516 (topic ids); KIP-730 (producer ids); KIP-48 (tokens); KAFKA-15552",
)


class MetadataWalk:
    """Walks the committed log once; ``checked`` counts by invariant what was examined.

    What is told of a batch should be told before it is walked. Records that cannot be read or do
    not fit end the walk: C8 tells of them.
    """

    def __init__(self) -> None:
        self.checked: Counter[str] = Counter(dict.fromkeys(JUDGED, 0))
        self._over = False
        self._alters, self._let_go = AlterGuard(), LetGoGuard()
        self._eligible, self._disks = EligibleLeaders(), DiskGuard()
        self._cordons, self._shrinks = CordonGuard(), ShrinkGuard()
        self._last_leaders, self._minimum = LastLeaderGuard(), OneMinimum()
        self._rises, self._repeats = EpochRises(), Repeats()
        self._choice, self._changes = LeaderChoice(), Changes()
        self._shutting_down: dict[int, int] = {}  # since which offset
        self._registrations: list[Event] = []
        self._shut_down: dict[tuple[int, int], Event] = {}  # by broker and epoch
        self._gate = Transactions()
        self._image = MetadataImage()
        self._gone: set[str] = set()  # tokens that were taken back
        self._topics: set[UUID] = set()  # ids of all topics that ever were
        self._registered: dict[int, tuple[int, str]] = {}  # broker and incarnation by epoch
        self._before: dict[Partition, PartitionState | None] = {}  # of those that a batch changes
        self._fenced: set[int] = set()  # brokers that a batch may have fenced
        self._joined = Joined()  # of a batch
        self.balance = Balance()
        self.services, self.disks = OfBrokers(in_service), OfBrokers(disks)
        self._fresh: set[int] = set()  # brokers of which a batch registers a new incarnation
        self._again: set[int] = set()  # or the one that it has
        self._begin, self._end = 0, 0

    def begin(self, snapshot: LogSnapshot) -> None:
        """Begin with what a snapshot holds."""
        self._begin = self._end = snapshot.end
        try:
            records = [from_json({"version": 0, **record}) for record in snapshot.records]
            self._image = image_of_records(records, snapshot.end)
        except (RecordError, ImageError):
            self._over = True
        self._topics = {topic.id for topic in self._image.topics.values()}
        self._eligible.begin(self._image)
        self._cordons.begin(self._image)

    def tell(self, event: Event) -> Iterable[Anomaly]:
        """Take in what a broker or a controller says."""
        match event["t"]:
            case "alter":
                return self._alters.tell(event)
            case "let_go":
                self._let_go.tell(event)
            case "reg" if event.get("err") == 0:
                self._registrations.append(event)
            case "hb" if event.get("err") == 0 and event.get("shut_down") is True:
                self._shut_down[event["node"], event["b_ep"]] = event
            case _:
                pass
        return ()

    def batch(self, batch: LogBatch) -> list[Anomaly]:
        """Judge the next committed batch and apply it; what is below the beginning is left out."""
        found: list[Anomaly] = []
        if self._over or batch.base < self._begin:
            return found
        try:
            for anomaly in self._batch(batch):
                found.append(anomaly)  # noqa: PERF402 - what was found before an error counts
        except (RecordError, ImageError):
            self._over = True
            return found
        self._end = batch.last + 1
        return found

    def finish(self) -> list[Anomaly]:
        """Tell what is missing, now that there is no more to come."""
        if self._over:
            return []
        found = [*self._at_the_end(), *self._alters.finish(self._begin, self._end)]
        self.checked["C4"] += self._rises.checked
        self.checked["C5"] += self._alters.checked
        self.checked["C7"] += self._let_go.checked
        self.checked["C13"] += self._eligible.checked + self._minimum.checked
        self.checked["C14"] += self._shrinks.checked + self._last_leaders.checked
        self.checked["C14"] += self._choice.checked
        self.checked["C15"] += self._disks.checked
        self.checked["C18"] += self._cordons.checked
        self.checked["L12"] += self._repeats.checked
        return found

    def _batch(self, batch: LogBatch) -> Iterator[Anomaly]:
        self._before, self._fenced, self._fresh, self._again = {}, set(), set(), set()
        self._joined = Joined()
        yield from self._let_go.before(batch.last, self._image, self._shutting_down)
        for place, each in enumerate(() if batch.control else batch.records):
            offset = each.get("offset", batch.base + place)
            for record, at in self._gate.feed(from_json({"version": 0, **each}), offset):
                yield from self._record(record, at, batch)
                self._joined.record(record, self._image, at)
                self._eligible.record(record, self._image)
                self._disks.record(record, self._image)
                self._shrinks.record(record)
                self._changes.record(record, self._image)
                self._choice.record(record)
                self._minimum.record(record)
                yield from self._repeats.record(record, at)
                self._last_leaders.record(record)
                yield from self._cordons.record(record, self._image, at)
                apply_record(self._image, record, at)
                self._eligible.applied(record, self._image)
                self._disks.applied(record, self._image)
                change = self._changes.applied(record, self._image)
                if change is not None:
                    self._shrinks.applied(change, self._image)
                    self._rises.applied(change)
                    self._choice.applied(change)
                    self._last_leaders.applied(change, self._image)
        for partition, before in self._before.items():
            after = self._image.partition(*partition)
            if after is not None and after != before:
                yield from self._partition(partition, before, after, batch)
                yield from self._alters.changed(partition, before, after, self._image)
        yield from self._eligible.after(self._image, batch.last)
        yield from self._disks.after(self._image, batch.last)
        yield from self._shrinks.after(self._image, batch.last)
        yield from self._rises.after(self._image, batch.last)
        yield from self._choice.after(self._image, batch.last)
        yield from self._last_leaders.after(self._image, batch.last)
        yield from self._minimum.after(self._image, batch.last)
        yield from self._brokers(batch)
        yield from self._whole_topics(batch)
        self.balance.after(batch, self._image)
        self.services.after(batch, self._image)
        self.disks.after(batch, self._image)

    def _whole_topics(self, batch: LogBatch) -> Iterator[Anomaly]:
        """A topic comes with all its partitions, in one batch or transaction (KAFKA-12376).

        How many these are only its create tells; here they are numbered without a gap.
        """
        for each in () if batch.control else batch.records:
            if each["type"] != s.TopicRecord.__name__:
                continue
            self.checked["S19"] += 1
            name = each["fields"].get("name")
            topic = self._image.topics.get(name)
            if topic is not None and not topic.partitions:
                yield Anomaly(
                    "S19",
                    f"topic {name} was created in the batch {batch.base}..{batch.last} without"
                    " a partition: its records were not written as one",
                )
            elif topic is not None and max(topic.partitions) >= len(topic.partitions):
                yield Anomaly(
                    "S19",
                    f"topic {name} was created in the batch {batch.base}..{batch.last} with the"
                    f" partitions {sorted(topic.partitions)}: there are some missing",
                )

    # ------------------------------------------------------------------ before a record

    def _record(self, record: s.MetadataRecord, at: int, batch: LogBatch) -> Iterator[Anomaly]:
        match record:
            case s.RegisterBrokerRecord():
                self._fenced.add(record.broker_id)
                self._shutting_down.pop(record.broker_id, None)
                yield from self._shut_down_leads(record.broker_id)
                yield from self._registration(record, at, batch)
            case s.BrokerRegistrationChangeRecord():
                self._fenced.add(record.broker_id)
                if record.in_controlled_shutdown > 0:
                    self._shutting_down[record.broker_id] = at
            case s.FenceBrokerRecord():
                self._fenced.add(record.id)
            case s.TopicRecord() if record.topic_id is not None:
                self.checked["C11"] += 1
                if record.topic_id in self._topics:
                    yield Anomaly(
                        "C11", f"topic {record.name} at offset {at} has the id of another topic"
                    )
                self._topics.add(record.topic_id)
            case s.DelegationTokenRecord():
                self.checked["C11"] += 1
                if record.token_id in self._gone:
                    self._gone.discard(record.token_id)
                    yield Anomaly(
                        "C11",
                        f"token {record.token_id}, which was taken back, exists again at {at}",
                    )
            case s.RemoveDelegationTokenRecord():
                self._gone.add(record.token_id)
            case s.ProducerIdsRecord():
                self.checked["C11"] += 1
                if record.next_producer_id <= self._image.next_producer_id:
                    yield Anomaly(
                        "C11",
                        f"producer ids up to {record.next_producer_id} are given away at offset"
                        f" {at}, but those up to {self._image.next_producer_id} were already",
                    )
            case s.PartitionRecord() | s.PartitionChangeRecord() if record.topic_id is not None:
                partition = record.topic_id, record.partition_id
                self._before.setdefault(partition, self._image.partition(*partition))
            case _:
                pass

    def _registration(
        self, record: s.RegisterBrokerRecord, at: int, batch: LogBatch
    ) -> Iterator[Anomaly]:
        self.checked["C1"] += 1
        old, epoch = self._image.brokers.get(record.broker_id), record.broker_epoch
        again = old is not None and old.incarnation == record.incarnation_id
        right = epoch == old.epoch if old and again else batch.base <= epoch <= at
        if not right or (old is not None and epoch < old.epoch):
            before = f", before it had {old.epoch}" if old else ""
            is_newer = epoch <= at and (old is None or old.epoch < epoch)
            how = SAME_INCARNATION if is_newer and again else ""
            if is_newer and epoch < batch.base:
                how = BEHIND_AGAIN if again else BEHIND
            yield Anomaly(
                "C1",
                f"broker {record.broker_id} is registered at offset {at} with epoch {epoch}"
                f"{before}{how}",
            )
        incarnation = record.incarnation_id.hex if record.incarnation_id else ""
        self._registered[epoch] = record.broker_id, incarnation
        (self._again if again else self._fresh).add(record.broker_id)

    # ------------------------------------------------------------------ after a batch

    def _partition(
        self,
        partition: Partition,
        before: PartitionState | None,
        after: PartitionState,
        batch: LogBatch,
    ) -> Iterator[Anomaly]:
        self.checked["C2"] += 1
        self.checked["C3"] += 1
        where = f"partition {named(partition, self._image)} after offset {batch.last}"
        added = set(after.isr) - set(before.isr if before else ())
        if after.leader >= 0 and (before is None or before.leader != after.leader):
            added.add(after.leader)
        for broker in sorted(added):
            state = self._image.brokers.get(broker)
            if broker != after.leader and self._joined.was_in_service(partition, broker):
                continue
            if state is not None and (state.fenced or state.in_controlled_shutdown):
                what = "fenced" if state.fenced else "shutting down"
                why = GIVEN_UP if is_given_up(before, after) else ""
                yield Anomaly(
                    "C2", f"broker {broker}, {what}, leads or is new in sync: {where}{why}"
                )
        fault = shape_fault(after.replicas, after.leader, after.isr, after.eligible_leaders)
        fault = fault or move_fault(after) or self._growth_fault(partition, before, after)
        wanted = min_isr(partition, self._image)
        if fault is None and after.eligible_leaders and wanted is not None:
            enough = min(wanted, len(after.replicas))
            if len(after.isr) >= enough:
                fault = f"eligible leaders though {len(after.isr)} of {enough} are in sync"
        if fault is not None:
            yield Anomaly("C3", f"{where} has {fault}: {after}")

    def _growth_fault(
        self, partition: Partition, before: PartitionState | None, after: PartitionState
    ) -> str | None:
        """Tell whether one that is added has as many replicas as another one is to have."""
        topic_id, index = partition
        topic = self._image.topic_by_id(topic_id)
        if before is not None or topic is None:
            return None
        others = [
            self._before.get((topic_id, each), state)
            for each, state in topic.partitions.items()
            if each != index
        ]
        due = {len(set(each.replicas) - set(each.removing)) for each in others if each is not None}
        if not due or len(after.replicas) in due:
            return None
        wanted = ", ".join(map(str, sorted(due)))
        return f"{len(after.replicas)} replicas{GROWN}{wanted}"

    def _brokers(self, batch: LogBatch) -> Iterator[Anomaly]:
        for broker in sorted(self._fenced):
            state = self._image.brokers.get(broker)
            if state is None or not state.fenced:
                continue
            self.checked["C2"] += 1
            leads = self._image.led_count(broker)
            if leads:
                yield Anomaly(
                    "C2",
                    f"broker {broker}, fenced{self._when(broker)}, leads {leads} partitions at"
                    f" offset {batch.last}",
                )
        for broker in sorted(self._fresh):
            self.checked["C2"] += 1
            yield from self._in_sync_at_once(broker, batch)

    def _when(self, broker: int) -> str:
        """Say in words whether a batch registers a broker."""
        if broker in self._fresh:
            return " as it registers anew"
        return " as it registers again" if broker in self._again else ""

    def _in_sync_at_once(self, broker: int, batch: LogBatch) -> Iterator[Anomaly]:
        """A new incarnation may have lost its log: others in sync are preferred to it (KIP-903)."""
        for partition in self._image.isr_partitions(broker):
            state = self._image.partition(*partition)
            if state is not None and len(state.isr) > 1:
                yield Anomaly(
                    "C2",
                    f"broker {broker} is registered anew at offset {batch.last}, and in sync in"
                    f" partition {named(partition, self._image)} beside others: {state}",
                )

    # ------------------------------------------------------------------ what brokers were told

    def _shut_down_leads(self, broker: int) -> Iterator[Anomaly]:
        """C7: once told that it may go, a broker leads nothing until it registers anew.

        It may go when it has the records that moved its partitions: they must have been walked.
        """
        state = self._image.brokers.get(broker)
        told = None if state is None else self._shut_down.get((broker, state.epoch))
        if told is None or told.get("off", -1) >= self._end:
            return
        self.checked["C7"] += 1
        leads = self._image.led_count(broker)
        if leads:
            yield Anomaly(
                "C7",
                f"broker {broker} was told to shut down ({label(told)}) and leads {leads}"
                f" partitions at offset {self._end}",
                events=(dict(told),),
            )

    def _at_the_end(self) -> Iterator[Anomaly]:
        for broker in sorted({broker for broker, _ in self._shut_down}):
            yield from self._shut_down_leads(broker)
        self.checked["C14"] += sum(len(topic.partitions) for topic in self._image.topics.values())
        yield from self._eligible.left_alone(self._image)
        for event in self._registrations:
            if not self._begin <= event["b_ep"] < self._end:
                continue
            self.checked["C1"] += 1
            owner, incarnation = self._registered.get(event["b_ep"], (None, ""))
            if (owner, incarnation) != (event["node"], event.get("inc_id")):
                yield Anomaly(
                    "C1",
                    f"n{event['node']} was told epoch {event['b_ep']} ({label(event)}), which the"
                    f" log gives to {'nobody' if owner is None else f'broker {owner}'}",
                    events=(dict(event),),
                )


class MetadataLog(MetadataWalk):
    """A log that is walked at once, up to an offset, with all that was told of it."""

    def __init__(self, known: Reference, below: int, events: Iterable[Event]) -> None:
        super().__init__()
        self.anomalies = [anomaly for event in events for anomaly in self.tell(event)]
        if known.snapshot is not None:
            self.begin(known.snapshot)
        for batch in known.batches(below):
            self.anomalies += self.batch(batch)
        self.anomalies += self.finish()


def shape_fault(
    replicas: Iterable[int], leader: int, isr: Iterable[int], elr: Iterable[int]
) -> str | None:
    """Tell what is wrong with a partition's state, if anything."""
    every, in_sync, eligible = set(replicas), set(isr), set(elr)
    if leader != -1 and leader not in in_sync:
        return f"leader {leader} out of sync"
    if not in_sync <= every or not eligible <= every:
        return "members that are no replicas"
    if in_sync & eligible:
        return "members in sync and eligible at once"
    return None


def move_fault(state: PartitionState) -> str | None:
    """Tell what is wrong with a reassignment that is under way, if anything (KIP-455)."""
    adding, removing = set(state.adding), set(state.removing)
    if not adding | removing <= set(state.replicas):
        return "added or removed who are no replicas"
    if adding & removing:
        return f"{BOTH_WAYS} {sorted(adding & removing)}"
    return None
