"""Restarts that go on for as long as the fault does: a rolling restart, a restart storm.

What goes on in the background is a task of the fault; its heal ends it, and starts what is down.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from harness.contracts.abilities import Kill
from harness.contracts.nemesis import Cluster, Fault, Injection
from harness.contracts.system import System
from harness.errors import EnvError, HarnessError, NodeStartError
from harness.registry import nemeses
from nemesis.common import claims
from nemesis.common.hosts import PROCESS, needs_kill
from nemesis.common.leaving import end_late, leave
from nemesis.common.restarts import restart
from nemesis.common.targets import aim, draw_target, fault_rng
from nemesis.common.turns import in_turn

LEAVE_S = 5.0  # for a node of a rolling restart to leave by itself
_POLL_S = 0.01
_ANSWERS = "answers"


@dataclass(slots=True)
class _Undo:
    """A cycle under way: the nodes it may hit with the pid each had, and what it did so far."""

    pids: Mapping[str, int | None]
    cycles: list[dict[str, Any]]
    over: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


class Cycles:
    """The base of both; a kind says whom it hits, and what it does to them."""

    family = "lifecycle"

    def available(self, cluster: Cluster) -> str | None:
        """The system must be able to start its nodes."""
        return needs_kill(cluster)

    async def nodes(self, fault: Fault, cluster: Cluster) -> tuple[list[str], dict[str, Any]]:
        """Whom to hit, and how they were chosen."""
        raise NotImplementedError

    async def cycle(self, undo: _Undo, fault: Fault, cluster: Cluster) -> None:
        """End and start nodes until there is nothing more to do, or ``undo.over``."""
        raise NotImplementedError

    @in_turn
    async def inject(self, fault: Fault, cluster: Cluster) -> Injection:
        """Begin; evidence: the first process that ended."""
        if self.available(cluster) is not None:
            return Injection("skipped", reason=self.available(cluster))
        wanted, how = await self.nodes(fault, cluster)
        pids = {node: cluster.environment.process(node).pid for node in wanted}
        running = [(PROCESS, node) for node, pid in pids.items() if pid is not None]
        nodes = [node for _, node in claims.claim_free(cluster, fault.id, running)]
        if not nodes:
            return Injection("skipped", reason=f"none of {', '.join(wanted)} is running and free")
        undo = _Undo({node: pids[node] for node in nodes}, [])
        undo.task = asyncio.create_task(self.cycle(undo, fault, cluster), name=f"cycles-{fault.id}")
        while not undo.cycles and not undo.task.done():  # noqa: ASYNC110 - as elsewhere
            await asyncio.sleep(_POLL_S)
        if not undo.cycles:
            await undo.task  # it raises what went wrong
        return Injection("installed", tuple(nodes), None, (how, dict(undo.cycles[0])), undo)

    async def heal(self, fault: Fault, injection: Injection, cluster: Cluster) -> Mapping[str, Any]:
        """Wait for the restarts to end, start what is down; evidence: processes that answer."""
        undo = injection.undo
        if not isinstance(undo, _Undo) or undo.task is None:
            raise HarnessError(f"fault {fault.id} left no restarts to end")
        undo.over.set()
        await asyncio.wait((undo.task,))
        seen = await restart(undo.pids, cluster)  # however it ended
        claims.release(cluster, fault.id, [(PROCESS, node) for node in undo.pids])
        if isinstance(broke := undo.task.exception(), EnvError):
            seen["ended_by"] = str(broke)
        else:
            undo.task.result()
        unstarted = [c for c in undo.cycles if c.get("started") not in (None, _ANSWERS)]
        return {**seen, "cycles": len(undo.cycles), "unstarted": unstarted}


@nemeses.register("rolling-restart")
class RollingRestart(Cycles):
    """Stop and start one node after the other, round after round; heal stops that.

    Params: ``pause_ms`` between a node's start and the next one's end; ``down_ms``.
    """

    def params(self, rng: Random) -> Mapping[str, Any]:
        """Draw how hasty it is."""
        return {"pause_ms": rng.choice((0, 100, 500)), "down_ms": rng.choice((0, 100, 700))}

    async def nodes(self, fault: Fault, cluster: Cluster) -> tuple[list[str], dict[str, Any]]:
        """All, in an order of the fault's own."""
        nodes = list(cluster.system.nodes)
        fault_rng(fault).shuffle(nodes)
        return nodes, {"saw": "targets", "target": "all", "nodes": nodes}

    async def cycle(self, undo: _Undo, fault: Fault, cluster: Cluster) -> None:
        """One after another, then from the first again."""
        system = _killable(cluster)
        for node in itertools.cycle(undo.pids):
            if undo.over.is_set():
                return
            pid = cluster.environment.process(node).pid
            left = await leave(node, cluster, LEAVE_S)
            undo.cycles.append(left)
            await end_late({node: pid}, cluster)
            await _sleep(undo, int(fault.params.get("down_ms", 0)))
            left["started"] = await _start(node, system)
            await _sleep(undo, int(fault.params.get("pause_ms", 0)))


@nemeses.register("restart-storm")
class RestartStorm(Cycles):
    """Kill and start nodes repeatedly, a moment later each time; heal lets them run.

    Params: ``target``, a name of ``nemesis.common.targets``; ``up_ms``, ``down_ms``.
    """

    def params(self, rng: Random) -> Mapping[str, Any]:
        """Draw a target and how often."""
        return {
            "target": draw_target(rng),
            "up_ms": rng.choice((20, 100, 300, 800)),
            "down_ms": rng.choice((0, 50, 200)),
        }

    async def nodes(self, fault: Fault, cluster: Cluster) -> tuple[list[str], dict[str, Any]]:
        """The target's."""
        target, choice = await aim(fault, cluster, PROCESS)
        return list(choice.nodes), choice.evidence(target)

    async def cycle(self, undo: _Undo, fault: Fault, cluster: Cluster) -> None:
        """Again and again."""
        await asyncio.gather(*(self._storm(node, undo, fault, cluster) for node in undo.pids))

    async def _storm(self, node: str, undo: _Undo, fault: Fault, cluster: Cluster) -> None:
        system = _killable(cluster)
        while not undo.over.is_set():
            was = cluster.environment.process(node)
            seen: dict[str, Any] = {
                "saw": "process",
                "node": node,
                "was": was.detail or f"pid {was.pid}",
            }
            if was.pid is not None:
                await _kill(node, system)
                seen["gone"] = cluster.environment.process(node).pid is None
            undo.cycles.append(seen)
            await _sleep(undo, int(fault.params.get("down_ms", 50)))
            seen["started"] = await _start(node, system)
            await _sleep(undo, int(fault.params.get("up_ms", 100)))


def _killable(cluster: Cluster) -> Kill:
    system: System = cluster.system
    if not isinstance(system, Kill):
        raise HarnessError(needs_kill(cluster) or "nodes cannot be killed")
    return system


async def _kill(node: str, system: Kill) -> None:
    """Kill a node, which may just have ended by itself."""
    try:
        await system.kill(node)
    except EnvError:
        return


async def _start(node: str, system: Kill) -> str:
    """Start a node; whether it did is the recovery check's to judge, and evidence here."""
    try:
        await system.start(node)
    except NodeStartError as error:
        return str(error)
    return _ANSWERS


async def _sleep(undo: _Undo, ms: int) -> None:
    """Wait, unless it is over."""
    if ms <= 0:
        return
    try:
        async with asyncio.timeout(ms / 1e3):
            await undo.over.wait()
    except TimeoutError:
        return
