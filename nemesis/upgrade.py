"""Another release of the software on the same disk, and back: the upgrade of a node, one at a time.

As an operator does it: the process leaves in good order, and one of the other release is started.
Source: KIP-778, KIP-584: nodes of several releases are in one cluster until it is finalized.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from harness.contracts.abilities import Releases
from harness.contracts.nemesis import Cluster, Fault, Injection
from harness.errors import HarnessError
from harness.registry import nemeses, systems
from harness.spec import RunSpec
from nemesis.common import claims
from nemesis.common.evidence import installed_releases
from nemesis.common.hosts import PROCESS, has, needs_kill
from nemesis.common.restarts import restart
from nemesis.common.taking import take
from nemesis.common.targets import draw_target, fault_rng
from nemesis.common.turns import in_turn
from nemesis.stop import GONE_S, end_late, leave

_TARGETS: Final = {"leader": 3, "follower": 3, "one": 2, "observer": 1}


@dataclass(frozen=True, slots=True)
class _Undo:
    """The nodes that went over to another release, with pid and release before."""

    pids: Mapping[str, int | None]
    releases: Mapping[str, str]


@nemeses.register("upgrade")
class Upgrade:
    """Restart a node with another release on its disk (leader, follower, one, observer).

    Heal takes it back to its release, unless it ``stays``: then a later fault may.

    Params: ``target``, a name of ``nemesis.common.targets``; ``stays``.
    """

    family = "lifecycle"

    def misfit(self, spec: RunSpec) -> str | None:
        """Tell why no node of a run can have another release; None when one can."""
        if not has(Releases, systems.get(spec.system)):
            return f"system {spec.system!r} has no releases"
        return systems.traits(spec.system).of(spec).why_not(Releases, spec)

    def available(self, cluster: Cluster) -> str | None:
        """The system must have releases, and be able to start its nodes."""
        if not isinstance(cluster.system, Releases):
            return f"system {cluster.system.name!r} has no releases"
        return needs_kill(cluster)

    def params(self, rng: Random) -> Mapping[str, Any]:
        """Draw a target, and whether it stays so."""
        return {"target": draw_target(rng, _TARGETS), "stays": rng.random() < 0.5}  # noqa: PLR2004

    @in_turn
    async def inject(self, fault: Fault, cluster: Cluster) -> Injection:
        """Restart the target with another release; evidence: its end, both releases, an answer."""
        system = cluster.system
        if not isinstance(system, Releases) or self.available(cluster) is not None:
            return Injection("skipped", reason=self.available(cluster))
        taken = await take(fault, cluster, PROCESS)
        rng = fault_rng(fault)
        others = {node: system.other_releases(node) for node in taken.nodes}
        wanted = {node: rng.choice(others[node]) for node in taken.nodes if others[node]}
        idle = [(PROCESS, node) for node in taken.nodes if node not in wanted]
        claims.release(cluster, fault.id, idle)
        if not wanted:
            return Injection("skipped", reason=f"no {taken.target} can have another release")
        undo = _Undo(
            {node: taken.pids[node] for node in wanted},
            {node: system.node_release(node) for node in wanted},
        )
        seen = await _change(undo.pids, wanted, cluster)
        evidence = (taken.evidence(), *seen)
        return Injection("installed", tuple(wanted), None, evidence, undo)

    async def heal(self, fault: Fault, injection: Injection, cluster: Cluster) -> Mapping[str, Any]:
        """Take the target back to its release, or let it stay; evidence: the release it has."""
        undo, system = injection.undo, cluster.system
        if not isinstance(undo, _Undo) or not isinstance(system, Releases):
            raise HarnessError(f"fault {fault.id} left nothing for upgrade to heal")
        pids = {node: cluster.environment.process(node).pid for node in undo.pids}
        if fault.params.get("stays"):
            seen: list[Mapping[str, Any]] = [await restart(pids, cluster)]
        else:
            seen = await _change(pids, undo.releases, cluster)
        claims.release(cluster, fault.id, [(PROCESS, node) for node in undo.pids])
        return {"seen": seen, "releases": installed_releases(undo.pids, cluster)}


async def _change(
    pids: Mapping[str, int | None], releases: Mapping[str, str], cluster: Cluster
) -> list[Mapping[str, Any]]:
    """End processes in good order, and start others of these releases; returns what was seen."""
    system = cluster.system
    if not isinstance(system, Releases):
        raise HarnessError(f"system {system.name!r} has no releases")
    before = installed_releases(pids, cluster)
    running = [node for node, pid in pids.items() if pid is not None]
    left = await asyncio.gather(*(leave(node, cluster, GONE_S) for node in running))
    late = await end_late(pids, cluster)
    for node, release in releases.items():
        system.install(node, release)
    back = await restart(pids, cluster)
    after = installed_releases(pids, cluster)
    return [*left, {"saw": "releases", "before": before, "after": after, "killed": late, **back}]
