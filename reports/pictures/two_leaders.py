"""An epoch that two nodes lead, or in which a voter votes twice: who voted for whom, and when."""

from __future__ import annotations

from collections.abc import Iterator

from reports.blocks import Picture
from reports.cluster import Event
from reports.drawing.lanes import Moment, RoleBar, View, chosen, node_lanes
from reports.drawing.replay import word
from reports.drawing.scene import Scene
from reports.drawing.words import words
from reports.pictures import Finding, painter
from reports.pictures.moments import visible
from reports.text import integer, listing

NODES_MAX = 9
REMARK = "Time is stretched where much happens at once; arrows lead from a vote to its candidate."
_ABOUT = frozenset({"S1", "S2", "S3", "S6", "S26"})
_KINDS = frozenset({"vote", "role", "elected", "start"})
_TONES = {"vote": "t-vote", "elected": "t-leader", "start": "t-fault"}


@painter(10)
def two_leaders(finding: Finding, scene: Scene) -> Picture | None:
    """Lanes of the nodes that had a part in the election of the epoch."""
    epoch = integer(finding.details.get("epoch"))
    if finding.invariant not in _ABOUT:
        return None
    if epoch is None:
        told = [integer(event.get("ep")) for event in finding.events]
        epoch = next((each for each in told if each is not None), None)
    if epoch is None:
        return None
    moments = chosen(
        [*_evidence(finding, scene), *_elections(epoch, finding, scene), *visible(finding)]
    )
    leaders = _leaders(epoch, scene)
    named = {m.node for m in moments} | {m.to for m in moments} | set(leaders)
    nodes = [node for node in scene.nodes if node in named][:NODES_MAX]
    if not moments or not nodes:
        return None

    def marked(bar: RoleBar) -> bool:
        return bar.role == "leader" and bar.epoch == epoch

    caption = f"Epoch {epoch}: " + (
        f"led by {listing(leaders)}" if leaders else "the votes given in it"
    )
    alt = f"{caption}. Lanes of {listing(nodes)} over time; the numbered moments are text below."
    view = View(nodes, moments, finding.anchor, alt, marked)
    return Picture("two-leaders", caption, node_lanes(scene, view), (REMARK,))


def _leaders(epoch: int, scene: Scene) -> list[str]:
    led = [
        node
        for node, event in scene.told(frozenset({"elected", "role"}))
        if integer(event.get("ep")) == epoch
        and (word(event, "t") == "elected" or word(event, "to") == "leader")
    ]
    return list(dict.fromkeys(led))


def _evidence(finding: Finding, scene: Scene) -> Iterator[Moment]:
    """Tell what the checker points at."""
    for event in finding.events:
        at, place = integer(event.get("rx_ns")), integer(event.get("seq")) or 0
        if at is not None:
            text, to = words(event, scene.name), _to(event, scene)
            yield Moment(at, scene.owner(event), place, "t-bad", text, to, strong=True)


def _elections(epoch: int, finding: Finding, scene: Scene) -> Iterator[Moment]:
    """Votes given, candidates, winners of the epoch; starts that came before what was found."""
    seen = {_identity(event) for event in finding.events}
    told = [
        (node, event)
        for node, event in scene.told(_KINDS)
        if integer(event.get("ep")) == epoch and _identity(event) not in seen
    ]
    given = {(node, _to(event, scene)) for node, event in told if _is_vote(event)}
    last_ns = max((e["rx_ns"] for _, e in told if word(e, "t") == "elected"), default=0)
    for node, event in told:
        kind = word(event, "t")
        stands = kind == "role" and word(event, "to") == "candidate"
        begins = kind == "start" and event["rx_ns"] <= last_ns
        if not (_is_vote(event) or stands or begins or kind == "elected"):
            continue
        text, to = words(event, scene.name), _to(event, scene)
        if kind == "elected":
            text += _ungiven(node, event, given, scene)
        place, strong = integer(event.get("seq")) or 0, kind in ("elected", "vote")
        yield Moment(event["rx_ns"], node, place, _TONES.get(kind, "t-quiet"), text, to, strong)


def _is_vote(event: Event) -> bool:
    granted = event.get("ok") is True and event.get("pre") is not True
    return word(event, "t") == "vote" and granted


def _ungiven(winner: str, elected: Event, given: set[tuple[str, str]], scene: Scene) -> str:
    """Votes that the winner counts and nobody has given, as far as the trace tells."""
    grants = elected.get("grants")
    counted = map(scene.name, grants) if isinstance(grants, list | tuple) else ()
    lacking = [n for n in counted if n != winner and n in scene.tracks and (n, winner) not in given]
    return f" — but {listing(lacking)} gave it no vote" if lacking else ""


def _identity(event: Event) -> tuple[str, ...]:
    return tuple(str(event.get(name)) for name in ("node", "inc", "seq"))


def _to(event: Event, scene: Scene) -> str:
    return scene.name(event.get("cand")) if word(event, "t") == "vote" else ""
