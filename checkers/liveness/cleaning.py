"""L11: a node deletes the oldest snapshots while all of them together are larger than they may be.

It looks for that every minute, or as often as it is told to; the first one goes when the log may
begin at the second. Source: KIP-630 "When to delete snapshots"; ``KafkaRaftLog.maybeClean``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from checkers.invariants.retention import BYTES, BYTES_SETTING
from checkers.liveness.peace import Window
from checkers.replay.trace import Event
from harness.contracts.checker import RunData
from harness.verdict import Anomaly

INTERVAL_SETTING: Final = "krucible.log.clean.interval.ms"
INTERVAL_MS: Final = 60_000
MS: Final = 1_000_000  # in ns


def overfull(run: RunData, names: Sequence[str], peace: Window) -> tuple[int, list[Anomaly]]:
    """Find nodes that kept more snapshots than they may through two intervals of peace.

    Returns:
        How many nodes were looked at, and what was found.
    """
    settings = run.spec.settings
    max_bytes = int(settings.get(BYTES_SETTING, BYTES))
    interval_ms = int(settings.get(INTERVAL_SETTING, INTERVAL_MS))
    if max_bytes < 0 or peace.end_ns - peace.begin_ns < 2 * interval_ms * MS:
        return 0, []
    found, checked = list[Anomaly](), 0
    for name in names:
        events = run.events.get(name, ())
        ends = sorted(s.end for s in run.snapshots.get(name, ()) if s.error is None)
        sizes, start = _before(events, peace.begin_ns)
        old = [end for end in ends if end in sizes]
        if start is None or len(ends) < 2 or len(old) < 2:  # noqa: PLR2004 - the newest stays
            continue
        checked += 1
        held = sum(sizes[end] for end in old)
        if old[:2] == ends[:2] and held > max_bytes and old[1] > start:
            found.append(_anomaly(name, old, held, max_bytes, peace))
    return checked, found


def _before(events: Sequence[Event], at_ns: int) -> tuple[Mapping[int, int], int | None]:
    """Give the sizes of a node's snapshots by their ends, and where its log began, at a moment.

    None: it was not started before, or was started again since.
    """
    sizes: dict[int, int] = {}
    start: int | None = None
    for event in events:
        kind = event["t"]
        if event["rx_ns"] >= at_ns:
            if kind == "start":
                return sizes, None
        elif kind == "start":
            start = event.get("log_start")
        elif kind == "lstart":
            start = event["v"]
        elif kind == "snap" and event["op"] in ("freeze", "install"):
            sizes[event["id"][0]] = event.get("size") or 0
    return sizes, start


def _anomaly(name: str, ends: Sequence[int], held: int, limit: int, peace: Window) -> Anomaly:
    return Anomaly(
        "L11",
        f"{name} kept snapshots that end at {', '.join(map(str, ends))} through"
        f" {(peace.end_ns - peace.begin_ns) / 1e9:g} s of peace: they alone have {held} bytes, of"
        f" {limit} that log and snapshots may have",
        details={"nodes": [name]},
        time_ns=peace.end_ns,
    )
