"""SIGTERM: the process leaves in good order, as an operator's restart has it.

A leader resigns, a broker hands over what it leads; what it is slow to do is not waited for for
ever. Without a word of it the process is ended the hard way, as service managers do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from harness.contracts.nemesis import Cluster, Fault, Injection
from harness.errors import HarnessError
from harness.registry import nemeses
from nemesis.common import claims
from nemesis.common.hosts import PROCESS, needs_kill
from nemesis.common.leaving import GONE_S, end_late, leave
from nemesis.common.restarts import restart
from nemesis.common.taking import take
from nemesis.common.targets import draw_target
from nemesis.common.turns import in_turn


@dataclass(frozen=True, slots=True)
class _Undo:
    """The nodes that we told to leave, with the pid each had."""

    pids: Mapping[str, int | None]


@nemeses.register("stop")
class StopNodes:
    """Stop nodes in good order with SIGTERM (leader, follower, observer, all); heal starts them.

    Params: ``target``, a name of ``nemesis.common.targets``.
    """

    family = "lifecycle"

    def available(self, cluster: Cluster) -> str | None:
        """The system must be able to start its nodes."""
        return needs_kill(cluster)

    def params(self, rng: Random) -> Mapping[str, Any]:
        """Draw a target."""
        return {"target": draw_target(rng)}

    @in_turn
    async def inject(self, fault: Fault, cluster: Cluster) -> Injection:
        """Stop the targets that run; evidence: how each process ended, and after how long."""
        if self.available(cluster) is not None:
            return Injection("skipped", reason=self.available(cluster))
        taken = await take(fault, cluster, PROCESS)
        nodes = taken.nodes
        if not nodes:
            return Injection(
                "skipped",
                reason=taken.forbidden or f"no {taken.target} is running that could be stopped",
            )
        undo = _Undo(taken.pids)
        seen = await asyncio.gather(*(leave(node, cluster, GONE_S) for node in nodes))
        evidence = (taken.evidence(), *seen)
        deaf = [f"{e['node']}: {e['error']}" for e in seen if e["error"] is not None]
        if deaf:
            return Injection("failed", nodes, "; ".join(deaf), evidence, undo)
        return Injection("installed", nodes, None, evidence, undo)

    async def heal(self, fault: Fault, injection: Injection, cluster: Cluster) -> Mapping[str, Any]:
        """Start what has left, and end what has not; evidence: a new process that answers."""
        undo = injection.undo
        if not isinstance(undo, _Undo):
            raise HarnessError(f"fault {fault.id} left nothing for stop to heal")
        late = await end_late(undo.pids, cluster)
        seen = await restart(undo.pids, cluster)
        claims.release(cluster, fault.id, [(PROCESS, node) for node in undo.pids])
        return {**seen, "killed": late}
