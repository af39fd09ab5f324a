"""SIGKILL: the process is gone at once, its disk and the kernel's page cache stay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from harness.contracts.abilities import Kill
from harness.contracts.environment import ProcessState
from harness.contracts.nemesis import Cluster, Fault, Injection
from harness.errors import HarnessError
from harness.registry import nemeses
from nemesis.common import claims
from nemesis.common.hosts import PROCESS
from nemesis.common.restarts import restart
from nemesis.common.strike import strike
from nemesis.common.taking import take
from nemesis.common.targets import draw_target
from nemesis.common.turns import in_turn


@dataclass(frozen=True, slots=True)
class _Undo:
    """The nodes we killed, with the pid each had."""

    pids: Mapping[str, int | None]


@nemeses.register("kill")
class KillNodes:
    """Kill nodes with SIGKILL (leader, follower, a minority, a majority, all); heal restarts them.

    Params: ``target``, a name of ``nemesis.common.targets``.
    """

    family = "kill"

    def available(self, cluster: Cluster) -> str | None:
        """The system must be able to kill and start its nodes."""
        if isinstance(cluster.system, Kill):
            return None
        return f"system {cluster.system.name!r} cannot kill and restart its nodes"

    def params(self, rng: Random) -> Mapping[str, Any]:
        """Draw a target."""
        return {"target": draw_target(rng)}

    @in_turn
    async def inject(self, fault: Fault, cluster: Cluster) -> Injection:
        """Kill the targets that run; evidence is the kernel's word that each process is gone."""
        system = cluster.system
        if not isinstance(system, Kill):
            return Injection("skipped", reason=self.available(cluster))
        taken = await take(fault, cluster, PROCESS)
        nodes = taken.nodes
        if not nodes:
            return Injection("skipped", reason=taken.why_none)
        undo = _Undo(taken.pids)
        results = await strike(fault, nodes, system.kill)
        seen = [_gone(node, taken.before[node], cluster) for node in nodes]
        evidence = (taken.evidence(), *seen)
        problems = [f"{n}: {r}" for n, r in zip(nodes, results, strict=True) if r is not None]
        problems += [f"{e['node']} still runs" for e in seen if not e["gone"]]
        if problems:
            return Injection("failed", nodes, "; ".join(problems), evidence, undo)
        return Injection("installed", nodes, None, evidence, undo)

    async def heal(self, fault: Fault, injection: Injection, cluster: Cluster) -> Mapping[str, Any]:
        """Start what we killed and is still down; evidence is a new pid that answers."""
        system, undo = cluster.system, injection.undo
        if not isinstance(system, Kill) or not isinstance(undo, _Undo):
            raise HarnessError(f"fault {fault.id} left nothing for kill to heal")
        seen = await restart(undo.pids, cluster)
        claims.release(cluster, fault.id, [(PROCESS, node) for node in undo.pids])
        return seen


def _gone(node: str, before: ProcessState, cluster: Cluster) -> dict[str, Any]:
    now = cluster.environment.process(node)
    return {
        "saw": "process",
        "node": node,
        "was": before.detail or f"pid {before.pid}",
        "gone": now.state == "gone" or now.pid != before.pid,
        "detail": now.detail,
    }
