"""Judges that a controller which is not the active one says so at once, in the place of nothing.

Source: QuorumController (NotControllerException); KAFKA-16286 (requests that nobody answers).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

from checkers.invariants.controller_answers import JUDGED
from checkers.invariants.liveness import L5
from checkers.replay.invariant import Invariant
from checkers.replay.trace import Event, ReplicaId, label
from checkers.replay.world import World
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly
from node.wire.api import ApiKey

OF_CONTROLLERS: Final = JUDGED | {ApiKey.BROKER_HEARTBEAT}
MS: Final = 1_000_000


class Referring(Invariant):
    """L5: a voter that is not the active controller leaves no request to that one unanswered.

    The simulated host tells of requests whose clients hung up while the node was at work.
    """

    name: ClassVar[str] = L5.name
    meaning: ClassVar[Meaning] = L5
    listens: ClassVar[tuple[str, ...]] = ("start", "claim", "renounce", "unanswered")

    def __init__(self) -> None:
        super().__init__()
        self._active_until: dict[ReplicaId, int | None] = {}  # None: it is the active controller

    def feed(self, event: Event, world: World) -> Iterator[Anomaly]:
        """Follow who is active, and tell of requests to others that got no answer."""
        replica = world.replica(event)
        match event["t"]:
            case "claim":
                self._active_until[replica.id] = None
            case "unanswered":
                if event["api"] in OF_CONTROLLERS and replica.id.node in replica.voters:
                    yield from self._judge(event, self._active_until.get(replica.id, 0))
            case _ if self._active_until.get(replica.id, 0) is None:
                self._active_until[replica.id] = event["ts"]
            case _:
                pass

    def _judge(self, event: Event, active_until_ns: int | None) -> Iterator[Anomaly]:
        self.checked += 1
        if active_until_ns is None or active_until_ns > event["ts"] - event["ms"] * MS:
            return
        yield self._anomaly(
            f"n{event['node']} left a request of API {ApiKey(event['api']).name} without an answer"
            f" for {event['ms']} ms, though it was not the active controller, and answered others"
            f" ({label(event)})",
            event,
        )
