"""Judges that a vote or pre-vote is given only in a role that may give one.

Source: KIP-595 (Vote), KIP-996; Kafka 4.1 ``canGrantVote`` of the classes ``EpochState`` and
``QuorumState``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from checkers.invariants.answers import MEANING
from checkers.replay.invariant import Invariant
from checkers.replay.trace import Event, ReplicaId, label
from checkers.replay.world import World
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly

_VOTING = frozenset({"unattached", "prospective"})


class DeservedGrants(Invariant):
    """S38: who leads, follows, stands or has resigned has no vote to give; a leader no pre-vote."""

    name: ClassVar[str] = MEANING.name
    meaning: ClassVar[Meaning] = MEANING
    listens: ClassVar[tuple[str, ...]] = ("start", "role", "vote")

    def __init__(self) -> None:
        super().__init__()
        self._roles: dict[ReplicaId, tuple[str, int]] = {}

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Follow roles, and look at what is given."""
        replica = world.here
        if event["t"] == "start":
            self._roles.pop(replica.id, None)
        elif event["t"] == "role":
            self._roles[replica.id] = (event["to"], event["ep"])
        elif event["ok"] and replica.id in self._roles:
            return self._given(event, *self._roles[replica.id])
        return ()

    def _given(self, event: Event, role: str, epoch: int) -> Iterable[Anomaly]:
        if epoch != event["ep"]:
            return ()
        self.checked += 1
        if role in _VOTING or (event["pre"] and role != "leader"):
            return ()
        kind = "pre-vote" if event["pre"] else "vote"
        return [
            self._anomaly(
                f"n{event['node']} gave n{event['cand']} a {kind} of epoch {epoch} as {role}"
                f" ({label(event)})",
                event,
                epoch=epoch,
                candidate=event["cand"],
            )
        ]
