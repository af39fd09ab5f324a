"""Judges the active controller's decisions about brokers, by its own word: C7 and C12.

It tells of a decision when that is committed. Source: KIP-631; KAFKA-14292, KAFKA-17793.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

from checkers.replay.invariant import Invariant
from checkers.replay.trace import Event, ReplicaId, is_pair, label
from checkers.replay.world import World
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly

MS = 1_000_000
SESSION_SETTING, SESSION_MS = "broker.session.timeout.ms", 9000
HEARTBEAT_SETTING, HEARTBEAT_MS = "broker.heartbeat.interval.ms", 2000
SHUTTING_DOWN = "controlled shutdown"
GAP_MS = 1500  # a controller that tells nothing for so long did not run; NoOps come each 500 ms
GRACE_MS = 3000  # a busy host, a slow link, a commit


def session_ms_of(settings: Mapping[str, str]) -> int:
    """Tell how long the session of a broker is."""
    return number_of(settings, SESSION_SETTING, SESSION_MS)


def number_of(settings: Mapping[str, str], name: str, default: int) -> int:
    """Tell the number that a setting has, or its default."""
    text = settings.get(name, "")
    return int(text) if text.isdecimal() else default


class ShutdownGuard(Invariant):
    """C7: a broker is let go when it leads nothing, and all active brokers have heard of that.

    How far they had come is no more than what they had published themselves.
    """

    name: ClassVar[str] = "C7"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="guarded shutdown",
        promise=(
            "A broker that wants to stop, and no other, is let go, and only when it leads no "
            "partition and every active broker has heard who leads instead."
        ),
        why=(
            "This keeps a rolling restart smooth. If the broker goes earlier, clients find "
            "partitions without a leader, and producers see errors and timeouts."
        ),
        source="KIP-631 (controlled shutdown); BrokerHeartbeatManager; KAFKA-14292",
    )
    listens: ClassVar[tuple[str, ...]] = ("let_go", "image")
    checker: ClassVar[str] = "observers"

    def __init__(self) -> None:
        super().__init__()
        self._published: dict[int, int] = {}

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Compare what all had to know with what they knew."""
        if event["t"] == "let_go":
            return self._let_go(event, whole=world.whole)
        node = event["node"]
        self._published[node] = max(event["off"], self._published.get(node, -1))
        return ()

    def _let_go(self, event: Event, *, whole: bool) -> Iterator[Anomaly]:
        if event["was"] == "fenced":
            return
        self.checked += 1
        who = f"the controller n{event['node']} let broker n{event['broker']} go ({label(event)})"
        if event.get("leads") is True and event.get("want_fence") is False:
            yield self._anomaly(f"{who}, which led partitions", event)
        if event["was"] != SHUTTING_DOWN:
            return
        need = event.get("need")
        for broker, known in filter(is_pair, event["active"]):
            if not isinstance(need, int) or known < need:
                yield self._anomaly(
                    f"{who} when n{broker} knew the metadata up to {known}, and {need} was to be"
                    f" known by all",
                    event,
                    need=need,
                    broker=broker,
                )
            published = self._published.get(broker)
            if whole and published is not None and known > published:
                yield self._anomaly(
                    f"{who}, taking n{broker} to know the metadata up to {known}, but that had"
                    f" published no more than {published}",
                    event,
                    broker=broker,
                )


class SilentFenced(Invariant):
    """C12: a broker is fenced for its silence after a session of it, and not before.

    ``checkers.liveness.heartbeats`` judges brokers that are fenced too late, or never.
    """

    name: ClassVar[str] = "C12"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="truthful sessions",
        promise=(
            "A broker whose heartbeats arrive within its session is not fenced. One that falls "
            "silent is fenced when its session has run out, and not much later."
        ),
        why=(
            "A healthy broker that is fenced loses all its partitions at once. A dead one that is "
            "not fenced keeps them, and their clients hang."
        ),
        source="KIP-631 (broker.session.timeout.ms); BrokerHeartbeatManager; KAFKA-17793",
    )
    listens: ClassVar[tuple[str, ...]] = (
        *("start", "hb"),
        *("claim", "renounce", "expire"),
    )
    checker: ClassVar[str] = "observers"
    timed: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self._claims: dict[ReplicaId, Event] = {}
        self._heard: dict[int, list[Event]] = {}  # the last two heartbeats of brokers in service

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Follow controllers and brokers, and judge who was fenced."""
        replica = world.replica(event).id
        match event["t"]:
            case "claim":
                self._claims[replica] = event
            case "renounce":
                self._claims.pop(replica, None)
            case "start":
                self._claims.pop(replica, None)
                self._heard.pop(event["node"], None)
            case "hb":
                self._heartbeat(event)
            case "expire":
                return self._expired(event, self._claims.get(replica))
            case _:
                pass
        return ()

    def _heartbeat(self, event: Event) -> None:
        node, served = event["node"], event.get("err") == 0
        if served and (event.get("fenced") is not False or event.get("shut_down") is True):
            self._heard.pop(node, None)
        elif served or node in self._heard:
            before = self._heard.get(node, [])
            self._heard[node] = [*before[-1:], event]

    def _expired(self, event: Event, claim: Event | None) -> Iterator[Anomaly]:
        self.checked += 1
        heard = self._heard.pop(event["broker"], [])
        who = f"the controller n{event['node']} fenced broker n{event['broker']} ({label(event)})"
        silent_ms, session_ms = event["silent_ms"], event["session_ms"]
        if silent_ms <= session_ms:
            yield self._anomaly(
                f"{who} after {silent_ms} ms of silence; its session is {session_ms} ms", event
            )
        for since in (claim, _sent_after(event, heard)):
            if since is not None and event["ts"] - since["ts"] < session_ms * MS:
                passed_ms = (event["ts"] - since["ts"]) // MS
                yield self._anomaly(
                    f"{who} {passed_ms} ms after {label(since)}, when its session of"
                    f" {session_ms} ms had not begun",
                    since,
                    event,
                )


def _sent_after(event: Event, heard: list[Event]) -> Event | None:
    """Tell what the last heartbeat that this controller has answered was certainly sent after."""
    if len(heard) != 2:  # noqa: PLR2004 - the last two
        return None
    before, last = heard
    one = before["ep"] == last["ep"] == event["ep"] and last.get("err") == before.get("err") == 0
    same = before["b_ep"] == last["b_ep"] == event["b_ep"]
    return before if one and same else None
