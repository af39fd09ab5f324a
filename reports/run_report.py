"""The HTML report of one run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.processes.command import KRUCIBLE, Program
from harness.store.folder import RunDir
from harness.store.reading import load_results, open_run
from reports.build import build_model
from reports.html import render
from reports.source import Run


def render_run(
    run: Run,
    result: Mapping[str, Any],
    place: RunDir | None = None,
    program: Program = KRUCIBLE,
) -> str:
    """Render one self-contained, offline HTML file about a run; equal input gives equal bytes.

    Args:
        run: What the run left behind; any of it may be hostile text.
        result: The judge's answer as JSON: ``system``, ``coverage`` and ``harness`` (each a word,
            or an object with ``valid`` and ``reasons``), ``results`` and ``anomalies`` as their
            ``to_json`` writes them; optional ``versions``.
        place: The run's folder; the report has the commands that replay it.
        program: The command line as a person types it.
    """
    return render(build_model(run, result, place, program))


def render_stored(path: Path, program: Program = KRUCIBLE) -> str:
    """Render the report of the judged run in a folder, which is read line by line.

    Raises:
        UsageError: It has no readable ``spec.json``, or was not judged.
        HistoryFormatError: A line of its history is no op.
    """
    place = RunDir(path)
    run, results = open_run(path), load_results(place)
    if results is None:
        raise UsageError(f"{path} was not judged yet: `krucible check {path}` judges it")
    return render_run(run, results, place, program)
