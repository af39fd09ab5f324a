"""A rolling upgrade: node after node goes over to another release, while the others serve.

The order is that of an operator: one node at a time, each in good order, the next one once it
answers again. Source: Kafka's own upgrade notes, and KIP-778.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from harness.contracts.nemesis import Cluster, Fault, Injection
from harness.errors import EnvError, HarnessError
from harness.registry import nemeses
from harness.spec import RunSpec
from nemesis.common import claims
from nemesis.common.evidence import installed_releases
from nemesis.common.hosts import PROCESS
from nemesis.common.releases import (
    change,
    needs_releases,
    releasing,
    said,
    why_not_changed,
    why_one_release,
)
from nemesis.common.restarts import restart
from nemesis.common.targets import fault_rng
from nemesis.common.turns import in_turn

BACK_S = 20.0  # from the heal's begin until the last node begins to go back; others stay
_POLL_S = 0.01


@dataclass(slots=True)
class _Undo:
    """A rolling upgrade under way: its nodes, where each was, and what was seen of each so far."""

    release: str
    pids: Mapping[str, int | None]
    before: Mapping[str, str]
    seen: list[list[Mapping[str, Any]]] = field(default_factory=list)
    over: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    @property
    def changed(self) -> list[str]:
        """The nodes that went over, in their order."""
        return list(self.pids)[: len(self.seen)]


@nemeses.register("rolling-upgrade")
class RollingUpgrade:
    """Restart one node after the other with another release on its disk.

    It goes on until all have it, or the fault is over. Heal takes them back in the opposite order,
    one at a time, unless they ``stay``; on a slow host those stay for which its time is over.

    Params: ``stays``; ``pause_ms`` between a node's start and the next one's end.
    """

    family = "lifecycle"

    def misfit(self, spec: RunSpec) -> str | None:
        """Tell why no node of a run can have another release; None when one can."""
        return why_one_release(spec)

    def available(self, cluster: Cluster) -> str | None:
        """The system must have releases, and be able to start its nodes."""
        return needs_releases(cluster)

    def params(self, rng: Random) -> Mapping[str, Any]:
        """Draw whether they stay so, and how hasty it is."""
        return {"stays": rng.random() < 0.5, "pause_ms": rng.choice((0, 300, 1500))}  # noqa: PLR2004

    @in_turn
    async def inject(self, fault: Fault, cluster: Cluster) -> Injection:
        """Begin; evidence: the first node, its end, both releases, and which one it says it has."""
        if self.available(cluster) is not None:
            return Injection("skipped", reason=self.available(cluster))
        undo = _begin(fault, cluster)
        if undo is None:
            return Injection("skipped", reason="no node runs that can have another release")
        undo.task = asyncio.create_task(
            _roll(fault, undo, int(fault.params.get("pause_ms", 0)), cluster),
            name=f"rolls-{fault.id}",
        )
        while not undo.seen and not undo.task.done():  # noqa: ASYNC110 - as elsewhere
            await asyncio.sleep(_POLL_S)
        if not undo.seen:
            await undo.task  # it raises what went wrong, or its turn did not come
            claims.release(cluster, fault.id, [(PROCESS, node) for node in undo.pids])
            return Injection("skipped", reason="another node is between two releases")
        nodes = list(undo.pids)
        how = {"saw": "targets", "target": "all", "nodes": nodes, "release": undo.release}
        evidence = (how, *undo.seen[0])
        if (why := why_not_changed(undo.seen[0])) is not None:
            return Injection("failed", tuple(nodes), why, evidence, undo)
        return Injection("installed", tuple(nodes), None, evidence, undo)

    async def heal(self, fault: Fault, injection: Injection, cluster: Cluster) -> Mapping[str, Any]:
        """End it, and take back who went over; evidence: the release that each has, and says."""
        undo = injection.undo
        if not isinstance(undo, _Undo) or undo.task is None:
            raise HarnessError(f"fault {fault.id} left nothing for rolling-upgrade to heal")
        loop = asyncio.get_running_loop()
        until_s = loop.time() + BACK_S
        undo.over.set()
        await asyncio.wait((undo.task,))
        ended = undo.task.exception()
        if ended is not None and not isinstance(ended, EnvError):
            raise ended
        upgraded = undo.changed
        back: list[Mapping[str, Any]] = []
        if not fault.params.get("stays"):
            for node in reversed(upgraded):
                if loop.time() < until_s:
                    back += await _go(fault, node, undo.before[node], cluster, must=True)
        seen = await restart(undo.pids, cluster)  # however it ended
        claims.release(cluster, fault.id, [(PROCESS, node) for node in undo.pids])
        return {
            **seen,
            "upgraded": upgraded,
            "wrong": why_not_changed([*(told for each in undo.seen for told in each), *back]),
            "releases": installed_releases(undo.pids, cluster),
            "says": await said(undo.pids, cluster),
            **({} if ended is None else {"ended_by": str(ended)}),
        }


def _begin(fault: Fault, cluster: Cluster) -> _Undo | None:
    """Draw a release, and claim the nodes that can have it; None: there is none."""
    system, rng = releasing(cluster), fault_rng(fault)
    nodes = list(cluster.system.nodes)
    rng.shuffle(nodes)
    others = {node: system.other_releases(node) for node in nodes}
    known = sorted({release for each in others.values() for release in each})
    if not known:
        return None
    release = rng.choice(known)
    pids = {node: cluster.environment.process(node).pid for node in nodes}
    running = _running(pids, [node for node in nodes if release in others[node]])
    taken = [node for _, node in claims.claim_free(cluster, fault.id, running)]
    if not taken:
        return None
    before = installed_releases(taken, cluster)
    return _Undo(release, {node: pids[node] for node in taken}, before)


def _running(pids: Mapping[str, int | None], nodes: Sequence[str]) -> list[tuple[str, str]]:
    return [(PROCESS, node) for node in nodes if pids[node] is not None]


async def _roll(fault: Fault, undo: _Undo, pause_ms: int, cluster: Cluster) -> None:
    """Take one node after the other over, until all are, or the fault is over."""
    for node in undo.pids:
        if undo.over.is_set():
            return
        seen = await _go(fault, node, undo.release, cluster)
        if not seen:
            return
        undo.seen.append(seen)
        try:
            async with asyncio.timeout(pause_ms / 1e3):
                await undo.over.wait()
        except TimeoutError:
            continue


async def _go(
    fault: Fault, node: str, release: str, cluster: Cluster, *, must: bool = False
) -> list[Mapping[str, Any]]:
    """Take one node over to a release; what was seen."""
    pid = cluster.environment.process(node).pid
    return await change(fault, {node: pid}, {node: release}, cluster, must=must)
