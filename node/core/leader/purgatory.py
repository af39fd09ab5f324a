"""``Purgatory`` keeps fetches that wait for records, a newer high watermark, or their time."""

from __future__ import annotations

from collections.abc import Callable

from node.core.messages import FetchRequest
from node.core.types import ReplicaKey
from node.core.values import value

PARK_MAX_MS = 60_000  # whatever a client asks for


@value
class ParkedFetch:
    """A parked fetch waits for its reply, at the latest until ``deadline_ms``."""

    token: int
    connection: int
    request: FetchRequest
    deadline_ms: int

    @classmethod
    def of(cls, token: int, connection: int, request: FetchRequest, now_ms: int) -> ParkedFetch:
        """Park ``request`` for as long as it asks for."""
        wait_ms = min(request.max_wait_ms, PARK_MAX_MS)
        return cls(token, connection, request, now_ms + wait_ms)


class Purgatory:
    """A purgatory keeps the parked fetches of one leader, in order of arrival."""

    def __init__(self) -> None:
        self._parked: list[ParkedFetch] = []
        self._deadline_ms: int | None = None

    def __len__(self) -> int:
        return len(self._parked)

    def add(self, fetch: ParkedFetch) -> None:
        """Hold back one reply."""
        self._parked.append(fetch)
        if self._deadline_ms is None or fetch.deadline_ms < self._deadline_ms:
            self._deadline_ms = fetch.deadline_ms

    @property
    def deadline_ms(self) -> int | None:
        """Say when the first of them must be answered."""
        return self._deadline_ms

    def take_all(self) -> list[ParkedFetch]:
        """Take every parked fetch."""
        return self._take(lambda _: True)

    def take_expired(self, now_ms: int) -> list[ParkedFetch]:
        """Take those that have waited long enough."""
        if self._deadline_ms is None or self._deadline_ms > now_ms:
            return []
        return self._take(lambda f: f.deadline_ms <= now_ms)

    def take_below(self, log_end: int) -> list[ParkedFetch]:
        """Take those for which there are records now."""
        return self._take(lambda f: f.request.offset < log_end)

    def take_behind(self, high_watermark: int) -> list[ParkedFetch]:
        """Take those that know only a lower high watermark (and said so, KIP-1166)."""
        return self._take(
            lambda f: (
                f.request.high_watermark is not None and f.request.high_watermark < high_watermark
            )
        )

    def take_of(self, is_wanted: Callable[[ReplicaKey], object]) -> list[ParkedFetch]:
        """Take those of replicas for which ``is_wanted`` gives something true."""
        return self._take(lambda f: bool(is_wanted(f.request.replica)))

    def _take(self, condition: Callable[[ParkedFetch], bool]) -> list[ParkedFetch]:
        if not self._parked:
            return []
        taken = list(filter(condition, self._parked))
        if taken:
            self._parked = [f for f in self._parked if not condition(f)]
            self._deadline_ms = min([f.deadline_ms for f in self._parked], default=None)
        return taken
