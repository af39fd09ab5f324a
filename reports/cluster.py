"""Reads the cluster over time out of trace events: roles, reigns, high watermarks.

Positions are ``rx_ns``, the harness's clock when the event arrived: a node's own clock may be
lying. Events are foreign data: a field of the wrong kind makes the event invisible here, and the
number of such events is told.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from reports.text import clean, compact, integer

HWM_POINTS_MAX = 10_000  # per node; a screen is narrower, but one can zoom
HWM_SLACK = 4  # thinned as soon as there are so many times more
MARKS_MAX = 2000  # per node
SNAPSHOTS_MAX = 2000  # per node
MARKED = ("start", "stop", "trunc", "elected")
TOLD = frozenset(
    {"start", "stop", "role", "hwm", "append", "trunc", "elected", "snap", "lstart", "turn"}
)
_COMMON = frozenset({"ts", "seq", "node", "dir", "inc", "ep", "t", "rx_ns"})

Event = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RoleSpan:
    """A node held a role in an epoch from ``start_ns`` to ``end_ns``."""

    role: str
    epoch: int | None
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Mark:
    """A single event worth a sign on the node's lane."""

    type: str
    time_ns: int
    text: str


@dataclass(frozen=True, slots=True)
class SnapshotMark:
    """An event of a snapshot: frozen (made), install(ed), reject(ed), delete(d)."""

    op: str
    time_ns: int
    offset: int | None
    epoch: int | None
    text: str


@dataclass(slots=True)
class NodeTrack:
    """One node's life; all lists are in order of time."""

    name: str
    roles: list[RoleSpan] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    hwm: list[tuple[int, int]] = field(default_factory=list)
    snapshots: list[SnapshotMark] = field(default_factory=list)
    log_starts: list[tuple[int, int]] = field(default_factory=list)
    starts: int = 0
    log_end: int | None = None
    longest_turn_ms: float | None = None  # of its event loop, as far as it was told
    unplaced: int = 0  # events without a usable time
    last_ns: int = 0  # the last event
    living: bool = False  # its last role was never ended

    @property
    def reigns(self) -> list[RoleSpan]:
        """Tell when this node led."""
        return [span for span in self.roles if span.role == "leader"]


def track(name: str, events: Iterable[Event], end_ns: int) -> NodeTrack:
    """Follow one node through its events, in order of arrival. A role ends with its process.

    Reads the events once and holds on to few of them: there may be millions.
    """
    out = NodeTrack(name)
    roles: list[tuple[int, Event, int]] = []
    for at, event, seen in _in_order(_placed(out, events)):
        if event.get("t") in ("start", "stop", "role"):
            roles.append((at, event, seen))
        _note(out, at, event)
    out.roles = list(_roles(roles, end_ns))
    out.living = bool(roles) and roles[-1][1].get("t") != "stop"
    out.hwm = thin(out.hwm, HWM_POINTS_MAX)
    return out


def extend(tracks: Iterable[NodeTrack], end_ns: int) -> None:
    """Extend the roles that nothing ended to the end of the run."""
    for node in tracks:
        if node.living:
            last = node.roles[-1]
            node.roles[-1] = replace(last, end_ns=max(end_ns, last.start_ns))


def _placed(out: NodeTrack, events: Iterable[Event]) -> Iterator[tuple[int, Event, int]]:
    """Events that say something of the node here, their arrival, and that of the one before."""
    seen = 0
    for event in events:
        at = integer(event.get("rx_ns"))
        if at is None:
            out.unplaced += 1
            continue
        kind = event.get("t")
        if isinstance(kind, str) and kind in TOLD:
            yield at, event, seen
        seen = max(seen, at)
    out.last_ns = seen


def _in_order(
    placed: Iterable[tuple[int, Event, int]], *, window: int = 1000
) -> Iterator[tuple[int, Event, int]]:
    """Sorted by arrival, when none came more than ``window`` events too late."""
    source = iter(placed)
    held = list(itertools.islice(source, 2 * window))
    while held:
        held.sort(key=lambda item: item[0])
        yield from held[:window]
        held = [*held[window:], *itertools.islice(source, window)]


def _roles(placed: Iterable[tuple[int, Event, int]], end_ns: int) -> Iterator[RoleSpan]:
    role: str | None = None
    epoch: int | None = None
    since = 0
    for at, event, seen in placed:
        kind = event.get("t")
        if role is not None:
            # A killed process says nothing: its role ends with the last that was heard of it.
            yield RoleSpan(role, epoch, since, max(since, seen) if kind == "start" else at)
            role = None
        if kind == "role":
            role = clean(event.get("to"), limit=40)
        elif kind == "start":
            role = "starting"
        if kind in ("role", "start"):
            since, epoch = at, integer(event.get("ep"))
    if role is not None:
        yield RoleSpan(role, epoch, since, max(end_ns, since))


def _note(out: NodeTrack, at: int, event: Event) -> None:
    kind = event.get("t")
    if kind == "start":
        out.starts += 1
    if kind in MARKED and len(out.marks) < MARKS_MAX:
        out.marks.append(Mark(str(kind), at, own_fields(event)))
    if kind == "hwm" and (value := integer(event.get("v"))) is not None:
        out.hwm.append((at, value))
        if len(out.hwm) >= HWM_SLACK * HWM_POINTS_MAX:
            out.hwm = thin(out.hwm, 2 * HWM_POINTS_MAX)
    if kind == "snap" and len(out.snapshots) < SNAPSHOTS_MAX:
        out.snapshots.append(_snapshot(at, event))
    if kind in ("lstart", "start") and len(out.log_starts) < SNAPSHOTS_MAX:
        value = integer(event.get("v" if kind == "lstart" else "log_start"))
        if value is not None:
            out.log_starts.append((at, value))
    for name in ("leo", "last"):
        if kind in ("start", "append") and (end := integer(event.get(name))) is not None:
            out.log_end = end if name == "leo" else end + 1
    took_ms = event.get("ms") if kind == "turn" else None
    if isinstance(took_ms, int | float):
        out.longest_turn_ms = max(took_ms, out.longest_turn_ms or 0)
    if kind == "trunc" and (end := integer(event.get("to"))) is not None:
        out.log_end = end


def _snapshot(at: int, event: Event) -> SnapshotMark:
    id_ = event.get("id")
    offset, epoch = id_ if isinstance(id_, list | tuple) and len(id_) == 2 else (None, None)  # noqa: PLR2004
    op = clean(event.get("op", "?"), limit=40)
    return SnapshotMark(op, at, integer(offset), integer(epoch), own_fields(event))


def own_fields(event: Event) -> str:
    """The fields of the event's type, without those common to all, as one line of JSON."""
    rest = {key: value for key, value in event.items() if key not in _COMMON}
    return compact(rest, limit=600) if rest else ""


def thin(points: list[tuple[int, int]], most: int) -> list[tuple[int, int]]:
    """Keep about ``most`` points of a step line, among them first, last and every fall."""
    if len(points) <= most:
        return points
    step = -(-len(points) // most)
    kept = [
        point
        for at, point in enumerate(points)
        if at % step == 0 or _falls(points, at) or _falls(points, at + 1)
    ]
    if kept[-1] != points[-1]:
        kept.append(points[-1])
    return kept


def _falls(points: Sequence[tuple[int, int]], at: int) -> bool:
    return 0 < at < len(points) and points[at][1] < points[at - 1][1]


def names_by_id(events: Mapping[str, Iterable[Event]]) -> dict[int, str]:
    """Node ids as the events have them, to the names the harness gives."""
    out: dict[int, str] = {}
    for name in sorted(events):
        for event in events[name]:
            if (id_ := integer(event.get("node"))) is not None:
                out.setdefault(id_, clean(name, limit=60))
                break
    return out


def timeline(tracks: Sequence[NodeTrack]) -> dict[str, Any]:
    """The tracks as compact JSON for the script; times in µs."""
    return {
        "roles": [
            [[s.role, s.epoch, s.start_ns // 1000, s.end_ns // 1000] for s in node.roles]
            for node in tracks
        ],
        "marks": [[[m.type, m.time_ns // 1000, m.text] for m in node.marks] for node in tracks],
        "hwm": [
            {"t": [at // 1000 for at, _ in node.hwm], "v": [value for _, value in node.hwm]}
            for node in tracks
        ],
        "snapshots": [
            [[s.op, s.time_ns // 1000, s.offset, s.text] for s in node.snapshots] for node in tracks
        ],
        "logStarts": [
            {"t": [at // 1000 for at, _ in node.log_starts], "v": [v for _, v in node.log_starts]}
            for node in tracks
        ],
    }
