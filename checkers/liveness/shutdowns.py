"""L10: a broker that wants to stop is let go, however busy its cluster is.

It may have to wait until all active brokers know who leads in its place. That is known once and for
all, so it ends as soon as these have heard it, or a dead one has lost its session: whatever is
written meanwhile has nothing to do with it. Source: KIP-631; KAFKA-14292.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from checkers.invariants.decisions import HEARTBEAT_MS, HEARTBEAT_SETTING, MS, session_ms_of
from checkers.liveness.calm import CRASHES, Calm
from checkers.replay.trace import Event
from harness.history.ops import History
from harness.verdict import Anomaly

SLACK_MS: Final = 1_500  # of commits, and of sessions that are looked at now and then
BEATS: Final = 3  # of the brokers, until all have told what they know

Events = Mapping[str, Sequence[Event]]


def late_shutdowns(
    history: History, events: Events, settings: Mapping[str, str]
) -> tuple[int, list[Anomaly]]:
    """Brokers that were answered again and again, and not let go, in calm stretches of one reign.

    Returns:
        How many stops were looked at, and those that took too long.
    """
    text = settings.get(HEARTBEAT_SETTING, "")
    beat_ms = int(text) if text.isdecimal() else HEARTBEAT_MS
    due_ns = (session_ms_of(settings) + BEATS * beat_ms + SLACK_MS) * MS
    calm = Calm.of(history, CRASHES)
    reigns = sorted(e["rx_ns"] for of in events.values() for e in of if e["t"] == "claim")
    checked, found = 0, list[Anomaly]()
    for node, of_node in events.items():
        for first, last in _waits(of_node):
            checked += 1
            until_ns = first["rx_ns"] + due_ns
            if last["rx_ns"] <= until_ns or not calm.covers(first["rx_ns"], until_ns):
                continue
            if any(first["rx_ns"] <= at_ns <= until_ns for at_ns in reigns):
                continue  # another controller, which begins anew
            found.append(
                Anomaly(
                    "L10",
                    f"{node} wants to stop and was told to wait for more than {due_ns / 1e9:g} s"
                    " by a controller that had all it needs to let it go",
                    events=(dict(first), dict(last)),
                    time_ns=until_ns,
                )
            )
    return checked, found


def _waits(events: Sequence[Event]) -> Iterator[tuple[Event, Event]]:
    """The first and the last answer that told a process to wait, for each that wanted to stop."""
    waits: dict[int, tuple[Event, Event]] = {}
    for event in events:
        if event["t"] != "hb" or not event.get("want_shut_down") or event.get("err") != 0:
            continue
        if not event.get("shut_down"):
            first, _ = waits.get(event["inc"], (event, event))
            waits[event["inc"]] = first, event
    yield from waits.values()
