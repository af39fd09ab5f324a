"""Judges the controller's grants by the records that they came from: C5 and C7.

Source: KIP-497, KIP-841, KIP-903; KIP-631 on controlled shutdown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from uuid import UUID

from checkers.invariants.decisions import SHUTTING_DOWN
from checkers.replay.trace import Event, is_pair, label
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly
from node.metadata.image import MetadataImage
from node.metadata.state import PartitionState

Partition = tuple[UUID, int]
NEW_LEADER_ELECTED = 108  # although it is an error, the change was made
NOT_CHECKED = -1  # the epoch of a member, before KIP-903
C5 = Meaning(
    "C5",
    title="guarded AlterPartition",
    promise=(
        "AlterPartition succeeds only for the leader of the partition, with the current leader "
        "epoch and partition epoch, and with the current broker epoch of each member of the new "
        "ISR."
    ),
    why=(
        "A request that goes by an old view brings a replica into the ISR that restarted and lost "
        "messages. When it leads, messages that acks=all had confirmed are gone."
    ),
    source="KIP-497; KIP-841; KIP-903; KAFKA-14617",
)


def named(partition: Partition, image: MetadataImage) -> str:
    """Name a partition by its topic's name and its index."""
    topic = image.topic_by_id(partition[0])
    return f"{topic.name if topic else partition[0]}-{partition[1]}"


class AlterGuard:
    """C5: AlterPartition changes what its sender has seen last, and takes in only who is as said.

    The sender leads the partition, and it, its partition and all members of the new ISR have the
    epochs that the request names.
    """

    def __init__(self) -> None:
        self.checked = 0
        self._made: dict[tuple[Partition, int], Event] = {}  # by the partition epoch that they made
        self._unasked: set[tuple[Partition, int]] = set()  # changes that nobody had told of by then

    def tell(self, event: Event) -> Iterator[Anomaly]:
        """Take in an ``alter`` event, best before the change that it brought about."""
        if event["err"] not in (0, NEW_LEADER_ELECTED):
            return
        asked, made = event["req_pep"], event.get("pep")
        if made not in (asked, asked + 1):
            self.checked += 1
            yield _anomaly(event, f"from partition epoch {asked} to {made}")
        elif made != asked and (_partition_of(event), made) not in self._unasked:
            self._made[_partition_of(event), made] = event

    def changed(
        self,
        partition: Partition,
        before: PartitionState | None,
        after: PartitionState,
        image: MetadataImage,
    ) -> Iterator[Anomaly]:
        """Look at the request behind a change of a partition, if one is known."""
        change = partition, after.partition_epoch
        event = self._made.pop(change, None)
        if event is None:
            self._unasked.add(change)
            return
        self.checked += 1
        members = dict(map(tuple, filter(is_pair, event["req_isr"])))
        sender, led, seen = event["broker"], event["req_lep"], event["req_pep"]
        found = before and (before.leader, before.leader_epoch, before.partition_epoch)
        if found != (sender, led, seen):
            yield _anomaly(event, f"by n{sender} at epochs {led}/{seen}, when it was {before}")
        if not set(after.isr) <= members.keys():
            yield _anomaly(event, f"to the ISR {sorted(members)}, and got {list(after.isr)}")
        for broker, epoch in ((sender, event["b_ep"]), *members.items()):
            state = image.brokers.get(broker)
            right = None if state is None else state.epoch
            if epoch not in (NOT_CHECKED, right):
                yield _anomaly(
                    event, f"with broker {broker} at epoch {epoch}, which was at {right} then"
                )

    def finish(self, begin: int, end: int) -> Iterator[Anomaly]:
        """Changes that were granted, and are not in the log that was looked at."""
        for (_, made), event in self._made.items():
            if begin <= event["off"] < end:
                self.checked += 1
                yield _anomaly(event, f"to partition epoch {made}, which the log never gives it")


def _partition_of(event: Event) -> Partition:
    topic, index = event["tp"]
    return UUID(topic), index


def _anomaly(event: Event, what: str) -> Anomaly:
    topic, index = event["tp"]
    message = f"partition {topic}-{index} was altered ({label(event)}) {what}"
    return Anomaly("C5", message, events=(dict(event),))


class LetGoGuard:
    """C7: when a broker is let go it leads nothing, and every active broker was asked about."""

    def __init__(self) -> None:
        self.checked = 0
        self._let_go: dict[int, list[Event]] = defaultdict(list)

    def tell(self, event: Event) -> None:
        """Take in a ``let_go`` event, before the batch that it names."""
        if event["was"] == SHUTTING_DOWN:
            self._let_go[event["off"]].append(event)

    def before(self, last: int, image: MetadataImage, began: dict[int, int]) -> Iterator[Anomaly]:
        """Compare with what was so just before the batch that ends at ``last``.

        ``began`` has the offset at which each broker's controlled shutdown was on record.
        """
        for event in self._let_go.pop(last, ()):
            self.checked += 1
            broker, need = event["broker"], event.get("need")
            leads, on_record = image.led_count(broker), began.get(broker)
            who = f"broker {broker} was let go ({label(event)})"
            if leads:
                yield Anomaly("C7", f"{who} and led {leads} partitions", events=(dict(event),))
            if on_record is not None and isinstance(need, int) and need < on_record:
                yield Anomaly(
                    "C7",
                    f"{who} when all knew of offset {need}, before the {on_record} of its shutdown",
                    events=(dict(event),),
                )
            asked = {each[0] for each in filter(is_pair, event["active"])}
            for other, state in sorted(image.brokers.items()):
                active = not state.fenced and not state.in_controlled_shutdown
                if active and other not in asked | {broker}:
                    yield Anomaly(
                        "C7",
                        f"{who} whatever broker {other} knew, which was active",
                        events=(dict(event),),
                    )
