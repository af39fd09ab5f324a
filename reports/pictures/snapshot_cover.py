"""S22: what a snapshot covers beside its node's log; or two snapshots of one id, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from checkers.replay.voter_sets import NEVER, VoterHistory, difference, keys_of, told
from checkers.replay.world import Batch
from reports.blocks import Cell, Columns, Picture, Row
from reports.cluster import Event
from reports.drawing.lanes import Moment, View, chosen, node_lanes
from reports.drawing.records import contents
from reports.drawing.replay import log_after, word
from reports.drawing.scene import Scene
from reports.pictures import Finding, painter
from reports.text import clean, integer, listing

BEFORE: Final = 4  # batches shown that the snapshot covers
BEHIND: Final = 3  # and behind its end
WORDS_MAX: Final = 48
SHA_CHARS: Final = 16
_MADE: Final = {"freeze": "makes", "install": "takes from the leader"}
_FIELDS: Final = {"size": "bytes", "sha": "SHA-256", "kv": "kraft.version"}


@painter(20)
def snapshot_cover(finding: Finding, scene: Scene) -> Picture | None:
    """The log around a snapshot's end as it was when the snapshot came into being."""
    made = [event for event in finding.events if word(event, "op") in _MADE]
    if finding.invariant != "S22" or not made:
        return None
    id_ = _id(made[-1])
    if id_ is None or any(integer(event.get("rx_ns")) is None for event in made):
        return None
    alike = len(made) > 1
    found = _two(made[0], made[-1], scene) if alike else _against_log(made[0], id_, finding, scene)
    if found is None:
        return None
    caption, columns, remark = found
    lanes = node_lanes(scene, _view(id_, made, finding, scene))
    return Picture("snapshot-cover", caption, (columns, *lanes), (remark,))


def _id(event: Event) -> tuple[int, int] | None:
    """End offset and epoch."""
    id_ = event.get("id")
    if not isinstance(id_, list | tuple) or len(id_) != 2:  # noqa: PLR2004 - offset and epoch
        return None
    end, epoch = integer(id_[0]), integer(id_[1])
    return None if end is None or epoch is None else (end, epoch)


# --------------------------------------------------------------------------- beside the log


def _against_log(
    event: Event, id_: tuple[int, int], finding: Finding, scene: Scene
) -> tuple[str, Columns, str] | None:
    node, (end, epoch) = scene.owner(event), id_
    if node not in scene.tracks:
        return None
    log = log_after(scene.events(node), event["rx_ns"]).batches
    below = [batch for batch in log if batch.base < end]
    near = [*below[-BEFORE:], *[batch for batch in log if batch.base >= end][:BEHIND]]
    hwm = _high_watermark(node, event, finding, scene)
    rows = [_row(batch, id_, hwm, batch == below[-1] if below else False, scene) for batch in near]
    rows += _voters(node, event, end, scene)
    if not any(row.relation == "first" for row in rows):
        return None
    caption = f"What snapshot {end} of epoch {epoch} covers, and the log of {node} at that time"
    said = "; ".join(f"{r.place}: {r.left.title}; {r.right.title}" for r in rows if r.left.title)
    columns = Columns(
        (f"snapshot {end}-{epoch}", scene.link(node, event["rx_ns"])),
        (f"log of {node}", scene.link(node)),
        tuple(rows),
        "offsets",
        f"{caption}. {said}",
    )
    known = "not known" if hwm is None else str(hwm)
    rule = "A snapshot holds all below its end, in whole batches that are committed"
    return caption, columns, f"{rule}: below the high watermark, which was {known} on {node}."


def _high_watermark(node: str, event: Event, finding: Finding, scene: Scene) -> int | None:
    """Give the high watermark of the finding, else the last one that the process told before."""
    if (told_by_checker := integer(finding.details.get("hwm"))) is not None:
        return told_by_checker
    marks = [
        integer(each.get("v"))
        for each in scene.events(node)
        if word(each, "t") == "hwm"
        and each.get("inc") == event.get("inc")
        and each["rx_ns"] <= event["rx_ns"]
    ]
    return marks[-1] if marks else None


def _row(batch: Batch, id_: tuple[int, int], hwm: int | None, last: bool, scene: Scene) -> Row:
    """A batch of the log; ``last`` of those that the snapshot covers, if only in part."""
    end, epoch = id_
    cut = batch.base < end <= batch.last
    committed = hwm is None or batch.last < hwm
    if batch.base >= end:
        left = Cell(())
    elif cut:
        text = f"ends inside, at {end}"
        left = Cell((text, f"epoch {epoch}"), text)
    elif last:
        left = Cell((f"ends here, epoch {epoch}",), f"ends here, in epoch {epoch}")
    else:
        left = Cell(("covered",), "covered")
    state = "" if hwm is None else "committed" if committed else "not committed"
    words = contents(batch, batch.base, scene)
    short = words if len(words) <= WORDS_MAX else f"{words[: WORDS_MAX - 1]}…"
    lines = tuple(filter(None, (f"e{batch.epoch} {batch.h:08x}", state, short)))
    wrong = batch.base < end and (cut or not committed or (last and batch.epoch != epoch))
    relation = "first" if wrong else "lone" if batch.base >= end else "same"
    return Row(_span(batch), left, Cell(lines, f"{batch}, {state}".rstrip(", ")), relation)


def _span(batch: Batch) -> str:
    return str(batch.base) if batch.base == batch.last else f"{batch.base}-{batch.last}"


def _voters(node: str, event: Event, end: int, scene: Scene) -> Iterator[Row]:
    """The voters that the snapshot names, and those in force in the log at its end."""
    named = keys_of(event.get("voters"))
    found = _sets(scene.events(node), event["rx_ns"]).entry_at(end)
    if named is None or found is None:
        return
    since, in_force = found
    where = "from the start on" if since == NEVER else f"from offset {since} on"
    left, right = told(named), told(in_force)
    relation = "first" if difference(named, in_force) else "same"
    yield Row(
        "voters",
        Cell((left,), f"names {left}"),
        Cell((right, where), f"{right}, {where}"),
        relation,
    )


def _sets(events: Sequence[Event], until_ns: int) -> VoterHistory:
    """The voter sets of a node's log by then."""
    history = VoterHistory()
    for event in events:
        if event["rx_ns"] > until_ns:
            break
        kind, keys = word(event, "t"), keys_of(event.get("voters", event.get("set")))
        if kind == "start" and keys is not None:
            history.begin(keys, integer(event.get("leo")) or 0)
        elif kind == "voters" and keys is not None:
            history.add(integer(event.get("off")), keys)
        elif kind == "trunc" and (to := integer(event.get("to"))) is not None:
            history.truncate(to)
    return history


# --------------------------------------------------------------------------- two of one id


def _two(one: Event, other: Event, scene: Scene) -> tuple[str, Columns, str] | None:
    names = scene.owner(one), scene.owner(other)
    end, epoch = _id(other) or (0, 0)
    rows = list(_rows(one, other))
    if not any(row.relation == "first" for row in rows):
        return None
    caption = f"Snapshot {end} of epoch {epoch} on {names[0]} and on {names[1]}: not the same"
    said = "; ".join(
        f"{row.place}: {row.left.title} and {row.right.title}"
        for row in rows
        if row.relation == "first"
    )
    columns = Columns(
        (names[0], scene.link(names[0], one["rx_ns"])),
        (names[1], scene.link(names[1], other["rx_ns"])),
        tuple(rows),
        "",
        f"{caption}. {said}",
    )
    return caption, columns, "Snapshots of one id have the same bytes on all nodes."


def _rows(one: Event, other: Event) -> Iterator[Row]:
    for field, name in _FIELDS.items():
        left, right = _value(one, field), _value(other, field)
        relation = "same" if one.get(field) == other.get(field) else "first"
        yield Row(
            name, Cell((left[:SHA_CHARS],), left), Cell((right[:SHA_CHARS],), right), relation
        )
    left, right = _MADE[word(one, "op")], _MADE[word(other, "op")]
    yield Row("who", Cell((f"{left} it",), left), Cell((f"{right} it",), right), "lone")


def _value(event: Mapping[str, object], field: str) -> str:
    value = event.get(field)
    return "not told" if value is None else clean(value, limit=80)


# --------------------------------------------------------------------------- over time


def _view(id_: tuple[int, int], made: Sequence[Event], finding: Finding, scene: Scene) -> View:
    """The nodes that have made or taken a snapshot of that id, and when."""
    end, epoch = id_
    guilty = {(scene.owner(event), event["rx_ns"]) for event in made}
    moments = chosen(
        Moment(
            event["rx_ns"],
            node,
            scene.place(node, event),
            "t-bad" if (node, event["rx_ns"]) in guilty else "t-quiet",
            f"{_MADE[word(event, 'op')]} snapshot {end} of epoch {epoch}: "
            f"{_value(event, 'size')} bytes, SHA-256 {_value(event, 'sha')[:SHA_CHARS]}",
            strong=(node, event["rx_ns"]) in guilty,
        )
        for node, event in scene.told(frozenset({"snap"}))
        if word(event, "op") in _MADE and _id(event) == id_
    )
    named = {moment.node for moment in moments} | set(finding.nodes)
    nodes = [node for node in scene.nodes if node in named] or scene.nodes[:1]
    alt = f"Lanes of {listing(nodes)} over time; the numbered moments are text below."
    return View(nodes, moments, finding.anchor, alt)
