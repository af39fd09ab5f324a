"""Lanes of nodes over time: roles as bars, moments as numbered marks that notes explain."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from reports.blocks import Arrow, Bar, Lane, Lanes, Mark, Note, Notes
from reports.drawing.axis import Axis
from reports.drawing.replay import word
from reports.drawing.scene import Scene
from reports.model import FaultView
from reports.text import clean, integer, seconds

MOMENTS_MAX = 16
ROLES_MAX = 60  # bars of one lane
FAULTS_MAX = 12
TEXT_FROM = 11.0  # percent of the width: a narrower bar has no room for words
FAULTS = "faults"
NODE_COLOURS = 9  # of run.css
ROLES = frozenset({"follower", "candidate", "prospective", "resigned", "observer", "starting"})


@dataclass(frozen=True, slots=True)
class Moment:
    """An action of a node, or a client, at a time; ``to`` is the node that it was done to."""

    time_ns: int
    node: str
    place: int  # among the events of the node
    tone: str
    text: str
    to: str = ""
    strong: bool = False  # must be shown, whatever is left out


@dataclass(frozen=True, slots=True)
class RoleBar:
    """A node had a role in an epoch, and followed or was the leader."""

    role: str
    epoch: int | None
    leader: str
    start_ns: int
    end_ns: int


def roles(scene: Scene, node: str) -> Iterator[RoleBar]:
    """Give a node's roles in their order. A killed process says nothing: its role just ends."""
    role, epoch, leader, since, seen = "", None, "", 0, 0
    for event in scene.events(node):
        kind, at = word(event, "t"), event["rx_ns"]
        if kind in ("start", "stop", "role"):
            if role:
                yield RoleBar(role, epoch, leader, since, seen if kind == "start" else at)
            role = {"start": "starting", "stop": ""}.get(kind, clean(event.get("to"), limit=40))
            epoch, since = integer(event.get("ep")), at
            leader = "" if event.get("leader") is None else scene.name(event["leader"])
        seen = at
    if role:
        yield RoleBar(role, epoch, leader, since, max(scene.end_ns, since))


def chosen(moments: Iterable[Moment]) -> list[Moment]:
    """Choose as many moments as can be shown, strong ones first, in order of time."""
    ranked = sorted(
        dict.fromkeys(moments), key=lambda m: (not m.strong, m.time_ns, m.node, m.place)
    )
    kept = ranked[:MOMENTS_MAX]
    return sorted(kept, key=lambda m: (m.time_ns, m.node, m.place))


@dataclass(frozen=True, slots=True)
class View:
    """The selection that lanes show.

    ``anchor`` makes an id of the page of a name, ``marked`` tells which roles are the ones to look
    at, ``notes`` what stands beside a node's name; without a ``window`` it is the moments and a
    little around them.
    """

    nodes: Sequence[str]
    moments: Sequence[Moment]
    anchor: Callable[[object], str]
    alt: str
    marked: Callable[[RoleBar], bool] | None = None
    notes: Callable[[str], str] | None = None
    window: tuple[int, int] | None = None


def node_lanes(scene: Scene, view: View) -> tuple[Lanes, Notes]:
    """Lanes of nodes with their roles, below the faults of that time; and notes of the moments."""
    moments, nodes, anchor = view.moments, view.nodes, view.anchor
    window = view.window or _window(scene, moments)
    axis = Axis([(window[0], -1), *_slots(moments), (window[1], len(moments))])
    faults = _fault_bars(scene, window, axis)
    lanes = [
        Lane(
            node,
            tuple(_role_bars(scene, node, window, axis, view.marked)),
            tuple(_marks(moments, node, axis, anchor)),
            scene.link(node),
            view.notes(node) if view.notes else "",
        )
        for node in nodes
    ]
    if faults:
        lanes.insert(0, Lane(FAULTS, faults))
    places = {lane.label: at for at, lane in enumerate(lanes)}
    arrows = [
        Arrow(axis.of(slot), places[m.node], axis.of(slot), places[m.to], m.text)
        for m, slot in zip(moments, _slots(moments), strict=True)
        if m.to in places and m.node in places and m.to != m.node
    ]
    told = [
        Note(
            str(n),
            m.tone,
            m.text,
            m.time_ns,
            m.node,
            None,
            scene.link(m.node, m.time_ns),
            anchor(f"n{n}"),
        )
        for n, m in enumerate(moments, start=1)
    ]
    return Lanes(tuple(lanes), axis.ticks(), view.alt, tuple(arrows)), Notes(tuple(told))


def _slots(moments: Sequence[Moment]) -> list[tuple[int, int]]:
    return [(moment.time_ns, at) for at, moment in enumerate(moments)]


def _window(scene: Scene, moments: Sequence[Moment]) -> tuple[int, int]:
    times = [moment.time_ns for moment in moments] or [0, scene.end_ns]
    room = max((max(times) - min(times)) // 10, 20_000_000)
    return max(0, min(times) - room), max(times) + room


def _marks(
    moments: Sequence[Moment], node: str, axis: Axis, anchor: Callable[[object], str]
) -> Iterator[Mark]:
    for at, moment in enumerate(moments):
        if moment.node == node:
            sign, title = str(at + 1), f"{seconds(moment.time_ns)} {node} {moment.text}"
            x = axis.of((moment.time_ns, at))
            yield Mark(x, moment.tone, sign, title, f"#{anchor(f'n{sign}')}")


def _role_bars(
    scene: Scene,
    node: str,
    window: tuple[int, int],
    axis: Axis,
    marked: Callable[[RoleBar], bool] | None,
) -> Iterator[Bar]:
    index = scene.nodes.index(node) if node in scene.nodes else 0
    bars = [b for b in roles(scene, node) if b.start_ns <= window[1] and window[0] <= b.end_ns]
    for bar in bars[-ROLES_MAX:]:
        x1 = axis.at(max(bar.start_ns, window[0]))
        width = round(axis.at(min(bar.end_ns, window[1])) - x1, 2)
        if width <= 0:
            continue
        tone = (
            f"n{index % NODE_COLOURS}"
            if bar.role == "leader"
            else bar.role
            if bar.role in ROLES
            else ""
        )
        words = _role_words(bar)
        times = f"{seconds(bar.start_ns)} to {seconds(bar.end_ns)}"
        text = words if width >= TEXT_FROM else ""
        yield Bar(
            x1,
            width,
            tone,
            text,
            f"{node}: {words}, {times}",
            marked=marked is not None and marked(bar),
        )


def _role_words(bar: RoleBar) -> str:
    epoch = "" if bar.epoch is None else f", epoch {bar.epoch}"
    follows = f" of {bar.leader}" if bar.role in ("follower", "observer") and bar.leader else ""
    return f"{bar.role}{follows}{epoch}"


def _fault_bars(scene: Scene, window: tuple[int, int], axis: Axis) -> tuple[Bar, ...]:
    (start_ns, end_ns), out = window, list[Bar]()
    for fault in scene.faults_between(start_ns, end_ns)[:FAULTS_MAX]:
        since, until = _span(fault, scene.end_ns)
        x1 = axis.at(max(since, start_ns))
        width = round(max(1.0, axis.at(min(until, end_ns)) - x1), 2)
        words = fault.nemesis + (f" on {', '.join(fault.targets)}" if fault.targets else "")
        covered = any(bar.x + bar.width > x1 for bar in out)
        text = words if width >= TEXT_FROM and not covered else ""
        out.append(Bar(x1, width, "fault", text, f"{words}, {seconds(since)} to {seconds(until)}"))
    return tuple(out)


def _span(fault: FaultView, end_ns: int) -> tuple[int, int]:
    since = fault.begin_ns if fault.installed_ns is None else fault.installed_ns
    return since or 0, end_ns if fault.healed_ns is None else fault.healed_ns
