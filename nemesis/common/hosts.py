"""What faults of whole hosts share: where they can be used, and what they claim."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from harness.contracts.abilities import Kill, Simulated, StoresLogs
from harness.contracts.hosts import AsksJvms, Clocks, Disks, MountsDisks, Movable, Power
from harness.contracts.nemesis import Cluster
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


def needs(ability: type, spec: RunSpec) -> str | None:
    """Why a run with such options has not an ability of ``harness.hosts``; None when it has.

    It takes an environment whose class has it, and says it can, and nodes with the seams for it;
    or, for disks, any nodes that a file system of ours can be put under, and for clocks JVMs.
    """
    if spec.env == SIM:
        return None
    environment = environments.get(spec.env)
    if not isinstance(environment, type) or not issubclass(environment, ability):
        return f"environment {spec.env!r} cannot {_WHAT[ability]}"
    system = systems.get(spec.system)
    return needs_seam(ability, spec.system, system, environment) or refusal(ability, environment)


def needs_seam(ability: type, name: str, system: object, environment: object) -> str | None:
    """Why nodes of a system, called ``name``, cannot be had at there; None when they can.

    Both are classes, or made of them.
    """
    if _has(Simulated, system):
        return None
    if ability in (Disks, Power) and _has(StoresLogs, system) and _has(MountsDisks, environment):
        ask: Callable[[], str | None] = getattr(environment, "cannot_mount")  # noqa: B009 - a class
        return ask()
    if ability is Clocks and getattr(system, "jvms", False) and _has(AsksJvms, environment):
        return None
    return f"nodes of system {name!r} have no seam to {_WHAT[ability]} at"


def _has(protocol: type, what: object) -> bool:
    return issubclass(what, protocol) if isinstance(what, type) else isinstance(what, protocol)


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
    return needs_seam(
        Disks, cluster.system.name, cluster.system, cluster.environment
    ) or needs_kill(cluster)
