"""How long a broker has been turned away because of the session of its process before.

A controller refuses an incarnation while the session of another one goes on (KIP-631, ``register``
of Kafka's ``ClusterControlManager``). Once nobody is heard any more that session ends, and another
controller begins with new ones. The last heartbeat may come as late as a session.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Self

from checkers.invariants.decisions import GRACE_MS, MS, session_ms_of
from checkers.replay.trace import Event

DUPLICATE_BROKER_REGISTRATION: Final = 101


class TurnedAway:
    """Follows refusals by broker: since when one controller has given them without a break."""

    def __init__(self, session_ms: int) -> None:
        self._limit_ns = 2 * session_ms * MS + GRACE_MS * MS
        self._since: dict[int, tuple[object, Event]] = {}  # by whom, and the first refusal
        self._heard: dict[int, int] = {}  # when a controller was sent a heartbeat of a broker

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Self:
        """Go by the session timeout that the settings give brokers."""
        return cls(session_ms_of(settings))

    def contact(self, event: Event) -> None:
        """Take in that a controller was sent a heartbeat: the broker's session goes on."""
        self._heard[event["broker"]] = event["ts"]

    @property
    def hears(self) -> bool:
        """Tell whether controllers tell of heartbeats; else nobody knows whose session goes on."""
        return bool(self._heard)

    def forget(self, broker: int) -> None:
        """Begin anew: the broker was heard, or is not refused any more."""
        self._since.pop(broker, None)

    def refused(self, broker: int, event: Event, controller: object) -> Event | None:
        """Take in a refusal; the first one of those by this controller if they last too long.

        Args:
            broker: The id of who was refused.
            event: The refusal.
            controller: What is another one for another controller, or for another reign of it.
        """
        by, since = self._since.setdefault(broker, (controller, event))
        if by != controller or since["ts"] <= self._heard.get(broker, -1):
            self._since[broker] = controller, event
            return None
        return since if event["ts"] - since["ts"] > self._limit_ns else None
