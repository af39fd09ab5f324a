"""The HTML report of one run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.protocols import RunData
from reports.build import build_model
from reports.html import render


def render_run(run: RunData, result: Mapping[str, Any]) -> str:
    """One self-contained, offline HTML file about a run; equal input gives equal bytes.

    Args:
        run: What the run left behind; any of it may be hostile text.
        result: The judge's answer as JSON: ``system``, ``coverage`` and ``harness`` (each a word,
            or an object with ``valid`` and ``reasons``), ``results`` and ``anomalies`` as their
            ``to_json`` writes them; optional ``store`` (the run's folder) and ``versions``.
    """
    return render(build_model(run, result))
