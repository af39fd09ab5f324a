"""The command line opens stores here: their runs get a report, which the harness cannot draw."""

from __future__ import annotations

from pathlib import Path

from harness.store.folder import RunDir, Store
from krucible.program import typed


def opened(root: Path) -> Store:
    """Open a store whose new runs, and those found in it, can write their report."""
    return Store(root, render=_render)


def run_at(path: Path) -> RunDir:
    """Name the run in a folder, wherever that is; it can write its report."""
    return RunDir(path.resolve(), _render)


def _render(path: Path) -> str:
    from reports.run_report import render_stored  # noqa: PLC0415 - all pictures: not for --help

    return render_stored(path, typed())
