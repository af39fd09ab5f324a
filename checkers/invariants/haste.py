"""Judges that nobody stands before a timer of its own has run out.

Source: KIP-595 "controller.quorum.fetch.timeout.ms" and "controller.quorum.election.timeout.ms";
Kafka 4.1 ``FollowerState``, ``CandidateState``, ``ResignedState``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from checkers.invariants.decisions import MS, number_of
from checkers.invariants.patience import Patience
from checkers.replay.invariant import Invariant
from checkers.replay.trace import Event, ReplicaId, label
from checkers.replay.world import Replica, World
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly

FETCH_SETTING = "controller.quorum.fetch.timeout.ms"
ELECTION_SETTING = "controller.quorum.election.timeout.ms"
SLACK = 4  # a fourth of the time: between a clock that is read and an event that is stamped


@dataclass(slots=True)
class Wait:
    """A role that a timer ends; ``since`` is the last event that set it anew."""

    role: str
    since: Event
    is_short: bool = False  # as its leader has resigned


class Haste(Invariant):
    """L9: a follower stands a fetch timeout after it last heard of its leader, and no earlier.

    A candidate begins anew, and who resigned goes on, after an election timeout at the least;
    judged where the settings tell the timeouts. A follower whose leader has resigned does not wait
    so long, nor does a candidate of Kafka up to 4.0 that has lost: that is for L9 elsewhere.
    """

    name: ClassVar[str] = "L9"
    meaning: ClassVar[Meaning] = Patience.meaning
    listens: ClassVar[tuple[str, ...]] = ("start", "role", "append", "rpc_ok")
    timed: ClassVar[bool] = True

    def __init__(self, fetch_ms: int = 0, election_ms: int = 0) -> None:
        super().__init__()
        self._limits_ms = {
            "follower": fetch_ms,
            "candidate": election_ms,
            "resigned": election_ms,
        }
        self._waits: dict[ReplicaId, Wait] = {}

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Self:
        """Make the invariant with the timeouts that the nodes are set to."""
        return cls(
            number_of(settings, FETCH_SETTING, 0),
            number_of(settings, ELECTION_SETTING, 0),
        )

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Follow what sets the timers, and look when they end."""
        replica, kind = world.here, event["t"]
        wait = self._waits.get(replica.id)
        if kind in ("append", "rpc_ok"):
            if wait is not None and wait.role == "follower":
                if kind == "append":
                    wait.since = event
                elif event["api"] == "EndQuorumEpoch":
                    wait.is_short = True
            return ()
        self._waits.pop(replica.id, None)
        if kind == "start":
            return ()
        if self._limits_ms.get(event["to"]):
            self._waits[replica.id] = Wait(event["to"], event)
        return () if wait is None else self._ended(event, wait, replica)

    def _ended(self, event: Event, wait: Wait, replica: Replica) -> Iterator[Anomaly]:
        if wait.is_short or not replica.known or len(replica.sets.in_force) <= 1:
            return  # a lone voter need not wait
        to, epoch = event["to"], wait.since["ep"]
        by_timer = {
            "follower": to in ("prospective", "candidate"),
            "candidate": to == "prospective" and "backoff_ms" not in event,
            "resigned": to == "unattached" and event["ep"] == epoch + 1 and "by" in event,
        }[wait.role]
        if not by_timer or (wait.role == "resigned" and event["by"] is not None):
            return
        self.checked += 1
        limit_ms = self._limits_ms[wait.role]
        waited_ms = (event["ts"] - wait.since["ts"]) // MS
        if waited_ms < limit_ms - limit_ms // SLACK:
            yield self._anomaly(
                f"n{event['node']}, {wait.role} of epoch {epoch}, became {to} ({label(event)})"
                f" {waited_ms} ms after {label(wait.since)}, which is to be after {limit_ms} ms",
                wait.since,
                event,
                epoch=event["ep"],
            )
