"""Another release of the software on the same disk, and back: the upgrade of a node, one at a time.

As an operator does it: the process leaves in good order, and one of the other release is started.
Source: KIP-778, KIP-584: nodes of several releases are in one cluster until it is finalized.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from harness.contracts.nemesis import Cluster, Fault, Injection
from harness.errors import HarnessError
from harness.registry import nemeses
from harness.spec import RunSpec
from nemesis.common import claims
from nemesis.common.evidence import installed_releases
from nemesis.common.hosts import PROCESS
from nemesis.common.releases import (
    change,
    needs_releases,
    releasing,
    why_not_changed,
    why_one_release,
)
from nemesis.common.restarts import restart
from nemesis.common.taking import take
from nemesis.common.targets import draw_target, fault_rng
from nemesis.common.turns import in_turn

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
        return why_one_release(spec)

    def available(self, cluster: Cluster) -> str | None:
        """The system must have releases, and be able to start its nodes."""
        return needs_releases(cluster)

    def params(self, rng: Random) -> Mapping[str, Any]:
        """Draw a target, and whether it stays so."""
        return {"target": draw_target(rng, _TARGETS), "stays": rng.random() < 0.5}  # noqa: PLR2004

    @in_turn
    async def inject(self, fault: Fault, cluster: Cluster) -> Injection:
        """Restart the target with another release; evidence: its end, both releases, an answer."""
        if self.available(cluster) is not None:
            return Injection("skipped", reason=self.available(cluster))
        system = releasing(cluster)
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
        seen = await change(fault, undo.pids, wanted, cluster)
        if not seen:
            claims.release(cluster, fault.id, [(PROCESS, node) for node in wanted])
            return Injection("skipped", reason="another node is between two releases")
        evidence = (taken.evidence(), *seen)
        if (why := why_not_changed(seen)) is not None:
            return Injection("failed", tuple(wanted), why, evidence, undo)
        return Injection("installed", tuple(wanted), None, evidence, undo)

    async def heal(self, fault: Fault, injection: Injection, cluster: Cluster) -> Mapping[str, Any]:
        """Take the target back to its release, or let it stay; evidence: the release it has."""
        undo = injection.undo
        if not isinstance(undo, _Undo):
            raise HarnessError(f"fault {fault.id} left nothing for upgrade to heal")
        pids = {node: cluster.environment.process(node).pid for node in undo.pids}
        if fault.params.get("stays"):
            seen: list[Mapping[str, Any]] = [await restart(pids, cluster)]
        else:
            seen = await change(fault, pids, undo.releases, cluster, must=True)
        claims.release(cluster, fault.id, [(PROCESS, node) for node in undo.pids])
        return {"seen": seen, "releases": installed_releases(undo.pids, cluster)}
