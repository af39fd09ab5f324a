"""Power failure: the process is gone, and from the disk what was not fsynced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from harness.contracts.hosts import Power
from harness.contracts.nemesis import Cluster, Fault, Injection
from harness.errors import HarnessError
from harness.registry import nemeses
from harness.spec import RunSpec
from nemesis.common import claims
from nemesis.common.hosts import PROCESS, needs, needs_kill, needs_seam
from nemesis.common.restarts import restart
from nemesis.common.strike import strike
from nemesis.common.taking import take
from nemesis.common.targets import draw_target
from nemesis.common.turns import in_turn

_TARGETS = {"leader": 3, "one": 2, "minority": 2, "majority": 2, "all": 2}


@dataclass(frozen=True, slots=True)
class _Undo:
    """The nodes that we took the power from, with the pid each had."""

    pids: Mapping[str, int | None]


@nemeses.register("power")
class LosePower:
    """Cut the power of nodes: un-fsynced writes are lost, some torn; heal starts them again.

    Params: ``target``, a name of ``nemesis.common.targets``; ``mid_write``, whether it fails within
    a write of each node, which must then never be found half done; ``clean``, whether nothing that
    was not fsynced survives, where else a drawn part of it may.
    """

    family = "power"
    asks = (Power,)

    def misfit(self, spec: RunSpec) -> str | None:
        """Tell why the run's hosts cannot lose what the kernel holds; None when they can."""
        return needs(Power, spec)

    def available(self, cluster: Cluster) -> str | None:
        """The environment must be able to take the power away, the system to start again."""
        if not isinstance(cluster.environment, Power):
            return f"environment {cluster.environment.name!r} cannot cut the power of its nodes"
        return needs_seam(Power, cluster) or needs_kill(cluster)

    def params(self, rng: Random) -> Mapping[str, Any]:
        """Draw a target and whether a write is under way."""
        return {"target": draw_target(rng, _TARGETS), "mid_write": rng.choice((True, False))}

    @in_turn
    async def inject(self, fault: Fault, cluster: Cluster) -> Injection:
        """Cut the power of the targets that run; evidence: the process gone, the bytes lost."""
        environment = cluster.environment
        if not isinstance(environment, Power) or self.available(cluster) is not None:
            return Injection("skipped", reason=self.available(cluster))
        taken = await take(fault, cluster, PROCESS)
        nodes = taken.nodes
        if not nodes:
            return Injection("skipped", reason=f"already down: {taken.chosen}")
        mid_write = bool(fault.params.get("mid_write", False))
        clean = bool(fault.params.get("clean", False))
        lose = partial(environment.power.lose, mid_write=mid_write, clean=clean)
        lost = await strike(fault, nodes, lose)
        if (broken := next((e for e in lost if isinstance(e, BaseException)), None)) is not None:
            raise broken
        seen = [
            {
                "saw": "power loss",
                "node": node,
                "was": taken.before[node].detail,
                "gone": cluster.environment.process(node).state == "gone",
                **told,
            }
            for node, told in zip(nodes, lost, strict=True)
            if not isinstance(told, BaseException)
        ]
        undo = _Undo(taken.pids)
        evidence = (taken.evidence(), *seen)
        alive = [str(e["node"]) for e in seen if not e["gone"]]
        if alive:
            return Injection("failed", nodes, f"still run: {', '.join(alive)}", evidence, undo)
        return Injection("installed", nodes, None, evidence, undo)

    async def heal(self, fault: Fault, injection: Injection, cluster: Cluster) -> Mapping[str, Any]:
        """Start what is still down; evidence is a new process that answers."""
        undo = injection.undo
        if not isinstance(undo, _Undo):
            raise HarnessError(f"fault {fault.id} left no node without power to heal")
        seen = await restart(undo.pids, cluster)
        claims.release(cluster, fault.id, [(PROCESS, node) for node in undo.pids])
        return seen
