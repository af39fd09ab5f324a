"""The fleet report and ``krucible serve``: many runs on one page."""

from __future__ import annotations

import http.client
import random
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
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
from reports.catalogue import BROKEN, TITLES
from reports.fleet import render_fleet, write_fleet
from reports.fleet_model import FleetRun, Night, build, percentile, read_fleet, verdict_of
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


def test_seeded_bugs_have_a_rate_with_its_interval() -> None:
    """k of N, and when they were found."""
    runs = [run(n, "invalid", mutant="m", detected_s=float(n)) for n in range(1, 4)]
    (rate,) = build([*runs, run(9, "valid", mutant="m"), run(10)]).zoo
    assert (rate.name, rate.hits, rate.of, rate.typical_s) == ("m", 3, 4, 2.0)
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
    assert len(buckets) <= 160
    assert days > 1000 or len(buckets) <= 61


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
    assert "Runs that could not be read" in page
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
    assert "1 way to fail" in page.read_text(encoding="utf-8")


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


def night(code: int, *reasons: str) -> Night:
    return Night("2026-01-02T03:04:05+00:00", code, 10_234, 3600.0, reasons, "nights/x")


@pytest.mark.parametrize(
    ("runs", "first"),
    [
        ([run(1)], "Last night: red.</span> No stored run failed."),
        ([], "Last night: red.</span> No stored run failed."),
        (
            [run(1, "invalid", anomalies=(("S1", "x"),), mutant="x")],
            "Last night: red.</span> All failures of stored runs are runs with a seeded bug.",
        ),
        ([run(1, "invalid", anomalies=(("S1", "x"),))], "1 way to fail"),
    ],
    ids=["all-valid", "nothing-stored", "seeded-bug", "one-invalid"],
)
def test_a_red_night_is_never_under_a_green_sentence(runs: list[FleetRun], first: str) -> None:
    """What it was red for may have left no run: a canary that was not caught is none."""
    page = render_fleet(build(runs, [night(255, "canary x was not caught: nothing", HOSTILE)]))
    head = page.split("<body>")[1].split("</header>")[0]
    assert first in head
    assert "canary x was not caught: nothing" in head
    assert "10,234 histories checked in" in head
    assert 'page valid"' not in head
    assert "<script" not in head


def test_a_green_night_says_how_much_it_checked() -> None:
    """Valid seeds are not stored: the runs of the store say little of them."""
    page = render_fleet(build([run(1)], [night(0)]))
    assert "No run failed" in page
    assert "10,234 histories checked in" in page


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


def test_every_invariant_of_the_catalogue_has_a_sentence_for_when_it_is_broken() -> None:
    assert TITLES.keys() <= BROKEN.keys()
    assert not [text for text in BROKEN.values() if text[0].isupper() or text.endswith(".")]
