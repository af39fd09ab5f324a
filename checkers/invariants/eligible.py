"""Judges who may lead a partition without a loss of messages, and that one does: C13 and C14.

Source: KIP-966 (eligible leader replicas), part 1; KIP-704 (leader recovery);
``PartitionChangeBuilder`` and ``ReplicationControlManager`` of Kafka 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from checkers.invariants.disks import RECOVERING, directory_of, has_disk
from checkers.invariants.granted import Partition, named
from harness.contracts.meaning import Meaning
from harness.kafka.incarnation import came_back_unclean
from harness.verdict import Anomaly
from node.metadata import schemas as s
from node.metadata.features import ELR_VERSION
from node.metadata.image import MetadataImage
from node.metadata.state import BROKER, NO_LEADER, TOPIC, PartitionState

MIN_ISR = "min.insync.replicas"
C13 = Meaning(
    "C13",
    title="no loss without a word",
    promise=(
        "With eligible leader replicas, each member of an ISR and of an ELR has all messages that "
        "were acknowledged with acks=all. Who has died since, or was out while the ISR was large "
        "enough to acknowledge more, is in neither. A leader that may lack some is marked as "
        "recovering."
    ),
    why=(
        "Members of the ISR and the ELR are elected as if nothing could be lost. When one of them "
        "lacks messages, they are gone, and neither producers nor operators hear of it."
    ),
    source="KIP-966; KIP-704; ReplicationControlManager.handleUncleanBrokerShutdown",
)
C14 = Meaning(
    "C14",
    title="a leader where there may be one",
    promise=(
        "A partition has a leader once a member of its ISR is in service; with eligible leader "
        "replicas, where that is empty, also once one of them is, and in the end its last leader. "
        "Who leaves an ISR that gets too small is eligible. The first replica of those who may "
        "lead is chosen."
    ),
    why=(
        "A partition without a leader serves nobody. When a broker that may lead it has come back, "
        "nothing else will help: it stays so until an operator finds out, and gives messages up."
    ),
    source="KIP-631; KIP-966; ReplicationControlManager.handleBrokerUnfenced",
)
GIVEN_UP = ", as a reassignment is given up with nobody in sync who was a replica before it"
SWITCHED_OFF = "and have all messages, but eligible leaders were switched off"  # in an anomaly
KEPT = ", and were eligible before the feature was taken back"  # in an anomaly
FORGOTTEN = "and have all messages, but nobody may lead it any more"  # in an anomaly


def may_lead(broker_id: int, state: PartitionState, image: MetadataImage) -> bool:
    """Tell whether a broker is in service, with the disk that the replica is on."""
    broker = image.brokers.get(broker_id)
    if broker is None or broker.fenced or broker.in_controlled_shutdown:
        return False
    directory = directory_of(broker_id, state)
    return broker_id in state.replicas and has_disk(broker_id, directory, image)


class EligibleLeaders:
    """Follows for each partition which replicas have all that may have been acknowledged.

    One has it while it is in sync. Out of sync it goes on to have it as long as the ISR is too
    small to acknowledge anything, or nobody leads, and its broker has not died.
    """

    def __init__(self) -> None:
        self.checked = 0
        self._whole: dict[Partition, set[int]] = {}
        self._before: PartitionState | None = None  # the partition that a record is about
        self._died: set[int] = set()  # brokers that a batch tells of
        self._given_up: set[Partition] = set()  # of which a batch gives up a reassignment
        self._due: dict[Partition, None] = {}  # of which a batch changes something
        self._let_in: set[int] = set()  # brokers that a batch may take into service
        self._all = False  # it changes what counts for every partition
        self._enabled = False
        self._were_eligible: dict[Partition, set[int]] = {}  # as they were switched off
        self._kept: dict[Partition, set[int]] = {}  # who was so when they were switched on again

    def begin(self, image: MetadataImage) -> None:
        """Begin with an image, of which nobody knows how it came to be."""
        self._enabled = is_enabled(image)
        for topic in image.topics.values():
            for index, state in topic.partitions.items():
                self._whole[topic.id, index] = {*state.isr, *state.eligible_leaders}

    def record(self, record: s.MetadataRecord, image: MetadataImage) -> None:
        """Take in a record of a batch, before it is applied to the image.

        A batch may have several operations of the controller in it, each with an answer of its
        own, so that the states of a partition between its records count.
        """
        match record:
            case s.PartitionRecord() | s.PartitionChangeRecord() if record.topic_id is not None:
                self._before = image.partition(record.topic_id, record.partition_id)
            case s.RegisterBrokerRecord() if came_back_unclean(record.incarnation_id):
                old = image.brokers.get(record.broker_id)
                if old is None or old.incarnation != record.incarnation_id:
                    self._dies(record.broker_id)
            case s.BrokerRegistrationChangeRecord():
                self._may_come(record.broker_id, image)
            case s.UnfenceBrokerRecord():
                self._may_come(record.id, image)
            case s.ConfigRecord() if record.name == MIN_ISR:
                self._all = True
            case s.FeatureLevelRecord() if record.name == ELR_VERSION:
                self._all = True
            case s.RemoveTopicRecord():
                self._all = True  # its partitions are to be forgotten
            case _:
                pass

    def applied(self, record: s.MetadataRecord, image: MetadataImage) -> None:
        """Take in what a record has made of the image."""
        if isinstance(record, s.FeatureLevelRecord) and record.name == ELR_VERSION:
            self._enable(image)
        if not isinstance(record, s.PartitionRecord | s.PartitionChangeRecord):
            return
        if record.topic_id is None:
            return
        partition, before = (record.topic_id, record.partition_id), self._before
        after = image.partition(*partition)
        if after is None:
            return
        self._due[partition] = None
        if is_given_up(before, after):
            self._given_up.add(partition)
        whole = self._whole.get(partition)
        if whole is None or before is None:
            whole = set(after.isr)
        self._whole[partition] = _still_whole(whole, before or after, after)
        self._acknowledge(partition, after, image)

    def after(self, image: MetadataImage, last: int) -> Iterator[Anomaly]:
        """Judge a batch, whose last offset it is, once it was applied."""
        for partition in list(self._whole) if self._all else self._due:
            state = image.partition(*partition)
            if state is None:
                self._whole.pop(partition, None)
                continue
            self._acknowledge(partition, state, image)
            if self._enabled:
                whole = self._whole[partition]
                yield from self._judge(partition, whole, state, image, last)
                whole |= {*state.isr, *state.eligible_leaders}  # what is wrong is told once
        if self._let_in:
            yield from self._not_led(image, last)
        self._let_in.clear()
        self._died.clear()
        self._due.clear()
        self._given_up.clear()
        self._all = False

    def _enable(self, image: MetadataImage) -> None:
        """Trust ISRs when eligible leaders begin to count; who was eligible before may not be.

        When they count no more, note who alone may lead what nobody leads.
        """
        enabled = is_enabled(image)
        if enabled and not self._enabled:
            for topic in image.topics.values():
                for index, state in topic.partitions.items():
                    self._whole.setdefault((topic.id, index), set()).update(state.isr)
                    self._kept[topic.id, index] = set(state.eligible_leaders)
        elif self._enabled and not enabled:
            for partition in image.eligible_partitions():
                left = image.partition(*partition)
                if left is not None and not left.isr:
                    self._were_eligible[partition] = set(left.eligible_leaders)
        self._enabled = enabled

    def _dies(self, broker_id: int) -> None:
        """Note that a broker may have lost the end of all its logs."""
        self._died.add(broker_id)
        for partition, whole in self._whole.items():
            if broker_id in whole:
                whole.discard(broker_id)
                self._due[partition] = None

    def _acknowledge(
        self, partition: Partition, state: PartitionState, image: MetadataImage
    ) -> None:
        """Have the leader acknowledge messages, if it may: who is out of sync lacks them."""
        enough = min(min_isr(partition, image) or 1, len(state.replicas))
        if state.leader != NO_LEADER and len(state.isr) >= enough:
            self._whole[partition] &= set(state.isr)

    def _may_come(self, broker_id: int, image: MetadataImage) -> None:
        """Note a broker of which a record tells, if it was out of service."""
        old = image.brokers.get(broker_id)
        if old is not None and old.fenced:
            self._let_in.add(broker_id)

    def _not_led(self, image: MetadataImage, last: int) -> Iterator[Anomaly]:
        """Tell of partitions that nobody leads though a batch has let in who may lead them."""
        for partition in image.leaderless_partitions():
            state = image.partition(*partition)
            if state is None:
                continue
            self.checked += 1
            fit = state.isr or (state.eligible_leaders if self._enabled else ())
            able = sorted(b for b in self._let_in.intersection(fit) if may_lead(b, state, image))
            if able:
                yield Anomaly(
                    C14.name,
                    f"partition {named(partition, image)} has no leader after offset {last}, at"
                    f" which brokers {able} have come into service, who may lead it: {state}",
                )

    def left_alone(self, image: MetadataImage) -> Iterator[Anomaly]:
        """Tell of partitions that nobody leads in the end, though somebody in service could."""
        for partition in image.leaderless_partitions():
            state = image.partition(*partition)
            if state is None:
                continue
            fit, why = self._candidates(partition, state)
            able = [broker for broker in sorted(fit) if may_lead(broker, state, image)]
            if able:
                where = named(partition, image)
                yield Anomaly(
                    C14.name,
                    f"partition {where} has no leader in the end, though brokers {able} are in"
                    f" service {why}: {state}",
                    details={"topic": where, "brokers": able},
                )

    def _candidates(self, partition: Partition, state: PartitionState) -> tuple[Iterable[int], str]:
        """Tell who may lead a partition that nobody leads, and by what; in service or not."""
        if state.isr:
            return state.isr, "and in sync"
        whole = self._whole.get(partition, set())
        if not self._enabled:
            return whole & self._were_eligible.get(partition, set()), SWITCHED_OFF
        if state.eligible_leaders:
            return state.eligible_leaders, "and eligible"
        if state.last_known_leaders:
            return state.last_known_leaders, "and led it last"
        return whole, FORGOTTEN

    def _judge(
        self,
        partition: Partition,
        whole: set[int],
        state: PartitionState,
        image: MetadataImage,
        last: int,
    ) -> Iterator[Anomaly]:
        self.checked += 1
        where = named(partition, image)
        for what, members in (("in sync", state.isr), ("eligible", state.eligible_leaders)):
            # who is no replica any more C3 tells of
            lacking = [b for b in members if b not in whole and b in state.replicas]
            if lacking:
                died = sorted(self._died.intersection(lacking))
                why = f", of which {died} have just died" if died else ""
                if what == "eligible" and self._kept.get(partition, set()).issuperset(lacking):
                    why += KEPT
                if what == "in sync" and partition in self._given_up:
                    why += GIVEN_UP
                yield Anomaly(
                    C13.name,
                    f"partition {where} after offset {last} has the brokers {lacking} {what}, which"
                    f" may lack acknowledged messages{why}; {sorted(whole)} have all: {state}",
                    details={"topic": where, "brokers": lacking},
                )


def _still_whole(whole: set[int], before: PartitionState, after: PartitionState) -> set[int]:
    """Tell who has everything after a change of the partition itself.

    A leader asks for a new ISR, so a replica that joins has caught up with it. The controller asks
    nobody when it elects a leader, so that one counts only if it had everything before, or if the
    request of the old leader ended a reassignment.
    """
    if after.recovery == RECOVERING and after.leader not in whole and after.leader != NO_LEADER:
        return {after.leader}  # what it has counts from now on
    joined = set(after.isr) - set(before.isr)
    is_moved = bool(before.adding or before.removing) and not (after.adding or after.removing)
    if after.leader != before.leader and not is_moved:
        joined.discard(after.leader)
    if before.leader != NO_LEADER:
        whole |= joined
    return whole & set(after.replicas)


def min_isr(partition: Partition, image: MetadataImage) -> int | None:
    """Give min.insync.replicas of a partition: its topic's, else the cluster's, else None."""
    topic = image.topic_by_id(partition[0])
    for resource in ((TOPIC, topic.name if topic else ""), (BROKER, "")):
        value = image.config(resource).get(MIN_ISR)
        if value is not None and value.isdecimal():
            return int(value)
    return None


def is_enabled(image: MetadataImage) -> bool:
    """Tell whether eligible leaders count."""
    return image.features.get(ELR_VERSION, 0) > 0


def is_given_up(before: PartitionState | None, after: PartitionState) -> bool:
    """Tell whether a reassignment was given up, and none who stays was in sync."""
    if before is None or not (before.adding or before.removing) or after.adding or after.removing:
        return False
    stays = set(before.replicas) - set(before.adding)
    return set(after.replicas) == stays and not set(before.isr) & stays
