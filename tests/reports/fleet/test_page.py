"""The fleet report and ``krucible serve``: many runs on one page."""

from __future__ import annotations

import http.client
import json
import random
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from harness.errors import UsageError
from harness.spec import RunSpec
from harness.store.folder import RunDir, Store
from harness.store.server import StoreServer, inside
from harness.store.signatures import signature
from krucible.app import main
from krucible.commands.serve import _Front
from reports.fleet.model import FleetRun, build, percentile, read_fleet, verdict_of
from reports.fleet.page import render_fleet, write_fleet
from tests.support.reports.nights import CAUGHT, MISSED, growth, night, seeds, summary
from tests.support.reports.nights import broken as broken_seeds
from tests.support.reports.runs import HOSTILE

VALID = {"system": "valid", "coverage": "valid", "harness": "ok"}


def results(**more: Any) -> dict[str, Any]:
    """A judged run's results."""
    return {**VALID, "anomalies": [], "results": [], **more}


def broken(invariant: str, message: str, time_ns: int | None = 2_000_000_000) -> dict[str, Any]:
    """Results of a run that broke something."""
    anomaly = {"invariant": invariant, "message": message, "time_ns": time_ns}
    return results(system="invalid", anomalies=[anomaly])


def run(number: int, verdict: str = "valid", **more: Any) -> FleetRun:
    """A run, ten minutes after the one before it."""
    fields = {k: more.pop(k) for k in ("mutant", "seed", "env", "nemeses") if k in more}
    spec = RunSpec(**{"seed": number, "env": "local", **fields})
    path = f"kraft-register/2026-{number}"
    return FleetRun(path, 1_700_000_000.0 + 600 * number, spec, verdict, **more)


# --------------------------------------------------------------------------- signatures


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("n1 and n2 lead epoch 3", "n3 and n5 lead epoch 17"),
        ("key 'k1' is 7, not 9", "key 'k22' is 15, not 3"),
        ("offset 17 (n1 seq 5662) of 8ab44f0f1d577eca", "offset 2 (n4 seq 1) of 2d346d601c696823"),
        ("flushed: n1 567, n2 0", "flushed: n2 1, n3 9"),
        ("took 1.5 s", "took 20 s"),
        ("read of r0 (op 12) returned 3 before", "read of m4 (op 7) returned 5 before"),
        ("write o0=1 is committed", "write r12=7 is committed"),
        ("n1 voted twice in epoch 3: for n1", "n2 voted twice in epoch 14: for n3"),
        ("offsets 1-2 (crc 0badcafe)", "offsets 10-20 (crc 12345678)"),
        ("dir 4147b410020246b69e9315b8d969d066", "dir 2a554d359a094297b0c209ffaaf4669c"),
        (
            "6b748ddf-8a19-4cdf-8142-ae481af8ba6a came",
            "00bd9f61-98fe-4d11-a1c2-77f9d8f1c5aa came",
        ),
    ],
)
def test_what_differs_from_run_to_run_is_no_part_of_a_signature(one: str, other: str) -> None:
    """Nodes, numbers, ids and quoted values."""
    assert signature("S1", one) == signature("S1", other)
    assert signature("S1", one) != signature("S2", one)


def test_what_broke_is_part_of_a_signature() -> None:
    """Other words are another way to fail."""
    assert signature("S1", "n1 leads twice") != signature("S1", "n1 votes twice")
    assert signature("S1", "n1 leads") != signature("S1", "r1 leads")


# --------------------------------------------------------------------------- counting


@pytest.mark.parametrize(
    ("axes", "word"),
    [
        ({}, "valid"),
        ({"system": "invalid", "harness": "broken"}, "invalid"),
        ({"coverage": "unknown", "harness": "broken"}, "broken"),
        ({"coverage": "unknown"}, "unknown"),
        ({"system": "unknown"}, "unknown"),
    ],
)
def test_the_worst_axis_is_a_runs_word(axes: dict[str, str], word: str) -> None:
    """As its exit code."""
    assert verdict_of({**VALID, **axes}) == word


def test_ways_to_fail_have_their_first_and_last_run() -> None:
    """Most runs first; seeded bugs last, and only when no healthy node did the same."""
    runs = [
        run(1, "invalid", anomalies=(("S1", "n1 and n2"),), detected_s=1.0),
        run(2, "invalid", anomalies=(("S1", "n3 and n2"),), detected_s=3.0),
        run(3, "invalid", anomalies=(("S2", "voted twice"),), mutant="forgotten-vote"),
        run(4, "invalid", anomalies=(("S3", "once"),)),
    ]
    ways = build(runs).ways
    assert [(w.invariant, w.runs, w.mutants) for w in ways] == [
        ("S1", 2, ()),
        ("S3", 1, ()),
        ("S2", 1, ("forgotten-vote",)),
    ]
    assert (ways[0].first, ways[0].last, ways[0].detected_s) == (runs[0], runs[1], 1.0)


def test_what_systems_are_known_to_do_is_counted_over_all_runs() -> None:
    loop, busy = "docs/kafka.md, a Fetch without end", "docs/kafka.md, a busy follower"
    runs = [run(1, known={loop: 5}), run(2, known={busy: 1, loop: 2}), run(3)]
    fleet = build(runs)
    assert [(k.finding, k.runs, k.times, k.last) for k in fleet.known] == [
        (loop, 2, 7, runs[1]),
        (busy, 1, 1, runs[1]),
    ]
    assert loop in render_fleet(fleet)
    assert 'id="known"' not in render_fleet(build([run(4)]))


def test_keys_are_no_part_of_a_way_to_fail() -> None:
    """A run fails in the way of what it broke first; what it broke then is told below."""
    lost = "read of {} (op {}) returned {} before that was committed"
    runs = [
        run(n, "invalid", anomalies=(("S34", lost.format(key, n, n)), ("C8", "no state")))
        if n % 2
        else run(n, "invalid", anomalies=(("S34", lost.format(key, n, n)),))
        for n, key in enumerate(["r0", "m0", "o0", "r17"])
    ]
    (way,) = build(runs).ways
    assert (way.runs, way.also) == (4, (("C8: no state", 2),))


def test_a_way_to_fail_is_told_without_the_numbers_of_events() -> None:
    told = "n2 voted twice in epoch 3: for n1 (n2 seq 4) and for n3 (n2 seq 9)"
    page = render_fleet(build([run(1, "invalid", anomalies=(("S2", told),))]))
    assert "n2 voted twice in epoch 3: for n1 and for n3" in page
    assert "seq 4" not in page


def test_runs_that_say_nothing_have_not_missed_a_seeded_bug() -> None:
    """Cut short, never started, in doubt: they are no tries."""
    verdicts = ("invalid", "valid", "broken", "unjudged", "unknown")
    runs = [run(n, verdict, mutant="m") for n, verdict in enumerate(verdicts)]
    (rate,) = build(runs).zoo
    assert (rate.hits, rate.of, rate.left_out) == (1, 2, 3)
    (none,) = build(runs[2:]).zoo
    assert (none.of, none.interval) == (0, None)
    assert "not tried" in render_fleet(build(runs[2:]))


def test_seeded_bugs_have_a_rate_with_its_interval() -> None:
    """k of N, and when they were found."""
    runs = [run(n, "invalid", mutant="m", detected_s=float(n)) for n in range(1, 4)]
    (rate,) = build([*runs, run(9, "valid", mutant="m"), run(10)]).zoo
    assert (rate.name, rate.hits, rate.of, rate.typical_s) == ("m", 3, 4, 2.0)
    assert rate.interval is not None
    assert 0.2 < rate.interval[0] < 0.75 < rate.interval[1] < 1


def test_recoveries_are_those_of_sound_nodes() -> None:
    """By kind of fault; a heal after which nothing worked is counted apart."""
    runs = [
        run(1, recoveries=(("kill", 10.0), ("kill", None), ("pause", 5.0))),
        run(2, recoveries=(("kill", 30.0),)),
        run(3, recoveries=(("kill", 999.0),), mutant="m"),
    ]
    found = build(runs).recoveries
    assert [(r.nemesis, r.heals, r.never, r.p50_ms, r.max_ms) for r in found] == [
        ("kill", 3, 1, 10.0, 30.0),
        ("pause", 1, 0, 5.0, 5.0),
    ]


def test_a_flaky_seed_is_the_same_run_with_another_end() -> None:
    """Same options, same seed; anything else is another run."""
    runs = [run(1, seed=7), run(2, "invalid", seed=7), run(3, "invalid", seed=7, env="sim")]
    (flaky,) = build(runs).flaky
    assert (flaky.seed, dict(flaky.verdicts), flaky.run) == (7, {"valid": 1, "invalid": 1}, runs[1])


@pytest.mark.parametrize("days", [0.01, 1, 40, 4000])
def test_bars_hold_every_run_and_are_not_too_many(days: float) -> None:
    """However long the store was in use."""
    rng = random.Random(1)
    base = run(1)
    runs = [replace(base, started_s=1e9 + rng.random() * days * 86_400) for _ in range(200)]
    buckets = build(runs).buckets
    assert sum(sum(bucket.counts.values()) for bucket in buckets) == 200
    assert len(buckets) <= 25


def test_percentiles_are_values_that_were_seen() -> None:
    """Nearest rank."""
    values = [5.0, 1.0, 3.0, 2.0, 4.0]
    assert [percentile(values, p) for p in (1, 50, 95, 100)] == [1.0, 3.0, 5.0, 5.0]
    assert percentile([], 50) is None


def test_the_order_in_which_runs_are_read_does_not_matter() -> None:
    """Equal fleets, equal bytes."""
    runs = [run(n, "invalid" if n % 3 else "valid", anomalies=(("S1", "x"),)) for n in range(20)]
    shuffled = list(runs)
    random.Random(2).shuffle(shuffled)
    assert render_fleet(build(runs)) == render_fleet(build(shuffled))


# --------------------------------------------------------------------------- reading a store


def stored(store: Store, seed: int, found: dict[str, Any] | None) -> RunDir:
    """A run of a store."""
    run_dir = store.new_run(RunSpec(seed=seed))
    if found is not None:
        run_dir.write_results(found)
        run_dir.report.write_text(f"<p>report of {seed}</p>")
    return run_dir


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Four runs: valid, invalid, not judged, damaged."""
    where = Store(tmp_path / "store")
    stored(where, 1, results())
    stored(where, 2, broken("S1", "n1 and n2 lead epoch 3"))
    stored(where, 3, None)
    stored(where, 4, results()).results.write_bytes(b'{"system": "val')
    return where


def test_a_run_that_cannot_be_read_costs_no_other(store: Store) -> None:
    """It is named, with the reason."""
    fleet = read_fleet(store.root)
    assert dict(fleet.counts) == {"valid": 1, "invalid": 1, "unjudged": 1}
    (line,) = fleet.unreadable
    assert line.startswith("kraft-register/")
    assert "-4-" in line
    page = render_fleet(fleet)
    assert "What could not be read" in page
    assert "n1 and n2 lead epoch 3" in page


@pytest.mark.parametrize(
    ("file", "text", "reason"),
    [
        ("spec.json", "[]", "not the spec of a run: want an object"),
        ("spec.json", '{"seed": ', "not the spec of a run"),
        ("results.json", "[]", "results.json: no object"),
        ("results.json", "{}", "KeyError('anomalies')"),
        (
            "results.json",
            '{"anomalies": [], "results": [{"checker": "stats", "stats": null}]}',
            "AttributeError",
        ),
    ],
)
def test_the_reason_why_a_run_cannot_be_read_is_told(
    tmp_path: Path, file: str, text: str, reason: str
) -> None:
    where = Store(tmp_path / "store")
    (stored(where, 1, results()).path / file).write_text(text)
    stored(where, 2, None).spec.unlink()  # no run any more, and nothing to tell
    (line,) = read_fleet(where.root).unreadable
    assert reason in line


def test_the_page_links_to_the_runs_from_where_it_lies(store: Store, tmp_path: Path) -> None:
    """Relative links, so that a store can be moved or served."""
    for page in (write_fleet(store.root), write_fleet(store.root, tmp_path / "fleet.html")):
        links = re.findall(r'href="([^"#]*report\.html)"', page.read_text(encoding="utf-8"))
        assert links
        reports = {(page.parent / link).resolve() for link in links}
        assert reports == {r.report for r in store.runs() if r.seed == 2}


def test_report_of_a_store_is_the_fleets(store: Store, capfd: pytest.CaptureFixture[str]) -> None:
    """``krucible report STORE``."""
    with pytest.raises(SystemExit) as left:
        main(["report", str(store.root)])
    assert left.value.code == 0
    page = Path(capfd.readouterr().out.strip())
    assert page == store.root / "fleet.html"
    assert "1 of 3 runs is invalid, in 1 way." in page.read_text(encoding="utf-8")


def test_hostile_text_stays_text() -> None:
    """In every field that a run can fill."""
    spec = {"mutant": HOSTILE, "nemeses": (HOSTILE,)}
    runs = [
        run(1, "invalid", anomalies=((HOSTILE, HOSTILE),), recoveries=((HOSTILE, 1.0),), **spec),
        run(2, "unknown", doubt=HOSTILE, recoveries=((HOSTILE, 1.0),)),
    ]
    page = render_fleet(build(runs, unreadable=[HOSTILE]))
    body = page.split("<body>")[1]
    assert len(re.findall(r"<script", body)) == 2
    assert "<img" not in body
    assert "\x00" not in page


def head_of(page: str) -> str:
    """The page's header, without tags."""
    head = page.split("<body>")[1].split("</header>", maxsplit=1)[0]
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", head)).split())


FAILED = run(1, "invalid", anomalies=(("S1", "x"),))
SEEDED = run(1, "invalid", anomalies=(("S1", "x"),), mutant="x")
LATER = replace(FAILED, started_s=1.9e9, path="kraft-register/later")


@pytest.mark.parametrize(
    ("runs", "first"),
    [
        ([run(1)], "In the store: 1 run, 1 valid."),
        ([], "It checked 3 histories in 59 min."),
        ([SEEDED], "In the store: 1 run, 1 invalid with a seeded bug."),
        ([FAILED], "In the store: 1 run, 1 invalid."),
    ],
    ids=["all-valid", "nothing-stored", "seeded-bug", "one-invalid"],
)
def test_a_red_night_is_never_under_a_green_sentence(runs: list[FleetRun], first: str) -> None:
    """What it was red for may have left no run: a canary that was not caught is none."""
    page = render_fleet(build(runs, [night(*seeds(3), {**MISSED, "why": HOSTILE})]))
    head = head_of(page)
    assert "Last night: red. The seeded bug forgotten-vote was not caught." in head
    assert first in head
    assert "krucible zoo --only forgotten-vote --arm directed" in head
    assert 'page broken"' in page
    assert len(re.findall("<script", page.split("<body>")[1])) == 2


def test_a_red_night_says_what_failed_first_and_how_to_see_it_again(store: Store) -> None:
    """Of the worst kind, the first; its run is linked also where the store has moved since."""
    stored_run = next(found for found in store.runs() if found.seed == 2)
    elsewhere = "/elsewhere/" + stored_run.path.relative_to(store.root).as_posix()
    lines = [
        *seeds(5, verdict="unknown", message="in doubt"),
        *broken_seeds(1, "n2 flushed nothing", entry="sim:m"),
        *broken_seeds(2, "n1 voted twice in epoch 3", entry="sim:disks", store=elsewhere),
        *broken_seeds(9, "n1 voted for nobody", entry="sim:disks"),
        CAUGHT,
    ]
    fleet = build(read_fleet(store.root).runs, [night(*lines)])
    page = render_fleet(fleet)
    head = head_of(page)
    assert "Last night: red. 11 of 15 histories are invalid, in 2 ways." in head
    assert "1 more run with a seeded bug failed, as it should." in head
    assert "What failed first: S3 n1 voted twice in epoch 3 In sim:disks, seed 1." in head
    assert "krucible repro " in head
    link = f'href="./{stored_run.path.relative_to(store.root)}/report.html">Read its report'
    assert link in page.split("</header>")[0]


def test_what_is_known_is_not_what_failed_first() -> None:
    known = broken_seeds(3, "n2 fetched too early", findings=["a page, a story"])
    lines = [*known, *broken_seeds(1, "n1 voted twice", entry="sim:disks"), CAUGHT]
    head = head_of(render_fleet(build([], [night(*lines)])))
    assert "4 of 4 histories are invalid, in 2 ways, 1 of them known." in head
    assert "What failed first: S3 n1 voted twice In sim:disks" in head
    head = head_of(render_fleet(build([], [night(*known, CAUGHT)])))
    assert "What failed first: S3 n2 fetched too early Known: a page, a story In" in head


def test_a_green_night_says_how_much_it_checked() -> None:
    """Valid seeds are not stored: a store without runs has had a good night."""
    some = seeds(40)
    page = render_fleet(build([], [night(*some, *seeds(11, entry="sim:disks"), CAUGHT)]))
    head = head_of(page)
    assert head == "krucible fleet report ✓ Last night: green. 51 histories, all valid, in 59 min."
    body = " ".join(unescape(re.sub(r"<[^>]+>", " ", page.split("<main>")[1])).split())
    assert "sim:swarm 40 40 0 0" in body
    assert "sim:disks 11 11 0 0" in body
    assert "✓ caught forgotten-vote, by S3 in 2 s" in body
    assert "2 of 46 things that the whole swarm should reach were reached" in body
    assert "that takes 300 seeds of the whole swarm, and the night had 40" in body
    assert "Not reached: role unattached->prospective" in body
    assert "Nothing was left out for lack of time." in body
    page = render_fleet(build([run(1)], [night(*some, CAUGHT)]))
    assert head_of(page).endswith("In the store: 1 run, 1 valid."), "no row of zeros"
    skipped = {"t": "skipped", "entry": "sim:m", "reason": "the budget was used up"}
    page = render_fleet(build([], [night(*some, skipped, CAUGHT)]))
    assert "sim:m: the budget was used up." in page


@pytest.mark.parametrize(
    ("runs", "tone", "first"),
    [
        ([FAILED], "valid", "Last night: green. 1 history, all valid, in 59 min."),
        ([LATER], "invalid", "1 of 1 run is invalid, in 1 way."),
        ([replace(SEEDED, started_s=1.9e9)], "valid", "Last night: green."),
    ],
    ids=["older", "newer", "seeded"],
)
def test_a_run_that_failed_after_a_green_night_comes_first(
    runs: list[FleetRun], tone: str, first: str
) -> None:
    """One that was there before is told below."""
    page = render_fleet(build(runs, [night(*seeds(1), CAUGHT)]))
    head = head_of(page)
    assert head.index(first) <= head.index("Last night: green.")
    assert f'page {tone}"' in page


@pytest.mark.parametrize(
    ("runs", "tone", "told"),
    [
        (
            [FAILED, run(2, "unknown"), run(3), replace(SEEDED, path="x/y")],
            "invalid",
            (
                "1 of 4 runs is invalid, in 1 way. 1 of 4 runs is in doubt. 1 more run with a"
                " seeded bug is invalid."
            ),
        ),
        (
            [run(1, "unknown"), run(2, "broken"), run(3, "unjudged")],
            "broken",
            (
                "1 of 3 runs could not be done: the harness broke. 1 of 3 runs is in doubt. 1 of 3"
                " runs was not judged: cut short, or still under way."
            ),
        ),
        (
            [SEEDED, run(2)],
            "valid",
            "All failures are runs with a seeded bug. 1 run with a seeded bug is invalid.",
        ),
        ([run(1), run(2)], "valid", "All 2 runs are valid."),
    ],
)
def test_a_store_without_nights_says_the_worst_first(
    runs: list[FleetRun], tone: str, told: str
) -> None:
    page = render_fleet(build(runs))
    assert told in head_of(page)
    assert f'page {tone}"' in page


def test_a_night_that_cannot_be_read_costs_no_other(store: Store) -> None:
    """It is named; one of an older krucible, which told less, is read."""
    older = summary(*seeds(2), CAUGHT)
    for key in ("headline", "budget_s", "coverage", "skipped", "not_tried"):
        del older[key]
    for name, data in (("1", "[]"), ("2", "{"), ("3", json.dumps(older))):
        folder = store.root / "nights" / name
        folder.mkdir(parents=True)
        (folder / "summary.json").write_text(data, encoding="utf-8")
    fleet = read_fleet(store.root)
    assert [each.path for each in fleet.nights] == ["nights/3"]
    assert [line.split(":")[0] for line in fleet.unreadable if "nights" in line] == [
        "nights/2/summary.json",
        "nights/1/summary.json",
    ]
    assert "Last night: green. 2 histories, all valid" in render_fleet(fleet)


def test_a_store_of_one_green_night_has_a_report(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """``krucible report STORE``, though no run was stored."""
    folder = tmp_path / "store" / "nights" / "1"
    folder.mkdir(parents=True)
    told = json.dumps(summary(*seeds(2), CAUGHT))
    (folder / "summary.json").write_text(told, encoding="utf-8")
    with pytest.raises(SystemExit) as left:
        main(["report", str(tmp_path / "store")])
    assert left.value.code == 0
    page = Path(capfd.readouterr().out.strip())
    assert "Last night: green. 2 histories, all valid" in page.read_text(encoding="utf-8")


def test_a_night_shows_what_it_reached_and_what_was_new() -> None:
    """The rarest premise first; features by the time of the night, in bars."""
    unmet = {"S24": [0, 0, 1201], "L9": [7, 7, 1201]}
    page = render_fleet(build([], [night(*growth(premises=unmet), *seeds(300), CAUGHT)]))
    body = " ".join(unescape(re.sub(r"<[^>]+>", " ", page.split("<main>")[1])).split())
    assert "The premise of S24 snapshot install never came true, and should have." in body
    assert "4 invariants, and how often the premise of each came true" in body
    rows = "S24 snapshot install never 1,201 0 C5 guarded AlterPartition 1 380 3 L9 few elections"
    assert rows in body
    assert "3,840 features of runs are known" in body
    assert "The last 12 min of work brought 195 of them" in body
    assert "first shown by sim:disks 1,724, sim:swarm 2,116." in body
    assert "after 1 h 59 min and 40 histories: 3,840 features, 92 of them new" in body
    page = render_fleet(build([], [night(*seeds(40), CAUGHT)]))
    assert "Saturation" not in page
    assert "something to judge" not in page


def test_a_night_tells_what_its_systems_are_known_to_do() -> None:
    told = "docs/kafka.md, a busy follower"
    other = "docs/kafka.md, a cut-off observer"
    lines = [*seeds(3, known={told: 2}), *seeds(1, first=7, known={other: 1, told: 5}), *seeds(2)]
    assert summary(*lines)["known"] == {told: [4, 11], other: [1, 1]}
    page = render_fleet(build([], [night(*lines, CAUGHT)]))
    assert f"<li>{told}: 11 times, in 4 histories.</li>" in page
    assert f"<li>{other}: 1 time, in 1 history.</li>" in page
    assert "known to do" not in render_fleet(build([], [night(*seeds(2), CAUGHT)]))


def test_a_premise_that_need_not_come_true_is_told_all_the_same() -> None:
    page = render_fleet(build([], [night(*growth(premises={"S24": [0, 0, 12]}), CAUGHT)]))
    assert "The premise of S24 snapshot install never came true.</p>" in page
    page = render_fleet(build([], [night(*growth(), CAUGHT)]))
    assert "Each of 2 invariants had something to judge." in page


def test_an_empty_store_has_a_page_too() -> None:
    """That says so."""
    assert "The store has no runs yet" in render_fleet(build([]))


# --------------------------------------------------------------------------- serving


@pytest.fixture
def served(store: Store) -> Iterator[StoreServer]:
    """The store behind a real server."""
    with StoreServer(store.root, 0, _Front(store.root).page) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def get(
    server: StoreServer, path: str, host: str | None = None, method: str = "GET"
) -> tuple[int, str, str]:
    """Status, content type and content."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", host or f"127.0.0.1:{server.server_port}")
    connection.endheaders()
    answer = connection.getresponse()
    content = answer.read().decode()
    connection.close()
    return answer.status, answer.getheader("Content-Type") or "", content


def test_a_store_is_served(served: StoreServer, store: Store) -> None:
    """The fleet page, reports, folders and raw files, never as anything that could run."""
    status, kind, page = get(served, "/")
    assert (status, kind) == (200, "text/html; charset=utf-8")
    link = re.search(r'href="\./(kraft-register/[^"]*-2-[^"]*/report\.html)"', page)
    assert link is not None
    assert get(served, f"/{link[1]}")[2] == "<p>report of 2</p>"
    run_dir = next(r for r in store.runs() if r.seed == 2)
    base = f"/{run_dir.path.relative_to(store.root)}"
    assert 'results.json">' in get(served, f"{base}/")[2]
    status, kind, _ = get(served, f"{base}/results.json")
    assert (status, kind) == (200, "text/plain; charset=utf-8")
    assert get(served, f"{base}/results.json", method="HEAD")[::2] == (200, "")


def test_a_store_that_changes_is_shown_as_it_is(served: StoreServer, store: Store) -> None:
    """Runs come and go while somebody reads."""
    get(served, "/")
    stored(store, 9, broken("S9", "something new"))
    assert "something new" in get(served, "/")[2]
    gone = next(r for r in store.runs() if r.seed == 9)
    for path in sorted(gone.path.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    gone.path.rmdir()
    assert "something new" not in get(served, "/")[2]


def test_a_run_without_a_report_says_how_to_make_one(served: StoreServer, store: Store) -> None:
    """It was not judged."""
    bare = next(r for r in store.runs() if r.seed == 3)
    path = bare.path.relative_to(store.root)
    status, _, text = get(served, f"/{path}/report.html")
    assert status == 404
    assert f"krucible report {bare.path}" in text


@pytest.mark.parametrize(
    "path",
    [
        "/../secret",
        "/%2e%2e/secret",
        "/kraft-register/..%2f..%2fsecret",
        "/..%5csecret",
        "/link",
        "/.hidden",
        "//etc/passwd",
        "/%00",
        "/no/such",
        "/" + "a/" * 5000,
    ],
)
def test_nothing_outside_the_store_is_served(served: StoreServer, store: Store, path: str) -> None:
    """No way up, no links out, nothing hidden."""
    (store.root.parent / "secret").write_text("secret", encoding="utf-8")
    (store.root / "link").symlink_to(store.root.parent / "secret")
    (store.root / ".hidden").write_text("secret", encoding="utf-8")
    status, _, text = get(served, path)
    assert (status, "secret" in text.replace("/secret", "")) == (404, False)


def test_only_this_machine_is_answered(served: StoreServer) -> None:
    """A page elsewhere whose name points here learns nothing."""
    assert get(served, "/", host="evil.example:8470")[0] == 403
    assert get(served, "/", host="localhost")[0] == 200
    assert served.server_address[0] == "127.0.0.1"
    assert get(served, "/", method="POST")[0] == 501


def test_a_port_in_use_is_told(served: StoreServer, store: Store) -> None:
    """With what to do."""
    with pytest.raises(UsageError, match="choose another --port"):
        StoreServer(store.root, served.server_port, bytes)
    with pytest.raises(UsageError, match="there is no such store"):
        StoreServer(store.root / "none", 0, bytes)


def test_inside_is_about_files_that_are_there(tmp_path: Path) -> None:
    """Links within the store are its own."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").symlink_to("a")
    assert inside(tmp_path.resolve(), "/b/") == (tmp_path / "a").resolve()
    assert inside(tmp_path.resolve(), "/c") is None
