"""Judges what a controller grants a broker against what that broker asked for: C1, C6 and C7.

Source: KIP-631 "BrokerRegistration" and "BrokerHeartbeat"; Kafka 4.1 ``ClusterControlManager``,
``BrokerHeartbeatManager.calculateNextBrokerState``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Self

from checkers.invariants.brokers import BrokerEpochs, UnfenceGuard
from checkers.invariants.decisions import MS, SESSION_MS, ShutdownGuard, session_ms_of
from checkers.invariants.turned_away import DUPLICATE_BROKER_REGISTRATION, TurnedAway
from checkers.replay.invariant import Invariant
from checkers.replay.trace import Event, ReplicaId, label
from checkers.replay.world import World
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly


class OneSession(Invariant):
    """C1: no incarnation of a broker is let in while the session of another one goes on.

    A heartbeat is sent after the one before was answered, so the controller heard the last one
    later than that. An incarnation that has asked to stop may be followed at once. Once the session
    is over, the next one is let in.
    """

    name: ClassVar[str] = "C1"
    meaning: ClassVar[Meaning] = BrokerEpochs.meaning
    listens: ClassVar[tuple[str, ...]] = ("reg", "hb", "ack")
    checker: ClassVar[str] = "observers"
    timed: ClassVar[bool] = True

    def __init__(self, session_ms: int = SESSION_MS) -> None:
        super().__init__()
        self._session_ns = session_ms * MS
        self._incarnation: dict[int, object] = {}  # of the last registration of each broker
        self._served: dict[int, list[Event]] = {}  # its last two heartbeats, while it is in service
        self._turned_away = TurnedAway(session_ms)

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Self:
        """Make the invariant with the session timeout that the settings give brokers."""
        return cls(session_ms_of(settings))

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Follow the heartbeats of each broker, and look who registers in its place."""
        del world
        kind, node = event["t"], event["node"]
        if kind == "ack":
            if event.get("api") == "UnregisterBroker":
                self._served.clear()
            return ()
        if kind == "hb":
            self._turned_away.forget(node)
            self._heartbeat(event, node)
            return ()
        if event.get("err") == DUPLICATE_BROKER_REGISTRATION:
            return self._refusal(event, node)
        self._turned_away.forget(node)
        if event.get("err") != 0:
            return ()
        before = self._incarnation.get(node)
        self._incarnation[node] = event.get("inc_id")
        served = self._served.pop(node, [])
        is_other = before is not None and before != event.get("inc_id")
        return self._judge(event, served) if is_other else ()

    def _heartbeat(self, event: Event, node: int) -> None:
        if event.get("want_shut_down"):
            self._served.pop(node, None)
        elif event.get("err") == 0 and event.get("fenced") is False:
            self._served[node] = [*self._served.get(node, [])[-1:], event]
        elif event.get("err") == 0:
            self._served.pop(node, None)

    def _refusal(self, event: Event, node: int) -> Iterator[Anomaly]:
        self.checked += 1
        since = self._turned_away.refused(node, event, event["ep"])
        if since is not None:
            yield self._anomaly(
                f"broker n{node} is refused because of a session of its process before"
                f" ({label(event)}), for {(event['ts'] - since['ts']) / 1e9:.3f} s now"
                f" ({label(since)}), in which nobody heard that process; a session is"
                f" {self._session_ns / 1e9:g} s",
                since,
                event,
            )

    def _judge(self, event: Event, served: list[Event]) -> Iterator[Anomaly]:
        if len(served) != 2:  # noqa: PLR2004 - the last two
            return
        before, last = served
        if not before["ep"] == last["ep"] == event["ep"]:
            return  # another controller may have heard other things
        self.checked += 1
        if event["ts"] - before["ts"] < self._session_ns:
            passed = (event["ts"] - before["ts"]) / 1e9
            yield self._anomaly(
                f"broker n{event['node']} was registered anew ({label(event)}) no more than"
                f" {passed:.3f} s after its process before sent a heartbeat ({label(last)}); its"
                f" session is {self._session_ns / 1e9:g} s",
                last,
                event,
                epochs=[last["b_ep"], event["b_ep"]],
            )


class WantedFence(Invariant):
    """C6: a broker that wants to stay fenced is not unfenced, unless it had asked to stop."""

    name: ClassVar[str] = "C6"
    meaning: ClassVar[Meaning] = UnfenceGuard.meaning
    listens: ClassVar[tuple[str, ...]] = ("start", "hb")
    checker: ClassVar[str] = "observers"

    def __init__(self) -> None:
        super().__init__()
        self._stopping: set[ReplicaId] = set()

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Compare the answer with the wish."""
        replica = world.here.id
        if event["t"] == "start":
            self._stopping.discard(replica)
            return ()
        if event.get("want_shut_down"):
            self._stopping.add(replica)
        wants = event.get("want_fence") is True and replica not in self._stopping
        if event.get("err") != 0 or not wants:
            return ()
        self.checked += 1
        if event.get("fenced") is not False:
            return ()
        return [
            self._anomaly(
                f"broker n{event['node']} wanted to stay fenced, and was told that it is not"
                f" ({label(event)})",
                event,
            )
        ]


class WantedShutdown(Invariant):
    """C7: a broker is told to stop only if it has asked for that since it started."""

    name: ClassVar[str] = "C7"
    meaning: ClassVar[Meaning] = ShutdownGuard.meaning
    listens: ClassVar[tuple[str, ...]] = ("start", "hb")
    checker: ClassVar[str] = "observers"

    def __init__(self) -> None:
        super().__init__()
        self._asked: set[ReplicaId] = set()

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Compare the answer with the wish."""
        replica = world.here.id
        if event["t"] == "start":
            self._asked.discard(replica)
            return ()
        if event.get("want_shut_down"):
            self._asked.add(replica)
        if event.get("err") != 0:
            return ()
        self.checked += 1
        if event.get("shut_down") is not True or replica in self._asked:
            return ()
        return [
            self._anomaly(
                f"broker n{event['node']} was told to stop, and had not asked for that"
                f" ({label(event)})",
                event,
            )
        ]
