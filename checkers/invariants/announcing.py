"""Judges that a leader which a voter has heard of does not tell it again and again at once.

Source: KIP-595 "BeginQuorumEpoch"; KAFKA-16164: once in half a fetch timeout, to voters that have
not fetched meanwhile; and again after ``controller.quorum.retry.backoff.ms`` if an answer is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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
NEEDLESS_MAX: Final = 20  # what was sent before a Fetch came may arrive late, over slow links
SOON: Final = 4  # a fourth of the fetch timeout, which is half of the pause


class Announcing(Invariant):
    """L12: a voter does not hear of the same reign nine times in a row, each much too soon.

    Nor again and again while its leader takes its fetches. Judged where the settings tell the fetch
    timeout, by what voters accept. A voter that was paused hears at once what was sent meanwhile:
    the longer ago the election, the more may come in a row.
    """

    name: ClassVar[str] = L12.name
    meaning: ClassVar[Meaning] = L12
    listens: ClassVar[tuple[str, ...]] = ("start", "elected", "rpc_ok", "fetch_rx")
    timed: ClassVar[bool] = True

    def __init__(self, fetch_ms: int = 0) -> None:
        super().__init__()
        self._soon = fetch_ms * MS // SOON
        self._heard: dict[tuple[int, int, int], tuple[Event, int]] = {}  # the last, and how often
        self._elected: dict[tuple[int, int], int] = {}  # when a leader and epoch began, in ns
        # by voter, leader and epoch: when its last Fetch came, and how often it was told since
        self._fetched: dict[tuple[int, int, int], int] = {}
        self._needless: dict[tuple[int, int, int], int] = {}

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Self:
        """Make the invariant with the timeout that the nodes are set to."""
        return cls(number_of(settings, FETCH_SETTING, 0))

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Compare the time with that of the same announcement before."""
        del world
        kind = event["t"]
        if kind == "fetch_rx":
            if event["res"] == "ok" and event.get("from") is not None:
                self._fetched[event["from"], event["node"], event["ep"]] = event["ts"]
        elif kind == "start":
            for told in (self._heard, self._needless):
                for key in [key for key in told if key[0] == event["node"]]:
                    del told[key]
        elif kind == "elected":
            self._elected[event["node"], event["ep"]] = event.get("rx_ns", event["ts"])
        elif self._soon and event["api"] == BEGIN and not event.get("foreign"):
            self.checked += 1
            key = event["node"], event["peer"], event["req_ep"]
            return [*self._too_soon(key, event), *self._for_nothing(key, event)]
        return ()

    def _too_soon(self, key: tuple[int, int, int], event: Event) -> Iterator[Anomaly]:
        """Count what came without a pause."""
        last, times = self._heard.get(key, (None, 0))
        is_soon = last is not None and event["ts"] - last["ts"] < self._soon
        times = times + 1 if is_soon else 0
        self._heard[key] = event, times
        if last is not None and times >= self._may_queue(event) and self._once(key):
            yield self._anomaly(
                f"n{event['peer']} told n{event['node']} that it leads epoch {event['req_ep']}"
                f" {times + 1} times in a row without a pause ({label(event)})",
                last,
                event,
                epoch=event["ep"],
            )

    def _for_nothing(self, key: tuple[int, int, int], event: Event) -> Iterator[Anomaly]:
        """Count what came though the voter fetched from that leader."""
        fetched_ns = self._fetched.get(key)
        if fetched_ns is None or event["ts"] - fetched_ns >= self._soon:
            self._needless.pop(key, None)
            return
        times = self._needless[key] = self._needless.get(key, 0) + 1
        if times > NEEDLESS_MAX and self._once(("for nothing", *key)):
            yield self._anomaly(
                f"n{event['peer']} told n{event['node']} that it leads epoch {event['req_ep']}"
                f" {times} times in a row, though it had taken a Fetch of that one just before"
                f" ({label(event)})",
                event,
                epoch=event["ep"],
            )

    def _may_queue(self, event: Event) -> int:
        """Count what a leader that makes pauses can have sent at most since it was elected."""
        now: int = event.get("rx_ns", event["ts"])
        since = self._elected.get((event["peer"], event["req_ep"]), now)
        return IN_A_ROW_MAX + (now - since) // self._soon
