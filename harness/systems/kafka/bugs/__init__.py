"""Bugs of Apache Kafka that were released: each in a file of its own, with ``BUG`` in it.

They live in Kafka's raft, metadata or controller. The affected and the fixed release are run on
the same seeds by ``krucible zoo --arm releases``.
"""

from __future__ import annotations

import importlib
import pkgutil

from harness.contracts.released import ReleasedBug


def load() -> tuple[ReleasedBug, ...]:
    """Give all of them, by name."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    found = [importlib.import_module(f"{__name__}.{name}").BUG for name in names]
    return tuple(sorted(found, key=lambda bug: str(bug.name)))
