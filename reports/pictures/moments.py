"""The picture for findings that have no other: the events, ops and nodes that they name."""

from __future__ import annotations

from collections.abc import Sequence

from reports.blocks import Picture
from reports.drawing.lanes import Moment, View, chosen, node_lanes
from reports.drawing.scene import Scene, op_words
from reports.drawing.words import words
from reports.pictures import Finding, painter
from reports.text import clean, integer, listing

NODES_MAX = 7
ROOM_NS = 1_000_000_000  # shown before and after what happened in one moment


@painter(90, rest=True)
def moments(finding: Finding, scene: Scene) -> Picture | None:
    """Lanes of the nodes around the time of the finding, with what it names marked."""
    shown = chosen([*_events(finding, scene), *_ops(finding, scene), *visible(finding)])
    named = {moment.node for moment in shown} | set(finding.nodes)
    nodes = [node for node in scene.nodes if node in named] or scene.nodes
    nodes = nodes[:NODES_MAX]
    if finding.time_ns is not None and not shown:
        anybody = next((node for node in nodes if node in finding.nodes), "")
        shown = [Moment(finding.time_ns, anybody, 0, "t-bad", "here it became visible")]
    if not nodes or not (shown or finding.nodes):
        return None
    caption = "What the finding names, and what the nodes were at that time"
    alt = f"{caption}: lanes of {listing(nodes)} over time; the numbered moments are text below."
    view = View(
        nodes,
        shown,
        finding.anchor,
        alt,
        notes=(lambda node: _end(scene, node)) if finding.invariant.startswith("L") else None,
        window=_window(finding, scene, shown),
    )
    lanes, notes = node_lanes(scene, view)
    return Picture("moments", caption, (lanes, notes) if notes.notes else (lanes,))


def _events(finding: Finding, scene: Scene) -> list[Moment]:
    out = []
    for place, event in enumerate(finding.events):
        at = integer(event.get("rx_ns"))
        if at is not None:
            text = words(event, scene.name)
            out.append(Moment(at, scene.owner(event), place, "t-bad", text, strong=True))
    return out


def visible(finding: Finding) -> list[Moment]:
    """The moment of the finding, when all that it names was before."""
    times = [at for event in finding.events if (at := integer(event.get("rx_ns"))) is not None]
    if finding.time_ns is None or not times or finding.time_ns <= max(times):
        return []
    node = finding.nodes[0] if finding.nodes else ""
    text = "here it became visible"
    return [Moment(finding.time_ns, node, 1 << 40, "t-bad", text, strong=True)]


def _ops(finding: Finding, scene: Scene) -> list[Moment]:
    """Ops on the lanes of the nodes that were asked."""
    spans = {
        span.invocation.index: span
        for span in map(scene.by_index.get, finding.ops)
        if span is not None
    }
    out = []
    for index, span in spans.items():
        node = "" if span.invocation.node is None else clean(span.invocation.node, limit=60)
        text = f"is asked, op {index} of process {clean(span.invocation.process, limit=40)}: "
        out.append(Moment(span.invocation.time_ns, node, index, "t-op", text + op_words(span)))
    return out


def _window(finding: Finding, scene: Scene, shown: Sequence[Moment]) -> tuple[int, int]:
    """Around the moments; the whole run, when nothing says when it was."""
    if not shown:
        return 0, scene.end_ns
    times = [moment.time_ns for moment in shown]
    times += [] if finding.time_ns is None else [finding.time_ns]
    if finding.invariant.startswith("L"):
        return 0, max(scene.end_ns, *times)
    room = max((max(times) - min(times)) // 10, ROOM_NS)
    return max(0, min(times) - room), max(times) + room


def _end(scene: Scene, node: str) -> str:
    """Tell how far the node came."""
    hwm = scene.tracks[node].hwm if node in scene.tracks else []
    return f"high watermark {hwm[-1][1]} at the end" if hwm else "no high watermark"
