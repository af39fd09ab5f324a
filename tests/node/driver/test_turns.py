"""Long turns of an event loop are told, and what a node is told of them is in its trace."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from node.driver.turns import Turns
from tests.support.nodes.driver import in_loop, lone_voter

MS = 1_000_000


@dataclass
class Hands:
    """A clock that goes on only when it is told to."""

    ns: int = 0

    def trace_ns(self) -> int:
        return self.ns

    def cpu_ns(self) -> int:
        return self.ns // 2


def told_of(took_ms: list[int], limit_ms: int) -> list[tuple[float, float]]:
    """The turns that a loop with such turns tells of."""
    clock, told = Hands(), list[tuple[float, float]]()
    turns = Turns(clock, limit_ms)
    turns.tell = lambda wall_ms, cpu_ms: told.append((wall_ms, cpu_ms))

    async def work() -> None:
        for each in took_ms:
            clock.ns += each * MS
            await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=turns.new_loop) as runner:
        runner.run(work())
    assert turns.longest_ms == max(took_ms)
    return told


def test_each_turn_over_the_limit_is_told_with_the_time_it_had_a_cpu() -> None:
    assert told_of([150, 3, 120, 101, 100], 100) == [(150, 75), (120, 60), (101, 50.5)]


def test_below_the_limit_those_are_told_that_are_clearly_longer_than_all_before() -> None:
    assert [wall_ms for wall_ms, _ in told_of([9, 10, 12, 20, 24, 26], 100)] == [10, 20, 26]


@in_loop
async def test_a_long_turn_is_an_event_of_the_trace(tmp_path: Path) -> None:
    async with lone_voter(tmp_path) as voter:
        voter.node.pump.turn_took(123.44, 61.7)
        voter.node.tracer.flush()
        told = [event for event in voter.events if event["t"] == "turn"]
        assert [(event["ms"], event["cpu_ms"]) for event in told] == [(123.4, 61.7)]
