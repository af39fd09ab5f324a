"""Judges that a leader which a voter has heard of does not tell it again and again at once.

Source: KIP-595 "BeginQuorumEpoch"; KAFKA-16164: once in half a fetch timeout, to voters that have
not fetched meanwhile; and again after ``controller.quorum.retry.backoff.ms`` if an answer is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Final, Self

from checkers.invariants.decisions import MS, number_of
from checkers.invariants.haste import FETCH_SETTING
from checkers.invariants.liveness import L12
from checkers.replay.invariant import Invariant
from checkers.replay.trace import Event, label
from checkers.replay.world import World
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly

BEGIN: Final = "BeginQuorumEpoch"
IN_A_ROW_MAX: Final = 8  # answers may be lost, and requests repeated on the way
SOON: Final = 4  # a fourth of the fetch timeout, which is half of the pause


class Announcing(Invariant):
    """L12: a voter does not hear of the same reign nine times in a row, each much too soon.

    Judged where the settings tell the fetch timeout, by what voters accept. A voter that was paused
    hears at once what was sent meanwhile: the longer ago the election, the more may come in a row.
    """

    name: ClassVar[str] = L12.name
    meaning: ClassVar[Meaning] = L12
    listens: ClassVar[tuple[str, ...]] = ("start", "elected", "rpc_ok")
    timed: ClassVar[bool] = True

    def __init__(self, fetch_ms: int = 0) -> None:
        super().__init__()
        self._soon = fetch_ms * MS // SOON
        self._heard: dict[tuple[int, int, int], tuple[Event, int]] = {}  # the last, and how often
        self._elected: dict[tuple[int, int], int] = {}  # when a leader and epoch began, in ns

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Self:
        """Make the invariant with the timeout that the nodes are set to."""
        return cls(number_of(settings, FETCH_SETTING, 0))

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Compare the time with that of the same announcement before."""
        del world
        if event["t"] == "start":
            for key in [key for key in self._heard if key[0] == event["node"]]:
                del self._heard[key]
            return ()
        if event["t"] == "elected":
            self._elected[event["node"], event["ep"]] = event.get("rx_ns", event["ts"])
            return ()
        if not self._soon or event["api"] != BEGIN or event.get("foreign"):
            return ()
        self.checked += 1
        key = event["node"], event["peer"], event["req_ep"]
        last, times = self._heard.get(key, (None, 0))
        is_soon = last is not None and event["ts"] - last["ts"] < self._soon
        times = times + 1 if is_soon else 0
        self._heard[key] = event, times
        if last is None or times < self._may_queue(event) or not self._once(key):
            return ()
        return [
            self._anomaly(
                f"n{event['peer']} told n{event['node']} that it leads epoch {event['req_ep']}"
                f" {times + 1} times in a row without a pause ({label(event)})",
                last,
                event,
                epoch=event["ep"],
            )
        ]

    def _may_queue(self, event: Event) -> int:
        """Count what a leader that makes pauses can have sent at most since it was elected."""
        now: int = event.get("rx_ns", event["ts"])
        since = self._elected.get((event["peer"], event["req_ep"]), now)
        return IN_A_ROW_MAX + (now - since) // self._soon
