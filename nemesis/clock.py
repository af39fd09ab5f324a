"""Clocks that go wrong: a wrong rate, a jump of the wall clock; read back inside the process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from harness.contracts.environment import Environment
from harness.contracts.hosts import ClockOrders, Clocks
from harness.contracts.nemesis import Cluster, Fault, Injection
from harness.errors import HarnessError
from harness.registry import nemeses
from harness.spec import RunSpec
from nemesis.common import claims
from nemesis.common.hosts import needs, why_not
from nemesis.common.targets import aim, draw_target
from nemesis.common.turns import in_turn

PPM = 1_000_000
RATE, JUMP = "clock-rate", "clock-jump"  # what can be wrong with a clock
TARGETS = {"leader": 4, "follower": 2, "one": 1, "minority": 2, "majority": 1, "all": 1}
_RATES_PPM = (500_000, 800_000, 980_000, 1_020_000, 1_250_000, 2_000_000)
_JUMPS_MS = (-86_400_000, -60_000, -2_000, -500, 500, 2_000, 60_000, 86_400_000)
_MEASURED_S = 0.2
_SEEN_S = 2.0  # for a process to look at its clock
_POLL_S = 0.01
JUMP_OFF_MS = 100  # by so much may a jump be off: a clock with a wrong rate goes on meanwhile
_ROUNDED = 2  # two readings of two clocks, each as precise as it is
_PRECISION_MS = 1  # of a reading that does not say
_RIGHT_S = 5.0  # for a reading to be right: a jump may come between its two parts
STILL = ("gone", "Z", "T")  # states in which nobody looks at a clock


@dataclass(slots=True, eq=False)
class _Leap:
    """A jump of one clock: what of it is still to be ordered, and what was read before it."""

    node: str
    ms: int
    left_ms: int
    before: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Spoiled:
    """A reading of clocks that we made wrong, why that is not it, and what to set right."""

    seen: Sequence[Mapping[str, Any]]
    wrong: str | None
    undo: Any


class BadClocks:
    """The base of all."""

    family = "clock"
    asks = (Clocks,)
    kinds: tuple[str, ...] = ()  # what it claims of a clock, and no other fault may change then

    def misfit(self, spec: RunSpec) -> str | None:
        """Tell why the run's hosts have no clocks of their own; None when they have."""
        return needs(Clocks, spec)

    def available(self, cluster: Cluster) -> str | None:
        """The hosts must have clocks of their own."""
        if not isinstance(cluster.environment, Clocks):
            return f"environment {cluster.environment.name!r} cannot set the clocks of its nodes"
        return why_not(Clocks, cluster.environment)

    @in_turn
    async def inject(self, fault: Fault, cluster: Cluster) -> Injection:
        """Spoil the clocks of the targets that run, and look in each whether it shows it."""
        if self.available(cluster) is not None:
            return Injection("skipped", reason=self.available(cluster))
        picked = await self.pick(fault, cluster)
        if isinstance(picked, str):
            return Injection("skipped", reason=picked)
        nodes, how = picked
        spoiled = await self.spoil(fault, nodes, cluster.environment)
        evidence = (how, *spoiled.seen)
        if spoiled.wrong is not None:
            return Injection("failed", nodes, spoiled.wrong, evidence, spoiled.undo)
        return Injection("installed", nodes, None, evidence, spoiled.undo)

    async def heal(self, fault: Fault, injection: Injection, cluster: Cluster) -> Mapping[str, Any]:
        """Set the clocks right, unless their process is gone; evidence: each read again."""
        if injection.undo is None:
            raise HarnessError(f"fault {fault.id} left nothing for {fault.nemesis} to heal")
        seen, wrong = await self.set_right(fault, injection.undo, cluster.environment)
        if wrong:
            raise HarnessError(f"the clock of {', '.join(wrong)} is still wrong: {seen}")
        self._let_go(fault, injection.targets, cluster)
        return {"nodes": seen}

    async def spoil(self, fault: Fault, nodes: tuple[str, ...], hosts: Environment) -> Spoiled:
        """Make the clocks wrong."""
        raise NotImplementedError

    async def set_right(
        self, fault: Fault, undo: Any, hosts: Environment
    ) -> tuple[list[dict[str, Any]], list[str]]:
        """Make them right; what was read of each, and those that run and are still wrong."""
        raise NotImplementedError

    async def pick(
        self, fault: Fault, cluster: Cluster
    ) -> tuple[tuple[str, ...], dict[str, Any]] | str:
        """The nodes to hit, and how they were chosen; or why there are none."""
        target, choice = await aim(fault, cluster, *self.kinds)
        running = [n for n in choice.nodes if cluster.environment.process(n).pid is not None]
        nodes = tuple(node for node in running if self._claim(fault, node, cluster))
        return (
            (nodes, choice.evidence(target))
            if nodes
            else f"no {target} is running whose clock is free to be set"
        )

    def _claim(self, fault: Fault, node: str, cluster: Cluster) -> bool:
        wanted = [(kind, node) for kind in self.kinds]
        if len(claims.claim_free(cluster, fault.id, wanted)) == len(wanted):
            return True
        claims.release(cluster, fault.id, wanted)
        return False

    def _let_go(self, fault: Fault, nodes: Iterable[str], cluster: Cluster) -> None:
        """Release the claim on the nodes' clocks, for other faults."""
        claims.release(cluster, fault.id, [(kind, node) for node in nodes for kind in self.kinds])


@nemeses.register("clock-rate")
class ClockRate(BadClocks):
    """Let the clocks of nodes run fast or slow; heal restores the rate, but not the lost time.

    Params: ``target``; ``ppm``, millionths of the true speed.
    """

    kinds = (RATE,)

    def params(self, rng: Random) -> Mapping[str, Any]:
        """Draw a target and a rate."""
        return {"target": draw_target(rng, TARGETS), "ppm": rng.choice(_RATES_PPM)}

    async def spoil(self, fault: Fault, nodes: tuple[str, ...], hosts: Environment) -> Spoiled:
        """Set the rate; evidence: the clock read in the process twice, against the true time."""
        ppm = int(fault.params.get("ppm", PPM))
        seen, wrong = await _set_rates(nodes, hosts, ppm)
        reason = f"the clock of {', '.join(wrong)} does not run at {ppm} ppm" if wrong else None
        if all("unread" in e for e in seen):
            reason = f"the clock of {', '.join(nodes)} cannot be read: {seen[0]['unread']}"
        return Spoiled(seen, reason, nodes)

    async def set_right(
        self, fault: Fault, undo: Any, hosts: Environment
    ) -> tuple[list[dict[str, Any]], list[str]]:
        """Set the rate right."""
        del fault
        return await _set_rates(undo, hosts, PPM)


@nemeses.register("clock-jump")
class ClockJump(BadClocks):
    """Set the wall clocks of nodes forward or back; heal sets them right by another jump.

    Params: ``target``; ``ms``, how far, negative = back.
    """

    kinds = (JUMP,)

    def params(self, rng: Random) -> Mapping[str, Any]:
        """Draw a target and how far."""
        return {"target": draw_target(rng, TARGETS), "ms": rng.choice(_JUMPS_MS)}

    async def spoil(self, fault: Fault, nodes: tuple[str, ...], hosts: Environment) -> Spoiled:
        """Jump; evidence: the wall clock read in the process before and after."""
        ms = int(fault.params.get("ms", 0))
        leaps = [_Leap(node, ms, ms) for node in nodes]
        seen = await asyncio.gather(*(_jump(leap, hosts, _SEEN_S) for leap in leaps))
        some = any(e["seen"] for e in seen)
        reason = None if some else f"the clock of {', '.join(nodes)} did not jump"
        return Spoiled(seen, reason, [_Leap(node, -ms, -ms) for node in nodes])

    async def set_right(
        self, fault: Fault, undo: Any, hosts: Environment
    ) -> tuple[list[dict[str, Any]], list[str]]:
        """Jump the other way, once however often this is tried."""
        del fault
        seen = await asyncio.gather(*(_jump(leap, hosts, _RIGHT_S) for leap in undo))
        return seen, [e["node"] for e in seen if e["running"] and not e["seen"]]


def clocks_of(environment: Environment) -> ClockOrders:
    """The clocks of an environment's hosts; raises HarnessError."""
    if not isinstance(environment, Clocks):
        raise HarnessError(f"environment {environment.name!r} cannot set the clocks of its nodes")
    return environment.clocks


def unread(read: Mapping[str, Any]) -> dict[str, Any]:
    """Tell what evidence says of a reading that its process did not make, or not to the ms."""
    return {name: read[name] for name in ("unread", "precision_ms") if name in read}


async def _jump(leap: _Leap, environment: Environment, patience_s: float) -> dict[str, Any]:
    """Make a clock jump, and look in the process until it has."""
    clocks, node = clocks_of(environment), leap.node
    if leap.before is None:
        leap.before = await clocks.clock(node)
    before, (by_ms, leap.left_ms) = leap.before, (leap.left_ms, 0)
    await clocks.jump_wall(node, by_ms)
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + patience_s
    while True:
        now = await clocks.clock(node)
        passed_ms = now["true_ms"] - before["true_ms"]
        off_ms = now["wall_ms"] - before["wall_ms"] - passed_ms - leap.ms
        running = environment.process(node).state not in STILL
        seen = abs(off_ms) <= JUMP_OFF_MS and "unread" not in now
        if seen or not running or loop.time() > deadline_s:
            break
        await asyncio.sleep(_POLL_S)
    return {
        "saw": "wall clock",
        "node": node,
        "before_ms": before["wall_ms"],
        "after_ms": now["wall_ms"],
        "passed_ms": passed_ms,
        "seen": seen,
        "running": running,
        **unread(now),
    }


async def _set_rates(
    nodes: Sequence[str], environment: Environment, want_ppm: int
) -> tuple[list[dict[str, Any]], list[str]]:
    """Set rates; how fast the clocks go, and those whose rate is another one whenever looked at."""
    clocks = clocks_of(environment)
    for node in nodes:
        await clocks.set_rate(node, want_ppm)
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + _RIGHT_S
    while True:
        seen = await _rates(nodes, environment)
        wrong = [e["node"] for e in seen if e["running"] and not _near(e, want_ppm)]
        if not wrong or loop.time() > deadline_s:
            return seen, wrong


async def _rates(nodes: Sequence[str], environment: Environment) -> list[dict[str, Any]]:
    """Tell how fast the clocks of nodes go, read over a while."""
    clocks = clocks_of(environment)
    began = {node: await clocks.clock(node) for node in nodes}
    pids = {node: environment.process(node).pid for node in nodes}
    await asyncio.sleep(_MEASURED_S)
    seen = []
    for node in nodes:
        first, now = began[node], await clocks.clock(node)
        true_ms = now["true_ms"] - first["true_ms"]
        read_ms = now["rated_ms"] - first["rated_ms"]
        state = environment.process(node)
        same = state.pid is not None and state.pid == pids[node]
        seen.append(
            {
                "saw": "steady clock",
                "node": node,
                "true_ms": true_ms,
                "read_ms": read_ms,
                "ppm": read_ms * PPM // max(1, true_ms),
                "running": same and state.state not in STILL,
                **unread({**first, **now}),
            }
        )
    return seen


def _near(seen: Mapping[str, Any], want_ppm: int) -> bool:
    """Equal, as well as clocks of such precision tell; False of one that was not read."""
    if not seen["true_ms"] or "unread" in seen:
        return False
    off_ms: float = seen["read_ms"] - seen["true_ms"] * want_ppm / PPM
    precision_ms: int = seen.get("precision_ms", _PRECISION_MS)
    return abs(off_ms) <= _ROUNDED * precision_ms
