"""The base of faults of whole hosts: where they can be used, and what they claim."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from harness.contracts.abilities import Kill, Simulated, StoresLogs
from harness.contracts.hosts import AsksJvms, Clocks, Disks, Explains, MountsDisks, Movable, Power
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
    """Tell why a run with such options has not an ability of ``contracts.hosts``; None when it has.

    It takes an environment that has it, and says it can, and nodes with the seams for it;
    or, for disks, any nodes that a file system of ours can be put under, and for clocks JVMs.
    """
    if spec.env == SIM:
        return systems.traits(spec.system).of(spec).why_not(ability, spec)
    traits, system = environments.traits(spec.env), systems.get(spec.system)
    if ability not in traits.hosts:
        return f"environment {spec.env!r} cannot {_WHAT[ability]}"
    says = traits.why_not
    return _seamless(ability, spec.system, system, traits.hosts.__contains__, says) or says(ability)


def needs_seam(ability: type, cluster: Cluster) -> str | None:
    """Tell why a cluster's nodes have no seam for an ability to act on; None when they have."""
    if cluster.environment.name == SIM and has(Simulated, cluster.system):
        return None
    can = partial(has, what=cluster.environment)
    says = partial(why_not, environment=cluster.environment)
    return _seamless(ability, cluster.system.name, cluster.system, can, says)


def _seamless(
    ability: type,
    name: str,
    system: object,
    can: Callable[[type], bool],
    says: Callable[[type], str | None],
) -> str | None:
    """Do as ``needs_seam``, for a system or its class, and what an environment can and says."""
    if has(Simulated, system) and not systems.traits(name).jvms:
        return None  # its live nodes are ours, too
    lacks = f"system {name!r} has no seam to {_WHAT[ability]}"
    if ability in (Disks, Power) and has(StoresLogs, system):
        under = f"{lacks}, and no file system of ours can be put under them there"
        return says(MountsDisks) if can(MountsDisks) else under
    if ability is Clocks and can(AsksJvms) and systems.traits(name).jvms:
        return None
    return lacks


def has(ability: type, what: object) -> bool:
    """Tell whether something has an ability, or a class whose objects have it."""
    return issubclass(what, ability) if isinstance(what, type) else isinstance(what, ability)


def why_not(ability: type, environment: object) -> str | None:
    """Tell what an environment says against an ability that it, or its net, has; None: nothing."""
    return environment.why_not(ability) if isinstance(environment, Explains) else None


def needs_kill(cluster: Cluster) -> str | None:
    """Tell why nodes cannot be ended and started here; None when they can."""
    if isinstance(cluster.system, Kill):
        return None
    return f"system {cluster.system.name!r} cannot restart its nodes"


def needs_disks(cluster: Cluster) -> str | None:
    """Tell why the disks of nodes cannot be broken here; None when they can."""
    if not isinstance(cluster.environment, Disks):
        return f"environment {cluster.environment.name!r} cannot {_WHAT[Disks]}"
    return needs_seam(Disks, cluster) or needs_kill(cluster)
