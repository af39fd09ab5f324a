"""Invariants as DataFrame transforms: joins, windows and aggregations over the events of all runs.

A transform gives rows (run_id, message, time_ns) for what breaks its invariant; ``base`` has what
they share, ``logs`` rebuilds what each replica's log held, and the others hold the invariants. They
take nothing from the checkers of single runs but the statements: a second judgement by other means.
"""

from __future__ import annotations

import importlib
import pkgutil

from pipeline.transforms.base import READ, TRANSFORMS, Tables, Transformed, judge_all

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

REPLACED = frozenset(name for name, each in TRANSFORMS.items() if each.whole)

__all__ = ["READ", "REPLACED", "TRANSFORMS", "Tables", "Transformed", "judge_all"]
