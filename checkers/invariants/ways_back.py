"""Judges where a replica goes when it neither wins nor leads any more.

Source: KIP-996 (Prospective); Kafka 4.1 ``KafkaRaftClient.prospectiveTransitionAfterElectionLoss``
and ``pollResigned``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from checkers.invariants.applying import Fencing
from checkers.replay.invariant import Invariant
from checkers.replay.trace import Event, ReplicaId, label
from checkers.replay.world import World
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly


class BackToLeader(Invariant):
    """S31: a prospective that followed a leader goes back to it, not into an epoch without one.

    Where that leader is it knows, because it fetched from there. Another epoch is another matter.
    """

    name: ClassVar[str] = "S31"
    meaning: ClassVar[Meaning] = Fencing.meaning
    listens: ClassVar[tuple[str, ...]] = ("start", "role")

    def __init__(self) -> None:
        super().__init__()
        self._followed: dict[ReplicaId, Event] = {}  # of followers and prospectives

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Remember whom a replica follows, until it has another role than asking for pre-votes."""
        replica = world.here
        before = self._followed.pop(replica.id, None)
        to = event.get("to")
        if to == "follower":
            self._followed[replica.id] = event
        if before is None or event["t"] == "start" or before["ep"] != event["ep"]:
            return ()
        if to == "prospective":
            self._followed[replica.id] = before
            return ()
        if event.get("from") != "prospective" or not replica.known:
            return ()
        self.checked += 1
        if to == "follower":
            return ()
        return [
            self._anomaly(
                f"{replica.id} followed n{before.get('leader')} in epoch {before['ep']}"
                f" ({label(before)}), asked for pre-votes, and became {to} of that epoch"
                f" ({label(event)})",
                before,
                event,
                epoch=event["ep"],
            )
        ]


class StaysResigned(Invariant):
    """S31: a leader that shuts down takes no other role by itself: nobody is to wait for it."""

    name: ClassVar[str] = "S31"
    meaning: ClassVar[Meaning] = Fencing.meaning
    listens: ClassVar[tuple[str, ...]] = ("start", "role")

    def __init__(self) -> None:
        super().__init__()
        self._leaving: dict[ReplicaId, Event] = {}

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Look at the role after a resignation; why it resigned only our node tells."""
        replica = world.here
        resigned = self._leaving.pop(replica.id, None)
        if event.get("to") == "resigned" and event.get("why") == "shutdown":
            self.checked += 1
            self._leaving[replica.id] = event
        if resigned is None or event["t"] == "start" or event.get("by", "") is not None:
            return ()
        return [
            self._anomaly(
                f"{replica.id} resigned to shut down ({label(resigned)}), and became"
                f" {event['to']} of epoch {event['ep']} by itself ({label(event)})",
                resigned,
                event,
                epoch=event["ep"],
            )
        ]
