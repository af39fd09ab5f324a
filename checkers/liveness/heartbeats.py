"""Judges what a controller does about a broker in time, by its own word of heartbeats: C12, C15.

It tells of each heartbeat when it has come (``contact``), so nothing has to be guessed of links and
of clocks of others. A record that it appends later than it had to do something shows that it was at
work; if nothing is done after that record, it was forgotten.

C12: a broker that it does not hear of is fenced after a session (KIP-631,
broker.session.timeout.ms; BrokerHeartbeatManager). C15: a disk of which a broker tells that it has
failed is taken from it (KIP-858; ReplicationControlManager.handleDirectoriesOffline).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final
from uuid import UUID

from checkers.invariants.decisions import MS, SilentFenced, session_ms_of
from checkers.invariants.disks import C15
from checkers.invariants.lasting import Disk, Incarnation, Lasting
from checkers.replay.clocks import Clock
from checkers.replay.trace import Event, label
from harness.history.ops import History
from harness.verdict import Anomaly

GAP_NS: Final = 700 * MS  # who appends nothing for so long may stand still; NoOps come each 500 ms
GRACE_NS: Final = 1_000 * MS  # for a turn that comes late; sessions are looked at each eighth
FAILS: Final = "fail-disk"  # an op; its value says which broker's, and which disk
SURELY: Final = 3  # heartbeats after a failure: one was on its way, and one more may have been


class Controllers:
    """Sorts the events of active controllers by epoch: claims, heartbeats and appends.

    Args:
        claims: The events of type ``claim`` of all nodes.
        contacts: Those of type ``contact``.
        appends: Those of type ``append``.
    """

    def __init__(
        self, claims: Iterable[Event], contacts: Iterable[Event], appends: Iterable[Event]
    ) -> None:
        self.claims = {event["ep"]: event for event in claims}
        self.heard = defaultdict[tuple[int, Incarnation], list[Event]](list)  # by epoch and broker
        for event in sorted(contacts, key=came_ns):
            claim = self.claims.get(event["ep"])
            if claim is not None and event["node"] == claim["node"]:
                self.heard[event["ep"], (event["broker"], event["b_ep"])].append(event)
        self._appended = defaultdict[int, list[Event]](list)
        for event in appends:
            claim = self.claims.get(event["ep"])
            if claim is not None and event["src"] == "leader" and event["node"] == claim["node"]:
                self._appended[event["ep"]].append(event)

    def appended(self, while_: Lasting[Incarnation] | Lasting[Disk]) -> Sequence[Event]:
        """Tell what the controller appended while something was so, from when it came on."""
        own = self._appended.get(while_.epoch, [])
        return own[
            bisect_left(own, while_.begin, key=_last) : bisect_right(own, while_.end, key=_last)
        ]


def came_ns(event: Event) -> int:
    """Tell when a controller got what it tells of, which may be some ms later (Kafka's)."""
    came: int = event["ts"] - event.get("ms", 0) * MS
    return came


def _last(event: Event) -> int:
    last: int = event["last"]
    return last


def _at_work(own: Iterable[Event]) -> Iterator[tuple[Event, int]]:
    """Give each append, with the time since when the controller has worked without a break."""
    works_since, before = 0, None
    for event in own:
        if before is None or event["ts"] - before > GAP_NS:
            works_since = event["ts"]
        before = event["ts"]
        yield event, works_since


# ------------------------------------------------------------------ silence


def forgotten(
    services: Iterable[Lasting[Incarnation]],
    controllers: Controllers,
    settings: Mapping[str, str],
) -> tuple[int, list[Anomaly]]:
    """Find the brokers that stayed in service though the controller had not heard of them.

    Args:
        services: Where in the log brokers were in service.
        controllers: What controllers told.
        settings: Those of the nodes, for the session timeout.

    Returns:
        How many times in service were looked at, and what was found; each time once.
    """
    if not controllers.heard:
        return 0, []  # no controller tells of heartbeats
    late_ns = session_ms_of(settings) * MS * 9 // 8 + GRACE_NS
    found, checked = list[Anomaly](), 0
    for each in services:
        claim = controllers.claims.get(each.epoch)
        if claim is None:
            continue
        checked += 1
        signs = [claim, *controllers.heard.get((each.epoch, each.what), ())]
        anomaly = _overdue(each, signs, controllers.appended(each), late_ns)
        found += [] if anomaly is None else [anomaly]
    return checked, found


def _overdue(
    service: Lasting[Incarnation], signs: Sequence[Event], own: Sequence[Event], late_ns: int
) -> Anomaly | None:
    """Find the first record that a controller at work appended too late after a sign of life."""
    place, (broker, epoch) = 0, service.what
    for event, works_since in _at_work(own):
        now = event["ts"]
        while place + 1 < len(signs) and came_ns(signs[place + 1]) <= now:
            place += 1
        last = signs[place]
        if now - max(came_ns(last), works_since) > late_ns:
            return Anomaly(
                SilentFenced.name,
                f"the controller n{event['node']} had heard nothing of broker n{broker}"
                f" (epoch {epoch}) for {(now - came_ns(last)) / 1e9:.3f} s"
                f" ({label(last)}, {label(event)}), and had not fenced it",
                events=(dict(last), dict(event)),
                details={"broker": broker, "epoch": service.epoch},
                time_ns=event.get("rx_ns"),
            )
    return None


# ------------------------------------------------------------------ disks


def kept_disks(
    disks: Iterable[Lasting[Disk]], controllers: Controllers, history: History, clock: Clock
) -> tuple[int, list[Anomaly]]:
    """Find the failed disks that a controller left to their brokers though these had told of them.

    Args:
        disks: Where in the log brokers were known to have which disks.
        controllers: What controllers told.
        history: The ops, among them those that have a disk fail.
        clock: Dates events on the history's clock.

    Returns:
        How many failures were looked at, and what was found; each failure once.
    """
    failed = dict(_failures(history))
    found, checked = list[Anomaly](), 0
    for each in disks:
        if each.what not in failed:
            continue
        broker, broker_epoch, disk = each.what
        own = controllers.heard.get((each.epoch, (broker, broker_epoch)), ())
        after = [c for c in own if _since_ns(c, clock) > failed[each.what]]
        told = after[SURELY - 1 :]
        if not told:
            continue
        checked += 1
        for event, works_since in _at_work(controllers.appended(each)):
            if event["ts"] - max(came_ns(told[0]), works_since) > GRACE_NS:
                lasts_s = (event["ts"] - came_ns(told[0])) / 1e9
                found.append(
                    Anomaly(
                        C15.name,
                        f"the controller n{event['node']} still takes disk {disk} of broker"
                        f" {broker} for one that works ({label(event)}), {lasts_s:.3f} s after"
                        f" it got a heartbeat that tells of its failure ({label(told[0])})",
                        events=(dict(told[0]), dict(event)),
                        details={"broker": broker, "epoch": each.epoch},
                        time_ns=event.get("rx_ns"),
                    )
                )
                break
    return checked, found


def _since_ns(contact: Event, clock: Clock) -> int:
    """Tell when a heartbeat came, on the history's clock; 0 if that is not known."""
    at_ns = clock.of(contact)
    return 0 if at_ns is None else at_ns - contact["ts"] + came_ns(contact)


def _failures(history: History) -> Iterator[tuple[Disk, int]]:
    """Tell which disks of which brokers failed, and when that was over."""
    for interval in history.intervals():
        end = interval.completion
        if interval.invocation.f != FAILS or end is None or interval.outcome != "ok":
            continue
        value = end.value
        if value.get("epoch") is not None:
            yield (value["broker"], value["epoch"], UUID(value["directory"])), end.time_ns
