"""Invariants of a reign: what the winner has, that it only appends, when its controller is active.

Source: Raft 5.4, leader completeness; KIP-595, KIP-631; LeaderNeverLoadSnapshot of Kafka's own
simulation tests; KAFKA-17608.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar, Final

from checkers.replay.invariant import Invariant
from checkers.replay.trace import Event, ReplicaId, label
from checkers.replay.world import Replica, World
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly

ALONE: Final = " as the only voter"


class LeaderCompleteness(Invariant):
    """S11: the winner of an epoch has all that leaders of earlier epochs have committed.

    What lies below its log's beginning is in its snapshot.
    """

    name: ClassVar[str] = "S11"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="leader completeness",
        promise=(
            "The winner of an election has every record that leaders of earlier epochs committed."
        ),
        why=(
            "Followers cut whatever the leader's log lacks. So a leader without a committed record "
            "deletes it from the whole cluster, for example a topic that producers already write "
            "to."
        ),
        source=(
            "Raft paper, 5.4 (Leader Completeness); KRaft TLA+ specification (LeaderCompleteness)"
        ),
    )
    listens: ClassVar[tuple[str, ...]] = ("elected",)

    def feed(self, event: Event, world: World) -> Iterator[Anomaly]:
        """Look for the committed batches in the winner's log."""
        replica = world.replica(event)
        if not replica.known:
            return
        self.checked += 1
        for batch, by in world.commits.since(replica.log.start):
            own = replica.log.at(batch.base)
            if by["ep"] >= event["ep"] or own == batch or not replica.log.knows(batch.base):
                continue
            has = "nothing there" if own is None else f"{own} there"
            yield self._anomaly(
                f"{replica.id} won epoch {event['ep']}{ALONE if len(event['voters']) == 1 else ''}"
                f" ({label(event)}) without the committed"
                f" {batch} ({label(by)}); it has {has}",
                by,
                event,
                epoch=event["ep"],
                offset=batch.base,
            )
            return


class LeaderAppendOnly(Invariant):
    """S12: a leader appends at its log end, first of all a control batch, and cuts nothing.

    It takes no snapshot of another's either.
    """

    name: ClassVar[str] = "S12"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="append-only leader",
        promise=(
            "A leader only appends, each batch at the end of its log. Its first batch is a "
            "LeaderChange record that names the leader, the voters, and who voted for it."
        ),
        why=(
            "Followers copy the log while it grows. A leader that cuts or overwrites its log "
            "leaves them with records that it does not have, and whoever reads a wrong "
            "LeaderChange record sees a quorum that never was."
        ),
        source="KIP-595 (LeaderChangeMessage); Raft paper, 5.3 (Leader Append-Only); KAFKA-12331",
    )
    listens: ClassVar[tuple[str, ...]] = ("append", "trunc", "snap")

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Look at what a leader does to its log."""
        replica = world.here
        if not replica.known:
            return ()
        if event["t"] == "append":
            return self._append(event, replica) if event["src"] == "leader" else ()
        cuts = event["t"] == "trunc" or event["op"] == "install"
        return self._cut(event, replica) if cuts and replica.leads is not None else ()

    def _append(self, event: Event, replica: Replica) -> Iterator[Anomaly]:
        self.checked += 1
        epoch, base, end = event["bep"], event["base"], replica.log.end
        where = f"of epoch {epoch} at offset {base} ({label(event)})"
        if replica.leads != epoch:
            yield self._anomaly(
                f"{replica.id} wrote a batch {where} without leading that epoch", event
            )
        if end is not None and base != end:
            yield self._anomaly(
                f"{replica.id} wrote a batch {where}, but its log ended at {end}", event
            )
        begins = replica.epoch_starts.get(epoch) == base
        if begins and event.get("ctl") is False and self._once((replica.id, epoch)):
            yield self._anomaly(
                f"{replica.id} began its reign with a batch {where} that is no control batch",
                event,
                epoch=epoch,
            )

    def _cut(self, event: Event, replica: Replica) -> Iterator[Anomaly]:
        self.checked += 1
        did = f"cut its log to {event['to']}" if event["t"] == "trunc" else "installed a snapshot"
        yield self._anomaly(
            f"{replica.id} {did} while it led epoch {replica.leads} ({label(event)})",
            event,
            epoch=replica.leads,
        )


NONE_OF_ITS_OWN: Final = ", but none of its own"  # all before the epoch, and not its first record


class ClaimAfterCatchUp(Invariant):
    """S21: a controller is active only while its node leads, and has applied its own epoch's start.

    An active controller loads no snapshot. One that has renounced goes by what is committed.
    """

    name: ClassVar[str] = "S21"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="claim after catch-up",
        promise=(
            "A controller becomes active only while its node leads, once it has applied all "
            "records up to the start of its epoch. While active it loads no snapshot; when it "
            "steps down it forgets what was not committed."
        ),
        why=(
            "A controller that acts on an old state gives out a topic name twice, takes a dead "
            "broker for alive, or undoes what the controller before it decided."
        ),
        source=(
            "KIP-631; RaftEventSimulationTest (LeaderNeverLoadSnapshot); KAFKA-15345; KAFKA-17333"
        ),
    )
    listens: ClassVar[tuple[str, ...]] = ("claim", "renounce", "start", "snap")

    def __init__(self) -> None:
        super().__init__()
        self._active: dict[ReplicaId, Event] = {}

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Look at claims, at what is left of them, and at snapshots that come while one stands."""
        replica = world.replica(event)
        if event["t"] == "claim":
            self._active[replica.id] = event
            return self._claim(event, replica)
        if event["t"] != "snap":
            self._active.pop(replica.id, None)
            if event["t"] == "renounce" and event.get("kept"):
                return self._kept(event)
        elif event["op"] == "install" and replica.id in self._active:
            return self._loaded(event, self._active[replica.id])
        return ()

    def _claim(self, event: Event, replica: Replica) -> Iterator[Anomaly]:
        if not replica.known:
            return
        self.checked += 1
        epoch_start = replica.epoch_starts.get(event["ep"])
        if replica.leads != event["ep"] or epoch_start is None:
            yield self._anomaly(
                f"the controller of {replica.id} became active in epoch {event['ep']}, which"
                f" {replica.id} does not lead ({label(event)})",
                event,
                epoch=event["ep"],
            )
        elif event["applied"] <= epoch_start:
            has_all = _applied(event, replica, epoch_start) == epoch_start
            own = NONE_OF_ITS_OWN if has_all else ""
            yield self._anomaly(
                f"the controller of {replica.id} became active in epoch {event['ep']}, which"
                f" began at offset {epoch_start}, having applied {event['applied']}{own}"
                f" ({label(event)})",
                event,
                epoch=event["ep"],
                applied=event["applied"],
            )

    def _kept(self, event: Event) -> Iterator[Anomaly]:
        yield self._anomaly(
            f"the controller of n{event['node']} has renounced epoch {event['ep']}, and goes by"
            f" {event['kept']} changes that are not committed ({label(event)})",
            event,
            epoch=event["ep"],
            kept=event["kept"],
        )

    def _loaded(self, event: Event, claim: Event) -> Iterator[Anomaly]:
        yield self._anomaly(
            f"the controller of n{event['node']}, active since {label(claim)}, loaded a snapshot"
            f" ({label(event)})",
            claim,
            event,
        )


def _applied(event: Event, replica: Replica, begin: int) -> int:
    """Find the end of what a controller has applied, which is ``begin`` at most.

    A LeaderChange behind it, which is the first record of an epoch, is nothing to apply, and
    Kafka before 3.6 hands over none.
    """
    end: int = event["applied"]
    while end < begin:
        batch, before = replica.log.at(end), replica.log.at(end - 1)
        is_first = before is None or (batch is not None and before.epoch < batch.epoch)
        if batch is None or batch.last != end or not is_first:
            break
        end += 1
    return end
