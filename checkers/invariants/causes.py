"""Judges what moves a replica to another epoch or leader: few messages, and its own elections.

Source: KIP-595 "Vote", "BeginQuorumEpoch", "Fetch"; Kafka 4.1 ``KafkaRaftClient``: requests that
only a leader serves never change the state of the receiver.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from checkers.invariants.applying import Fencing
from checkers.replay.invariant import Invariant
from checkers.replay.trace import Event, ReplicaId, label
from checkers.replay.world import Replica, World
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly

OF_LEADERS = {
    "BeginQuorumEpoch": "BeginQuorumEpochRequest",
    "EndQuorumEpoch": "EndQuorumEpochRequest",
}
ELECTED_BY_ANSWER = "VoteResponse"  # of a voter that is too old for pre-votes


class Causes(Invariant):
    """S31: a request moves no role but that of a newer Vote, or of a leader that names itself.

    By itself a replica raises the epoch by one, as a candidate or having resigned; an answer may
    tell it of any newer one.
    """

    name: ClassVar[str] = "S31"
    meaning: ClassVar[Meaning] = Fencing.meaning
    listens: ClassVar[tuple[str, ...]] = ("start", "role", "rpc_ok")

    def __init__(self) -> None:
        super().__init__()
        self._epochs: dict[ReplicaId, int] = {}  # those of the roles

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Compare a change of role with what it came from."""
        replica = world.replica(event)
        if event["t"] == "start":
            self._epochs.pop(replica.id, None)
            return ()
        if event["t"] == "rpc_ok":
            return self._named(event, replica)
        before, self._epochs[replica.id] = self._epochs.get(replica.id), event["ep"]
        if before is None or "by" not in event or not replica.known:
            return ()
        self.checked += 1
        wrong = _wrong(event, event["ep"] - before)
        return [] if wrong is None else [self._moved(event, before, wrong)]

    def _moved(self, event: Event, before: int, wrong: str) -> Anomaly:
        return self._anomaly(
            f"n{event['node']} went from {event.get('from')} in epoch {before} to {event['to']} in"
            f" epoch {event['ep']} ({label(event)}){wrong}",
            event,
            epoch=event["ep"],
        )

    def _named(self, event: Event, replica: Replica) -> Iterator[Anomaly]:
        """Judge that a replica told of a leader follows the one that told it."""
        cause, role = OF_LEADERS.get(event["api"]), replica.told
        if cause is None or role is None or role["t"] != "role" or role.get("by") != cause:
            return
        self.checked += 1
        named = role.get("leader"), role["ep"]
        if named != (event.get("peer"), event.get("req_ep")):
            yield self._anomaly(
                f"n{event['node']} took n{named[0]} for the leader of epoch {named[1]}, told by"
                f" n{event.get('peer')} that it leads epoch {event.get('req_ep')} ({label(event)})",
                role,
                event,
                epoch=event["ep"],
            )


def _wrong(event: Event, raised: int) -> str | None:
    """Tell why a change of role cannot have come from what it is said to have come from."""
    cause, to, leader = event["by"], event["to"], event.get("leader")
    if cause is None or (cause == ELECTED_BY_ANSWER and to == "candidate"):
        stands = to == "candidate" or (event.get("from") == "resigned" and to == "unattached")
        right = raised == 1 if stands and raised else raised == 0
        return None if right else f" by itself: {raised} epochs at once"
    if not isinstance(cause, str) or cause.endswith("Response"):
        return None
    if cause == "VoteRequest":
        if to == "unattached" and leader is None and raised > 0:
            return None
        if raised == 0 and to == event.get("from") and event.get("voted") is not None:
            return None  # Apache Kafka takes the same role anew when it records a vote
        return " for a Vote, which names no leader and counts only in a newer epoch"
    if cause in OF_LEADERS.values():
        if to in ("unattached", "follower") and leader is not None:
            return None
        return f" for a {cause}, which names a leader"
    return f" for a {cause}, which is only for the leader of the very epoch"
