"""The run report in a real browser: its script, its policy, its looks."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from harness.history.ops import NEMESIS, History
from harness.store.folder import Store
from reports.run_report import render_run, render_stored
from tests.support.reports import big_run
from tests.support.reports.blocks import ops_of
from tests.support.reports.browser import MARKS, Opened, Visits, launched
from tests.support.reports.runs import (
    VALID_RESULT,
    broken_result,
    empty_run,
    hostile_result,
    hostile_run,
    make_run,
    with_known,
)

pytestmark = MARKS
READY = "html[data-ready]"  # the ops were read
SCRIPTS = "[...document.scripts].filter(s => s.type === '').length"  # those that run


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with launched() as chromium:
        yield chromium


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    run = make_run(ops=2000)
    place = Store(folder / "store").new_run(run.spec)
    pages = {
        "broken": render_run(run, with_known(broken_result(run)), place),
        "valid": render_run(run, VALID_RESULT),
        "empty": render_run(empty_run(), {}),
        "hostile": render_run(hostile_run(), hostile_result()),
        "few": render_run(make_run(ops=12), VALID_RESULT),
    }
    for name, html in pages.items():
        (folder / f"{name}.html").write_text(html, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in pages}


@pytest.fixture
def visit(browser: Any, reports: dict[str, Path]) -> Iterator[Callable[..., Opened]]:
    visits = Visits(browser)

    def go(name: str | Path, **options: Any) -> Opened:
        opened = visits.open(reports[name] if isinstance(name, str) else name, **options)
        if isinstance(name, str) and name != "empty" and options.get("java_script_enabled", True):
            opened.page.wait_for_selector(READY, state="attached")
        return opened

    yield go
    visits.close()


@pytest.mark.parametrize("name", ["broken", "valid", "empty", "hostile"])
def test_opens_without_complaint(visit: Callable[..., Opened], name: str) -> None:
    opened = visit(name)
    opened.page.wait_for_load_state()
    assert opened.page.evaluate(SCRIPTS) == 1
    assert opened.page.evaluate("document.images.length") == 0
    assert opened.page.locator("#stage").is_visible() == (name != "empty")
    assert opened.page.locator("#nothing").is_visible() == (name == "empty")
    opened.assert_calm()


def test_a_foreign_script_is_refused(visit: Callable[..., Opened]) -> None:
    opened = visit("valid")
    opened.page.evaluate("""() => {
      const s = document.createElement('script'); s.textContent = 'window.pwned = 1';
      document.body.append(s);
      document.body.insertAdjacentHTML('beforeend', '<img src="https://example.invalid/x.png">');
    }""")
    opened.page.wait_for_function("() => window.violations.length === 2")
    assert opened.page.evaluate("window.pwned") is None


def test_zoom_by_button_key_and_wheel(visit: Callable[..., Opened]) -> None:
    opened = visit("broken")
    page, canvas = opened.page, opened.page.locator("#base")
    canvas.wait_for()
    whole = opened.window()
    seen = {whole}
    seen.add(opened.await_window(lambda: page.locator("[data-do=in]").click()))
    seen.add(opened.await_window(lambda: canvas.press("+")))
    seen.add(opened.await_window(lambda: canvas.press("ArrowRight")))
    canvas.hover(position={"x": 700, "y": opened.track_y(0.9)})
    seen.add(opened.await_window(lambda: page.mouse.wheel(0, -300)))
    assert len(seen) == 5
    assert opened.await_window(lambda: canvas.press("0")) == whole
    opened.assert_calm()


def test_wheel_scrolls_the_page_unless_the_timeline_has_focus(visit: Callable[..., Opened]) -> None:
    opened = visit("broken")
    page, canvas = opened.page, opened.page.locator("#base")
    canvas.scroll_into_view_if_needed()
    canvas.hover(position={"x": 700, "y": opened.track_y(0.5)})
    whole, top = opened.window(), page.evaluate("scrollY")
    page.mouse.wheel(0, 200)
    page.wait_for_function("top => scrollY > top", arg=top)
    assert opened.window() == whole
    assert page.locator("#hint").is_visible()


def test_drag_zooms_in_on_what_it_covers(visit: Callable[..., Opened]) -> None:
    opened = visit("broken")
    page, canvas = opened.page, opened.page.locator("#base")
    whole, y = _seconds(opened.window()), opened.track_y(0.5)
    canvas.hover(position={"x": 500, "y": y})
    box = canvas.bounding_box()
    page.mouse.down()
    page.mouse.move(box["x"] + 800, box["y"] + y, steps=4)
    assert _seconds(opened.window()) == whole  # it moves when the button is let go
    first, last = _seconds(opened.await_window(page.mouse.up))
    left, wide = 92, box["width"] - 92  # the plot without its gutter
    for x, at in ((500, first), (800, last)):
        share = (x - left) / wide
        assert at == pytest.approx(whole[0] + share * (whole[1] - whole[0]), rel=0.03)
    assert not page.locator("#pinned").is_visible()  # a drag is no click
    canvas.press("0")
    opened.assert_calm()


def _seconds(window: str) -> list[float]:
    return [float(word) for word in re.findall(r"([\d.]+) s ", window)[:2]]


def test_drag_with_shift_pans(visit: Callable[..., Opened]) -> None:
    opened = visit("broken")
    page, canvas = opened.page, opened.page.locator("#base")
    opened.await_window(lambda: page.locator("[data-do=in]").click())
    canvas.hover(position={"x": 800, "y": opened.track_y(0.5)})
    page.keyboard.down("Shift")
    page.mouse.down()
    box = canvas.bounding_box()
    moved = opened.await_window(
        lambda: page.mouse.move(box["x"] + 500, box["y"] + opened.track_y(0.5), steps=4)
    )
    page.mouse.up()
    page.keyboard.up("Shift")
    assert opened.window() == moved
    assert not page.locator("#pinned").is_visible()  # a drag is no click


def test_hover_tells_and_click_pins(visit: Callable[..., Opened]) -> None:
    opened = visit("broken")
    page, canvas = opened.page, opened.page.locator("#base")
    page.locator("#anomaly-2 > summary").click()
    link = page.locator("#anomaly-2 a.jump[data-op]").first
    opened.await_window(link.click)
    assert "op " + str(link.get_attribute("data-op")) in page.locator("#pinned").inner_text()
    title = page.locator("#pinned h3").text_content()
    canvas.press("Escape")
    assert not page.locator("#pinned").is_visible()
    canvas.scroll_into_view_if_needed()
    found = _hover_until(opened, title)
    assert "latency" in found
    page.mouse.down()
    page.mouse.up()
    assert page.locator("#pinned h3").text_content() == title
    page.locator("#unpin").click()
    assert not page.locator("#pinned").is_visible()
    opened.assert_calm()


def _hover_until(opened: Opened, title: str | None) -> str:
    """Move over the client lanes until the tip has this title; returns what it says."""
    page = opened.page
    box = page.locator("#base").bounding_box()
    for row in range(60, 100, 1):
        for x in (box["width"] * 0.5, box["width"] * 0.53, box["width"] * 0.56):
            page.mouse.move(box["x"] + x, box["y"] + box["height"] * row / 100)
            tip = page.locator("#tip")
            if tip.is_visible() and tip.locator("b").text_content() == title:
                return str(tip.inner_text())
    raise AssertionError(f"no {title!r} under the pointer")


def test_filters_leave_only_what_is_asked_for(visit: Callable[..., Opened]) -> None:
    opened = visit("broken")
    page = opened.page
    page.locator("#base").scroll_into_view_if_needed()
    full = opened.picture()
    ok = page.locator("#outcomes button").first
    ok.click()
    assert ok.get_attribute("aria-pressed") == "false"
    assert opened.picture() != full
    height = opened.track_y(1)
    page.locator("#nodes-shown button").nth(1).click()
    assert opened.track_y(1) < height  # the node's lane is gone
    ok.click()
    page.locator("#nodes-shown button").nth(1).click()
    assert opened.picture() == full


def test_anomaly_link_moves_the_timeline(visit: Callable[..., Opened]) -> None:
    opened = visit("broken")
    whole = opened.window()
    link = opened.page.locator("#anomaly-1 a.jump[data-anomaly]")
    assert opened.await_window(link.click) != whole
    assert opened.page.locator("#pinned h3").text_content() == "anomaly 1: S3"


def test_what_is_known_leads_to_its_row_and_to_the_timeline(
    visit: Callable[..., Opened],
) -> None:
    opened = visit("broken")
    opened.page.locator("header a[href='#known']").click()
    table = opened.page.locator("#known table")
    opened.page.wait_for_function(
        "() => document.getElementById('known').getBoundingClientRect().top < innerHeight"
    )
    assert "a Fetch without end" in table.locator("tr").nth(1).inner_text()
    assert "an anomaly all the same" in table.locator("tr").nth(2).inner_text()
    opened.await_window(lambda: table.locator(".jump").click())
    opened.assert_calm()


def test_log_link_opens_the_log(visit: Callable[..., Opened]) -> None:
    page = visit("broken").page
    assert page.locator("details.node[open]").count() == 0  # pages of lines that say little
    page.locator("#anomaly-1 .meta a.to-log").click()
    assert page.locator("#node-2").get_attribute("open") is not None


def test_copy_selects_the_command(visit: Callable[..., Opened]) -> None:
    page = visit("broken", permissions=["clipboard-read", "clipboard-write"]).page
    button = page.locator("button.copy").nth(1)
    button.click()
    # a function: the page's policy forbids to evaluate an expression a second time
    page.wait_for_function(
        "() => document.querySelectorAll('button.copy')[1].textContent === 'Copied'"
    )
    chosen = page.evaluate("getSelection().toString()")
    assert chosen.startswith("krucible repro ")
    assert chosen.endswith(" --times 10")


def test_without_scripts_the_text_is_all_there(visit: Callable[..., Opened]) -> None:
    page = visit("broken", java_script_enabled=False).page
    assert page.locator("h1").inner_text().startswith("✗INVALID")
    assert "scripts are off" in page.locator("#timeline").inner_text()
    assert not page.locator("button.copy").first.is_visible()
    assert page.locator("#faults table.each tbody tr").count() == 6


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1300, 390])
def test_fits_and_paints(
    visit: Callable[..., Opened], tmp_path: Path, scheme: str, width: int
) -> None:
    opened = visit("broken", viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = opened.page
    page.locator("#base").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert opened.painted() > 20
    page.screenshot(path=tmp_path / f"{scheme}-{width}.png", full_page=True)
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 23, 27)")


# The contrast of every text against what lies behind it, where it is less than 4.5 to 1.
CONTRAST = """() => {
  const parts = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = element => {
    for (let e = element; e; e = e.parentElement) {
      const paint = e.tagName === 'svg' && e.querySelector(':scope > rect, :scope > circle');
      const colour = getComputedStyle(paint || e)[paint ? 'fill' : 'backgroundColor'];
      const found = colour === 'none' ? [0, 0, 0, 0] : parts(colour);
      if (found.length < 4 || found[3] === 1) return found;
    }
    return [255, 255, 255];
  };
  const dim = [], seen = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (seen.nextNode()) {
    const e = seen.currentNode.parentElement;
    if (!seen.currentNode.textContent.trim() || !e.checkVisibility()) continue;
    const drawn = e.closest('svg') && e.closest('text');
    const style = getComputedStyle(drawn || e);
    const [a, b] = [light(parts(drawn ? style.fill : style.color)), light(behind(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) {
      const text = seen.currentNode.textContent.trim().slice(0, 30);
      dim.push(`${ratio.toFixed(2)} ${e.tagName}.${e.getAttribute('class')}: ${text}`);
    }
  }
  return [...new Set(dim)];
}"""
# The contrast of what the timeline writes upon each colour of it.
PAINTS = """() => {
  const style = getComputedStyle(document.documentElement);
  const light = name => {
    const n = parseInt(style.getPropertyValue('--' + name).trim().slice(1), 16);
    return [n >> 16, (n >> 8) & 255, n & 255].map(v => v / 255)
      .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
      .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
  };
  const ratio = (one, other) => {
    const [a, b] = [light(one), light(other)];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  };
  const pairs = [..."012345678"].map(n => ['on-leader', 'n' + n]);
  for (const on of ['ok', 'fail']) pairs.push(['on-leader', on]);
  for (const role of ['follower', 'candidate', 'prospective', 'unattached', 'resigned',
    'observer', 'starting']) pairs.push(['ink', role]);
  for (const name of ['dim', 'bad', 'maybe', 'good', 'link']) pairs.push([name, 'bg']);
  return pairs.filter(([a, b]) => !(ratio(a, b) >= 4.5)).map(pair => pair.join(' on '));
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read(visit: Callable[..., Opened], scheme: str) -> None:
    page = visit("broken", color_scheme=scheme).page
    page.evaluate("document.querySelectorAll('details').forEach(e => { e.open = true; })")
    assert page.evaluate(CONTRAST) == []
    assert page.evaluate(PAINTS) == []


def test_nine_nodes_have_nine_colours(visit: Callable[..., Opened], tmp_path: Path) -> None:
    run = make_run(ops=200, voters=5, observers=4)
    (tmp_path / "nine.html").write_text(render_run(run, VALID_RESULT), encoding="utf-8")
    page = visit(tmp_path / "nine.html").page
    page.wait_for_selector(READY, state="attached")
    colours = """[...document.querySelectorAll('#nodes-shown .swatch')]
      .map(box => getComputedStyle(box).backgroundColor)"""
    assert len(set(page.evaluate(colours))) == 9


def test_faults_that_overlap_have_lanes_of_their_own(
    visit: Callable[..., Opened], tmp_path: Path
) -> None:
    run = make_run(ops=200, faults=1)
    begun = [op for op in run.history if op.process == NEMESIS][:2]
    history = list(run.history)
    for id_ in range(1, 12):
        for op in begun:
            value = {**op.value, "id": id_}
            history.append(structs.replace(op, index=len(history), value=value))
    history.sort(key=lambda op: op.time_ns)
    history = [structs.replace(op, index=at) for at, op in enumerate(history)]
    page = tmp_path / "many.html"
    page.write_text(
        render_run(replace(run, history=History(history)), VALID_RESULT), encoding="utf-8"
    )
    opened = visit(page)
    opened.page.wait_for_selector(READY, state="attached")
    opened.page.locator("#base").scroll_into_view_if_needed()
    seen = set()
    for row in range(40):
        opened.page.mouse.move(0, 0)
        box = opened.page.locator("#base").bounding_box()
        opened.page.mouse.move(box["x"] + box["width"] * 0.45, box["y"] + 30 + row * 8)
        tip = opened.page.locator("#tip")
        if tip.is_visible() and "fault" in (title := str(tip.locator("b").text_content())):
            seen.add(title)
    assert len(seen) == 12


WRITTEN = """
window.written = [];
const fillText = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
  written.push(text);
  return fillText.call(this, text, ...rest);
};
"""


def test_wide_bars_say_their_values(visit: Callable[..., Opened]) -> None:
    opened = visit("broken")
    page, canvas = opened.page, opened.page.locator("#base")
    page.add_init_script(WRITTEN)
    page.reload()
    page.wait_for_selector(READY, state="attached")
    for _ in range(8):
        opened.await_window(lambda: canvas.press("+"))
    page.wait_for_function("() => written.some(text => /^(read|write) k\\d.*\\d/.test(text))")


def test_checkers_say_what_they_had_nothing_of_and_keep_their_names_whole(
    visit: Callable[..., Opened], tmp_path: Path
) -> None:
    checked = {"S10 truncations": 3, "S2 votes": 9, "S1 epochs": 4, "S26": 0, "S3": 0}
    first = {**VALID_RESULT["results"][0], "checked": checked}
    path = tmp_path / "idle.html"
    path.write_text(
        render_run(make_run(ops=100), {**VALID_RESULT, "results": [first]}), encoding="utf-8"
    )
    page = visit(path, viewport={"width": 390, "height": 800}).page
    page.wait_for_selector(READY, state="attached")
    row = page.locator("#checkers tbody tr").first
    names = [" ".join(text.split()) for text in row.locator(".pair .name").all_inner_texts()]
    assert names == ["S1 epochs", "S2 votes", "S10 truncations"]
    assert row.locator(".idle").inner_text() == "Not exercised in this run: S3, S26"
    lines = page.evaluate("document.querySelector('#checkers tbody td').getClientRects()[0].height")
    name = page.evaluate("""(() => {
      const range = document.createRange();
      range.selectNodeContents(document.querySelector('#checkers tbody td'));
      return range.getClientRects().length;
    })()""")
    assert name == 1, lines


def test_the_first_screen_of_a_phone_has_the_defect(visit: Callable[..., Opened]) -> None:
    page = visit("broken", viewport={"width": 390, "height": 844}).page
    for side in ("expected", "found"):
        if page.locator(f"header .{side}").count():
            box = page.locator(f"header .{side}").bounding_box()
            assert box["y"] + box["height"] < 844
    assert page.locator("header .found").count() + page.locator("h1").count() >= 1


def test_a_phone_shows_errors_without_scrolling(visit: Callable[..., Opened]) -> None:
    page = visit("broken", viewport={"width": 390, "height": 844}).page
    boxes = [cell.bounding_box() for cell in page.locator("#ops td.code").all()]
    assert boxes
    assert all(box["x"] + box["width"] <= 390 for box in boxes)


def test_the_table_of_a_few_ops_is_as_high_as_they_are(visit: Callable[..., Opened]) -> None:
    page = visit("few").page
    page.wait_for_selector("#rows-body .row:nth-child(2)")
    rows = page.locator("#rows-body .row").all()
    box = page.locator("#rows-scroll").bounding_box()
    last = rows[-1].bounding_box()
    assert page.locator("#rows-title").text_content() == f"{len(rows)} of {len(rows)} ops in view"
    assert 0 <= box["y"] + box["height"] - last["y"] - last["height"] < 20


def test_pictures_are_as_wide_as_their_card(visit: Callable[..., Opened]) -> None:
    page = visit("broken").page
    body = page.locator("#anomaly-1 .body").bounding_box()
    picture = page.locator("#anomaly-1 .picture").first.bounding_box()
    assert picture["width"] > body["width"] - 40


def test_prints_on_white_with_everything_open(visit: Callable[..., Opened]) -> None:
    opened = visit("broken", color_scheme="dark")
    page = opened.page
    page.emulate_media(media="print", color_scheme="dark")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("details:not([open])").count() == 0
    page.set_viewport_size({"width": 700, "height": 1000})  # paper is narrower than the screen
    page.wait_for_function("() => innerWidth === 700")
    assert opened.painted() > 20  # and must not wipe the picture
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details:not([open])").count() > 0


def test_hostile_page_can_be_used(visit: Callable[..., Opened]) -> None:
    opened = visit("hostile")
    page = opened.page
    page.locator("#base").scroll_into_view_if_needed()
    for share in (0.1, 0.2, 0.3, 0.5, 0.7, 0.97):
        page.locator("#base").click(position={"x": 700, "y": opened.track_y(share)})
    for button in page.locator("#stage button:visible").all():
        button.click()
    assert page.evaluate(SCRIPTS) == 1
    opened.assert_calm()


# --------------------------------------------------------------------------- a big run

BIG_OPS = 20_000
ROWS = "document.getElementById('rows-title')"
COUNTS = """() => {
  const rows = [...document.querySelectorAll('#rows-body .row')];
  const column = at => rows.map(row => row.children[at].textContent);
  return { made: rows.length, ops: column(0).map(Number), outcomes: column(8) };
}"""

# Moves the pointer over a tenth of the canvas until the tip has such a title; what it says then.
SWEEP = """([title, share]) => {
  const canvas = document.getElementById('base'), box = canvas.getBoundingClientRect();
  const tip = document.getElementById('tip');
  const from = box.width * share, to = from + box.width / 10;
  for (let y = 2; y < box.height; y += 8) for (let x = from; x < to; x += 8) {
    const at = { clientX: box.left + x, clientY: box.top + y, bubbles: true };
    canvas.dispatchEvent(new PointerEvent('pointermove', at));
    if (!tip.hidden && tip.querySelector('b').textContent.includes(title)) return tip.textContent;
  }
}"""
HAS_ROW = """([at, text]) => [...document.querySelectorAll('#rows-body .row')].some(
  row => row.children[at].textContent.includes(text))"""


Ops = list[dict[str, Any]]


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ops]:
    """The page of a long run, and its ops as Python reads them back."""
    run = big_run.make(tmp_path_factory.mktemp("big"), ops=BIG_OPS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("reports.overview.FROM_OPS", BIG_OPS)
        patch.setattr("reports.build.columns.BLOCK_ROWS", 7000)
        html = render_stored(run.path)
    run.report.write_text(html, encoding="utf-8")
    return run.report, ops_of(html)


@pytest.fixture
def read(visit: Callable[..., Opened], big: tuple[Path, Ops]) -> tuple[Opened, Ops]:
    """That page, open and with all of its ops read; and the ops."""
    path, ops = big
    opened = visit(path)
    opened.page.wait_for_selector(READY, state="attached")
    return opened, ops


def rows_when(opened: Opened, title: str) -> dict[str, Any]:
    """What the table of ops shows, once its title is this one."""
    opened.page.wait_for_function(f"title => {ROWS}.textContent === title", arg=title)
    found: dict[str, Any] = opened.page.evaluate(COUNTS)
    return found


def test_a_big_run_is_read_whole_and_little_of_it_is_in_the_document(
    read: tuple[Opened, Ops],
) -> None:
    opened, ops = read
    page = opened.page
    assert len(ops) == BIG_OPS
    found = rows_when(opened, f"{BIG_OPS:,} of {BIG_OPS:,} ops in view")
    assert found["ops"] == [op["index"] for op in ops[: found["made"]]]
    assert found["made"] < 40
    page.evaluate("document.getElementById('rows-scroll').scrollTop = 1e9")
    last = ops[-1]["index"]
    page.wait_for_function(HAS_ROW, arg=[0, str(last)])
    assert page.locator("#rows-body .row").count() < 40
    assert opened.painted() > 20
    opened.assert_calm()


def test_a_big_run_is_filtered_by_outcome_client_key_and_kind(read: tuple[Opened, Ops]) -> None:
    opened, ops = read
    page = opened.page
    whole = opened.picture()
    page.locator("#outcomes button").first.click()
    left = [op for op in ops if op["outcome"] != "ok"]
    found = rows_when(opened, f"{len(left):,} of {BIG_OPS:,} ops in view")
    assert set(found["outcomes"]) <= {"fail", "info"}
    page.locator("#outcomes button").first.click()
    page.locator("#fs button", has_text="write").click()
    left = [op for op in ops if op["f"] == "read"]
    rows_when(opened, f"{len(left):,} of {BIG_OPS:,} ops in view")
    page.locator("#key").fill("R7")
    left = [op for op in left if "r7" in op["key"]]
    rows_when(opened, f"{len(left):,} of {BIG_OPS:,} ops in view")
    height = opened.track_y(1)
    page.locator("#client").select_option("3")
    left = [op for op in left if int(op["process"]) % big_run.WORKERS == 3]
    rows_when(opened, f"{len(left):,} of {BIG_OPS:,} ops in view")
    assert opened.track_y(1) < height  # one client, one lane
    page.locator("#client").select_option("")
    page.locator("#key").fill("")
    page.locator("#fs button", has_text="write").click()
    rows_when(opened, f"{BIG_OPS:,} of {BIG_OPS:,} ops in view")
    assert opened.picture() == whole
    opened.assert_calm()


def test_a_big_run_zooms_from_counts_to_single_ops(read: tuple[Opened, Ops]) -> None:
    opened, ops = read
    page, canvas = opened.page, opened.page.locator("#base")
    pictures = {opened.picture()}
    for _ in range(9):
        opened.await_window(lambda: canvas.press("+"))
        pictures.add(opened.picture())
    assert len(pictures) == 10
    begin, end = (float(word) * 1e6 for word in re.findall(r"([\d.]+) s ", opened.window())[:2])
    seen = [op for op in ops if begin - 100 <= op["start"] <= end + 100]
    title = page.locator("#rows-title")
    page.wait_for_function(
        "() => parseInt(document.getElementById('rows-title').textContent) < 100"
    )
    assert abs(int(str(title.text_content()).split()[0]) - len(seen)) <= 1  # the window is rounded
    opened.assert_calm()


def test_n_and_p_walk_along_a_client_and_f_from_fault_to_fault(read: tuple[Opened, Ops]) -> None:
    opened, ops = read
    page, canvas = opened.page, opened.page.locator("#base")
    pinned = page.locator("#pinned")
    canvas.press("n")
    first = ops[0]
    assert f"op {first['index']}" in pinned.inner_text()
    worker = int(first["process"]) % big_run.WORKERS
    mine = [op for op in ops if int(op["process"]) % big_run.WORKERS == worker]
    canvas.press("n")
    canvas.press("n")
    canvas.press("p")
    assert f"op {mine[1]['index']}" in pinned.inner_text()
    canvas.press("Escape")
    canvas.press("f")
    assert pinned.locator("h3").text_content() == "fault 0: kill, installed"
    canvas.press("f")
    assert pinned.locator("h3").text_content() == "fault 1: partition-isolate-leader, installed"


def test_a_click_in_the_table_pins_the_op(read: tuple[Opened, Ops]) -> None:
    opened, ops = read
    opened.page.locator("#rows-body .row").nth(4).click()
    assert f"op {ops[4]['index']}" in opened.page.locator("#pinned").inner_text()
    opened.page.wait_for_selector("#rows-body .row.pinned")


def test_texts_of_values_are_read_when_they_are_shown(visit: Callable[..., Opened]) -> None:
    opened = visit("hostile")
    page = opened.page
    page.wait_for_function(HAS_ROW, arg=[6, "<script>"])
    assert page.evaluate(SCRIPTS) == 1
    opened.assert_calm()


def test_snapshots_have_a_lane_and_say_what_they_hold(read: tuple[Opened, Ops]) -> None:
    page = read[0].page
    assert "snapshot made" in page.locator("#legend").inner_text()
    page.locator("#base").scroll_into_view_if_needed()
    assert "up to" in str(page.evaluate(SWEEP, ["snapshot made", 0.5]))
