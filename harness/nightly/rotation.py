"""Keeping a store under its limit: valid runs go, the oldest first; all others stay."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path

from harness.store.folder import RunDir, Store
from harness.store.reading import load_results
from harness.verdict import Valid


@dataclass(frozen=True, slots=True)
class Rotated:
    """The runs that were dropped, and the bytes of runs that are left."""

    dropped: tuple[Path, ...]
    left_bytes: int


def rotate(store: Store, limit_bytes: int, keep: Container[str] = ()) -> Rotated:
    """Drop valid runs until all runs together fit, or none is left that may go.

    A run may go when its ``results.json`` calls it valid on all axes and ``keep`` does not hold its
    name. One that is still under way, was cut short, failed, or is in doubt is never touched.
    """
    sizes = [(run, store.home.size(run.path)) for run in store.runs()]
    total = sum(size for _, size in sizes)
    dropped: list[Path] = []
    for run, size in sizes:
        if total <= limit_bytes:
            break
        if run.told in keep:
            continue
        store.home.fetch(run.path, run.results.name)
        if not is_valid(run):
            continue
        store.home.drop(run.path)
        dropped.append(run.path)
        total -= size
    return Rotated(tuple(dropped), total)


def is_valid(run: RunDir) -> bool:
    """Tell whether a run was judged, and found valid on all three axes."""
    try:
        results = load_results(run)
    except OSError:
        return False
    return results is not None and (  # not judged: nobody knows what is in it
        results.get("system"),
        results.get("coverage"),
        results.get("harness"),
    ) == (Valid.VALID, Valid.VALID, "ok")
