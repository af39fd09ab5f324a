"""The fleet report in a real browser: what it says first, sorting, charts, a phone, both themes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.spec import RunSpec
from harness.store.folder import Store
from reports.fleet.model import FleetRun, build
from reports.fleet.page import render_fleet, write_fleet
from reports.run_report import render_run
from tests.support.reports.browser import MARKS, Opened, Visits, launched
from tests.support.reports.legible import faint
from tests.support.reports.nights import CAUGHT, MISSED, broken, growth, night, seeds
from tests.support.reports.runs import HOSTILE, empty_run

pytestmark = MARKS
Visit = Callable[..., Opened]
SCHEMES = ("light", "dark")
PHONE = {"width": 390, "height": 844}
DAY_S = 86_400
BEGUN_S = 1_767_000_000  # a week before the nights
VERDICTS = ("valid", "invalid", "unknown", "valid", "broken", "valid", "unjudged")
FAULTS = ("partition-leader", "kill", "disk-wipe-keep-id", "clock-rate")
LOST = "read of r{} (op {}) returned {} before that was committed"

COLUMN = """([table, column]) =>
  [...document.querySelectorAll(`${table} tbody tr`)].map(row => row.cells[column].innerText)"""
SORTED = """table => [...document.querySelectorAll(`${table} th`)]
  .map(th => [th.innerText.trim(), th.getAttribute("aria-sort")]).filter(([, how]) => how)"""
BARS = """() => [...document.querySelectorAll("#time .bars g")].map(g => {
  const boxes = [...g.querySelectorAll("rect:not(.hit)")].map(r => r.getBoundingClientRect());
  return {
    width: Math.max(0, ...boxes.map(box => box.width)),
    height: boxes.reduce((sum, box) => sum + box.height, 0),
    title: g.querySelector("title").textContent,
  };
})"""
# Texts of a chart that lie over each other, or beyond the window.
CROWDED = """() => [...document.querySelectorAll(".chart")].flatMap(chart => {
  const boxes = [...chart.querySelectorAll("text")]
    .map(t => [t.textContent, t.getBoundingClientRect()]).filter(([, box]) => box.width);
  const out = boxes.filter(([, b]) => b.left < 0 || b.right > innerWidth).map(([text]) => text);
  const over = boxes.flatMap(([one, a], n) => boxes.slice(n + 1)
    .filter(([, b]) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)
    .map(([other]) => `${one} over ${other}`));
  return [...out, ...over];
})"""


def busy_runs() -> list[FleetRun]:
    """Seventy runs over three weeks: of every verdict, some with a seeded bug."""
    runs = []
    for n in range(70):
        verdict = VERDICTS[n % len(VERDICTS)]
        spec = RunSpec(
            seed=n * 7919,
            env="local" if n % 3 else "sim",
            workload=("register", "observers")[n % 2],
            nemeses=FAULTS[: 1 + n % 4],
            mutant="premature-high-watermark" if n % 4 == 0 else None,
        )
        anomalies = (("S34", LOST.format(n % 5, n, n)),) if verdict == "invalid" else ()
        doubt = "" if verdict in ("valid", "invalid") else "the run was cut short by a signal"
        began_s = BEGUN_S + n**2 * 370.0
        run = FleetRun(f"kraft-x/{n}", began_s, spec, verdict, anomalies=anomalies, doubt=doubt)
        recoveries = (("kill", n * 10.5), ("pause", None))
        detected_s = n / 3 if anomalies else None
        runs.append(replace(run, ops_ok=n * 131, recoveries=recoveries, detected_s=detected_s))
    return runs


def nights() -> list[Any]:
    """Thirty nights, the last one red, one with very many histories."""
    found = [
        night(*seeds(1000 + n * 37), CAUGHT, at=f"2025-12-{n:02}T02:00:00") for n in range(3, 32)
    ]
    last = [
        *seeds(1200),
        *broken(
            6,
            "n2 granted its vote in epoch 4 to n1, and after its restart to n3",
            store="/s/a/1",
            first=1201,
        ),
        *seeds(2, "sim:disks", "unknown", message="no fault of disk took hold"),
        MISSED,
        {"t": "skipped", "entry": "sim:m", "reason": "the budget was used up"},
        *growth(premises={"S24": [0, 0, 1201], "L9": [7, 7, 1201]}),
    ]
    return [night(*last, at="2026-01-02T03:04:05+00:00"), *reversed(found)]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A busy store with a red night; a green night that stored no run; both as pages."""
    folder = tmp_path_factory.mktemp("fleet")
    made = {
        "busy": build(busy_runs(), nights(), unreadable=[HOSTILE]),
        "green": build([], [night(*seeds(40), *seeds(11, "sim:disks"), CAUGHT)]),
        "runs": build(busy_runs()),
    }
    for name, fleet in made.items():
        (folder / f"{name}.html").write_text(render_fleet(fleet), encoding="utf-8")
    return {name: folder / f"{name}.html" for name in made}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with launched() as chromium:
        yield chromium


@pytest.fixture
def visit(browser: Any, pages: dict[str, Path]) -> Iterator[Visit]:
    visits = Visits(browser)

    def go(name: str | Path, **options: Any) -> Opened:
        return visits.open(pages[name] if isinstance(name, str) else name, **options)

    yield go
    visits.close()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", [1300, 390])
@pytest.mark.parametrize("name", ["busy", "green", "runs"])
def test_all_can_be_read_in_both_themes_and_on_a_phone(
    visit: Visit, tmp_path: Path, name: str, width: int, scheme: str
) -> None:
    """Nothing is wider than the window, and all texts stand out from what is behind them."""
    opened = visit(name, color_scheme=scheme, viewport={"width": width, "height": 844})
    page = opened.page
    for button in page.locator("#by-verdict button").all()[:1]:
        button.click()  # what is switched off must be read, too
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    page.screenshot(path=tmp_path / f"{name}-{scheme}-{width}.png", full_page=True)
    assert faint(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    opened.assert_calm()


def test_faint_text_is_noticed(visit: Visit) -> None:
    """The check of contrast itself: on a dark ground, half transparent, in a drawing."""
    page = visit("green").page
    page.evaluate("""() => {
      const sheet = new CSSStyleSheet();
      sheet.replaceSync(`.label { color: #888 !important } h2 { opacity: .4 }
        svg text { fill: #aaa !important }`);
      document.adoptedStyleSheets = [sheet];
    }""")
    found = {text for text, *_ in faint(page)}
    assert {"Last night", "Over time", "2 Jan", "51"} <= found
    assert any(text.startswith("Last night: green") for text in found)


def test_a_green_night_says_so(visit: Visit) -> None:
    """The first screen: how many histories, of which entries, what was caught and reached."""
    page = visit("green").page
    assert page.title() == "krucible: Last night: green. 51 histories, all valid, in 59 min."
    assert page.locator("h1").inner_text().endswith("51 histories, all valid, in 59 min.")
    assert "no runs" not in page.locator("body").inner_text()
    assert page.evaluate(COLUMN, ["#night", 0]) == ["sim:swarm", "sim:disks"]
    assert page.evaluate(COLUMN, ["#night", 1]) == ["40", "11"]
    text = page.locator("#night").inner_text()
    for told in ("caught forgotten-vote, by S3", "2 of 46 things", "Nothing was left out"):
        assert told in text
    assert page.locator("#runs, #ways, .facts").count() == 0


def test_a_red_night_says_what_matters_first(visit: Visit) -> None:
    """Invalid before in doubt, then what failed first and the commands that bring it back."""
    page = visit("busy").page
    head = page.locator("header.page").inner_text()
    order = (
        "Last night: red. 6 of 1,248 histories are invalid, in 1 way.",
        "The seeded bug forgotten-vote was not caught.",
        "2 of 1,248 histories are in doubt.",
        "In the store: 70 runs, 7 invalid, 3 invalid with a seeded bug",
        "What failed first: S3 n2 granted its vote in epoch 4",
        "krucible repro",
        "Not caught: the seeded bug forgotten-vote",
        "krucible zoo --only forgotten-vote",
    )
    places = [head.find(each) for each in order]
    assert places == sorted(places)
    assert places[0] >= 0
    box = page.locator(".first-failure").first.bounding_box()
    assert box["y"] + box["height"] < 900, "on the first screen"
    assert "sim:m: the budget was used up." in page.locator("#night .skipped").inner_text()


def test_keys_make_no_ways_of_their_own(visit: Visit) -> None:
    """r0 to r4: one bug; runs that were cut short have missed no seeded bug."""
    page = visit("runs").page
    assert page.locator("#ways details").count() == 1
    assert page.locator("#ways .when").inner_text() == "10 stored runs"
    cells = page.locator("#zoo tbody tr").first.locator("td").all_inner_texts()
    assert cells[0] == "premature-high-watermark"
    assert cells[1] == "3 of 11"
    assert cells[4] == "7"


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", [1300, 390])
def test_the_chart_can_be_read(visit: Visit, width: int, scheme: str) -> None:
    """Bars one can point at, as high as their counts; an axis with counts and moments; a legend."""
    opened = visit("busy", color_scheme=scheme, viewport={"width": width, "height": 844})
    page = opened.page
    assert page.locator("#time .chart").count() == 2
    bars = [bar for bar in page.evaluate(BARS) if bar["height"]]
    assert min(bar["width"] for bar in bars) >= 9
    assert page.evaluate(CROWDED) == []
    for chart in page.locator("#time .chart").all():
        counts = [
            int(n.replace(",", "")) for n in chart.locator(".counts text").all_text_contents()
        ]
        assert counts[0] == 0
        assert len(counts) >= 3
        assert counts == sorted(counts)
        marks = chart.locator(".bars > text:visible").all_text_contents()
        assert len(marks) >= 2
        assert all(any(month in mark for month in ("Dec", "Jan")) for mark in marks)
    legend = page.locator("#time figcaption").last.inner_text()
    for word in ("invalid", "harness broke", "in doubt", "not judged", "valid"):
        assert word in legend
    fills = """() => [...document.querySelectorAll("#time .key .swatch")]
      .map(swatch => getComputedStyle(swatch).backgroundColor)"""
    assert len(set(page.evaluate(fills))) == 5


def test_what_was_new_stands_in_bars_and_premises_sort(visit: Visit) -> None:
    """A bar is as high as what was known, and the rarest premise is the first row."""
    page = visit("busy", viewport=PHONE).page
    tops = page.evaluate("""() => [...document.querySelectorAll("#night .bars g")].map(g =>
      [...g.querySelectorAll("rect:not(.hit)")].reduce((sum, r) => sum + r.height.baseVal.value, 0))
      .filter(height => height)""")
    assert len(tops) > 8
    assert tops == sorted(tops), "what is known is not forgotten"
    premises = page.locator("details", has=page.locator("#premises"))
    premises.locator("summary").click()
    assert page.locator("#premises tbody tr").first.inner_text().startswith("S24")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_bars_are_as_high_as_their_counts(visit: Visit) -> None:
    page = visit("green").page
    (bar,) = page.evaluate(BARS)
    assert "51 valid" in bar["title"]
    floor, top = (
        page.evaluate(f"document.querySelectorAll('#time line')[{n}].getBoundingClientRect().y")
        for n in (0, page.locator("#time line").count() - 1)
    )
    highest = int(page.locator("#time .counts text").last.text_content())
    assert bar["height"] == pytest.approx((floor - top) * 51 / highest, abs=1)


def test_columns_sort_by_key_and_by_mouse(visit: Visit) -> None:
    """Tab finds a heading, Enter and Space sort by it, and what is sorted how is said."""
    opened = visit("busy")
    page = opened.page
    assert page.evaluate(SORTED, "#table") == [["began", "descending"]]
    began = page.evaluate(COLUMN, ["#table", 0])
    assert began == sorted(began, reverse=True)
    heading = page.locator("#table th button", has_text="ok ops")
    heading.focus()
    page.keyboard.press("Enter")
    numbers = [int(n.replace(",", "")) for n in page.evaluate(COLUMN, ["#table", 5])]
    assert numbers == sorted(numbers)
    assert page.evaluate(SORTED, "#table") == [["ok ops", "ascending"]]
    page.keyboard.press("Space")
    assert page.evaluate(SORTED, "#table") == [["ok ops", "descending"]]
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    assert page.evaluate(SORTED, "#table") == [["faults", "ascending"]]
    page.locator("#table th button", has_text="verdict").click()
    seen = [text.split()[-1] for text in page.evaluate(COLUMN, ["#table", 1])]
    assert list(dict.fromkeys(seen)) == ["invalid", "broke", "doubt", "judged", "valid"]
    opened.assert_calm()


@pytest.mark.parametrize(
    ("table", "heading", "column"),
    [
        ("#nights table", "histories", 2),
        ("#recovery table", "median", 3),
        ("#entries", "time", 5),
    ],
)
def test_every_table_sorts(visit: Visit, table: str, heading: str, column: int) -> None:
    """By what its cells mean: 2 s is more than 900 ms."""
    page = visit("busy").page
    cells = f"""() => [...document.querySelectorAll("{table} tbody tr")]
      .map(row => +row.cells[{column}].dataset.sort)"""
    button = page.locator(f"{table} th button", has_text=heading)
    button.focus()
    page.keyboard.press("Enter")
    values = page.evaluate(cells)
    assert values == sorted(values)
    page.keyboard.press("Enter")
    assert page.evaluate(cells) == sorted(values, reverse=True)
    assert page.evaluate(SORTED, table) == [[heading, "descending"]]


def test_on_a_phone_rows_are_cards(visit: Visit) -> None:
    """Each value with its name, nothing to scroll sideways, and still a way to sort."""
    opened = visit("busy", viewport=PHONE, has_touch=True)
    page = opened.page
    assert not page.locator("#table thead").is_visible()
    for table in page.locator("table").all():
        box = table.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= PHONE["width"]
    labels = """() => [...document.querySelectorAll("#table tbody tr:first-child td")]
      .map(td => [td.dataset.label, getComputedStyle(td, "::before").content])"""
    for label, shown in page.evaluate(labels):
        assert shown in (f'"{label}"', "none")
    rows = page.locator("#table tbody tr")
    assert rows.nth(1).bounding_box()["y"] > rows.nth(0).bounding_box()["y"] + 80
    page.locator("#sort-by").select_option(label="seed, up")
    numbers = [int(text) for text in page.evaluate(COLUMN, ["#table", 3])]
    assert numbers == sorted(numbers)
    assert (
        page.evaluate("document.querySelector('#table th:nth-child(4)').getAttribute('aria-sort')")
        == "ascending"
    )
    opened.assert_calm()


# --------------------------------------------------------------------------- a store of 261 runs


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of 260 runs, and one that is hostile; the page of it."""
    store = Store(tmp_path_factory.mktemp("fleet") / "store")
    anomaly = {"invariant": "S1", "message": "n1 and n2 lead epoch 3", "time_ns": 10**9}
    valid = {"system": "valid", "coverage": "valid", "harness": "ok"}
    page = render_run(empty_run(), {})
    for seed in range(260):
        bad = {"system": "invalid", "anomalies": [anomaly]} if seed % 50 == 7 else {}
        run_dir = store.new_run(RunSpec(seed=seed, nemeses=("kill",)))
        run_dir.write_results({**valid, "anomalies": [], "results": [], **bad})
        run_dir.report.write_text(page)
    shown = HOSTILE.replace("\ud800", "")
    foreign = {"invariant": shown, "message": shown, "time_ns": 1}
    run_dir = store.new_run(RunSpec(seed=999, mutant="x", nemeses=("kill",)))
    run_dir.write_results({**valid, "system": "invalid", "anomalies": [foreign], "results": []})
    return write_fleet(store.root)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1300, 380])
def test_the_fleet_opens_in_both_themes_and_on_a_phone(
    visit: Visit, fleet: Path, scheme: str, width: int
) -> None:
    opened = visit(fleet, color_scheme=scheme, viewport={"width": width, "height": 800})
    page = opened.page
    assert page.locator("#table tbody tr").count() == (200 if width > 640 else 25)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("svg.bars rect").count() > 1
    opened.assert_calm()


def test_the_fleet_filters_sorts_and_leads_to_a_run(visit: Visit, fleet: Path) -> None:
    opened = visit(fleet)
    page, rows = opened.page, opened.page.locator("#table tbody tr")
    assert opened.window() == "200 of 261 shown"
    opened.await_window(lambda: page.locator("#more").click())
    assert rows.count() == 261
    opened.await_window(lambda: page.locator("[data-verdict=valid]").click())
    assert rows.count() == 7
    opened.await_window(lambda: page.locator("#find").fill("lead epoch"))
    assert rows.count() == 6
    seeds = "[...document.querySelectorAll('#table tbody tr')].map(r => +r.cells[3].textContent)"
    page.locator("#table th button", has_text="seed").click()
    assert page.evaluate(seeds) == [7, 57, 107, 157, 207, 257]
    page.locator("#table th button", has_text="seed").click()
    assert page.evaluate(seeds) == [257, 207, 157, 107, 57, 7]
    assert page.locator("#ways details").count() == 2
    assert page.locator("#ways code").first.text_content().startswith("krucible repro ")
    opened.assert_calm()
    rows.first.locator("a").click()
    page.wait_for_url("**/report.html")
    assert "krucible run report" in page.locator(".subject").text_content()
    assert opened.complaints == []
