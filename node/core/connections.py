"""``Connections`` lets one request per peer be in flight, and makes a pause after a failure.

Source: Kafka 4.1 ``RequestManager``.
"""

from __future__ import annotations

from node.core.messages import FetchRequest, FetchSnapshotRequest, Request
from node.core.values import value

_FETCHES = (FetchRequest, FetchSnapshotRequest)


@value
class InFlight:
    """A request in flight waits for its answer."""

    peer: int
    correlation: int
    request: Request


class Connections:
    """The connections keep the outgoing requests of one replica, by peer."""

    def __init__(self) -> None:
        self._in_flight: dict[int, InFlight] = {}
        self._ready_at_ms: dict[int, int] = {}
        self._correlation = 0
        self._fetches = 0  # in flight

    def open(self, peer: int, request: Request) -> InFlight:
        """Note that ``request`` leaves for an idle ``peer``; gives it its correlation."""
        assert peer not in self._in_flight, f"peer {peer} is still busy"
        self._correlation += 1
        flight = InFlight(peer, self._correlation, request)
        self._in_flight[peer] = flight
        self._fetches += isinstance(request, _FETCHES)
        return flight

    def close(self, peer: int, correlation: int) -> InFlight | None:
        """Give the request that this answer ends; None when nobody waits for the answer."""
        flight = self._in_flight.get(peer)
        if flight is None or flight.correlation != correlation:
            return None
        del self._in_flight[peer]
        self._fetches -= isinstance(flight.request, _FETCHES)
        return flight

    def back_off(self, peer: int, until_ms: int) -> None:
        """Send nothing to ``peer`` before ``until_ms``."""
        self._ready_at_ms[peer] = until_ms

    def is_ready(self, peer: int, now_ms: int) -> bool:
        """Say whether a request may leave for ``peer`` now."""
        return peer not in self._in_flight and self._ready_at_ms.get(peer, 0) <= now_ms

    def is_busy(self, peer: int) -> bool:
        """Say whether ``peer`` still owes an answer."""
        return peer in self._in_flight

    def ready_at_ms(self, peer: int) -> int:
        """Say when the pause after the last failure ends; 0 without one."""
        return self._ready_at_ms.get(peer, 0)

    @property
    def fetching(self) -> bool:
        """Say whether a Fetch or FetchSnapshot is in flight, to whomever.

        Two would append the same offsets twice.
        """
        return self._fetches > 0

    def reset(self) -> bool:
        """Forget everything; says whether there was anything in flight."""
        busy = bool(self._in_flight)
        self._in_flight.clear()
        self._fetches = 0
        self._ready_at_ms.clear()
        return busy
