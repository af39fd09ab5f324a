"""The run report as text: verdict, content, escaping, stability; scripts need a browser."""

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from markupsafe import escape

from harness import catalogue
from harness.contracts.checker import RunData
from harness.contracts.nemesis import Fault
from harness.history.ops import NEMESIS, History, Op
from harness.processes.command import Program
from harness.run.judge import judge
from harness.spec import RunSpec
from harness.store.folder import RunDir, Store
from harness.store.origin import Origin
from reports import cluster, faults, op_table, ops, text
from reports.build import build_model
from reports.html import embed
from reports.run_report import render_run
from tests.support.places import ROOT
from tests.support.reports.blocks import data_of, ops_of
from tests.support.reports.runs import (
    HOSTILE,
    MS,
    VALID_RESULT,
    S,
    broken_result,
    empty_run,
    hostile_result,
    hostile_run,
    make_run,
    result,
    with_known,
)


class _Page(HTMLParser):
    """Tags, texts of style and script, and all other text of a page."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.code: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open.append(tag)

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] in ("script", "style"):
            self.code.append((self._open[-1], data))
            self._open.append("")
        else:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.tags)

    def headline(self) -> str:
        return self.text.partition("replay the recorded")[0]


def page(run: RunData, results: dict[str, Any]) -> _Page:
    return _Page(render_run(run, results))


# --------------------------------------------------------------------------- the verdict


def headline(run: RunData, results: dict[str, Any]) -> str:
    shown = build_model(run, results).headline
    return f"{shown.label}: {shown.sentence}"


def test_invalid_names_invariant_node_and_time() -> None:
    run = make_run(ops=400, faults=2)
    results = broken_result(run)
    at = results["anomalies"][0]["time_ns"] / 1e9
    title = "n2 granted its vote in epoch 4 to n1, and after its restart to n3"
    assert headline(run, results) == f"INVALID: {title}, at {at:.1f} s (S3); 1 more anomaly"
    assert "granted its vote in epoch 4" in page(run, results).headline()


def test_valid_counts_what_was_done() -> None:
    run = make_run(ops=400, faults=3)
    count = len(run.history.intervals())
    assert headline(run, VALID_RESULT) == f"VALID: {count:,} ops, 3 faults, no anomaly"


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        (result(coverage="unknown"), "UNKNOWN (coverage): clock-jump was never installed"),
        (
            result(coverage={"valid": "unknown", "reasons": ["too few ops", "no kill"]}),
            "UNKNOWN (coverage): too few ops (and 1 more)",
        ),
        (result(coverage="unknown", coverage_reasons=["no kill"]), "UNKNOWN (coverage): no kill"),
        (result(harness="invalid", harness_error="disk full"), "HARNESS ERROR: disk full"),
        (result(harness=False), "HARNESS ERROR: the harness did not finish its work"),
        (result(harness=True), "VALID: "),
        (result(system="unknown", results=[]), "UNKNOWN: no checker came to a verdict"),
        ({}, "UNKNOWN: the results say nothing about: system"),
        (result(system="invalid", harness="invalid"), "INVALID: a promise was broken"),
        (result(system="nonsense"), "UNKNOWN: "),
    ],
)
def test_every_other_verdict_says_why(results: dict[str, Any], expected: str) -> None:
    assert headline(make_run(ops=100, faults=4), results).startswith(expected)


def test_unknown_of_a_checker_gives_its_reason() -> None:
    checker = {"checker": "linearizable", "valid": "unknown", "reason": "budget of 60 s spent"}
    results = result(system="unknown", results=[checker])
    assert headline(empty_run(), results) == "UNKNOWN: linearizable: budget of 60 s spent"


def test_a_missing_axis_is_never_green() -> None:
    for axis in ("system", "coverage", "harness"):
        results = {k: v for k, v in VALID_RESULT.items() if k != axis}
        assert headline(make_run(ops=100, faults=1), results).startswith("UNKNOWN")


# --------------------------------------------------------------------------- the content


def placed(tmp_path: Path, spec: RunSpec) -> RunDir:
    """A stored run with these options."""
    return Store(tmp_path).new_run(spec)


def test_commands_bring_the_run_back(tmp_path: Path) -> None:
    spec = RunSpec(seed=9, nemeses=("kill",), mutant="vote-lost", settings={"a.b": "x y"})
    place = placed(tmp_path, spec)
    run = replace(empty_run(), spec=spec)
    lines = [c.line for c in build_model(run, {}, place, Program(("/b/krucible",))).commands]
    options = (
        "--seed 9 --system kraft --env local --voters 3 --observers 2 --workload register "
        "--nemesis kill --time-limit 30 --rate 100 --concurrency 10 --mutant vote-lost "
        "--set 'a.b=x y'"
    )
    assert lines == [
        f"/b/krucible repro {place.id} --store {tmp_path}",
        f"/b/krucible run {options} --store {tmp_path}",
    ]
    assert [c.line for c in build_model(run, {}).commands] == [f"krucible run {options}"]


def test_a_run_on_hosts_is_run_again_on_the_same_hosts(tmp_path: Path) -> None:
    spec = RunSpec(seed=9, env="ssh")
    place = Store(tmp_path).new_run(spec, Origin("run", hosts="/my/hosts"))
    commands = build_model(replace(empty_run(), spec=spec), {}, place).commands
    assert commands[-1].line.endswith(f" --hosts /my/hosts --store {tmp_path}")


@pytest.mark.parametrize(
    ("env", "what"), [("sim", "krucible shrink {}"), ("local", "krucible repro {} --times 10")]
)
def test_a_failure_has_the_command_that_comes_next(env: str, what: str, tmp_path: Path) -> None:
    run = replace(empty_run(), spec=replace(empty_run().spec, env=env))
    place = placed(tmp_path, run.spec)
    named = " ".join(place.words)
    failed = [c.line for c in build_model(run, {"system": "invalid"}, place).commands]
    assert failed[:2] == [f"krucible repro {named}", what.format(named)]
    valid = [c.line for c in build_model(run, {"system": "valid"}, place).commands]
    assert what.format(named) not in valid


def test_text_part_needs_no_script() -> None:
    run = make_run(ops=600, faults=5)
    shown = page(run, broken_result(run)).text
    for expected in (
        "linearizable writes",
        "S1 epochs 14",
        "clock-jump",
        "the environment cannot set a clock",
        "no quiet window after the heal",
        "ERROR lost the leader",
        "NOT_CONTROLLER",
        "time_limit_s",
        "3.11.9",
        "1 installed of 1; 1 healed",
    ):
        assert expected in shown


def test_anomaly_shows_both_halves_of_its_ops_and_links_to_them() -> None:
    run = make_run(ops=300, faults=1)
    spans = run.history.intervals()
    wanted = spans[10].invocation.index
    anomaly = {"invariant": "S34", "message": "stale", "ops": [wanted, 10**9, "x"], "time_ns": None}
    model = build_model(run, result(system="invalid", results=[], anomalies=[anomaly]))
    (shown,) = model.anomalies
    assert [row.type for row in shown.ops] == ["invoke", spans[10].outcome]
    assert shown.start_ns == spans[10].invocation.time_ns
    assert f'data-op="{wanted}"' in render_run(
        run, result(system="invalid", results=[], anomalies=[anomaly])
    )


def test_an_anomaly_in_both_lists_is_shown_once() -> None:
    run = make_run(ops=300, faults=1)
    assert [a.invariant for a in build_model(run, broken_result(run)).anomalies] == ["S3", "S34"]


def test_an_anomaly_of_two_checkers_is_shown_once_with_both() -> None:
    anomaly = {"invariant": "S1", "message": "two leaders in epoch 3", "time_ns": 5}
    both = [{"checker": name, "valid": "invalid", "anomalies": [anomaly]} for name in ("b", "a")]
    results = result(system="invalid", results=both, anomalies=[anomaly], anomalies_total=7)
    model = build_model(empty_run(), results)
    assert [(a.checker, a.title) for a in model.anomalies] == [("b, a", "election safety")]
    assert model.anomalies_left_out == 6
    assert model.headline.sentence.endswith("; 6 more anomalies")


def test_an_anomaly_says_what_was_promised_and_why_it_matters() -> None:
    run = make_run(ops=300, faults=1)
    model = build_model(run, broken_result(run))
    page = render_run(run, broken_result(run))
    for anomaly in model.anomalies:
        meaning = catalogue.entry(anomaly.invariant).meaning
        assert (anomaly.promise, anomaly.why) == (meaning.promise, meaning.why)
        assert f"<dt>{anomaly.invariant} promises</dt><dd>{escape(meaning.promise)}</dd>" in page
        assert f"<dt>Why it matters</dt><dd>{escape(meaning.why)}</dd>" in page


def test_an_anomaly_of_an_invariant_that_is_not_known_says_nothing_of_it() -> None:
    anomaly = {"invariant": "X9", "message": "odd", "time_ns": 5}
    results = result(system="invalid", results=[], anomalies=[anomaly])
    (shown,) = build_model(empty_run(), results).anomalies
    assert (shown.title, shown.promise, shown.why) == ("", "", "")
    assert "X9 promises" not in render_run(empty_run(), results)


NONE = text.UNKNOWN


def known_cells(results: dict[str, Any]) -> list[str]:
    """The cells of the table of what is known."""
    html = render_run(empty_run(), results)
    (section,) = re.findall(r'<section id="known">.*?</section>', html, re.DOTALL)
    cells = re.findall(r"<td[^>]*>(.*?)</td>", section, re.DOTALL)
    return [unescape(re.sub("<[^>]*>", "", cell)) for cell in cells]


def test_what_the_system_is_known_to_do_is_told_by_checker() -> None:
    results = with_known(VALID_RESULT)
    assert known_cells(results) == [
        "election-safety",
        "L12 no spinning",
        "docs/kafka.md, a Fetch without end",
        "1,204",
        "n2 sent the same Fetch of epoch 3 over 1000 times in a second, from 3.1 s on",
        "show",
        "election-safety",
        "crash",
        "docs/findings.md, a removed voter's answeran anomaly all the same",
        "1",
        "n1 printed the sign of a crash, fatal error, in line 7: not a voter",
        "",
    ]
    told = page(empty_run(), results).text
    assert "The system did what it is known to do 1,205 times." in told
    assert "Known : 1,205 times" in told
    assert headline(empty_run(), results).startswith("VALID")


def test_results_of_an_older_version_tell_known_findings_without_a_checker() -> None:
    told = {"docs/kafka.md, a busy follower": 7}
    assert known_cells(result(known=told)) == [NONE, NONE, *told, "7", NONE, ""]
    assert 'id="known"' not in render_run(empty_run(), VALID_RESULT)


def test_a_finding_that_makes_a_run_invalid_is_in_the_verdict() -> None:
    told = "docs/findings.md, a removed voter's answer"
    ended = {
        "invariant": "crash",
        "message": "n1 printed the sign of a crash, fatal error, in line 7: no voter",
        "details": {"finding": told},
    }
    judged = {**VALID_RESULT["results"][0], "valid": "invalid", "anomalies": [ended]}
    results = result(system="invalid", results=[judged], anomalies=[ended])
    assert headline(empty_run(), results).endswith(f"(crash); known: {told}")
    other = {"invariant": "L8", "message": "n1 has ended"}
    more = headline(empty_run(), {**results, "anomalies": [ended, other]})
    assert more.endswith(f"n1 has ended (L8); 1 more anomaly; known of these: {told}")
    follows = {**other, "details": {"after": told}}
    all_known = headline(empty_run(), {**results, "anomalies": [follows, ended]})
    assert all_known.endswith(f"(crash); 1 more anomaly; known: {told}")
    text = page(empty_run(), with_known(results)).text
    assert f"The system is known to do this : {told}." in text


def test_warnings_of_the_store_are_told() -> None:
    assert build_model(empty_run(), result(warnings=["n1.jsonl:3: torn"])).notes == (
        "n1.jsonl:3: torn",
    )


def test_the_judges_own_json_is_understood() -> None:
    results = judge(make_run(ops=100, faults=0), []).to_json()
    assert headline(make_run(ops=100, faults=0), results) == (
        "UNKNOWN: no checker looked at the system"
    )
    broken = judge(empty_run(), [], harness_reason="RuntimeError: boom").to_json()
    assert headline(empty_run(), broken) == "HARNESS ERROR: RuntimeError: boom"


def test_long_lists_are_cut_and_say_so() -> None:
    run = make_run(ops=1000, faults=1)
    indices = [op.index for op in run.history]
    anomaly = {"invariant": "S1", "message": "m", "ops": indices, "events": [{"t": "x"}] * 90}
    many = result(
        system="invalid", results=[], anomalies=[{**anomaly, "message": str(n)} for n in range(250)]
    )
    model = build_model(run, many)
    assert (len(model.anomalies), model.anomalies_left_out) == (200, 50)
    assert "; 249 more anomalies" in model.headline.sentence
    assert model.anomalies[0].ops_left_out > 0
    assert model.anomalies[0].events_left_out == 50


def test_a_node_log_shows_its_tail_and_earlier_errors() -> None:
    run = make_run(ops=100, faults=1)
    node = build_model(run, VALID_RESULT).nodes[0]
    assert (node.lines, len(node.tail)) == (130, 40)
    assert node.alarms == ("10: 0009 ERROR lost the leader",)


@pytest.mark.parametrize("results", [VALID_RESULT, {}])
def test_empty_run(results: dict[str, Any]) -> None:
    shown = page(empty_run(), results).text
    assert "No client op was invoked" in shown
    assert "No fault was planned" in shown


def test_run_without_events_still_shows_ops_and_faults() -> None:
    run = replace(make_run(ops=200, faults=2), events={}, output={})
    source = render_run(run, VALID_RESULT)
    assert data_of(source)["ops"]["n"] > 150
    assert "The node wrote nothing to its log" in source


# --------------------------------------------------------------------------- hostile input


@pytest.fixture(scope="module")
def hostile() -> str:
    return render_run(hostile_run(), hostile_result())


def test_hostile_text_stays_text(hostile: str) -> None:
    found = _Page(hostile)
    assert found.count("script") == 4  # data, script, and a block of two streams
    assert found.count("img") == 0
    assert hostile.count("<script") == 4
    assert not [a for _, attrs in found.tags for a in attrs if a.startswith("on") or a == "style"]
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]", hostile)
    assert "\u241b[31m\u2400⟨U+202E⟩\ufffd&" in found.text  # shown, not dropped
    assert hostile.encode().decode() == hostile


def test_hostile_text_in_the_data_is_intact_json(hostile: str) -> None:
    data = data_of(hostile)
    assert any("</script>" in item for item in data["ops"]["texts"])
    assert "NaN" not in json.dumps(data)


def test_the_policy_allows_exactly_our_code(hostile: str) -> None:
    found = _Page(hostile)
    (policy,) = [
        attrs["content"]
        for tag, attrs in found.tags
        if tag == "meta" and attrs.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy is not None
    digests = [
        f"'sha256-{base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()}'"
        for kind, code in found.code
        if kind == "style" or code.startswith("(() =>")
    ]
    assert len(digests) == 2
    assert all(digest in policy for digest in digests)
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none'")


def test_nothing_is_loaded_from_anywhere(hostile: str) -> None:
    found = _Page(hostile)
    links = [a.get("href") or a.get("src") for _, a in found.tags if "href" in a or "src" in a]
    assert all(link is not None and link.startswith(("#", "data:,")) for link in links)
    assert not re.search(r"https?://|@import|url\(", "".join(code for _, code in found.code))


def test_malformed_history_is_drawn_and_told() -> None:
    rows = [(0, "invoke"), (0, "invoke"), (1, "ok")]
    history = History(Op(i, i * MS, p, t, "read") for i, (p, t) in enumerate(rows))  # type: ignore[arg-type]
    run = RunData(RunSpec(seed=1), history)
    assert build_model(run, VALID_RESULT).notes == (
        "op 1: process 0 invokes while its op 0 is open",
        "op 2: ok of process 1, never invoked",
    )
    drawn = [(op["start"], op["end"]) for op in ops_of(render_run(run, VALID_RESULT))]
    assert drawn == [(0, None), (1000, None), (2000, 2000)]


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("a\tb\nc", "a\tb\nc"),
        ("\x1b[2J", "\u241b[2J"),
        ("\x7f\x9b", "\u2421⟨U+009B⟩"),
        (b"\xff\xfeok", "\ufffd\ufffdok"),
        ("\udcff", "\ufffd"),
        ("a\u202eb\u2066", "a⟨U+202E⟩b⟨U+2066⟩"),
        ("line\u2028end", "line⟨U+2028⟩end"),
        (None, "None"),
    ],
)
def test_clean(raw: object, shown: str) -> None:
    assert text.clean(raw) == shown


def test_clean_bounds_what_it_shows() -> None:
    assert text.clean("x" * 50, limit=10) == "xxxxxxxxxx… (+40 characters)"


def test_plain_makes_json_of_anything() -> None:
    deep: Any = "bottom"
    for _ in range(100):
        deep = [deep]
    value = {2: float("nan"), "s": {3, 1}, "b": b"\xff", "deep": deep, "many": range(3)}
    value["long"] = list(range(1000))
    out = text.plain(value)
    json.dumps(out, allow_nan=False)
    assert (out["2"], out["s"], out["b"]) == ("nan", [1, 3], "\ufffd")
    assert out["long"][-1] == "… +800 items"


def test_embed_cannot_end_its_element() -> None:
    out = embed({"b": "</script><!--&\u2028", "a": 1})
    assert not set("<>&\u2028") & set(out)
    assert json.loads(out) == {"a": 1, "b": "</script><!--&\u2028"}
    assert out.startswith('{"a"')


# --------------------------------------------------------------------------- stability, size


def test_equal_input_gives_equal_bytes() -> None:
    first, second = make_run(ops=500), make_run(ops=500)
    turned = json.loads(json.dumps(broken_result(second)))
    turned = dict(reversed(turned.items()))
    shuffled = replace(second, events=dict(reversed(list(second.events.items()))))
    assert render_run(first, broken_result(first)) == render_run(shuffled, turned)


def test_bytes_do_not_depend_on_the_hash_seed() -> None:
    code = (
        "import hashlib; from tests.support.reports import runs as r;"
        "from reports.run_report import render_run;"
        "html = render_run(r.hostile_run(), r.hostile_result());"
        "print(hashlib.sha256(html.encode()).hexdigest())"
    )
    path = str(ROOT)
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path, "TZ": zone},
            capture_output=True,
            check=True,
        ).stdout
        for seed, zone in (("1", "UTC"), ("2", "Asia/Tokyo"))
    }
    assert len(digests) == 1


def test_size_stays_small() -> None:
    run = make_run(ops=5000)
    assert len(render_run(run, VALID_RESULT)) < 600_000


# --------------------------------------------------------------------------- the parts


def client(index: int, at: int, process: int, kind: Any, **more: Any) -> Op:
    return Op(index, at, process, kind, "read", **more)


def test_a_retired_process_leaves_its_lane_to_its_successor() -> None:
    history = [
        client(0, 0, 0, "invoke"),
        client(1, 0, 1, "invoke"),
        client(2, 10, 0, "info"),
        client(3, 12, 2, "invoke"),  # replaces 0
        client(4, 13, 4, "invoke"),  # wants the lane of 2, which is still at work
    ]
    table = op_table.read(history)
    lanes = op_table.lanes(table, 100, width=2)
    assert dict(zip(table.processes, lanes, strict=True)) == {0: 0, 1: 1, 2: 0, 4: 2}


def test_lanes_stay_few_whatever_the_processes_are_called() -> None:
    table = op_table.read([client(0, 0, 10**12, "invoke"), client(1, 0, -5, "invoke")])
    assert sorted(op_table.lanes(table, 1, width=10**9)) == [0, 1]


def test_percentiles_are_values_that_were_seen() -> None:
    assert ops.percentile([], 99) is None
    assert ops.percentile([5], 50) == 5
    assert ops.percentile(list(range(1, 101)), 99) == 99


def test_longest_gap() -> None:
    table = op_table.read([client(0, 1, 0, "invoke"), client(1, 10, 0, "ok")])
    assert op_table.longest_gap(table) == (1, 10)
    assert op_table.longest_gap(op_table.read([])) is None


def event(kind: str, at: Any, **fields: Any) -> dict[str, Any]:
    return {"t": kind, "rx_ns": at, "ep": fields.pop("ep", 1), "node": 1, **fields}


def test_the_longest_turn_of_a_node_is_what_it_told_of_the_longest() -> None:
    turns = [event("turn", at, ms=ms) for at, ms in ((1, 20.0), (2, 130.5), (3, "?"), (4, 110))]
    assert cluster.track("n1", turns, 10).longest_turn_ms == 130.5
    assert cluster.track("n1", [event("start", 1, leo=0)], 10).longest_turn_ms is None


def test_a_killed_node_holds_no_role_until_it_is_heard_again() -> None:
    track = cluster.track(
        "n1",
        [
            event("start", 1, leo=0),
            event("role", 2, to="leader", ep=3),
            event("hwm", 10, v=5),
            event("start", 50, leo=6),
            event("role", 60, to="follower", ep=4),
            event("stop", 70),
        ],
        100,
    )
    assert [(r.role, r.epoch, r.start_ns, r.end_ns) for r in track.roles] == [
        ("starting", 1, 1, 2),
        ("leader", 3, 2, 10),
        ("starting", 1, 50, 60),
        ("follower", 4, 60, 70),
    ]
    assert (track.starts, track.log_end, len(track.reigns)) == (2, 6, 1)


def test_events_without_arrival_are_counted_not_guessed() -> None:
    run = replace(empty_run(), events={"n1": (event("start", None), event("start", "x"))})
    assert build_model(run, {}).notes == ("n1: 2 events without a usable rx_ns, not drawn",)


def test_thinning_keeps_ends_and_falls() -> None:
    points = [(i, i) for i in range(10_000)]
    points[5003] = (5003, 1)
    thinned = cluster.thin(points, 100)
    assert len(thinned) < 120
    assert {points[0], points[5002], points[5003], points[-1]} <= set(thinned)


def nemesis(index: int, at: int, f: str, error: str | None = None, **value: Any) -> Op:
    return Op(index, at, NEMESIS, "info", f, {"id": 3, "nemesis": "kill", **value}, error=error)


def test_a_fault_from_plan_to_heal() -> None:
    (view,) = faults.fault_views(
        [Fault(3, "kill", 1000, 500, {"targets": "leader"})],
        [
            nemesis(0, 10, "inject"),
            nemesis(1, 20, "inject", outcome="installed", targets=["n1"], evidence=[{"pid": 4}]),
            nemesis(2, 50, "heal"),
            nemesis(3, 55, "heal", error="timeout"),
            nemesis(4, 60, "heal"),
            nemesis(5, 70, "heal", evidence={"state": "S"}),
        ],
    )
    assert (view.begin_ns, view.installed_ns, view.heal_begin_ns, view.healed_ns) == (
        10,
        20,
        50,
        70,
    )
    assert (view.planned_ms, view.targets, view.outcome) == (1000, ("n1",), "installed")
    assert (view.evidence, view.heal_evidence) == (("pid 4",), ("state S",))
    assert view.heal_outcome == "after 1 failed tries"


def test_a_fault_that_was_never_healed_lasts_to_the_end() -> None:
    injected = [nemesis(0, 10_000, "inject"), nemesis(1, 20_000, "inject", outcome="installed")]
    views = faults.fault_views([], [*injected, nemesis(2, 30_000, "heal", error="no route")])
    assert views[0].heal_outcome == "no route"
    (band,) = faults.timeline(views, 9 * S)
    assert (band["t0"], band["t1"], band["healed"]) == (10, 9_000_000, False)


@pytest.mark.parametrize(
    ("injects", "outcome", "reason"),
    [
        ([], "planned", ""),
        ([nemesis(0, 1, "inject")], "begun", ""),
        ([nemesis(0, 1, "inject"), nemesis(1, 2, "inject", error="boom")], "failed", "boom"),
        ([nemesis(0, 1, "inject", outcome="skipped", reason="no root")], "skipped", "no root"),
    ],
)
def test_faults_that_did_not_take_hold(injects: list[Op], outcome: str, reason: str) -> None:
    (view,) = faults.fault_views([Fault(3, "kill", 0, 1)], injects)
    assert (view.outcome, view.reason, view.installed_ns) == (outcome, reason, None)


def test_hostile_constant_is_hostile() -> None:
    assert "</script>" in HOSTILE
    assert "\x1b" in HOSTILE


def test_anomalies_of_one_invariant_are_folded_after_the_first_few() -> None:
    run = make_run(seed=1)
    result = broken_result(run)
    first = result["anomalies"][0]
    many = [{**first, "message": f"again {n}"} for n in range(12)]
    other = {**first, "invariant": "S1", "message": "two leaders"}
    result = {**result, "anomalies": [*many, other], "results": []}
    model = build_model(run, result)
    groups = [(g.invariant, len(g.shown), len(g.folded)) for g in model.anomaly_groups]
    assert groups == [(first["invariant"], 3, 9), ("S1", 1, 0)]
    page = render_run(run, result)
    assert f"9 more of {first['invariant']}" in page
    assert page.count('class="anomaly"') == 13
