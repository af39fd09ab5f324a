"""Makes the pictures of the docs: ``python -m tools.pictures`` (``make pictures``), some minutes.

It simulates the runs and works off the night that the pages are of, renders them, and takes each
page's picture in Chromium, in both themes, into build/pictures. Those that docs name (``SHOTS``)
are then put into docs/. Runs are simulated from fixed seeds; how many histories a night judges is
a matter of the machine. Pictures show no path and no name of it.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from playwright import sync_api

from tools.chromium import chromium

ROOT: Final = Path(__file__).resolve().parents[1]
BUILD: Final = ROOT / "build" / "pictures"
SCHEMES: Final = ("light", "dark")
BYTES_MAX: Final = 250_000  # of a picture in docs
# Texts of the page in other words.
REWRITE: Final = """words => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode())
    for (const [old, now] of words)
      walker.currentNode.data = walker.currentNode.data.replaceAll(old, now);
}"""
NIGHT: Final = """\
budget = "1m"
jobs = 1

[on-failure]
repro-times = 2
shrink = "15s"

[[sim]]
name = "short"
time-limit = 5

[[sim]]
name = "dirty-reads"
workload = "register"
mutant = "dirty-list"
time-limit = 5

[[canary]]
mutant = "forgotten-vote"
budget = "30s"
"""


@dataclass(frozen=True, slots=True)
class Shot:
    """A picture of a page: what docs call it, where they show it, and what part of the page."""

    name: str
    shown: str  # the page of the docs
    page: str  # of ``PAGES``
    scheme: str
    size: tuple[int, int]
    at: str = ""  # what is to stand at the top, a CSS selector; else the page's beginning


SHOTS: Final = (
    Shot("report", "README.md", "vote", "light", (1280, 860)),
    Shot("tutorial", "docs/tutorial.md", "forgotten", "light", (1280, 760)),
    Shot("timeline", "docs/report.md", "vote", "dark", (1280, 760), at="#timeline"),
    Shot("night", "docs/seven-am.md", "night", "light", (1280, 760)),
    Shot("fleet", "docs/nightly.md", "night", "dark", (1280, 760), at="#time"),
)


def _krucible(*words: str | Path, exits: Sequence[int]) -> None:
    # found on the path, it stands in pages by its bare name
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    argv = ["krucible", *map(str, words)]
    done = subprocess.run(
        argv, env={**os.environ, "PATH": path}, stdout=subprocess.DEVNULL, check=False
    )
    code = done.returncode
    if code not in exits:
        raise SystemExit(f"{' '.join(argv)} exited {code}, want {' or '.join(map(str, exits))}")


def _simulated(folder: Path, seed: int, mutant: str) -> Path:
    """The report of a run with a seeded bug."""
    store = folder / "store"
    _krucible("sim", "--seed", str(seed), "--mutant", mutant, "--store", store, exits=(1,))
    return store / "latest" / "report.html"


def _vote(folder: Path) -> Path:
    return _simulated(folder, 4, "revoked-vote")


def _forgotten(folder: Path) -> Path:
    return _simulated(folder, 2, "forgotten-vote")


def _night(folder: Path) -> Path:
    """The page of a night that is red for one seeded bug, in a store of some runs."""
    store = folder / "store"
    short = ("--jobs", "1", "--time-limit", "5")
    _krucible("sim", "--seeds", "1..6", *short, "--save", "--store", store, exits=(0, 2))
    (folder / "night.toml").write_text(NIGHT, encoding="utf-8")
    _krucible("nightly", "--plan", folder / "night.toml", "--store", store, exits=(1,))
    return next(store.glob("nights/*/fleet.html"))


PAGES: Final[dict[str, Callable[[Path], Path]]] = {
    "vote": _vote,
    "forgotten": _forgotten,
    "night": _night,
}


def _take(browser: Any, page: Path, shot: Shot, scheme: str, to: Path) -> None:
    width, height = shot.size
    viewport = {"width": width, "height": height}
    context = browser.new_context(viewport=viewport, color_scheme=scheme)
    opened = context.new_page()
    opened.goto(page.as_uri())
    opened.wait_for_load_state()
    opened.evaluate(REWRITE, [[str(BUILD / shot.page), "~"], [f" {platform.node()}", " laptop"]])
    if shot.at:
        opened.locator(shot.at).evaluate("element => element.scrollIntoView()")
    opened.screenshot(path=to)
    context.close()


def make(names: Sequence[str]) -> None:
    """Make the pages that these pictures are of, and take them."""
    wanted = [shot for shot in SHOTS if shot.name in names]
    pages: dict[str, Path] = {}
    for name in dict.fromkeys(shot.page for shot in wanted):
        folder = BUILD / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        pages[name] = PAGES[name](folder)
    with chromium(sync_api) as browser:
        for shot in wanted:
            for scheme in SCHEMES:
                to = BUILD / f"{shot.name}-{scheme}.png"
                _take(browser, pages[shot.page], shot, scheme, to)
            chosen = BUILD / f"{shot.name}-{shot.scheme}.png"
            if chosen.stat().st_size > BYTES_MAX:
                raise SystemExit(f"{chosen} has {chosen.stat().st_size} bytes, over {BYTES_MAX}")
            shutil.copyfile(chosen, ROOT / "docs" / f"{shot.name}.png")


def main() -> None:
    """Make all, or those that are named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("name", nargs="*", help=f"of {', '.join(shot.name for shot in SHOTS)}")
    names = parser.parse_args().name or [shot.name for shot in SHOTS]
    if unknown := set(names) - {shot.name for shot in SHOTS}:
        parser.error(f"no picture is called {', '.join(sorted(unknown))}")
    make(names)


if __name__ == "__main__":
    main()
