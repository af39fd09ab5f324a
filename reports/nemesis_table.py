"""The table of faults, a row per nemesis: outcomes, targets, leader and quorum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from reports.cluster import NodeTrack
from reports.model import FaultView, NemesisRow
from reports.text import clean

REASONS_MAX = 5


def placed(
    faults: Iterable[FaultView], tracks: Sequence[NodeTrack], voters: Iterable[str]
) -> tuple[FaultView, ...]:
    """The faults, and of those installed whether they hit the leader, and left a quorum."""
    names = frozenset(clean(voter, limit=60) for voter in voters)
    return tuple(
        replace(fault, leader_hit=_leader(fault, tracks), quorum=_quorum(fault, names))
        if fault.outcome == "installed"
        else fault
        for fault in faults
    )


def rows(faults: Iterable[FaultView]) -> tuple[NemesisRow, ...]:
    """A row per nemesis that was planned or tried, by name; ``faults`` come from ``placed``."""
    by_name: dict[str, list[FaultView]] = {}
    for fault in faults:
        by_name.setdefault(fault.nemesis, []).append(fault)
    return tuple(_row(name, by_name[name]) for name in sorted(by_name))


def _row(name: str, faults: Sequence[FaultView]) -> NemesisRow:
    outcomes = Counter(fault.outcome for fault in faults)
    installed = [fault for fault in faults if fault.outcome == "installed"]
    return NemesisRow(
        name=name,
        planned=len(faults),
        installed=len(installed),
        skipped=outcomes["skipped"],
        failed=outcomes["failed"],
        untried=outcomes["planned"],
        healed=sum(fault.healed_ns is not None for fault in faults),
        reasons=_reasons(faults),
        aims=_tally(Counter(fault.aim for fault in installed if fault.aim)),
        sizes=_tally(Counter(fault.hit for fault in installed if fault.hit)),
        leader=_tally(Counter(fault.leader_hit for fault in installed)),
        quorum=_tally(Counter(fault.quorum for fault in installed)),
    )


def _tally(counts: Mapping[str, int]) -> tuple[str, ...]:
    """Names with how often, the most frequent first; without when there is but one."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(name if len(ranked) == 1 else f"{name}: {n}" for name, n in ranked)


def _reasons(faults: Iterable[FaultView]) -> tuple[str, ...]:
    why = Counter(f.reason for f in faults if f.outcome in ("skipped", "failed") and f.reason)
    ranked = sorted(why.items(), key=lambda item: (-item[1], item[0]))
    shown = [text if n == 1 else f"{text} ({n} times)" for text, n in ranked[:REASONS_MAX]]
    more = len(ranked) - REASONS_MAX
    return (*shown, *([f"… and {more} more reasons"] if more > 0 else []))


def _leader(fault: FaultView, tracks: Iterable[NodeTrack]) -> str:
    """Tell whether a fault hit the leader: as the nemesis saw it, else as the nodes told later."""
    leader = fault.leader or _leading(fault.begin_ns, tracks)
    if leader is None:
        return "unknown"
    return "in" if leader in (fault.away or fault.targets) else "out"


def _leading(at_ns: int | None, tracks: Iterable[NodeTrack]) -> str | None:
    """Tell who led at a time; of several the one of the highest epoch."""
    if at_ns is None:
        return None
    found = [
        (-1 if span.epoch is None else span.epoch, clean(track.name, limit=60))
        for track in tracks
        for span in track.reigns
        if span.start_ns <= at_ns <= span.end_ns
    ]
    return max(found)[1] if found else None


def _quorum(fault: FaultView, voters: frozenset[str]) -> str:
    if not voters:
        return "unknown"
    gone = min(fault.at_once, len(voters & set(fault.away)))
    return "kept" if 2 * (len(voters) - gone) > len(voters) else "lost"
