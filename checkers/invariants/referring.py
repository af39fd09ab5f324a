"""Judges that a controller says that it is not the active one if that is so, and only then: L5.

Source: QuorumController (NotControllerException); KAFKA-16286 (requests that nobody answers).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
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
GOES_ON_NS: Final = 1_000 * MS  # who loses the lead as it answers has renounced by then


@dataclass(slots=True)
class _Reign:
    """The last reign of a controller; ``denied`` are requests that it refused in it."""

    begin_ns: int
    end_ns: int | None = None
    denied: list[Event] = field(default_factory=list)


class Referring(Invariant):
    """L5: who is not the active controller says so at once, and who is does not say it.

    The simulated host tells of requests whose clients hung up while the node was at work, and of
    those that were answered with NOT_CONTROLLER.
    """

    name: ClassVar[str] = L5.name
    meaning: ClassVar[Meaning] = L5
    listens: ClassVar[tuple[str, ...]] = (
        *("start", "claim", "renounce", "hwm"),
        *("unanswered", "denied"),
    )
    checker: ClassVar[str] = "observers"

    def __init__(self) -> None:
        super().__init__()
        self._reigns: dict[ReplicaId, _Reign] = {}

    def feed(self, event: Event, world: World) -> Iterator[Anomaly]:
        """Follow who is active, and judge the requests that the host tells of."""
        replica = world.replica(event)
        reign = self._reigns.get(replica.id)
        match event["t"]:
            case "claim":
                self._reigns[replica.id] = _Reign(event["ts"])
            case "unanswered":
                if event["api"] in OF_CONTROLLERS and replica.id.node in replica.voters:
                    yield from self._left(event, reign)
            case "denied" if event["api"] in OF_CONTROLLERS:
                self.checked += 1
                if reign is not None and reign.end_ns is None and reign.begin_ns <= _came_ns(event):
                    reign.denied.append(event)
            case "hwm" if reign is not None and reign.denied:
                yield from self._denied(event, reign)
            case "start" | "renounce" if reign is not None and reign.end_ns is None:
                reign.end_ns, reign.denied = event["ts"], []
            case _:
                pass

    def _left(self, event: Event, reign: _Reign | None) -> Iterator[Anomaly]:
        self.checked += 1
        if reign is not None and (reign.end_ns is None or reign.end_ns > _came_ns(event)):
            return
        yield self._anomaly(
            f"n{event['node']} left a request of API {ApiKey(event['api']).name} without an answer"
            f" for {event['ms']} ms, though it was not the active controller, and answered others"
            f" ({label(event)})",
            event,
        )

    def _denied(self, event: Event, reign: _Reign) -> Iterator[Anomaly]:
        while reign.denied and event["ts"] - reign.denied[0]["ts"] >= GOES_ON_NS:
            denied = reign.denied.pop(0)
            yield self._anomaly(
                f"n{event['node']} answered a request of API {ApiKey(denied['api']).name} as if it"
                f" were not the active controller ({label(denied)}), which it was before and after",
                denied,
            )


def _came_ns(event: Event) -> int:
    """Tell when the request came that an event is about."""
    came: int = event["ts"] - event["ms"] * MS
    return came
