"""The report of a big run: what it costs to render, to open, and to move about in.

    python bench/report.py [--ops 100000] [--ops 1000000] [--rounds 3] [--keep FOLDER]

The run is made by `big_run` (seeded; 2 to 3 trace events per op) and rendered from the store
by a process of its own. Chromium opens the file with an empty profile: "drawn" is when the first
picture of the whole run stands, "usable" when every op can be zoomed into, hovered and filtered,
both in s from the begin of the navigation, by the page's own clock. Frames are the times between
calls of requestAnimationFrame while the page pans over the whole run, while it zooms in and out
between all of it and some ms, and while it is filtered anew. All are medians over the rounds.
Needs playwright and Chromium (CHROMIUM names it).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from bench.support.figures import percentile, say, table
from tests.support.reports import big_run

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
ARGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
RENDER = """
import json, resource, sys, time
from pathlib import Path
from krucible.stores import run_at
began = time.perf_counter()
run_at(Path(sys.argv[1])).write_report()
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss]))
"""
OPEN = """() => new Promise((done) => {
  const drawn = document.getElementById("window").textContent !== "";
  const usable = document.documentElement.hasAttribute("data-ready");
  requestAnimationFrame(() => done([drawn, usable, performance.now() / 1000]));
})"""
MOVE = """async ([moves, key]) => {
  const canvas = document.getElementById("base"), frames = [];
  const frame = () => new Promise(requestAnimationFrame);
  let last = await frame();
  for (let i = 0; i < moves; i++) {
    const code = Array.isArray(key) ? key[Math.floor(i / (moves / key.length))] : key;
    canvas.dispatchEvent(new KeyboardEvent("keydown", { key: code, bubbles: true }));
    const now = await frame();
    frames.push(now - last);
    last = now;
  }
  return frames;
}"""
FILTER = """async () => {
  const frame = () => new Promise(requestAnimationFrame), times = [];
  for (let i = 0; i < 6; i++) {
    const before = performance.now();
    document.querySelector("#outcomes button").click();
    await frame();
    await frame();
    times.push(performance.now() - before);
  }
  return times;
}"""


@dataclass(frozen=True, slots=True)
class Opened:
    """One visit: seconds, and frame times in ms by what was done."""

    drawn_s: float
    usable_s: float
    frames: dict[str, list[float]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ops", type=int, action="append", help="client ops; repeatable")
    parser.add_argument("--rounds", type=int, default=3, help="visits of each page")
    parser.add_argument("--keep", type=Path, help="leave stores and pages in this folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="krucible-bench-") as folder:
        place = options.keep or Path(folder)
        rows = [measure(place, ops, options.rounds) for ops in options.ops or [100_000, 1_000_000]]
    names = list(rows[0])
    print(table(["", *(row["ops"] for row in rows)], [[n, *(r[n] for r in rows)] for n in names]))


def measure(place: Path, ops: int, rounds: int) -> dict[str, str]:
    """Everything about one size, by name."""
    run = big_run.make(place / f"store-{ops}", ops=ops)
    say(f"{ops} ops: {run.path}")
    wall_s, cpu_s, peak_mb = render(run.path)
    say(f"rendered in {wall_s:.1f} s")
    visits = [visit(run.report) for _ in range(rounds)]
    shown = {
        "ops": f"{ops:,}",
        "events": f"{sum(_lines(p) for p in run.events_dir.iterdir()):,}",
        "store MB": f"{sum(p.stat().st_size for p in run.path.rglob('*.jsonl')) / 1e6:.0f}",
        "render, wall s": f"{wall_s:.1f}",
        "render, CPU s": f"{cpu_s:.1f}",
        "render, peak RSS MB": f"{peak_mb:.0f}",
        "file MB": f"{run.report.stat().st_size / 1e6:.2f}",
        "drawn s": f"{statistics.median(v.drawn_s for v in visits):.2f}",
        "usable s": f"{statistics.median(v.usable_s for v in visits):.2f}",
    }
    for name in visits[0].frames:
        times = [ms for v in visits for ms in v.frames[name]]
        half, most = statistics.median(times), percentile(times, 95)
        shown[f"{name}, ms p50 / p95 / max"] = f"{half:.0f} / {most:.0f} / {max(times):.0f}"
    return shown


def render(run: Path) -> tuple[float, float, float]:
    """Wall and CPU seconds and peak RSS in MB of a process that renders the run."""
    words = [sys.executable, "-c", RENDER, str(run)]
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
    wall_s, cpu_s, peak_kb = json.loads(done.stdout)
    return wall_s, cpu_s, peak_kb / 1024


def visit(page_file: Path) -> Opened:
    """Open a report in a Chromium of its own and move about."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGS))
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.goto(page_file.as_uri(), wait_until="commit")
        drawn_s = usable_s = 0.0
        while not usable_s:
            drawn, usable, now_s = _poll(page)
            drawn_s = drawn_s or (now_s if drawn else 0.0)
            usable_s = now_s if usable else 0.0
        page.locator("#base").scroll_into_view_if_needed()
        frames = {
            "zoom": page.evaluate(MOVE, [40, ["+", "-"]]),
            "pan, all in view": page.evaluate(MOVE, [60, ["-", "+", "ArrowRight", "ArrowLeft"]]),
        }
        for _ in range(3):
            page.evaluate(MOVE, [1, "+"])
        frames["pan, an eighth in view"] = page.evaluate(MOVE, [60, ["ArrowRight", "ArrowLeft"]])
        frames["filter"] = page.evaluate(FILTER)
        browser.close()
    return Opened(drawn_s, usable_s, frames)


def _poll(page: Any) -> tuple[bool, bool, float]:
    found = page.evaluate(OPEN)
    return bool(found[0]), bool(found[1]), float(found[2])


def _lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))


if __name__ == "__main__":
    main()
