"""Judges on which disks of their brokers the replicas of partitions are: C15.

Source: KIP-858; ``ReplicationControlManager.handleDirectoriesOffline`` of Kafka 4.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from checkers.invariants.granted import Partition, named
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly
from node.metadata import schemas as s
from node.metadata.image import MetadataImage
from node.metadata.state import LOST_DIR, MIGRATING_DIR, UNASSIGNED_DIR, PartitionState

C15 = Meaning(
    "C15",
    title="no leader without its disk",
    promise=(
        "A broker leads no partition whose replica is on a disk that failed, or that it does not "
        "have; beside others such a replica is in no ISR either. Whose disk was replaced by an "
        "empty one is not elected before it has caught up, but at the cost of messages."
    ),
    why=(
        "Such a broker lives and sends heartbeats, so nobody takes its place, and it serves "
        "nothing that was on that disk. When it leads with an empty one, all others cut what they "
        "have: every message of the partition is lost, also where copies of it were left."
    ),
    source="KIP-858; KIP-966; ReplicationControlManager.handleDirectoriesOffline",
)
EMPTY = "though the disk is gone that its replica was on"  # in an anomaly
AT_ONCE = "is elected by the request that tells of its failed disk, and leads"  # in an anomaly
RECOVERING = 1  # the leader was chosen at the cost of messages
_NOT_TOLD = (MIGRATING_DIR, UNASSIGNED_DIR)  # the broker knows, and has not said yet


def directory_of(broker_id: int, state: PartitionState) -> UUID | None:
    """Tell on which disk of a broker its replica is; one of ``_NOT_TOLD`` if nobody knows."""
    if broker_id not in state.replicas or not state.directories:
        return UNASSIGNED_DIR
    return state.directories[state.replicas.index(broker_id)]


def has_disk(broker_id: int, directory: UUID | None, image: MetadataImage) -> bool:
    """Tell whether a broker has a disk, as far as it is known, and it works."""
    broker = image.brokers.get(broker_id)
    if broker is None or directory in _NOT_TOLD:
        return broker is not None
    return not broker.log_dirs or directory in broker.log_dirs


class DiskGuard:
    """Follows where replicas are, and who has lost the disk that its replica was on.

    Such a broker lacks messages until it joins an ISR again, in which another one leads. When it
    has the disk again it lacks nothing.
    """

    def __init__(self) -> None:
        self.checked = 0
        self._before: PartitionState | None = None  # the partition that a record is about
        self._lacking: dict[Partition, set[int]] = {}
        self._due: dict[Partition, None] = {}
        self._brokers: set[int] = set()  # of which a batch tells the disks
        self._elected: set[Partition] = set()  # those that a batch gives another leader
        self._found: list[Anomaly] = []
        self._told: set[tuple[Partition, int, UUID | None]] = set()

    def record(self, record: s.MetadataRecord, image: MetadataImage) -> None:
        """Take in a record of a batch, before it is applied to the image."""
        match record:
            case s.PartitionRecord() | s.PartitionChangeRecord() if record.topic_id is not None:
                self._before = image.partition(record.topic_id, record.partition_id)
                self._due[record.topic_id, record.partition_id] = None
            case s.RegisterBrokerRecord() | s.BrokerRegistrationChangeRecord() if record.log_dirs:
                broker = image.brokers.get(record.broker_id)
                if broker is not None and set(broker.log_dirs) != set(record.log_dirs):
                    self._brokers.add(record.broker_id)
            case _:
                pass

    def applied(self, record: s.MetadataRecord, image: MetadataImage) -> None:
        """Take in what a record has made of the image."""
        match record:
            case s.RegisterBrokerRecord() | s.BrokerRegistrationChangeRecord():
                if record.broker_id in self._brokers:
                    self._look_at(record.broker_id, image)
            case s.PartitionChangeRecord() if record.topic_id is not None:
                partition, before = (record.topic_id, record.partition_id), self._before
                lacking, after = self._lacking.get(partition), image.partition(*partition)
                if before is not None and after is not None and before.leader != after.leader:
                    self._elected.add(partition)
                if lacking and before is not None and after is not None:
                    self._changed(partition, before, after, image)
                    caught_up = set(after.isr) - set(before.isr)  # by the word of who leads
                    lacking -= caught_up | {after.leader}
            case _:
                pass

    def after(self, image: MetadataImage, last: int) -> Iterator[Anomaly]:
        """Judge a batch, whose last offset it is, once it was applied."""
        yield from self._found
        self._found.clear()
        for broker in sorted(self._brokers):
            self._due.update(dict.fromkeys(image.isr_partitions(broker)))
        for partition in self._due:
            state = image.partition(*partition)
            if state is None:
                self._lacking.pop(partition, None)
            else:
                yield from self._judge(partition, state, image, last)
        self._due.clear()
        self._brokers.clear()
        self._elected.clear()

    def _look_at(self, broker: int, image: MetadataImage) -> None:
        """Find the replicas whose disk a broker has no more, or again."""
        for topic in image.topics.values():
            for index, state in topic.partitions.items():
                directory = directory_of(broker, state)
                if directory in (*_NOT_TOLD, LOST_DIR):
                    continue
                lacking = self._lacking.setdefault((topic.id, index), set())
                if has_disk(broker, directory, image):
                    lacking.discard(broker)
                else:
                    lacking.add(broker)

    def _changed(
        self,
        partition: Partition,
        before: PartitionState,
        after: PartitionState,
        image: MetadataImage,
    ) -> None:
        leader, lacking = after.leader, self._lacking[partition]
        if leader == before.leader or leader not in lacking or after.recovery == RECOVERING:
            return
        if has_disk(leader, directory_of(leader, after), image):
            where = named(partition, image)
            told = f"broker {leader} is elected to lead partition {where}, {EMPTY}: {after}"
            self._found.append(
                Anomaly(C15.name, told, details={"topic": where, "brokers": [leader]})
            )

    def _judge(
        self, partition: Partition, state: PartitionState, image: MetadataImage, last: int
    ) -> Iterator[Anomaly]:
        self.checked += 1
        for broker in state.isr:
            directory, leads = directory_of(broker, state), state.leader == broker
            if broker not in image.brokers or has_disk(broker, directory, image):
                continue
            # who joins an ISR later may only not have said yet where its replica is
            told_which = broker in self._brokers and directory != LOST_DIR
            counts = leads or (told_which and len(state.isr) > 1)
            key = partition, broker, directory
            if not counts or key in self._told:
                continue
            self._told.add(key)
            does, where = "leads" if leads else "is in sync in", named(partition, image)
            if leads and partition in self._elected and broker in self._brokers:
                does = AT_ONCE
            works = [str(each) for each in image.brokers[broker].log_dirs]
            yield Anomaly(
                C15.name,
                f"broker {broker} {does} partition {where} after offset {last}, though its replica"
                f" is on the disk {directory}, and of those that work it has {works}: {state}",
                details={"topic": where, "brokers": [broker]},
            )
