"""SIGSTOP: the process is frozen in mid-step, its sockets stay open, its clock runs on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from harness.contracts.abilities import Pause
from harness.contracts.nemesis import Cluster, Fault, Injection
from harness.errors import HarnessError
from harness.registry import nemeses
from nemesis.common import claims
from nemesis.common.evidence import answers
from nemesis.common.hosts import PROCESS
from nemesis.common.strike import strike
from nemesis.common.taking import take
from nemesis.common.targets import draw_target
from nemesis.common.turns import in_turn

_FROZEN = "T"
_NOT_RUNNING = ("gone", "Z", _FROZEN)


@dataclass(frozen=True, slots=True)
class _Undo:
    """The nodes we froze, with the pid each had."""

    pids: Mapping[str, int | None]


@nemeses.register("pause")
class PauseNodes:
    """Freeze nodes with SIGSTOP (leader, follower, a minority, a majority, all); heal thaws them.

    Params: ``target``, a name of ``nemesis.common.targets``.
    """

    family = "pause"

    def available(self, cluster: Cluster) -> str | None:
        """The system must be able to freeze and thaw its nodes."""
        if isinstance(cluster.system, Pause):
            return None
        return f"system {cluster.system.name!r} cannot freeze its nodes"

    def params(self, rng: Random) -> Mapping[str, Any]:
        """Draw a target."""
        return {"target": draw_target(rng)}

    @in_turn
    async def inject(self, fault: Fault, cluster: Cluster) -> Injection:
        """Freeze the targets that run; evidence: state T in /proc, and a request unanswered."""
        system = cluster.system
        if not isinstance(system, Pause):
            return Injection("skipped", reason=self.available(cluster))
        taken = await take(fault, cluster, PROCESS, but=_NOT_RUNNING)
        nodes = taken.nodes
        if not nodes:
            return Injection("skipped", reason=taken.why_none)
        undo = _Undo(taken.pids)
        results = await strike(fault, nodes, system.pause)
        seen = await asyncio.gather(*(_look(node, cluster) for node in nodes))
        evidence = (taken.evidence(), *seen)
        problems = [f"{n}: {r}" for n, r in zip(nodes, results, strict=True) if r is not None]
        problems += [f"{e['node']} is not frozen: {e}" for e in seen if not _is_frozen(e)]
        if problems:
            return Injection("failed", nodes, "; ".join(problems), evidence, undo)
        return Injection("installed", nodes, None, evidence, undo)

    async def heal(self, fault: Fault, injection: Injection, cluster: Cluster) -> Mapping[str, Any]:
        """Thaw what we froze and is still the same process; evidence is a state other than T."""
        system, undo = cluster.system, injection.undo
        if not isinstance(system, Pause) or not isinstance(undo, _Undo):
            raise HarnessError(f"fault {fault.id} left nothing for pause to heal")
        frozen = [n for n, pid in undo.pids.items() if _is_still_ours(n, pid, cluster)]
        results = await asyncio.gather(*map(system.resume, frozen), return_exceptions=True)
        seen = await asyncio.gather(*(_look(node, cluster) for node in undo.pids))
        stuck = [f"{n}: {r}" for n, r in zip(frozen, results, strict=True) if r is not None]
        stuck += [f"{e['node']} is in state T" for e in seen if e["state"] == _FROZEN]
        if stuck:
            raise HarnessError(f"cannot thaw: {'; '.join(stuck)}")
        claims.release(cluster, fault.id, [(PROCESS, node) for node in undo.pids])
        return {"thawed": frozen, "nodes": seen}


def _is_frozen(seen: Mapping[str, Any]) -> bool:
    return seen["state"] == _FROZEN and not seen["answered"]


def _is_still_ours(node: str, pid: int | None, cluster: Cluster) -> bool:
    """Tell whether the process we froze is there: another fault may have killed it meanwhile."""
    now = cluster.environment.process(node)
    return now.pid == pid and now.state == _FROZEN


async def _look(node: str, cluster: Cluster) -> dict[str, Any]:
    answer = await answers(node, cluster)
    now = cluster.environment.process(node)
    return {**answer, "pid": now.pid, "state": now.state}
