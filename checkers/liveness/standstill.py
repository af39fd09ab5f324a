"""L2 of a live run: what is healed works again within its timers.

A live machine may be busy, so the time is generous: three times the longest that a fetch timeout
and an election take one after the other, and some seconds more. Source: KAFKA-13104; Kafka's
``controller.quorum.*`` timers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from checkers.replay.unheard import unheard
from checkers.timeline.windows import FaultWindow
from harness.contracts.checker import RunData
from harness.history.ops import Op
from harness.verdict import Anomaly

FETCH_SETTING: Final = "controller.quorum.fetch.timeout.ms"
ELECTION_SETTING: Final = "controller.quorum.election.timeout.ms"
FETCH_MS, ELECTION_MS = 2_000, 1_000  # Kafka's defaults; ours are shorter
ROUNDS: Final = 3
SLACK_MS: Final = 5_000
NS_PER_MS: Final = 1_000_000
NS_PER_S: Final = 1_000_000_000

Span = tuple[int, int]


def patience_ms(settings: Mapping[str, str]) -> int:
    """Tell how long a cluster with these settings may take; a draw doubles an election timeout."""
    fetch_ms = max(FETCH_MS, int(settings.get(FETCH_SETTING, 0)))
    election_ms = max(ELECTION_MS, int(settings.get(ELECTION_SETTING, 0)))
    return ROUNDS * (fetch_ms + 2 * election_ms) + SLACK_MS


def standstills(
    run: RunData, outages: Sequence[Span], windows: Sequence[FaultWindow]
) -> Iterator[Anomaly]:
    """Tell of calm spans in which clients asked in vain, and of a recovery that did not come.

    ``outages`` are spans without an ok op while clients were trying; ``windows`` when faults may
    have been in force. Nodes that ended by themselves are told of elsewhere. Nothing is told of an
    aborted run: what its guard has seen is trouble that may not be the system's.
    """
    if any(op.f == "abort" for op in run.history.nemesis()):
        return
    end = _recovery(run)
    recovery = {} if end is None else end.value
    if recovery.get("down"):
        return
    limit_ms = patience_ms(run.spec.settings)
    for outage in outages:
        for start_ns, end_ns in calm(outage, windows):
            if end_ns - start_ns > limit_ms * NS_PER_MS:
                yield Anomaly(
                    "L2",
                    f"nothing that clients asked for was done for {_s(start_ns, end_ns)}, from"
                    f" {start_ns / NS_PER_S:.1f} s on, though no fault was at work; after"
                    f" {limit_ms / 1e3:g} s it must be",
                    time_ns=end_ns,
                )
    waited_ms = recovery.get("elapsed_ms") or 0
    if end is not None and not recovery["recovered"] and waited_ms >= limit_ms:
        lost = unheard(run.events, end.time_ns - int(waited_ms * NS_PER_MS))
        why = "".join(f"; {each}" for _, each in sorted(lost.items()))
        yield Anomaly(
            "L2",
            f"{waited_ms / 1e3:g} s after the last heal, with all nodes running, no leader was"
            f" there that commits and that all nodes follow{why}",
        )


def calm(span: Span, windows: Sequence[FaultWindow]) -> Iterator[Span]:
    """Cut those times out of a span in which a fault may have been in force."""
    begin_ns, end_ns = span
    for window in sorted(windows, key=lambda window: window.start_ns):
        if not window.overlaps(begin_ns, end_ns):
            continue
        if window.start_ns > begin_ns:
            yield begin_ns, window.start_ns
        if window.end_ns is None:
            return
        begin_ns = max(begin_ns, window.end_ns)
    if begin_ns < end_ns:
        yield begin_ns, end_ns


def _recovery(run: RunData) -> Op | None:
    ends = [
        op
        for op in run.history.nemesis()
        if op.f == "recovery" and isinstance(op.value, Mapping) and "recovered" in op.value
    ]
    return ends[-1] if ends else None


def _s(start_ns: int, end_ns: int) -> str:
    return f"{(end_ns - start_ns) / NS_PER_S:.1f} s"
