"""What faults of whole hosts share: where they can be used, and what they claim."""

from __future__ import annotations

from typing import Final

from harness.hosts import Disks
from harness.protocols import Cluster, Kill
from harness.spec import SIM, RunSpec

# A process that a fault has ended or frozen, and will start or thaw. All such faults claim this one
# thing: what is frozen cannot be killed meanwhile, or there would be nothing left to thaw.
PROCESS: Final = "process"
DISK: Final = "disk"  # a disk that a fault has broken, and will mend


def needs_sim(spec: RunSpec) -> str | None:
    """Why a fault that only simulated hosts know cannot be used in a run; None when it can."""
    return None if spec.env == SIM else f"environment {spec.env!r} cannot do it, only {SIM!r} can"


def needs_kill(cluster: Cluster) -> str | None:
    """Why nodes cannot be ended and started here; None when they can."""
    if isinstance(cluster.system, Kill):
        return None
    return f"system {cluster.system.name!r} cannot restart its nodes"


def needs_disks(cluster: Cluster) -> str | None:
    """Why the disks of nodes cannot be broken here; None when they can."""
    if not isinstance(cluster.environment, Disks):
        return f"environment {cluster.environment.name!r} cannot break the disks of its nodes"
    return needs_kill(cluster)
