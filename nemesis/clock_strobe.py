"""Clocks that strobe: the wall clock jumps to and fro every few milliseconds, as Jepsen has it.

No two readings agree then, and none can be told from the next: whoever subtracts them, or takes the
later one for the larger, is wrong again and again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from harness.contracts.environment import Environment
from harness.contracts.hosts import ClockOrders
from harness.contracts.nemesis import Fault
from harness.errors import HarnessError
from harness.registry import nemeses
from nemesis.clock import (
    JUMP,
    JUMP_OFF_MS,
    RATE,
    STILL,
    TARGETS,
    BadClocks,
    Spoiled,
    clocks_of,
    unread,
)
from nemesis.common.targets import draw_target

_AWAY_MS = (20, 500, 5_000, 3_600_000)
_PERIODS_MS = (5, 20, 100)
_SEEN_S = 3.0  # for a process to have read its clock on both sides, or to read it right again
_POLL_S = 0.007  # in step with no period, so that both sides are met


@dataclass(slots=True, eq=False)
class _Strobe:
    """One clock: how far it is off now, how often it has jumped, and what lets it jump."""

    node: str
    base_ms: int  # its wall clock less its steady one, when all was well
    off_ms: int = 0
    jumps: int = 0
    over: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


@nemeses.register("clock-strobe")
class ClockStrobe(BadClocks):
    """Let the wall clocks of nodes jump ahead and back repeatedly; heal sets them right.

    Params: ``target``; ``ms``, how far ahead and how far back; ``period_ms`` between two jumps.
    """

    kinds = (JUMP, RATE)  # where it should be is known only while nobody else changes it

    def params(self, rng: Random) -> Mapping[str, Any]:
        """Draw a target, how far and how often."""
        return {
            "target": draw_target(rng, TARGETS),
            "ms": rng.choice(_AWAY_MS),
            "period_ms": rng.choice(_PERIODS_MS),
        }

    async def spoil(self, fault: Fault, nodes: tuple[str, ...], hosts: Environment) -> Spoiled:
        """Begin; evidence: readings of each process ahead of its clock, and behind it."""
        clocks = clocks_of(hosts)
        ms, period_s = int(fault.params.get("ms", 500)), fault.params.get("period_ms", 20) / 1e3
        strobes = [_Strobe(node, _ahead_ms(await clocks.clock(node))) for node in nodes]
        for strobe in strobes:
            strobe.task = asyncio.create_task(_swing(strobe, clocks, ms, period_s))
        seen = await asyncio.gather(*(_watch(s, hosts, ms) for s in strobes))
        some = any(e["ahead"] and e["behind"] for e in seen)
        reason = None if some else f"the clock of {', '.join(nodes)} does not jump to and fro"
        return Spoiled(seen, reason, strobes)

    async def set_right(
        self, fault: Fault, undo: Any, hosts: Environment
    ) -> tuple[list[dict[str, Any]], list[str]]:
        """Stop, and jump to where each clock should be; evidence: how far from it it reads."""
        del fault
        await _stop(undo)
        seen = []
        for strobe in undo:
            back_ms, strobe.off_ms = -strobe.off_ms, 0
            await clocks_of(hosts).jump_wall(strobe.node, back_ms)
            read = await _rest(strobe, hosts)
            strobe.off_ms = 0 if read["right"] else read["off_ms"]  # for another try
            seen.append(read)
        return seen, [e["node"] for e in seen if e["running"] and not e["right"]]


async def _swing(strobe: _Strobe, clocks: ClockOrders, ms: int, period_s: float) -> None:
    """Jump ahead, then behind and ahead of the right time in turn, until it is over.

    No jump is cut short: whether it was made would not be known.
    """
    while not strobe.over.is_set():
        to_ms = ms if strobe.off_ms <= 0 else -ms
        await clocks.jump_wall(strobe.node, to_ms - strobe.off_ms)
        strobe.off_ms = to_ms
        strobe.jumps += 1
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(period_s):
                await strobe.over.wait()


async def _stop(strobes: Sequence[_Strobe]) -> None:
    """End the jumps; raises what has ended them before, once."""
    tasks = [strobe.task for strobe in strobes if strobe.task is not None]
    for strobe in strobes:
        strobe.over.set()
        strobe.task = None
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(outcome, Exception):
            raise HarnessError(f"a clock stopped jumping: {outcome}") from outcome


async def _watch(strobe: _Strobe, environment: Environment, ms: int) -> dict[str, Any]:
    """Read a clock in its process until both sides were seen."""
    loop = asyncio.get_running_loop()
    deadline_s, ahead, behind, readings = loop.time() + _SEEN_S, 0, 0, 0
    while True:
        now = await clocks_of(environment).clock(strobe.node)
        off_ms = _ahead_ms(now) - strobe.base_ms
        read = "unread" not in now
        readings += read
        ahead += read and off_ms > ms / 2
        behind += read and off_ms < -ms / 2
        running = _reads(environment, strobe.node)
        if (ahead and behind) or not running or loop.time() > deadline_s:
            break
        await asyncio.sleep(_POLL_S)
    return {
        "saw": "strobe",
        "node": strobe.node,
        "jumps": strobe.jumps,
        "readings": readings,
        "ahead": ahead,
        "behind": behind,
        "running": running,
        **unread(now),
    }


async def _rest(strobe: _Strobe, environment: Environment) -> dict[str, Any]:
    """Read a clock in its process until it is where it was before the first jump."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + _SEEN_S
    while True:
        now = await clocks_of(environment).clock(strobe.node)
        off_ms = _ahead_ms(now) - strobe.base_ms
        right = abs(off_ms) <= JUMP_OFF_MS and "unread" not in now
        running = _reads(environment, strobe.node)
        if right or not running or loop.time() > deadline_s:
            break
        await asyncio.sleep(_POLL_S)
    return {
        "node": strobe.node,
        "jumps": strobe.jumps,
        "off_ms": off_ms,
        "right": right,
        "running": running,
        **unread(now),
    }


def _ahead_ms(read: Mapping[str, Any]) -> int:
    """Give how far a wall clock is ahead of the steady one; constant while the clock is well."""
    return int(read["wall_ms"] - read["true_ms"])


def _reads(environment: Environment, node: str) -> bool:
    """Tell whether the process is there and looks at its clock."""
    return environment.process(node).state not in STILL
