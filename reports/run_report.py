"""The HTML report of one run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.store.folder import RunDir
from harness.store.reading import load_results, open_run
from reports.build import build_model
from reports.html import render
from reports.source import Run


def render_run(run: Run, result: Mapping[str, Any]) -> str:
    """One self-contained, offline HTML file about a run; equal input gives equal bytes.

    Args:
        run: What the run left behind; any of it may be hostile text.
        result: The judge's answer as JSON: ``system``, ``coverage`` and ``harness`` (each a word,
            or an object with ``valid`` and ``reasons``), ``results`` and ``anomalies`` as their
            ``to_json`` writes them; optional ``store`` (the run's folder) and ``versions``.
    """
    return render(build_model(run, result))


def render_stored(path: Path) -> str:
    """The report of the judged run in a folder, which is read line by line: it may be a long one.

    Raises:
        UsageError: It has no readable ``spec.json``, or was not judged.
        HistoryFormatError: A line of its history is no op.
    """
    run, results = open_run(path), load_results(RunDir(path))
    if results is None:
        raise UsageError(f"{path} was not judged yet: `krucible check` it first")
    return render_run(run, results)
