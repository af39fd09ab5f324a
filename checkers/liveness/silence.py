"""C12: a broker that the active controller does not hear of is fenced after a session of it.

The controller tells of each heartbeat when it comes (``contact``), so nothing has to be guessed of
links and of clocks of others. A record that it appends later than it had to fence the broker shows
that it was at work; if the broker is still in service after that record, it was forgotten.
Source: KIP-631 (broker.session.timeout.ms); BrokerHeartbeatManager.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from checkers.invariants.decisions import MS, SilentFenced, session_ms_of
from checkers.invariants.services import InService
from checkers.replay.trace import Event, label
from harness.contracts.checker import RunData
from harness.verdict import Anomaly

GAP_NS: Final = 700 * MS  # who appends nothing for so long may stand still; NoOps come each 500 ms
GRACE_NS: Final = 1_000 * MS  # for a turn that comes late; sessions are looked at each eighth


def forgotten(
    services: Iterable[InService], contacts: Iterable[Event], appends: Iterable[Event], run: RunData
) -> tuple[int, list[Anomaly]]:
    """Find the brokers that stayed in service though the controller had not heard of them.

    Args:
        services: Where in the log brokers were in service.
        contacts: The events of types ``claim`` and ``contact`` of all controllers.
        appends: The events of type ``append`` of all nodes.
        run: The run, for its settings.

    Returns:
        How many times in service were looked at, and what was found; each time once.
    """
    claims, heard = dict[int, Event](), defaultdict[tuple[int, int, int], list[Event]](list)
    for event in contacts:
        if event["t"] == "claim":
            claims[event["ep"]] = event
        else:
            heard[event["ep"], event["broker"], event["b_ep"]].append(event)
    if not heard:
        return 0, []  # no controller tells of heartbeats
    reigns = _appended(appends, claims)
    late_ns = session_ms_of(run.spec.settings) * MS * 9 // 8 + GRACE_NS
    found, checked = list[Anomaly](), 0
    for each in services:
        if each.epoch not in reigns:
            continue
        checked += 1
        signs = heard[each.epoch, each.broker, each.broker_epoch]
        own = _within(each, reigns[each.epoch])
        anomaly = _overdue(each, [claims[each.epoch], *signs], own, late_ns)
        found += [] if anomaly is None else [anomaly]
    return checked, found


def _appended(appends: Iterable[Event], claims: dict[int, Event]) -> dict[int, list[Event]]:
    """Tell what each active controller has appended, by its epoch."""
    found = defaultdict[int, list[Event]](list)
    for event in appends:
        claim = claims.get(event["ep"])
        if claim is not None and event["src"] == "leader" and event["node"] == claim["node"]:
            found[event["ep"]].append(event)
    return found


def _within(service: InService, appended: Sequence[Event]) -> Sequence[Event]:
    """Tell what was appended while the broker was in service, from when it came on."""
    begin = bisect_left(appended, service.begin, key=_last)
    return appended[begin : bisect_right(appended, service.end, key=_last)]


def _last(event: Event) -> int:
    last: int = event["last"]
    return last


def _overdue(
    service: InService, signs: Sequence[Event], own: Sequence[Event], late_ns: int
) -> Anomaly | None:
    """Find the first record that a controller at work appended too late after a sign of life."""
    place, works_since, before = 0, 0, None
    for event in own:
        now = event["ts"]
        if before is None or now - before > GAP_NS:
            works_since = now
        before = now
        while place + 1 < len(signs) and signs[place + 1]["ts"] <= now:
            place += 1
        last = signs[place]
        if now - max(last["ts"], works_since) > late_ns:
            return Anomaly(
                SilentFenced.name,
                f"the controller n{event['node']} had heard nothing of broker n{service.broker}"
                f" (epoch {service.broker_epoch}) for {(now - last['ts']) / 1e9:.3f} s"
                f" ({label(last)}, {label(event)}), and had not fenced it",
                events=(dict(last), dict(event)),
                details={"broker": service.broker, "epoch": service.epoch},
                time_ns=event.get("rx_ns"),
            )
    return None
