"""Invariants of brokers, by what they are told and publish: C1, C3, C4, C6, C7, C10 and C12.

Source: KIP-631, KIP-500; KAFKA-16952, KAFKA-14857, KAFKA-17793.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Self

from checkers.invariants.decisions import MS, SESSION_MS, SilentFenced, session_ms_of
from checkers.invariants.metadata_log import shape_fault
from checkers.replay.invariant import Invariant
from checkers.replay.trace import Event, ReplicaId, label
from checkers.replay.world import World
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly

Process = tuple[int, int]


class BrokerEpochs(Invariant):
    """C1: a broker's epoch rises with each incarnation, which keeps it in all its heartbeats."""

    name: ClassVar[str] = "C1"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="broker epochs",
        promise=(
            "Each start of a broker gets a higher broker epoch, which is the offset of its "
            "registration. The process keeps it, and requests with an older one are refused. While "
            "its session goes on, no other process registers in its place; then one may."
        ),
        why=(
            "The broker epoch tells a restarted broker from the process before it. Without that, a "
            "late request of the old process counts for the new one, which may have lost data "
            "since."
        ),
        source="KIP-631 (BrokerRegistration); KIP-903; ClusterControlManager; KAFKA-16952",
    )
    listens: ClassVar[tuple[str, ...]] = ("reg", "hb")
    checker: ClassVar[str] = "observers"

    def __init__(self) -> None:
        super().__init__()
        self._registered: dict[int, Event] = {}

    def feed(self, event: Event, world: World) -> Iterator[Anomaly]:
        """Compare with the last registration of the broker."""
        del world
        if event.get("err") != 0:
            return
        node, epoch, last = event["node"], event["b_ep"], self._registered.get(event["node"])
        self.checked += 1
        if event["t"] == "reg":
            self._registered[node] = event
        if last is None:
            return
        same = event["t"] == "hb" or event.get("inc_id") == last.get("inc_id")
        if event["t"] == "hb" and event["inc"] != last["inc"]:
            return  # its registration was not traced
        if epoch != last["b_ep"] if same else epoch <= last["b_ep"]:
            yield self._anomaly(
                f"broker n{node} has epoch {epoch} ({label(event)}) after it had {last['b_ep']}"
                f" ({label(last)}) {'in the same' if same else 'in an earlier'} incarnation",
                last,
                event,
                epochs=[last["b_ep"], epoch],
            )


class PartitionShape(Invariant):
    """C3: a partition's leader is in sync, and who is in sync or eligible is a replica."""

    name: ClassVar[str] = "C3"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="partition shape",
        promise=(
            "The leader of a partition is in its ISR, or there is none. All members of ISR and ELR "
            "are replicas of the partition, and none is in both. A reassignment adds and removes "
            "replicas of it, and none both. One that is added has as many replicas as others of "
            "its topic are to have."
        ),
        why=(
            "A leader from outside of the ISR may lack messages that producers were told are safe: "
            "consumers never see them. A reassignment that waits for one whom it removes never "
            "ends."
        ),
        source="KIP-455; KIP-631; KIP-966; KRaft TLA+ specification (ValidControllerIsrAndElr)",
    )
    listens: ClassVar[tuple[str, ...]] = ("isr",)
    checker: ClassVar[str] = "observers"

    def feed(self, event: Event, world: World) -> Iterator[Anomaly]:
        """Look at the state that a broker learned of."""
        del world
        self.checked += 1
        fault = shape_fault(event["replicas"], event["leader"], event["isr"], event["elr"])
        if fault is not None and self._once((tuple(event["tp"]), event["pep"])):
            yield self._anomaly(f"partition {_named(event)} has {fault} ({label(event)})", event)


class PartitionEpochs(Invariant):
    """C4: partition epochs rise with each change, leader epochs with each leader.

    A partition epoch means the same state on all brokers.
    """

    name: ClassVar[str] = "C4"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="partition epochs",
        promise=(
            "The partition epoch rises with each change of a partition. The leader epoch rises "
            "with each leader and with each replica that goes, and not without a reason. One "
            "partition epoch means one state on all brokers."
        ),
        why=(
            "Brokers tell new partition states from old ones by these epochs. When one comes "
            "twice, a broker may follow a leader that was replaced, and the messages it copies "
            "there are cut later. With each leader epoch all followers begin anew, and all clients "
            "look for their leader again."
        ),
        source=(
            "KIP-497; KIP-631 (PartitionRecord); ReplicationControlManager; KAFKA-13173; "
            "KAFKA-15021"
        ),
    )
    listens: ClassVar[tuple[str, ...]] = ("isr",)
    checker: ClassVar[str] = "observers"
    _STATE: ClassVar[tuple[str, ...]] = ("replicas", "leader", "lep", "isr", "elr")

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[tuple[Process, tuple[Any, ...]], Event] = {}
        self._first: dict[tuple[tuple[Any, ...], int], Event] = {}

    def feed(self, event: Event, world: World) -> Iterator[Anomaly]:
        """Compare with the state before, and with what other brokers learned."""
        del world
        self.checked += 1
        process, partition = (event["node"], event["inc"]), tuple(event["tp"])
        before = self._last.get((process, partition))
        self._last[process, partition] = event
        if before is not None:
            yield from self._follows(before, event)
        first = self._first.setdefault((partition, event["pep"]), event)
        if any(first[field] != event[field] for field in self._STATE):
            yield self._anomaly(
                f"partition {_named(event)} has two states of partition epoch {event['pep']}:"
                f" {self._told(first)} ({label(first)}) and {self._told(event)} ({label(event)})",
                first,
                event,
            )

    def _follows(self, before: Event, event: Event) -> Iterator[Anomaly]:
        steps, led = event["pep"] - before["pep"], event["lep"] - before["lep"]
        moved = event["leader"] != before["leader"]
        if steps < 1 or not 0 <= led <= steps or (moved and not led):
            yield self._anomaly(
                f"partition {_named(event)} went from leader {before['leader']} with epochs"
                f" {before['lep']}/{before['pep']} ({label(before)}) to leader {event['leader']}"
                f" with {event['lep']}/{event['pep']} ({label(event)})",
                before,
                event,
            )

    def _told(self, event: Event) -> str:
        return ", ".join(f"{field} {event[field]}" for field in self._STATE)


def _named(event: Event) -> str:
    topic, index = event["tp"]
    return f"{topic}-{index}"


class UnfenceGuard(Invariant):
    """C6: a broker is unfenced, or said to have caught up, only from its own registration on."""

    name: ClassVar[str] = "C6"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="guarded unfencing",
        promise=(
            "A broker is unfenced, or told that it has caught up, only when it has read the "
            "metadata log up to its own registration; unfenced only if it wants to be."
        ),
        why=(
            "A broker that serves clients earlier goes by metadata from before its restart: it "
            "leads partitions that have moved, and lets in users whose ACLs were removed."
        ),
        source="KIP-631 (BrokerHeartbeat); BrokerHeartbeatManager",
    )
    listens: ClassVar[tuple[str, ...]] = ("hb",)
    checker: ClassVar[str] = "observers"

    def feed(self, event: Event, world: World) -> Iterator[Anomaly]:
        """Compare the offset that the broker told with that of its registration."""
        del world
        offset = event.get("off")
        if event.get("err") != 0 or not isinstance(offset, int):
            return
        self.checked += 1
        if offset >= event["b_ep"]:
            return
        if event.get("caught_up") is True or event.get("fenced") is False:
            yield self._anomaly(
                f"broker n{event['node']}, registered at offset {event['b_ep']}, was let in with"
                f" offset {offset} ({label(event)})",
                event,
                offset=offset,
            )


class PublishGate(Invariant):
    """C10: the first image is not older than the high watermark that the process first knew.

    No image that grew record by record is newer than what is committed.
    """

    name: ClassVar[str] = "C10"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="publish gate",
        promise=(
            "A broker that starts publishes its first image when it has read up to the high "
            "watermark that it first heard of, and publishes nothing that is not committed."
        ),
        why=(
            "A broker that publishes earlier acts on the cluster as it was before its restart: "
            "with old partition leaders, ACLs and configs."
        ),
        source="MetadataLoader; KAFKA-14857; KAFKA-15389",
    )
    listens: ClassVar[tuple[str, ...]] = ("start", "hwm", "image")
    checker: ClassVar[str] = "observers"

    def __init__(self) -> None:
        super().__init__()
        self._gate: dict[ReplicaId, int | None] = {}  # None: passed

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Compare images with high watermarks."""
        replica = world.replica(event)
        if event["t"] == "start":
            self._gate.pop(replica.id, None)
        elif event["t"] == "hwm":
            self._gate.setdefault(replica.id, event["v"])
        elif replica.known:
            return self._image(event, replica.id, replica.hwm)
        return ()

    def _image(self, event: Event, replica: ReplicaId, hwm: int | None) -> Iterator[Anomaly]:
        self.checked += 1
        gate, offset = self._gate.get(replica), event["off"]
        self._gate[replica] = None
        # That of an installed snapshot, committed as that is, is told of just before the install.
        above = hwm is None or (event.get("kind") != "full" and offset > hwm)
        if above or (gate is not None and offset < gate):
            known = f"{gate} first and then {hwm}" if gate not in (None, hwm) else f"{hwm}"
            yield self._anomaly(
                f"{replica} published an image of offset {offset} ({label(event)}); the high"
                f" watermark it knew was {known}",
                event,
                offset=offset,
            )


class SessionTruth(Invariant):
    """C12: a broker whose heartbeats arrive within its session is not fenced.

    A heartbeat is sent after the one before was answered. So from then on until the broker hears
    that it is fenced more than a session must have passed.
    """

    name: ClassVar[str] = "C12"
    meaning: ClassVar[Meaning] = SilentFenced.meaning
    listens: ClassVar[tuple[str, ...]] = ("start", "reg", "hb")
    checker: ClassVar[str] = "observers"
    timed: ClassVar[bool] = True

    def __init__(self, session_ms: int = SESSION_MS) -> None:
        super().__init__()
        self._session_ns = session_ms * MS
        self._answers: dict[ReplicaId, list[Event]] = {}  # the last two, if nothing was between

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Self:
        """Make the invariant with the session timeout that the settings give brokers."""
        return cls(session_ms_of(settings))

    def feed(self, event: Event, world: World) -> Iterator[Anomaly]:
        """Look how long a fenced broker had been silent at the very most."""
        replica = world.replica(event).id
        if event["t"] != "hb" or event.get("err") != 0 or event.get("want_shut_down"):
            self._answers.pop(replica, None)
            return
        self.checked += 1
        answers = self._answers.setdefault(replica, [])
        if event.get("fenced") is True and len(answers) == 2:  # noqa: PLR2004 - the last two
            before, served = answers
            # Another leader may never have heard what this one answered.
            one_leader = before["ep"] == served["ep"] == event["ep"]
            short = event["ts"] - before["ts"] < self._session_ns
            if served.get("fenced") is False and one_leader and short:
                silent = (event["ts"] - before["ts"]) / 1e9
                yield self._anomaly(
                    f"broker {replica} was fenced ({label(event)}), though its heartbeats were"
                    f" answered ({label(served)}), no more than {silent:.3f} s before",
                    served,
                    event,
                )
        self._answers[replica] = [*answers[-1:], event]
