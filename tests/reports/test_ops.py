"""Ops on their way into the page: columns and back, counts, stored runs, what nemeses came to."""

from __future__ import annotations

import base64
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.contracts.nemesis import Fault
from harness.errors import HistoryFormatError, UsageError
from harness.history.ops import History, Op
from harness.store.folder import RunDir
from harness.store.reading import EventsFile, OpsFile, load_run
from krucible.stores import run_at
from reports import cluster, columns, faults, nemesis_table, op_table, overview, source
from reports.op_table import OpTable
from reports.run_report import render_run, render_stored
from reports.text import compact
from tests.support.reports import big_run
from tests.support.reports.blocks import data_of, ops_of, unpack
from tests.support.reports.runs import MS, VALID_RESULT, empty_run, make_run

KINDS = ("ok", "fail", "info")
VALUES = st.none() | st.integers(-3, 2**60) | st.text(max_size=3) | st.lists(st.integers(0, 9))
STEPS = st.tuples(st.integers(0, 3), st.integers(0, 10**13), st.sampled_from(KINDS), VALUES)


def history_of(steps: list[tuple[int, int, str, Any]]) -> History:
    """Each step is the next move of a client: it invokes when idle, else completes so."""
    ops: list[Op] = []
    open_: set[int] = set()
    now = 0
    for process, wait, outcome, value in steps:
        now += wait
        busy = process in open_
        (open_.remove if busy else open_.add)(process)
        error = "no" if busy and outcome != "ok" else None
        kind = outcome if busy else "invoke"
        more = {"value": value, "key": f"k{process}", "error": error, "node": f"n{process}"}
        ops.append(Op(len(ops), now, process, kind, "write", **more))  # type: ignore[arg-type]
    return History(ops)


def shown(value: Any) -> str:
    return "" if value is None else compact(value, limit=200)


@given(st.lists(STEPS, max_size=40))
@settings(max_examples=60, deadline=None)
def test_the_page_holds_every_op_exactly(steps: list[tuple[int, int, str, Any]]) -> None:
    history = history_of(steps)
    found = ops_of(render_run(replace(empty_run(), history=history), VALID_RESULT))
    wanted = [
        {
            "index": one.invocation.index,
            "ended": one.completion.index if one.completion else None,
            "start": one.invocation.time_ns // 1000,
            "end": one.completion.time_ns // 1000 if one.completion else None,
            "outcome": one.outcome,
            "process": str(one.invocation.process),
            "f": "write",
            "key": one.invocation.key,
            "node": one.invocation.node,
            "error": (one.completion.error if one.completion else None) or "",
            "value": shown(one.invocation.value),
            "result": shown(one.completion.value) if one.completion else "",
        }
        for one in history.intervals()
    ]
    assert found == wanted


def test_blocks_follow_one_another() -> None:
    table = op_table.read(make_run(ops=400).history)
    blocks = columns.blocks(table, rows=100)
    assert sum(block.rows for block in blocks) == len(table)
    starts: list[int] = []
    for block in blocks:
        data = zlib.decompress(base64.b64decode(block.columns), -zlib.MAX_WBITS)
        for step in unpack(data, block.rows, list(block.planes))[0]:
            starts.append((starts[-1] if starts else 0) + step)
    assert starts == [at // 1000 for at in table.start]


@pytest.mark.parametrize("values", [[], [0, 0], [255, 256, 65_535, 2**52]])
def test_planes_are_as_many_as_the_largest_value_needs(values: list[int]) -> None:
    count, data = columns.pack(values)
    assert count == (max(values, default=0).bit_length() + 7) // 8
    assert unpack(data, len(values), [count]) == [values]


def test_ops_out_of_order_are_sorted() -> None:
    history = [Op(0, 9 * MS, 0, "invoke", "read"), Op(1, 2 * MS, 1, "invoke", "read")]
    assert list(op_table.read(history).index) == [1, 0]


def test_wanted_ops_stay_whole_by_either_half() -> None:
    history = make_run(ops=100).history
    spans = history.intervals()
    wanted = [spans[3].invocation.index, spans[5].completion.index]  # type: ignore[union-attr]
    kept = op_table.read(history, wanted).wanted
    assert [span.invocation for span in kept] == [spans[3].invocation, spans[5].invocation]


def test_values_that_are_too_many_are_cut_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(op_table, "LONG_VALUES_CHARS_MAX", 100)
    values = op_table.Values()
    first, second = values("x" * 150), values("y" * 150)
    assert len(values.texts[first >> 2]) == 152
    assert values.texts[second >> 2] == '"' + "y" * 39 + "… (+112 characters)"


# --------------------------------------------------------------------------- counts


def counts(of: dict[str, Any], name: str, rows: int) -> list[int]:
    planes, text = of[name]
    return unpack(zlib.decompress(base64.b64decode(text), -zlib.MAX_WBITS), rows, [planes])[0]


def test_the_overview_counts_every_op_once() -> None:
    table = op_table.read(make_run(ops=500).history)
    end_us = 10_000_000
    lanes = op_table.lanes(table, end_us * 1000, width=10)
    latency = overview.latency_range(table)
    found = overview.overview(table, lanes, end_us, latency)
    bins, height = found["bins"], max(lanes) + 1
    clients = counts(found, "lanes", height * 3 * bins)
    ended = sum(end != op_table.OPEN for end in table.end)
    assert sum(clients) == len(table)
    for outcome in range(3):
        by = sum(
            sum(clients[(lane * 3 + outcome) * bins : (lane * 3 + outcome + 1) * bins])
            for lane in range(height)
        )
        assert by == table.outcome.count(outcome)
    assert sum(counts(found, "cloud", 3 * 64 * bins)) == ended
    assert sum(counts(found, "rate", 3 * (end_us // overview.rate_step(end_us) + 1))) == ended


def test_only_big_runs_have_an_overview(monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(ops=300)
    assert data_of(render_run(run, VALID_RESULT))["ops"]["overview"] is None
    monkeypatch.setattr(overview, "FROM_OPS", 100)
    assert data_of(render_run(run, VALID_RESULT))["ops"]["overview"]["bins"] == overview.BINS


@pytest.mark.parametrize(
    ("latencies_us", "decades"),
    [([], (1, 10)), ([0], (1, 10)), ([5, 80], (1, 100)), ([100, 1000], (100, 1000))],
)
def test_the_latency_scale_has_whole_decades(
    latencies_us: list[int], decades: tuple[int, int]
) -> None:
    table = OpTable()
    for us in latencies_us:
        table.start.append(0)
        table.end.append(us * 1000)
    assert overview.latency_range(table) == decades


@pytest.mark.parametrize(
    ("end_us", "step"), [(0, 100_000), (6_553_699_999, 100_000), (10**10, 10**6)]
)
def test_rate_bins_stay_few(end_us: int, step: int) -> None:
    assert overview.rate_step(end_us) == step


# --------------------------------------------------------------------------- from the store


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    return big_run.make(tmp_path_factory.mktemp("big"), ops=1500)


def test_a_stored_run_gives_the_page_of_one_in_memory(big: RunDir) -> None:
    stored = load_run(big.path)
    assert stored.results is not None
    assert stored.warnings == ()
    assert render_stored(big.path) == render_run(stored.data, stored.results, big)


def test_the_page_states_its_size(big: RunDir) -> None:
    run = run_at(big.path)
    run.write_report()
    path = run.report
    assert f"one file of {path.stat().st_size:,} bytes" in path.read_text()


def test_an_unjudged_run_has_no_report(tmp_path: Path) -> None:
    run = big_run.make(tmp_path, ops=10)
    run.results.unlink()
    with pytest.raises(UsageError, match="was not judged yet"):
        render_stored(run.path)


def test_a_torn_last_line_is_no_op_and_a_bad_one_is_told(tmp_path: Path) -> None:
    run = big_run.make(tmp_path, ops=10)
    whole = len(list(OpsFile(run.history)))
    with run.history.open("ab") as file:
        file.write(b'{"time_ns":1,"process":0,"type":"inv')
    assert len(list(OpsFile(run.history))) == whole
    with run.history.open("ab") as file:
        file.write(b"\n")
    with pytest.raises(HistoryFormatError, match=rf"history.jsonl:{whole + 1}: not an op"):
        list(OpsFile(run.history))


def test_a_line_in_no_good_order_is_read_as_the_harness_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text('{"time":7,"process":1,"type":"ok","f":"read","key":5}\n')
    assert [*OpsFile(path)] == [Op(0, 7, 1, "ok", "read", key="5")]


def test_a_track_needs_few_of_the_events(big: RunDir) -> None:
    file = EventsFile(big.events("n2"))
    everything, telling = list(file), list(source.telling(file))
    assert len(telling) < len(everything) / 2
    assert cluster.track("n2", telling, 0) == cluster.track("n2", everything, 0)


def test_a_torn_event_stands_for_none_that_was_written(tmp_path: Path) -> None:
    lines = [b'{"rx_ns":1,"t":"start","ep":1}\n', b'{"rx_ns":9,"t":"fetch","ep":1}\n']
    path = tmp_path / "n1.jsonl"
    path.write_bytes(b"".join([*lines, b'{"rx_ns":12,"t":"fetch","e']))
    assert [event["rx_ns"] for event in source.telling(EventsFile(path))] == [1, 9]


def test_an_excerpt_has_rare_events_and_those_of_its_windows(big: RunDir) -> None:
    path = big.events("n1")
    found = list(source.Excerpt(EventsFile(path), [(500 * MS, 520 * MS)]))
    often = [event["rx_ns"] for event in found if event["t"] == "append"]
    assert often
    assert all(500 * MS <= at <= 520 * MS for at in often)
    rare = {"role", "start", "elected", "snap"}
    told = [event for event in EventsFile(path) if event["t"] in rare]
    assert [event for event in found if event["t"] in rare] == told


# --------------------------------------------------------------------------- snapshots


def test_a_track_has_its_snapshots_and_where_its_log_began() -> None:
    events = [
        {"t": "start", "rx_ns": 1, "ep": 0, "log_start": 0},
        {"t": "snap", "rx_ns": 5, "ep": 1, "op": "install", "id": [40, 1], "size": 9},
        {"t": "lstart", "rx_ns": 6, "ep": 1, "v": 40},
        {"t": "snap", "rx_ns": 9, "ep": 1, "op": "reject", "id": "odd"},
    ]
    track = cluster.track("n1", events, 10)
    assert [(s.op, s.time_ns, s.offset) for s in track.snapshots] == [
        ("install", 5, 40),
        ("reject", 9, None),
    ]
    assert track.log_starts == [(1, 0), (6, 40)]


# --------------------------------------------------------------------------- nemeses


def tried(id_: int, at: int, value: dict[str, Any], nemesis: str = "kill") -> list[Op]:
    about = {"id": id_, "nemesis": nemesis, "params": {"target": "leader"}, **value}
    return [
        Op(2 * id_, at, "nemesis", "info", "inject", {**about}),
        Op(2 * id_ + 1, at + 1, "nemesis", "info", "inject", {**about, **value}),
    ]


def installed(targets: list[str], leader: str | None) -> dict[str, Any]:
    evidence = [{"saw": "targets", "leader": leader}]
    return {"outcome": "installed", "targets": targets, "reason": None, "evidence": evidence}


def test_the_nemesis_table_says_what_became_of_each() -> None:
    planned = [Fault(i, "kill", i, 5, {"target": "leader"}) for i in range(6)]
    skip = {"outcome": "skipped", "targets": [], "reason": "no such node", "evidence": []}
    fail = {"outcome": "failed", "targets": ["n1"], "reason": "still alive", "evidence": []}
    ops = [
        *tried(0, 10, installed(["n1"], "n1")),
        Op(90, 20, "nemesis", "info", "heal", {"id": 0, "evidence": {"up": True}}),
        *tried(1, 30, installed(["n2", "n3"], "n1")),
        *tried(2, 40, skip),
        *tried(3, 50, skip),
        *tried(4, 60, fail),
    ]
    views = nemesis_table.placed(faults.fault_views(planned, ops), (), ("n1", "n2", "n3"))
    (row,) = nemesis_table.rows(views)
    assert (row.planned, row.installed, row.skipped, row.failed, row.untried, row.healed) == (
        *(6, 2, 2, 1),
        *(1, 1),
    )
    assert row.reasons == ("no such node (2 times)", "still alive")
    assert row.aims == ("leader",)
    assert row.sizes == ("1 node: 1", "2 nodes: 1")
    assert row.leader == ("in: 1", "out: 1")
    assert row.quorum == ("kept: 1", "lost: 1")


def test_who_led_is_asked_of_the_nodes_when_the_nemesis_does_not_say() -> None:
    track = cluster.NodeTrack("n2", [cluster.RoleSpan("leader", 3, 0, 25)])
    views = faults.fault_views(
        [],
        [*tried(0, 20, installed(["n2"], None)), *tried(1, 30, installed(["n2"], None))],
    )
    placed = nemesis_table.placed(views, [track], ("n1", "n2", "n3"))
    assert [fault.leader_hit for fault in placed] == ["in", "unknown"]
