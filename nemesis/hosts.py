"""What faults of whole hosts share: where they can be used, and what they claim."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from harness.hosts import Clocks, Disks, Movable, Power
from harness.protocols import Cluster, Kill, Simulated
from harness.registry import environments, systems
from harness.spec import SIM, RunSpec

# A process that a fault has ended or frozen, and will start or thaw. All such faults claim this one
# thing: what is frozen cannot be killed meanwhile, or there would be nothing left to thaw.
PROCESS: Final = "process"
_WHAT: Final[Mapping[Any, str]] = {
    Disks: "break the disks of its nodes",
    Power: "cut the power of its nodes",
    Clocks: "set the clocks of its nodes",
    Movable: "move its nodes",
}
DISK: Final = "disk"  # a disk that a fault has broken, and will mend


def needs_sim(spec: RunSpec) -> str | None:
    """Why a fault that only simulated hosts know cannot be used in a run; None when it can."""
    return None if spec.env == SIM else f"environment {spec.env!r} cannot do it, only {SIM!r} can"


def needs(ability: type, spec: RunSpec) -> str | None:
    """Why a run with such options has not an ability of ``harness.hosts``; None when it has.

    It takes an environment whose class has it, and says it can, and nodes with the seams for it.
    """
    if spec.env == SIM:
        return None
    environment = environments.get(spec.env)
    if not isinstance(environment, type) or not issubclass(environment, ability):
        return f"environment {spec.env!r} cannot {_WHAT[ability]}"
    system = systems.get(spec.system)
    if not isinstance(system, type) or not issubclass(system, Simulated):
        return f"nodes of system {spec.system!r} have no seam to {_WHAT[ability]} at"
    return refusal(ability, environment)


def refusal(ability: type, environment: object) -> str | None:
    """What an environment, or its class, says against an ability that it has; None: nothing.

    ``cannot`` tells it of a class already, ``lacks`` what a set-up has found.
    """
    asks = [getattr(environment, "cannot", None)]
    if not isinstance(environment, type):
        asks.append(getattr(environment, "lacks", None))
    return next((reason for ask in asks if ask is not None and (reason := ask(ability))), None)


def needs_kill(cluster: Cluster) -> str | None:
    """Why nodes cannot be ended and started here; None when they can."""
    if isinstance(cluster.system, Kill):
        return None
    return f"system {cluster.system.name!r} cannot restart its nodes"


def needs_disks(cluster: Cluster) -> str | None:
    """Why the disks of nodes cannot be broken here; None when they can."""
    if not isinstance(cluster.environment, Disks):
        return f"environment {cluster.environment.name!r} cannot {_WHAT[Disks]}"
    if not isinstance(cluster.system, Simulated):
        return f"nodes of system {cluster.system.name!r} have no seam to {_WHAT[Disks]} at"
    return needs_kill(cluster)
