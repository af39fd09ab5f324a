"""Imports what simulations import on their way, once and ahead of the processes that do them.

A process that is forked afterwards has it from the beginning. For a second of CPU that is much
beside one short run, of which a search has thousands, each in a process of its own.
"""

from __future__ import annotations

from functools import cache

from harness.registry import checkers, environments, models, nemeses, systems, watches, workloads


@cache
def import_ahead() -> None:
    """Import the simulator and all plug-ins."""
    import harness.sessions.simulated  # noqa: F401, PLC0415 - not before it is asked for

    for registry in (systems, environments, nemeses, workloads, checkers, models, watches):
        registry.load()
