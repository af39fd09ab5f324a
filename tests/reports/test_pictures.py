"""Pictures of anomalies: which one is drawn, what it shows, and that hostile input draws none."""

import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.contracts.checker import RunData
from harness.contracts.evidence import LogBatch
from harness.contracts.nemesis import Fault
from harness.history.ops import History, Op
from harness.spec import RunSpec
from reports import node_log, pictures
from reports.blocks import Columns, Lanes, Notes, Picture, Ring, Story
from reports.build import build_model
from reports.drawing.axis import GAP, LEFT, RIGHT, Axis
from reports.drawing.replay import changes_at
from reports.pictures import painters
from reports.run_report import render_run
from tests.support.reports.runs import HOSTILE, MS, result

Event = dict[str, Any]


class _Trace:
    """Events of a few nodes, with what every event must have."""

    def __init__(self) -> None:
        self.events: dict[str, list[Event]] = {}

    def __call__(self, node: str, ms: int, kind: str, epoch: int = 1, **fields: Any) -> Event:
        of_node = self.events.setdefault(node, [])
        common = {"node": int(node[1:]), "dir": "ab" * 16, "inc": 1, "seq": len(of_node) + 1}
        times = {"ts": ms * MS, "rx_ns": ms * MS}
        of_node.append({**common, **times, "ep": epoch, "t": kind, **fields})
        return of_node[-1]

    def run(self, history: Sequence[Op] = (), **more: Any) -> RunData:
        names = sorted(self.events) or ["n1", "n2", "n3"]
        events = {node: tuple(told) for node, told in self.events.items()}
        spec = RunSpec(seed=1)
        return RunData(spec, History(list(history)), events=events, voters=tuple(names), **more)


def drawn(run: RunData, anomaly: dict[str, Any]) -> tuple[Picture, ...]:
    results = result(system="invalid", anomalies=[anomaly], results=[])
    return tuple(build_model(run, results).pictures[1])


def anomaly(invariant: str, *events: Event, **more: Any) -> dict[str, Any]:
    return {"invariant": invariant, "message": "so", "events": list(events), **more}


def block(picture: Picture, kind: type) -> Any:
    return next(each for each in picture.blocks if isinstance(each, kind))


def texts(picture: Picture) -> str:
    notes = [n for b in picture.blocks if isinstance(b, Notes) for n in b.notes]
    steps = [s.note for b in picture.blocks if isinstance(b, Story) for s in b.steps]
    return "\n".join(f"{n.sign} {n.where} {n.text}" for n in [*notes, *steps])


# --------------------------------------------------------------------------- which one


def test_painters_are_found_by_themselves() -> None:
    names = [each.name for each in painters()]
    assert set(names) == {
        *("two_leaders", "no_order", "cycle", "diverging_logs", "diverging_states"),
        *("life_story", "snapshot_cover", "moments", "unconfirmed_read"),
    }
    assert names[-1] == "moments"


def two_leaders() -> tuple[RunData, dict[str, Any]]:
    told = _Trace()
    told("n3", 10, "vote", 2, pre=False, ok=True, cand=2)
    told("n3", 11, "vote", 2, pre=True, ok=True, cand=1)
    told("n2", 20, "elected", 2, grants=[2, 3], es=5)
    told("n2", 20, "role", 2, to="leader", leader=2)
    first = told("n2", 21, "qs", 2, leader=2, voted=2)
    told("n1", 30, "elected", 2, grants=[1, 3], es=5)
    told("n1", 30, "role", 2, to="leader", leader=1)
    second = told("n1", 31, "qs", 2, leader=1, voted=1)
    return told.run(), anomaly("S1", first, second, details={"epoch": 2, "leaders": [2, 1]})


def test_two_leaders_shows_both_reigns_and_the_votes() -> None:
    (picture,) = drawn(*two_leaders())
    lanes = block(picture, Lanes)
    assert picture.caption == "Epoch 2: led by n1 and n2"
    assert [lane.label for lane in lanes.lanes] == ["n1", "n2", "n3"]
    assert [lane.label for lane in lanes.lanes for bar in lane.bars if bar.marked] == ["n1", "n2"]
    assert [(arrow.lane1, arrow.lane2) for arrow in lanes.arrows] == [(2, 1)]  # no pre-vote
    signs = [mark.sign for lane in lanes.lanes for mark in lane.marks]
    assert sorted(signs) == [note.sign for note in block(picture, Notes).notes]


def read_told(*, asked: int) -> tuple[RunData, dict[str, Any]]:
    """A read that n1 answers: n2 fetched before and n3 after the event 3."""
    told = _Trace()
    told("n1", 10, "elected", 2, grants=[1, 2], es=5)
    told("n1", 10, "role", 2, to="leader", leader=1)
    told("n1", 11, "fetch_rx", 2, off=9, res="ok", **{"from": 2})
    told("n1", 13, "fetch_rx", 2, off=9, res="ok", **{"from": 3})
    told("n2", 5, "start", 2)
    told("n3", 5, "start", 2)
    read = told("n1", 20, "read", 2, api="DescribeConfigs", off=9, asked=asked)
    return told.run(), anomaly("S34", read, details={"epoch": 2}, time_ns=20 * MS)


def test_a_read_that_nobody_confirmed_shows_when_each_voter_had_fetched() -> None:
    (picture,) = drawn(*read_told(asked=4))
    assert picture.kind == "unconfirmed-read"
    assert picture.caption == (
        "n1 answers a read: none of its 2 followers had fetched since it came; it needs 1"
    )
    said = texts(picture)
    assert "n2 fetched from n1 the last time, before the read came" in said
    assert "n1 answers the read, and n2 and n3 had not been heard of since" in said
    (confirmed,) = drawn(*read_told(asked=3))
    assert "n3 fetches from n1: it leads" in texts(confirmed)
    assert "n1 answers the read, and n2 had not been heard of since" in texts(confirmed)


def read_of(value: int, at_ms: int) -> tuple[RunData, dict[str, Any]]:
    """A write of 17 at offset 7, committed at 13 ms, and a read of the same key."""
    run, _ = lost_record()
    history = [
        *run.history,
        Op(2, (at_ms - 1) * MS, 1, "invoke", "read", key="r1", node="n2"),
        Op(3, at_ms * MS, 1, "ok", "read", value, key="r1", node="n2"),
    ]
    told = replace(run, history=History(history))
    return told, anomaly("S34", ops=[2, 3], time_ns=at_ms * MS)


def test_a_dirty_read_shows_the_write_and_that_it_was_not_committed() -> None:
    (picture,) = drawn(*read_of(17, 12))
    assert picture.kind == "life-story"
    assert "n2 op 3 is answered: read r1 → 17 — before it was committed" in texts(picture)
    (later,) = drawn(*read_of(17, 14))
    assert "before it was committed" not in texts(later)


def test_a_stale_read_shows_the_write_that_it_missed_and_its_commit() -> None:
    run, found = read_of(16, 19)
    (picture,) = drawn(run, {**found, "invariant": "linearizability", "ops": [0, 1, 2, 3]})
    said = texts(picture)
    assert "n1 takes A for committed: high watermark 8" in said
    assert "n2 op 3 is answered: read r1 → 16 — and not what is written here" in said
    assert said.index("takes A for committed") < said.index("op 3 is answered")


def test_a_picture_reaches_to_the_moment_of_the_finding() -> None:
    run, found = lost_record()
    (story,) = drawn(run, {**found, "time_ns": 900 * MS})[-1:]
    steps = block(story, Story).steps
    assert (steps[-1].note.time_ns, steps[-1].note.text) == (900 * MS, "here it became visible")
    run, found = two_leaders()
    lanes = block(drawn(run, {**found, "time_ns": 900 * MS})[0], Lanes)
    assert float(lanes.ticks[-1].text.split()[0]) >= 0.9


def test_a_winner_whose_votes_nobody_gave_is_told() -> None:
    (picture,) = drawn(*two_leaders())
    assert "n1 wins epoch 2 by n1, n3, its log ending at 5 — but n3 gave it no vote" in texts(
        picture
    )
    assert "n2 wins epoch 2 by n2, n3, its log ending at 5\n" in texts(picture)


def batch(base: int, epoch: int, crc: int) -> Event:
    return {"base": base, "last": base, "bep": epoch, "h": crc}


def lost_record() -> tuple[RunData, dict[str, Any]]:
    told = _Trace()
    told("n1", 10, "append", 1, **batch(7, 1, 0xA), src="leader")
    told("n1", 11, "flush", upto=8)
    told("n2", 12, "append", 1, **batch(7, 1, 0xA), src="follower")
    by = told("n1", 13, "hwm", 1, v=8, **{"as": "leader"}, acks=[[1, None, 8], [2, None, 8]])
    told("n1", 14, "ack", 1, api="IncrementalAlterConfigs", off=7, hwm=8)
    told("n3", 20, "elected", 2, grants=[3], es=7)
    told("n3", 21, "append", 2, **batch(7, 2, 0xB), src="leader")
    told("n2", 22, "trunc", 2, to=7, was=8, why="diverging")
    late = told("n3", 23, "hwm", 2, v=8, **{"as": "leader"})
    history = [
        Op(0, 5 * MS, 0, "invoke", "write", 17, key="r1", node="n1"),
        Op(1, 15 * MS, 0, "ok", "write", 17, key="r1", node="n1"),
    ]
    fields = {"resource_name": "register-r1", "name": "retention.ms", "value": "17"}
    record = {"offset": 7, "type": "ConfigRecord", "fields": fields}
    logs = {"n1": (LogBatch(7, 7, 1, 0xA, control=False, records=(record,)),)}
    return told.run(history, logs=logs), anomaly("S9", by, late, ops=[0, 1], details={"offset": 7})


KNOWN = ", by what it knows of the voters' logs: n1 to 8, n2 to 8"


def test_the_life_of_a_record_from_its_write_to_its_loss() -> None:
    picture = drawn(*lost_record())[1]
    assert picture.kind == "life-story"
    assert texts(picture).splitlines() == [
        "A  offset 7 of epoch 1 (crc 0000000a): write r1 = 17",
        "B  offset 7 of epoch 2 (crc 0000000b)",
        "A n1 writes A, as leader; on its disk 1.00 ms later",
        "A n2 copies A, as follower; never flushed to its disk",
        f"✓ n1 takes A for committed: high watermark 8{KNOWN}",
        "@ n1 tells the client that op 0, write r1 17, is done",
        "▲ n3 is elected leader of epoch 2, with a log that ends at 7 — without it",
        "B n3 writes B, as leader",
        "✗ n2 cuts it off its log: A is gone here",
        "✓ n3 takes B for committed: high watermark 8 — though A was",
    ]
    last = block(picture, Story).steps[-1]
    assert [tone for tone, _ in last.rails] == ["idle", "rail v0", "rail v1"]  # n1 has A, n3 B


def test_an_acknowledged_write_is_found_by_what_the_logs_hold() -> None:
    run, found = lost_record()
    (picture,) = drawn(run, {**found, "invariant": "S17", "details": {}, "events": []})
    assert picture.caption.startswith("The life of offset 7")


def test_an_offset_that_only_the_message_names_is_looked_up() -> None:
    run, _ = lost_record()
    found = {**anomaly("S19"), "message": "half of batch 7..7 is missing"}
    (picture,) = drawn(run, found)
    assert picture.caption.startswith("The life of offset 7")


def test_an_answer_before_the_commit_is_marked() -> None:
    told = _Trace()
    told("n1", 10, "append", 1, **batch(7, 1, 0xA), src="leader")
    early = told("n1", 11, "ack", 1, api="Write", off=7, hwm=7)
    (picture,) = drawn(told.run(), anomaly("S17", early, details={"offset": 7}))
    assert "its Write is done — before it was committed" in texts(picture)


@pytest.mark.parametrize(
    ("then", "how"),
    [
        ({"t": "trunc", "to": 7}, "cut"),
        ({"t": "append", **batch(6, 2, 1)}, "cut"),
        ({"t": "start", "leo": 7}, "restart"),
        ({"t": "snap", "op": "install", "id": [9, 1]}, "snapshot"),
        ({"t": "disk", "what": "wipe"}, "disk"),
    ],
)
def test_what_takes_a_record_from_a_log(then: Event, how: str) -> None:
    had = {"t": "append", **batch(7, 1, 1)}
    keeps = [{"t": "trunc", "to": 8}, {"t": "start", "leo": 8}, {"t": "append", **batch(8, 1, 2)}]
    changes = list(changes_at([had, *keeps, then], 7))
    assert [change.how for change in changes] == ["append", how]
    assert changes[-1].batch is None


def test_diverging_logs_side_by_side() -> None:
    told = _Trace()
    for node, epoch, crc in (("n1", 1, 0xA), ("n2", 2, 0xB)):
        for offset in range(7):
            told(node, offset, "append", 1, **batch(offset, 1, offset), src="follower")
        told(node, 10, "append", epoch, **batch(7, epoch, crc), src="leader")
    told("n1", 11, "append", 1, **batch(8, 1, 0xC), src="leader")
    ends = [told.events[node][-1] for node in ("n1", "n2")]
    view = block(drawn(told.run(), anomaly("S7", *ends, details={"offset": 7}))[0], Columns)
    assert (view.left[0], view.right[0]) == ("n1", "n2")
    assert [(row.place, row.relation) for row in view.rows] == [
        *((str(offset), "same") for offset in (3, 4, 5, 6)),
        ("7", "first"),
        ("8", "lone"),
    ]
    assert view.rows[4].left.lines == ("e1 0000000a",)
    assert view.rows[5].right.lines == ()


def test_diverging_states_side_by_side() -> None:
    told = _Trace()
    for node, states in (("n1", "aabx"), ("n2", "aacx")):
        for offset, state in enumerate(states):
            told(node, offset, "apply", off=offset, n=1, st=state)
    picture = drawn(told.run(), anomaly("C8", told.events["n2"][2]))[0]
    rows = block(picture, Columns).rows
    assert [row.relation for row in rows] == ["same", "same", "first", "same"]
    assert picture.caption == "States differ at offset 2: n2 and n1"


def test_a_cycle_is_a_ring_of_labelled_edges() -> None:
    history = [
        Op(i, i * MS, i // 2, "ok" if i % 2 else "invoke", "append", i // 2, key="l0")
        for i in range(6)
    ]
    steps = [
        {"from": 1, "kind": "ww", "to": 3, "why": "a"},
        {"from": 3, "kind": "process", "to": 4, "why": "b"},
        {"from": 4, "kind": "process", "to": 5, "why": "c"},
        {"from": 5, "kind": "rw", "to": 1, "why": "d"},
    ]
    found = anomaly("S34", ops=[1, 3, 5], details={"cycle": steps, "anomaly": "G-single"})
    (picture,) = drawn(_Trace().run(history), found)
    ring = block(picture, Ring)
    assert ring.alt == "A ring of 3 transactions: T1 ww T2; T2 process T3; T3 rw T1."
    assert [edge.text for edge in ring.edges] == ["ww", "process", "rw"]
    assert "T3 process 2 op 5: append l0 2" in texts(picture)
    assert "→  T2 → T3 process (same process, later): b; c" in texts(picture)


def call(op: int, process: int, what: str, began_ms: int, ended_ms: int | None) -> dict[str, Any]:
    ended = None if ended_ms is None else ended_ms * MS
    times = {"began_ns": began_ms * MS, "ended_ns": ended}
    outcome = "info" if ended is None else "ok"
    return {"op": op, "process": process, "what": what, "outcome": outcome, **times}


def no_order() -> dict[str, Any]:
    stuck = call(4, 1, "read -> 1", 40, 50)
    why = {"op": 4, "what": "read -> 1", "why": "it needs 1, the value is 2"}
    orders = {"order": [0, 2], "what": ["write 1", "write 2"], "state": "2"}
    return {
        "stuck": stuck,
        "ops": [call(0, 0, "write 1", 10, 20), call(2, 1, "write 2", 15, 30), stuck],
        "window": {"start_states": ["nil"]},
        "partials": [{**orders, "cannot_follow": [why]}],
    }


def test_ops_without_an_order_as_bars_with_the_longest_order() -> None:
    (picture,) = drawn(_Trace().run(), anomaly("linearizability", details=no_order()))
    lanes = block(picture, Lanes)
    assert [(lane.label, len(lane.bars)) for lane in lanes.lanes] == [
        ("process 0", 1),
        ("process 1", 2),
    ]
    assert [bar.text for lane in lanes.lanes for bar in lane.bars if bar.marked] == ["read -> 1"]
    one, other = lanes.lanes[0].bars[0], lanes.lanes[1].bars[0]
    assert other.x < one.x + one.width < other.x + other.width  # they overlap, as they did
    assert other.x + other.width < lanes.lanes[1].bars[1].x
    assert [lane for _, lane in lanes.ways[0]] == [0, 1]
    assert "3  op 4: read -> 1 cannot follow: it needs 1, the value is 2" in texts(picture)


def snapshot(told: _Trace, node: str, ms: int, id_: list[int], **more: Any) -> Event:
    fields = {"op": "freeze", "size": 300, "sha": "aa" * 32, "voters": None, "kv": 1, **more}
    return told(node, ms, "snap", id=id_, **fields)


def short_of_a_snapshot() -> _Trace:
    """A log of offsets 0, 1-3 and 4 in epoch 1, of which all below 4 is committed."""
    told = _Trace()
    told("n1", 1, "start", leo=0, voters=[1, 2])
    for ms, (base, last) in enumerate(((0, 0), (1, 3), (4, 4)), start=10):
        told("n1", ms, "append", base=base, last=last, bep=1, h=base, src="leader")
    told("n1", 20, "hwm", 1, v=4, **{"as": "leader"})
    return told


@pytest.mark.parametrize(
    ("id_", "more", "wrong"),
    [
        ([3, 1], {}, ("1-3", "ends inside, at 3", "offsets 1-3 of epoch 1 (crc 00000001)")),
        ([5, 1], {}, ("4", "ends here, in epoch 1", "not committed")),
        ([4, 2], {}, ("1-3", "ends here, in epoch 2", "offsets 1-3 of epoch 1")),
        ([4, 1], {"voters": [[1, None]]}, ("voters", "names [n1]", "[n1, n2], from the start on")),
    ],
    ids=["inside-of-a-batch", "not-committed", "wrong-epoch", "other-voters"],
)
def test_what_a_snapshot_covers_beside_the_log(
    id_: list[int], more: dict[str, Any], wrong: tuple[str, str, str]
) -> None:
    told = short_of_a_snapshot()
    event = snapshot(told, "n1", 30, id_, **more)
    snapshot(told, "n2", 40, id_, op="install")
    (picture,) = drawn(told.run(), anomaly("S22", event, details={"id": id_}))
    assert picture.kind == "snapshot-cover"
    (row,) = [row for row in block(picture, Columns).rows if row.relation == "first"]
    place, left, right = wrong
    assert (row.place, row.left.title) == (place, left)
    assert right in row.right.title
    assert "n1 makes snapshot" in texts(picture)
    assert "n2 takes from the leader snapshot" in texts(picture), "it has gone round"


def two_snapshots() -> tuple[RunData, dict[str, Any]]:
    told = short_of_a_snapshot()
    one = snapshot(told, "n1", 30, [4, 1])
    other = snapshot(told, "n2", 40, [4, 1], sha="bb" * 32)
    return told.run(), anomaly("S22", one, other, details={"id": [4, 1]})


def test_two_snapshots_of_one_id_side_by_side() -> None:
    (picture,) = drawn(*two_snapshots())
    assert picture.caption == "Snapshot 4 of epoch 1 on n1 and on n2: not the same"
    relations = {row.place: row.relation for row in block(picture, Columns).rows}
    assert relations == {
        "bytes": "same",
        "SHA-256": "first",
        "kraft.version": "same",
        "who": "lone",
    }


def test_a_snapshot_that_the_log_agrees_with_is_left_to_the_moments() -> None:
    told = short_of_a_snapshot()
    event = snapshot(told, "n1", 30, [4, 1])
    assert [each.kind for each in drawn(told.run(), anomaly("S22", event))] == ["moments"]


def test_anything_else_shows_the_moments_it_names() -> None:
    told = _Trace()
    told("n1", 1, "role", 3, to="leader", leader=1)
    seen = told("n1", 900, "flush", upto=4)
    about = {"id": 0, "nemesis": "kill", "params": {}, "targets": ["n1"], "outcome": "installed"}
    history = [
        Op(0, 2 * MS, "nemesis", "info", "inject", about),
        Op(1, 3 * MS, "nemesis", "info", "inject", {**about, "evidence": ["gone"]}),
    ]
    run = told.run(history, faults=(Fault(0, "kill", 0, 10, {}),))
    (picture,) = drawn(run, anomaly("S99", seen))
    lanes = block(picture, Lanes)
    assert [lane.label for lane in lanes.lanes] == ["faults", "n1"]
    assert [bar.text for bar in lanes.lanes[1].bars] == ["leader, epoch 3"]
    assert texts(picture) == "1 n1 has all below 4 on its disk"


def test_nothing_known_draws_nothing() -> None:
    assert drawn(_Trace().run(), anomaly("S99")) == ()


# --------------------------------------------------------------------------- into the logs


def noted(picture: Picture) -> list[str]:
    notes = [n for b in picture.blocks if isinstance(b, Notes) for n in b.notes]
    return [note.href for note in notes]


def written(n: int, form: str) -> tuple[str, ...]:
    return tuple(form.format(n=at, s=at % 60, m=at // 60) for at in range(n))


def test_a_moment_leads_to_the_line_that_the_node_wrote_last() -> None:
    """Of the simulator by its own times; that line and some around it are on the page."""
    told = _Trace()
    event = told("n1", 7_500, "flush", upto=4)
    run = told.run(output={"n1": written(100, "{n}.000000 INFO line {n}")})
    found = result(system="invalid", anomalies=[anomaly("S99", event)], results=[])
    model = build_model(run, found)
    assert noted(model.pictures[1][0]) == ["#node-1-l8"]
    assert model.anomalies[0].events[0].href == "#node-1-l8"
    around = model.nodes[0].around
    assert [line.number for line in around] == list(range(5, 12))
    assert [line.text for line in around if line.anchor] == ["7.000000 INFO line 7"]
    html = render_run(run, found)
    assert html.count('id="node-1-l8"') == 1


def test_lines_between_are_left_out_and_the_tail_has_its_own() -> None:
    told = _Trace()
    events = [told("n1", s * 1000, "flush", upto=4) for s in (2, 30, 99)]
    run = told.run(output={"n1": written(100, "{n}.000000 INFO line {n}")})
    found = anomaly("S99", *events)
    (node,) = build_model(run, result(system="invalid", anomalies=[found], results=[])).nodes
    numbers = [line.number for line in node.around]
    assert numbers == [*range(1, 7), None, *range(28, 35)]
    assert [line.number for line in node.tail if line.anchor] == [100]


def test_a_wall_clock_is_tied_to_the_run_by_the_starts_of_the_node() -> None:
    """A host's time says nothing of the run's: a start is in the log and in the events."""
    told = _Trace()
    told("n1", 2_000, "start", leo=0)
    event = told("n1", 9_400, "flush", upto=4)
    lines = list(written(30, "2026-01-02 03:00:{s:02},000 INFO krucible.node line {n}"))
    lines[5] = "2026-01-02 03:00:05,000 INFO krucible.node node 1 serves on CONTROLLER://h:1"
    (picture,) = drawn(told.run(output={"n1": tuple(lines)}), anomaly("S99", event))
    assert noted(picture) == ["#node-1-l13"], "12 s by the wall are 9 s of the run"


@pytest.mark.parametrize(
    "lines",
    [
        (),
        ("no time at all", HOSTILE),
        ("2026-01-02 03:00:00,000 INFO nobody says when this was",),
        ("2026-13-42 99:99:99,000 INFO node 1 serves on CONTROLLER://h:1",),
    ],
)
def test_a_log_without_known_times_is_linked_as_a_whole(lines: tuple[str, ...]) -> None:
    told = _Trace()
    told("n1", 2_000, "start", leo=0)
    event = told("n1", 7_500, "flush", upto=4)
    (picture,) = drawn(told.run(output={"n1": lines}), anomaly("S99", event))
    assert noted(picture) == ["#node-1"]


def test_lines_that_links_lead_to_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_log, "ASKED_MAX", 2)
    told = _Trace()
    events = [told("n1", s * 1000, "flush", upto=4) for s in (2, 30, 99)]
    run = told.run(output={"n1": written(100, "{n}.000000 INFO line {n}")})
    (picture,) = drawn(run, anomaly("S99", *events))
    assert noted(picture) == ["#node-1-l3", "#node-1-l31", "#node-1"]


# --------------------------------------------------------------------------- where and how


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=16))
def test_an_axis_keeps_order_and_distance(times: list[int]) -> None:
    moments = [(time, at) for at, time in enumerate(sorted(times))]
    places = [axis.of(moment) for axis in [Axis(moments)] for moment in moments]
    assert LEFT <= places[0] <= places[-1] <= RIGHT
    assert all(b - a >= GAP - 0.02 for a, b in pairwise(places))
    middle = (times[0] + times[-1]) // 2
    assert places[0] <= Axis(moments).at(middle) <= places[-1]


CASES: dict[str, Callable[[], tuple[RunData, dict[str, Any]]]] = {
    "two-leaders": two_leaders,
    "life-story": lost_record,
    "snapshot-cover": two_snapshots,
    "no-order": lambda: (_Trace().run(), anomaly("linearizability", details=no_order())),
}


@pytest.mark.parametrize("case", CASES)
def test_a_picture_is_well_formed_has_words_and_links_within_the_page(case: str) -> None:
    run, found = CASES[case]()
    html = render_run(run, result(system="invalid", anomalies=[found], results=[]))
    assert html == render_run(run, result(system="invalid", anomalies=[found], results=[]))
    figures = re.findall(r'<figure class="picture .*?</figure>', html, re.S)
    assert any(f'class="picture {case}"' in figure for figure in figures)
    ids = set(re.findall(r'\bid="([^"]+)"', html))
    for figure in figures:
        root = ElementTree.fromstring(figure)
        drawings = [e for e in root.iter() if e.get("role") in ("img", "list")]
        assert drawings
        assert all(e.get("aria-label") for e in drawings)
        targets = {str(e.get("href"))[1:] for e in root.iter("a") if e.get("href")}
        assert targets <= ids
        assert not [e for e in root.iter() if e.get("style") is not None]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 2**60)
    | st.floats()
    | st.sampled_from(["", "n1", HOSTILE]),
    lambda each: (
        st.lists(each, max_size=3)
        | st.dictionaries(st.sampled_from(["ep", "op", "id", HOSTILE]), each, max_size=3)
    ),
    max_leaves=6,
)
KINDS = [
    "append",
    "trunc",
    "hwm",
    "start",
    "role",
    "vote",
    "elected",
    "ack",
    "apply",
    "snap",
    "disk",
    "voters",
]
FIELDS = [
    *("node", "ep", "inc", "seq", "rx_ns", "to", "leader", "cand", "ok", "pre", "grants", "es"),
    *("base", "last", "bep", "h", "v", "as", "acks", "off", "hwm", "st", "id", "op", "what", "leo"),
    *("qs", "upto", "src", "why", "api", "set", "voters", "sha", "size", "kv"),
]
hostile_events = st.builds(
    lambda kind, fields: {"rx_ns": 5, "node": 1, "t": kind, **fields},
    st.sampled_from(KINDS) | json_values,
    st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=8),
)
hostile_details = st.dictionaries(
    st.sampled_from(["epoch", "offset", "hwm", "cycle", "ops", "stuck", "partials", "window"]),
    json_values
    | st.just([{"from": 1, "to": 1, "kind": HOSTILE, "why": HOSTILE}])
    | st.just([call(1, 0, HOSTILE, 1, None)])
    | st.just(call(1, 0, HOSTILE, 2, 1)),
    max_size=6,
)


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(["S1", "S7", "S9", "S22", "S17", "C8", "L8", "linearizability", HOSTILE]),
    st.lists(hostile_events, max_size=8),
    hostile_details,
)
def test_hostile_findings_are_drawn_or_left_as_text(
    invariant: str, told: list[Event], details: dict[str, Any]
) -> None:
    history = [Op(0, 1, HOSTILE, "invoke", "write", HOSTILE, key=HOSTILE, node="n1")]
    run = RunData(RunSpec(seed=1), History(history), events={"n1": tuple(told)}, voters=("n1",))
    found = anomaly(invariant, *told, details=details, ops=[0, HOSTILE], time_ns=3)
    html = render_run(run, result(system="invalid", anomalies=[found], results=[]))
    assert "<script>alert" not in html
    assert "<img" not in html
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]", html)


def test_pictures_of_a_report_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "DRAWN_MAX", 2)
    told = _Trace()
    seen = told("n1", 900, "flush", upto=4)
    found = [{**anomaly("S99", seen), "message": f"number {n}"} for n in range(5)]
    shown = build_model(told.run(), result(system="invalid", anomalies=found, results=[])).pictures
    assert sorted(shown) == [1, 2]


# --------------------------------------------------------------------------- in a browser

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", e => violations.push(e.violatedDirective));
"""

VISIBLE = """() => {
  const at = document.getElementById("node-2-l2").getBoundingClientRect();
  return at.height > 0 && at.top >= 0 && at.bottom <= innerHeight;
}"""


@pytest.mark.browser
@pytest.mark.skipif(shutil.which(CHROMIUM) is None, reason=f"no Chromium at {CHROMIUM}")
def test_pictures_are_painted_fit_a_phone_and_their_links_lead(tmp_path: Path) -> None:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    run, found = two_leaders()
    logs = {"n2": ("0.001000 INFO starts", "0.020000 INFO elected", *["0.9 filled"] * 60)}
    run = replace(run, output=logs)
    anomalies = [found, anomaly("linearizability", details=no_order())]
    path = tmp_path / "report.html"
    html = render_run(run, result(system="invalid", anomalies=anomalies, results=[]))
    path.write_text(html, encoding="utf-8")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for scheme, colour in (("light", "rgb(255, 255, 255)"), ("dark", "rgb(20, 23, 27)")):
            options = {"color_scheme": scheme, "viewport": {"width": 360, "height": 800}}
            page = browser.new_page(**options)
            complaints: list[str] = []
            page.on("console", lambda message, to=complaints: to.append(message.text))
            page.on("pageerror", lambda error, to=complaints: to.append(str(error)))
            page.add_init_script(WATCH)
            page.goto(path.as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= 360
            figure = page.locator("figure.picture.two-leaders")
            assert figure.evaluate("e => getComputedStyle(e).backgroundColor") == colour
            bars = figure.locator("svg.bar.marked rect")
            assert bars.count() == 2
            assert bars.first.bounding_box()["width"] > 20
            labels = figure.locator("svg.bar div")
            ends = "e => [...e.map(e => getComputedStyle(e).textOverflow)]"
            assert set(labels.evaluate_all(ends)) == {"ellipsis"}  # no word is cut in two
            figure.locator("svg.mark a, a:has(svg.mark)").first.click()
            page.wait_for_function("location.hash === '#a1-n4'")  # the first lane's: n1 wins
            page.locator("#node-2").evaluate("e => { e.open = false; }")
            figure.locator("svg.lanes a[href='#node-2']").click()
            assert page.locator("#node-2").get_attribute("open") is not None
            page.locator("#node-2").evaluate("e => { e.open = false; }")
            figure.locator("a.to-log[href='#node-2-l2']").first.click()
            line = page.locator("#node-2-l2")
            assert line.inner_text() == "20.020000 INFO elected"  # its number, and what it says
            page.wait_for_function(VISIBLE)
            assert page.evaluate("window.violations") == []
            assert complaints == []
            page.close()
        browser.close()
