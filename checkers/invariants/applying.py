"""Invariants of applying the log: whole batches, in order, and nothing that is not committed.

Source: KIP-595; KAFKA-14275, etcd 3.5's inconsistent index, redisraft #14.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import ClassVar

from checkers.replay.invariant import Invariant
from checkers.replay.trace import Event, ReplicaId, label, snapshots_of
from checkers.replay.world import Replica, World
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly

NOT_LEADER = 6  # Kafka's NOT_LEADER_OR_FOLLOWER


class AtomicBatches(Invariant):
    """S19: no high watermark, no truncation and no applied state ends inside of a batch.

    What a client wrote at once is one batch; where a snapshot ends S22 looks.
    """

    name: ClassVar[str] = "S19"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="atomic batches",
        promise="The records of one operation are committed, applied and cut together.",
        why=(
            "Half of an operation is metadata that nobody asked for: a topic with some of its "
            "partitions, or a broker that is fenced and still leads."
        ),
        source="KIP-595 (atomic appends); KRaft's QuorumController; KAFKA-12376",
    )
    listens: ClassVar[tuple[str, ...]] = ("hwm", "trunc", "apply")
    _ENDS: ClassVar[dict[str, tuple[str, str]]] = {
        "hwm": ("v", "exposed high watermark"),
        "trunc": ("to", "cut its log at"),
        "apply": ("off", "stopped applying at"),
    }

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Look whether a batch ends there."""
        replica = world.here
        if not replica.known:
            return ()
        field, did = self._ENDS[event["t"]]
        last = event[field] - 1
        batch = replica.log.at(last)
        if batch is None:
            return ()
        self.checked += 1
        if batch.last == last:
            return ()
        return [
            self._anomaly(
                f"{replica.id} {did} {event[field]}, inside of {batch} ({label(event)})",
                event,
                offset=event[field],
            )
        ]


class ApplyOrder(Invariant):
    """S20: records are applied one after the other from 0 or a snapshot, and only if committed.

    That equal offsets mean equal states is C8.
    """

    name: ClassVar[str] = "S20"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="apply order",
        promise=(
            "A node applies committed records only, each once and in order, from offset 0 or from "
            "the end of a snapshot."
        ),
        why=(
            "A record that is skipped, repeated or not committed gives the node metadata of its "
            "own: it elects partition leaders or checks ACLs by a state that no other node has."
        ),
        source="Raft paper, 5.3; KAFKA-14275; etcd 3.5 (#13766)",
    )
    listens: ClassVar[tuple[str, ...]] = ("start", "snap", "apply")

    def __init__(self) -> None:
        super().__init__()
        self._snapshots: dict[ReplicaId, set[int]] = defaultdict(set)  # ends, also deleted ones

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Collect snapshots, and look where applied records begin and end."""
        replica = world.here
        if event["t"] == "apply":
            if not replica.known:
                return ()
            self.checked += 1
            end, hwm = event["off"], replica.hwm
            follows = end - event["n"] == replica.applied
            return () if follows and hwm is not None and end <= hwm else self._apply(event, replica)
        if event["t"] == "start":
            self._snapshots[replica.id] = set(snapshots_of(event))
        elif event["t"] == "snap" and event["op"] in ("freeze", "install"):
            self._snapshots[replica.id].add(event["id"][0])
        return ()

    def _apply(self, event: Event, replica: Replica) -> Iterator[Anomaly]:
        end, before = event["off"], replica.applied
        begin = end - event["n"]
        if replica.hwm is None or end > replica.hwm:
            yield self._anomaly(
                f"{replica.id} applied records up to {end} at high watermark {replica.hwm}"
                f" ({label(event)})",
                event,
                offset=end,
                hwm=replica.hwm,
            )
        loaded = begin in self._snapshots[replica.id] and begin > (before or 0)
        follows = begin == before if before is not None else begin == replica.log.start == 0
        if not follows and not loaded:
            had = "it had no state" if before is None else f"its state was that of {before}"
            yield self._anomaly(
                f"{replica.id} applied records from {begin} to {end} ({label(event)}), but {had}",
                event,
                begin=begin,
                before=before,
            )


class Fencing(Invariant):
    """S31: an older epoch is refused as fenced, a newer one as unknown, the same as not leader.

    No leader says that it is none. What is accepted is of the very epoch that the receiver is in
    then, and of its cluster.
    """

    name: ClassVar[str] = "S31"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="epoch fencing",
        promise=(
            "A node refuses a request of an older epoch as fenced, and one of another cluster. "
            "What only a leader serves it also refuses for a newer epoch. Only a vote request of a "
            "newer epoch, or a leader that names itself, changes its role. After a restart, too, "
            "roles follow each other in their order."
        ),
        why=(
            "Fencing silences a leader that was replaced. Without it, records and answers of that "
            "leader, or of a node of another cluster, get into the metadata."
        ),
        source=(
            "KIP-595 (FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, INCONSISTENT_CLUSTER_ID); "
            "KafkaRaftClient"
        ),
    )
    listens: ClassVar[tuple[str, ...]] = ("rpc_err", "rpc_ok", "vote", "fetch_rx")
    _SIGNS: ClassVar[dict[int, tuple[int, str]]] = {
        74: (-1, "FENCED_LEADER_EPOCH"),
        75: (1, "UNKNOWN_LEADER_EPOCH"),
        6: (0, "NOT_LEADER_OR_FOLLOWER"),
    }
    _ACCEPTED: ClassVar[tuple[str, ...]] = ("ok", "diverging", "snapshot")

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Compare the epoch that was asked with the one that answers."""
        kind = event["t"]
        if kind == "rpc_err":
            return self._refused(event, world.replica(event))
        if kind == "fetch_rx":
            return self._accepted(event, "Fetch") if event["res"] in self._ACCEPTED else ()
        if kind == "vote":
            return self._accepted(event, "Vote") if event.get("err") == 0 else ()
        return self._accepted(event, event["api"])

    def _refused(self, event: Event, replica: Replica) -> Iterable[Anomaly]:
        asked, own = event.get("req_ep"), event["ep"]
        rule = self._SIGNS.get(event["code"])
        if rule is None or not isinstance(asked, int):
            return ()
        self.checked += 1
        is_sign = (asked > own) - (asked < own) == rule[0]
        if is_sign and replica.leads is None:
            return ()
        return self._wrongly_refused(event, replica, asked, rule)

    def _wrongly_refused(
        self, event: Event, replica: Replica, asked: int, rule: tuple[int, str]
    ) -> Iterator[Anomaly]:
        own = event["ep"]
        if event["code"] == NOT_LEADER and replica.known and replica.leads == own:
            yield self._anomaly(
                f"n{event['node']}, the leader of epoch {own}, refused a {event['api']} with"
                f" {rule[1]} ({label(event)})",
                event,
                epoch=own,
            )
        if (asked > own) - (asked < own) != rule[0]:
            yield self._anomaly(
                f"n{event['node']} in epoch {own} refused a {event['api']} of epoch {asked} with"
                f" {rule[1]} ({label(event)})",
                event,
                asked=asked,
                epoch=own,
            )

    def _accepted(self, event: Event, api: str) -> Iterable[Anomaly]:
        asked, own = event.get("req_ep"), event["ep"]
        self.checked += isinstance(asked, int)
        foreign = " of another cluster" if event.get("foreign") is True else ""
        if not foreign and (asked == own or not isinstance(asked, int)):
            return ()
        return [
            self._anomaly(
                f"n{event['node']} in epoch {own} accepted a {api} of epoch {asked}{foreign}"
                f" ({label(event)})",
                event,
                asked=asked,
                epoch=own,
            )
        ]
