"""Clocks that go wrong: a wrong rate, a jump of the wall clock; read back inside the process."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from harness.errors import HarnessError
from harness.hosts import Clocks
from harness.protocols import Cluster, Environment, Fault, Injection
from harness.registry import nemeses
from harness.spec import RunSpec
from nemesis import claims
from nemesis.hosts import needs
from nemesis.targets import choose_or_one, draw_target, fault_rng

PPM = 1_000_000
_TARGETS = {"leader": 4, "follower": 2, "one": 1, "minority": 2, "majority": 1, "all": 1}
_RATES_PPM = (500_000, 800_000, 980_000, 1_020_000, 1_250_000, 2_000_000)
_JUMPS_MS = (-86_400_000, -60_000, -2_000, -500, 500, 2_000, 60_000, 86_400_000)
_MEASURED_S = 0.2


@dataclass(frozen=True, slots=True)
class _Undo:
    """The clocks we changed."""

    nodes: tuple[str, ...]


class _BadClocks:
    """What both share."""

    family = "clock"
    asks = (Clocks,)
    kind = ""

    def misfit(self, spec: RunSpec) -> str | None:
        """Only where hosts have clocks of their own."""
        return needs(Clocks, spec)

    def available(self, cluster: Cluster) -> str | None:
        """The hosts must have clocks of their own."""
        if isinstance(cluster.environment, Clocks):
            return None
        return f"environment {cluster.environment.name!r} cannot set the clocks of its nodes"

    async def _pick(
        self, fault: Fault, cluster: Cluster
    ) -> tuple[tuple[str, ...], dict[str, Any]] | str:
        """The nodes to hit, and how they were chosen; or why there are none."""
        target = str(fault.params.get("target", "one"))
        choice = await choose_or_one(target, fault_rng(fault), cluster)
        running = [
            (self.kind, node)
            for node in choice.nodes
            if cluster.environment.process(node).pid is not None
        ]
        nodes = tuple(node for _, node in claims.claim_free(cluster, fault.id, running))
        return (
            (nodes, choice.evidence(target)) if nodes else f"no {target} runs with a clock to set"
        )


@nemeses.register("clock-rate")
class ClockRate(_BadClocks):
    """Let the clocks of nodes run fast or slow; heal sets the rate right, not what was lost.

    Params: ``target``; ``ppm``, millionths of the true speed.
    """

    kind = "clock-rate"

    def params(self, rng: Random) -> Mapping[str, Any]:
        """Draw a target and a rate."""
        return {"target": draw_target(rng, _TARGETS), "ppm": rng.choice(_RATES_PPM)}

    async def inject(self, fault: Fault, cluster: Cluster) -> Injection:
        """Set the rate; evidence: the clock read in the process twice, against the true time."""
        environment = cluster.environment
        if not isinstance(environment, Clocks):
            return Injection("skipped", reason=self.available(cluster))
        picked = await self._pick(fault, cluster)
        if isinstance(picked, str):
            return Injection("skipped", reason=picked)
        nodes, how = picked
        ppm = int(fault.params.get("ppm", PPM))
        for node in nodes:
            environment.set_rate(node, ppm)
        seen = await _rates(nodes, environment)
        evidence, undo = (how, *seen), _Undo(nodes)
        wrong = [e["node"] for e in seen if e["running"] and not _near(e["ppm"], ppm)]
        if wrong:
            reason = f"the clock of {', '.join(wrong)} does not run at {ppm} ppm"
            return Injection("failed", nodes, reason, evidence, undo)
        return Injection("installed", nodes, None, evidence, undo)

    async def heal(self, fault: Fault, injection: Injection, cluster: Cluster) -> Mapping[str, Any]:
        """Set the rate right; evidence: the clock read again."""
        undo, environment = injection.undo, cluster.environment
        if not isinstance(undo, _Undo) or not isinstance(environment, Clocks):
            raise HarnessError(f"fault {fault.id} has nothing that clock-rate could heal")
        for node in undo.nodes:
            environment.set_rate(node, PPM)
        seen = await _rates(undo.nodes, environment)
        wrong = [e["node"] for e in seen if e["running"] and not _near(e["ppm"], PPM)]
        if wrong:
            raise HarnessError(f"the clock of {', '.join(wrong)} is still wrong: {seen}")
        claims.release(cluster, fault.id, [(self.kind, node) for node in undo.nodes])
        return {"nodes": seen}


@nemeses.register("clock-jump")
class ClockJump(_BadClocks):
    """Set the wall clocks of nodes forward or back; heal sets them right, by a jump as well.

    Params: ``target``; ``ms``, how far, negative = back.
    """

    kind = "clock-jump"

    def params(self, rng: Random) -> Mapping[str, Any]:
        """Draw a target and how far."""
        return {"target": draw_target(rng, _TARGETS), "ms": rng.choice(_JUMPS_MS)}

    async def inject(self, fault: Fault, cluster: Cluster) -> Injection:
        """Jump; evidence: the wall clock read in the process before and after."""
        environment = cluster.environment
        if not isinstance(environment, Clocks):
            return Injection("skipped", reason=self.available(cluster))
        picked = await self._pick(fault, cluster)
        if isinstance(picked, str):
            return Injection("skipped", reason=picked)
        nodes, how = picked
        seen = [_jump(node, int(fault.params.get("ms", 0)), environment) for node in nodes]
        return Injection("installed", nodes, None, (how, *seen), _Undo(nodes))

    async def heal(self, fault: Fault, injection: Injection, cluster: Cluster) -> Mapping[str, Any]:
        """Jump the other way; evidence: the clock read before and after."""
        undo, environment = injection.undo, cluster.environment
        if not isinstance(undo, _Undo) or not isinstance(environment, Clocks):
            raise HarnessError(f"fault {fault.id} has nothing that clock-jump could heal")
        ms = -int(fault.params.get("ms", 0))
        seen = [_jump(node, ms, environment) for node in undo.nodes]
        claims.release(cluster, fault.id, [(self.kind, node) for node in undo.nodes])
        return {"nodes": seen}


def _jump(node: str, ms: int, clocks: Clocks) -> dict[str, Any]:
    before = clocks.clock(node)["wall_ms"]
    clocks.jump_wall(node, ms)
    after = clocks.clock(node)["wall_ms"]
    return {"saw": "wall clock", "node": node, "before_ms": before, "after_ms": after}


async def _rates(nodes: Sequence[str], environment: Environment) -> list[dict[str, Any]]:
    """How fast the clocks of nodes go, read over a while."""
    if not isinstance(environment, Clocks):
        return []
    began = {node: environment.clock(node) for node in nodes}
    pids = {node: environment.process(node).pid for node in nodes}
    await asyncio.sleep(_MEASURED_S)
    seen = []
    for node in nodes:
        first, now = began[node], environment.clock(node)
        true_ms = now["true_ms"] - first["true_ms"]
        read_ms = now["steady_ms"] - first["steady_ms"]
        pid = environment.process(node).pid
        seen.append(
            {
                "saw": "steady clock",
                "node": node,
                "true_ms": true_ms,
                "read_ms": read_ms,
                "ppm": read_ms * PPM // true_ms,
                "running": pid is not None and pid == pids[node],
            }
        )
    return seen


def _near(found_ppm: int, want_ppm: int) -> bool:
    """Equal, as well as clocks of whole milliseconds tell."""
    return abs(found_ppm - want_ppm) * _MEASURED_S * 1e3 <= 2 * PPM
