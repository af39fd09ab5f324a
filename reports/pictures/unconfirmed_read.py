"""A read that a leader answered: who had told it since that it still leads, and who had not."""

from __future__ import annotations

from collections.abc import Iterator

from reports.blocks import Picture
from reports.cluster import Event
from reports.drawing.lanes import Moment, RoleBar, View, chosen, node_lanes
from reports.drawing.reads import Confirmation, confirmation
from reports.drawing.replay import word
from reports.drawing.scene import Scene
from reports.pictures import Finding, painter
from reports.text import clean, integer, listing

REMARK = (
    "A leader may answer a read when a majority of the voters, it among them, has fetched since"
    " the read came: one that was replaced meanwhile hears from no majority."
)


@painter(10)
def unconfirmed_read(finding: Finding, scene: Scene) -> Picture | None:
    """Lanes of the leader and the voters around a read that too few had confirmed."""
    read = next((event for event in finding.events if word(event, "t") == "read"), None)
    if read is None or integer(read.get("rx_ns")) is None:
        return None
    leader = scene.owner(read)
    found = confirmation(read, leader, scene)
    if found is None:
        return None
    epoch = integer(read.get("ep"))
    moments = chosen([*_reigns(leader, epoch, read, scene), *_moments(read, leader, found)])
    nodes = [node for node in scene.nodes if node in scene.voters]
    have = listing([name for name, _ in found.since]) or "none"
    caption = (
        f"{leader} answers a read: {have} of its {len(found.before) + len(found.since)} followers"
        f" had fetched since it came; it needs {found.needed}"
    )

    def marked(bar: RoleBar) -> bool:
        return bar.role == "leader" and bar.epoch == epoch

    alt = f"{caption}. Lanes of {listing(nodes)} over time; the numbered moments are text below."
    view = View(nodes, moments, finding.anchor, alt, marked)
    return Picture("unconfirmed-read", caption, node_lanes(scene, view), (REMARK,))


def _moments(read: Event, leader: str, found: Confirmation) -> Iterator[Moment]:
    at = read["rx_ns"]
    for voter, seen_ns in found.before:
        if seen_ns:
            text = f"fetched from {leader} the last time, before the read came"
            yield Moment(seen_ns, voter, 0, "t-quiet", text, leader)
        else:
            yield Moment(found.asked_ns, voter, 0, "t-quiet", f"has not fetched from {leader}")
    what = clean(read.get("api", "read"), limit=60)
    asked = f"is asked for a read ({what}) at high watermark {clean(read.get('off'), limit=20)}"
    yield Moment(found.asked_ns, leader, 1, "t-op", asked, strong=True)
    for voter, seen_ns in found.since:
        yield Moment(seen_ns, voter, 2, "t-good", f"fetches from {leader}: it leads", leader, True)
    who = listing([name for name, _ in found.before])
    lacking = f", and {who} had not been heard of since" if who else ""
    yield Moment(at, leader, 3, "t-bad", f"answers the read{lacking}", strong=True)


def _reigns(leader: str, epoch: int | None, read: Event, scene: Scene) -> Iterator[Moment]:
    """Show how a leader came to lead, and who was elected since."""
    for node, event in scene.told(frozenset({"elected"})):
        new = integer(event.get("ep"))
        own = node == leader and new == epoch
        later = new is not None and epoch is not None and new > epoch
        if own or (later and event["rx_ns"] <= read["rx_ns"]):
            text = f"is elected leader of epoch {new}"
            yield Moment(event["rx_ns"], node, 0, "t-leader", text, strong=True)
