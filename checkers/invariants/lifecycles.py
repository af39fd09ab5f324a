"""Judges that a broker does what the answers to its heartbeats say, and says how it is.

Source: KIP-631 (broker states); Kafka's ``BrokerLifecycleManager``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, Self

from checkers.invariants.decisions import MS, SESSION_MS, number_of, session_ms_of
from checkers.replay.invariant import Invariant
from checkers.replay.trace import Event, ReplicaId, label
from checkers.replay.world import World
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly

INTERVAL_SETTING: Final = "broker.heartbeat.interval.ms"
INTERVAL_MS: Final = 2000
BACKOFF_MS: Final = 80  # the shortest pause after a failure: 100 ms less a fifth at random
ENDED_NS: Final = 5_000_000_000  # so long after it shuts down a process has ended
AWAKE_NS: Final = 1_000_000_000  # so long it must have been awake then
SLACK: Final = 0.1  # of a time: between a clock that is read and an event that is stamped
STARTING, RECOVERY, RUNNING = "STARTING", "RECOVERY", "RUNNING"
PENDING, SHUTTING_DOWN = "PENDING_CONTROLLED_SHUTDOWN", "SHUTTING_DOWN"


@dataclass(slots=True)
class _Broker:
    """A broker's process, as its own events tell."""

    state: str = ""
    fenced: bool = True
    last: Event | None = None  # the last request that was answered, or that was not
    granted: Event | None = None  # the last heartbeat without error
    asked_from: Event | None = None  # what came before that one was sent
    due: dict[str, object] = field(default_factory=dict)  # what must come of the last answer
    lapsed: bool = False  # its session ended before the last event
    wants: tuple[object, object] | None = None  # to be fenced, to shut down: as it last said
    moved: bool = False  # to another state since the last request was answered
    ends: Event | None = None  # since then it shuts down
    lingers: Event | None = None  # it was there still when it should have ended long ago


class FollowedAnswers(Invariant):
    """C19: a broker goes on, and takes itself for fenced, as its heartbeats are answered."""

    name: ClassVar[str] = "C19"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="broker lifecycle",
        promise=(
            "A broker recovers when it is told that it has caught up, runs when it is told that "
            "it is unfenced, and stops when it may. It takes itself for fenced when it is told "
            "so, or hears nothing for a session. Its heartbeats say how it is, and come no more "
            "often than they should."
        ),
        why=(
            "A broker that takes itself for unfenced serves clients while others lead its "
            "partitions; one that misses an answer never serves, or never stops."
        ),
        source="KIP-631; BrokerLifecycleManager",
    )
    listens: ClassVar[tuple[str, ...]] = ("start", "reg", "hb", "fence", "bstate", "fetch_tx")
    checker: ClassVar[str] = "observers"
    timed: ClassVar[bool] = True

    def __init__(self, session_ms: int = SESSION_MS, interval_ms: int = INTERVAL_MS) -> None:
        super().__init__()
        self._session_ns = session_ms * MS
        self._interval_ns = interval_ms * MS
        self._brokers: dict[ReplicaId, _Broker] = {}

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Self:
        """Make the invariant with the times that the settings give brokers."""
        return cls(session_ms_of(settings), number_of(settings, INTERVAL_SETTING, INTERVAL_MS))

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Follow the broker, and compare."""
        replica, kind = world.here.id, event["t"]
        if kind == "start":
            self._brokers[replica] = _Broker()
            return ()
        broker = self._brokers.get(replica)
        if broker is None:
            return ()
        if kind == "fence":
            return self._fence(event, broker)
        if kind == "fetch_tx":
            return () if broker.ends is None else self._lingering(event, broker, broker.ends)
        if kind == "bstate":
            return self._state(event, broker)
        return self._answer(event, broker)

    def _fence(self, event: Event, broker: _Broker) -> Iterator[Anomaly]:
        self.checked += 1
        fenced, why = event["fenced"], event["why"]
        if why == "session":
            yield from self._session(event, broker)
        elif broker.due.get("fence") != fenced:
            told = "that it is" if broker.fenced else "that it is not"
            yield self._anomaly(
                f"broker n{event['node']} learned that it is {_fenced(fenced)} ({label(event)});"
                f" it knew {told}, and no answer said anything else",
                broker.granted,
                event,
            )
        broker.due.pop("fence", None)
        broker.lapsed = False
        broker.fenced = fenced

    def _session(self, event: Event, broker: _Broker) -> Iterator[Anomaly]:
        """Tell of a session that the broker ended too early, or did not have."""
        since = broker.asked_from
        if since is None or broker.fenced or not event["fenced"]:
            yield self._anomaly(
                f"broker n{event['node']} ended a session that it did not have ({label(event)})",
                event,
            )
            return
        silent_ns = event["ts"] - since["ts"]
        if silent_ns < self._session_ns * (1 - SLACK):
            yield self._anomaly(
                f"broker n{event['node']} took its session for over ({label(event)}) no more than"
                f" {silent_ns / 1e9:.3f} s after it sent a heartbeat that was answered"
                f" ({label(since)} came before); it lasts {self._session_ns / 1e9:g} s",
                since,
                event,
            )

    def _state(self, event: Event, broker: _Broker) -> Iterator[Anomaly]:
        self.checked += 1
        to = event["to"]
        if to in (RECOVERY, RUNNING) and broker.due.get("state") != to:
            yield self._anomaly(
                f"broker n{event['node']} went to {to} ({label(event)}), and no answer said that"
                " it may",
                broker.granted,
                event,
            )
        broker.due.pop("state", None)
        broker.state, broker.moved = to, True
        broker.ends = event if to == SHUTTING_DOWN else None

    def _lingering(self, event: Event, broker: _Broker, ends: Event) -> Iterator[Anomaly]:
        """Tell of a process that goes on long after its broker has shut down.

        One that was paused meanwhile may fetch once more before it ends.
        """
        lingers = broker.lingers
        if event["ts"] - ends["ts"] < ENDED_NS:
            return
        if lingers is None:
            broker.lingers = event
        elif event["ts"] - lingers["ts"] >= AWAKE_NS and self._once((event["node"], ends["seq"])):
            yield self._anomaly(
                f"broker n{event['node']} shuts down ({label(ends)}), and fetches still after"
                f" {(event['ts'] - ends['ts']) / 1e9:.3f} s ({label(event)})",
                ends,
                event,
            )

    def _answer(self, event: Event, broker: _Broker) -> Iterator[Anomaly]:
        if not broker.state:
            return  # nobody tells of it
        self.checked += 1
        yield from self._missed(event, broker)
        yield from self._hasty(event, broker)
        before, broker.last = broker.last, event
        broker.moved = False
        if event["t"] != "hb":
            return
        broker.lapsed = (
            not broker.fenced
            and event.get("err") != 0
            and broker.granted is not None
            and event["ts"] - broker.granted["ts"] > self._session_ns * (1 + SLACK)
        )
        if event.get("err") is not None:
            yield from self._wishes(event, broker)
        if event.get("err") != 0:
            return
        broker.granted, broker.asked_from = event, before
        if event["fenced"] != broker.fenced:
            broker.due["fence"] = event["fenced"]
        if (state := _next_state(event, broker.state)) is not None:
            broker.due["state"] = state

    def _missed(self, event: Event, broker: _Broker) -> Iterator[Anomaly]:
        """Tell what the broker should have done after the answer before, and has not."""
        due, broker.due = broker.due, {}
        if "fence" in due:
            yield self._anomaly(
                f"broker n{event['node']} was told that it is {_fenced(due['fence'])}, and still"
                f" took itself for {_fenced(not due['fence'])} at its next answer"
                f" ({label(event)})",
                broker.granted,
                event,
            )
        if "state" in due:
            yield self._anomaly(
                f"broker n{event['node']} might go to {due['state']}, and was {broker.state}"
                f" still at its next answer ({label(event)})",
                broker.granted,
                event,
            )
        if broker.lapsed:
            broker.lapsed = False
            yield self._anomaly(
                f"broker n{event['node']} took itself for unfenced ({label(event)}) long after its"
                " session had ended",
                broker.granted,
                event,
            )

    def _hasty(self, event: Event, broker: _Broker) -> Iterator[Anomaly]:
        """Tell of a request that came too soon after the one before.

        A running broker waits for its interval, and any broker waits after a failure. One that has
        just become ready to serve, or was told to stop, need not wait.
        """
        last = broker.last
        if last is None or broker.moved or broker.state == RECOVERY:
            return
        paused_ns = event["ts"] - last["ts"]
        least_ns = 0
        if last.get("err") != 0:
            least_ns = BACKOFF_MS * MS
        elif last["t"] == "hb" and broker.state == RUNNING:
            least_ns = self._interval_ns
        if paused_ns < least_ns * (1 - SLACK):
            yield self._anomaly(
                f"broker n{event['node']} asked again ({label(event)}) within"
                f" {paused_ns / 1e9:.3f} s of the answer before ({label(last)}), though it has to"
                f" wait for {least_ns / 1e9:g} s",
                last,
                event,
            )

    def _wishes(self, event: Event, broker: _Broker) -> Iterator[Anomaly]:
        """Tell where a heartbeat asks for what does not go with the broker's state."""
        before, broker.wants = broker.wants, _wants(event)
        want_fence, want_shut_down = broker.wants
        wrong = None
        if want_fence is False and broker.state == STARTING:
            wrong = "wanted to be unfenced before it had caught up"
        elif before is not None and before[0] is False and want_fence is True:
            wrong = "wanted to be fenced again"
        elif want_shut_down is True and broker.state not in (PENDING, SHUTTING_DOWN):
            wrong = f"wanted to shut down, and was {broker.state}"
        if wrong is not None:
            yield self._anomaly(f"broker n{event['node']} {wrong} ({label(event)})", event)


def _next_state(event: Event, state: str) -> str | None:
    """Give the state that a heartbeat's answer leads to; None: it stays as it is."""
    if state == STARTING and event["caught_up"]:
        return RECOVERY
    if state == RECOVERY and not event["fenced"]:
        return RUNNING
    if state == PENDING and event["shut_down"]:
        return SHUTTING_DOWN
    return None


def _wants(event: Event) -> tuple[object, object]:
    return event.get("want_fence"), event.get("want_shut_down")


def _fenced(is_so: object) -> str:
    return "fenced" if is_so else "unfenced"
