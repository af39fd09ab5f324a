"""What faults of whole hosts share: where they can be used, and on which nodes they lie."""

from __future__ import annotations

from harness.spec import SIM, RunSpec


def needs_sim(spec: RunSpec) -> str | None:
    """Why a fault that only simulated hosts know cannot be used in a run; None when it can."""
    return None if spec.env == SIM else f"environment {spec.env!r} cannot do it, only {SIM!r} can"
