"""What the trace events say about the cluster over time: roles, reigns, high watermarks.

Positions are ``rx_ns``, the harness's clock when the event arrived: a node's own clock may be
lying. Events are foreign data: a field of the wrong kind makes the event invisible here, and the
number of such events is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reports.text import clean, compact, integer

HWM_POINTS_MAX = 3000  # per node; a screen is narrower
MARKS_MAX = 2000  # per node
MARKED = ("start", "stop", "trunc", "elected")
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


@dataclass(slots=True)
class NodeTrack:
    """One node's life; all lists are in order of time."""

    name: str
    roles: list[RoleSpan] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    hwm: list[tuple[int, int]] = field(default_factory=list)
    starts: int = 0
    log_end: int | None = None
    unplaced: int = 0  # events without a usable time

    @property
    def reigns(self) -> list[RoleSpan]:
        """When this node led."""
        return [span for span in self.roles if span.role == "leader"]


def track(name: str, events: Iterable[Event], end_ns: int) -> NodeTrack:
    """Follow one node through its events, sorted by arrival. A role ends with its process."""
    out = NodeTrack(name)
    placed: list[tuple[int, Event]] = []
    for event in events:
        at = integer(event.get("rx_ns"))
        if at is None:
            out.unplaced += 1
        else:
            placed.append((at, event))
    placed.sort(key=lambda item: item[0])
    out.roles = list(_roles(placed, end_ns))
    for at, event in placed:
        _note(out, at, event)
    out.hwm = thin(out.hwm, HWM_POINTS_MAX)
    return out


def _roles(placed: Sequence[tuple[int, Event]], end_ns: int) -> Iterator[RoleSpan]:
    role: str | None = None
    epoch: int | None = None
    since = seen = 0
    for at, event in placed:
        kind = event.get("t")
        if kind in ("start", "stop", "role") and role is not None:
            # A killed process says nothing: its role ends with the last that was heard of it.
            yield RoleSpan(role, epoch, since, seen if kind == "start" else at)
            role = None
        if kind == "role":
            role = clean(event.get("to"), limit=40)
        elif kind == "start":
            role = "starting"
        if kind in ("role", "start"):
            since, epoch = at, integer(event.get("ep"))
        seen = at
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
    for name in ("leo", "last"):
        if kind in ("start", "append") and (end := integer(event.get(name))) is not None:
            out.log_end = end if name == "leo" else end + 1
    if kind == "trunc" and (end := integer(event.get("to"))) is not None:
        out.log_end = end


def own_fields(event: Event) -> str:
    """The fields of the event's type, without those common to all, as one line of JSON."""
    rest = {key: value for key, value in event.items() if key not in _COMMON}
    return compact(rest, limit=600) if rest else ""


def thin(points: list[tuple[int, int]], most: int) -> list[tuple[int, int]]:
    """At most about ``most`` points of a step line, keeping first, last and every fall."""
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


def names_by_id(events: Mapping[str, Sequence[Event]]) -> dict[int, str]:
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
    }
