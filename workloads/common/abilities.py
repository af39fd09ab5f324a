"""Refuses a run of a workload before it begins, where the system lacks what that needs."""

from __future__ import annotations

from harness.errors import UsageError
from harness.registry import systems
from harness.spec import RunSpec


def refuse_without(ability: type, spec: RunSpec) -> None:
    """Raise UsageError with the reason why runs with such options have not an ability."""
    reason = systems.traits(spec.system).of(spec).why_not(ability, spec)
    if reason is not None:
        raise UsageError(f"workload {spec.workload!r}: {reason}")
