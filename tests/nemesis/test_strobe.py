"""Clocks that strobe where a jump takes its time: none is cut short, and none is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from random import Random
from types import SimpleNamespace
from typing import cast

import pytest

from harness.contracts.environment import ProcessState
from harness.contracts.nemesis import Cluster, Fault
from harness.errors import EnvError, HarnessError
from nemesis.clock_strobe import ClockStrobe
from tests.support.simulated.virtual_time import run_virtual

AWAY_MS = 3_600_000
FAULT = Fault(1, "clock-strobe", 0, 1, {"target": "one", "ms": AWAY_MS, "period_ms": 5}, 0.5)


class SlowDials:
    """A host whose clock has jumped for a while before whoever asked for it is told."""

    name = "slow"

    def __init__(self) -> None:
        self.off_ms = 0
        self.broken: str | None = None

    @property
    def clocks(self) -> SlowDials:
        return self

    def process(self, node: str) -> ProcessState:
        return ProcessState(1, "S", node)

    async def set_rate(self, node: str, ppm: int) -> None:
        raise EnvError(f"{node} has no rate {ppm}")

    async def jump_wall(self, node: str, ms: int) -> None:
        if self.broken is not None:
            raise EnvError(f"{node}: {self.broken}")
        self.off_ms += ms
        await asyncio.sleep(0.03)

    async def clock(self, node: str) -> Mapping[str, int]:
        del node
        await asyncio.sleep(0)
        return {"true_ms": 0, "steady_ms": 0, "wall_ms": self.off_ms, "rated_ms": 0}


def cluster_of(host: SlowDials) -> Cluster:
    system = SimpleNamespace(name="s", nodes=("n1",), voters=("n1",), observers=())
    return cast("Cluster", SimpleNamespace(system=system, environment=host))


def test_the_clock_is_right_after_the_heal_whenever_it_comes() -> None:
    async def main() -> None:
        for number in range(6):
            host, strobe = SlowDials(), ClockStrobe()
            cluster = cluster_of(host)
            injection = await strobe.inject(FAULT, cluster)
            assert injection.outcome == "installed"
            await asyncio.sleep(Random(number).uniform(0, 0.1))
            healed = await strobe.heal(FAULT, injection, cluster)
            assert (host.off_ms, healed["nodes"][0]["right"]) == (0, True)
            await asyncio.sleep(0.05)
            assert host.off_ms == 0, "and it jumps no more"

    run_virtual(main())


def test_what_has_ended_the_jumps_is_told_once_and_the_next_try_sets_the_clock_right() -> None:
    async def main() -> None:
        host, strobe = SlowDials(), ClockStrobe()
        cluster = cluster_of(host)
        injection = await strobe.inject(FAULT, cluster)
        host.broken = "the host is away"
        while not injection.undo[0].task.done():  # noqa: ASYNC110 - until it was about to jump
            await asyncio.sleep(0.01)
        with pytest.raises(HarnessError, match="a clock stopped jumping: n1: the host is away"):
            await strobe.heal(FAULT, injection, cluster)
        host.broken = None
        await strobe.heal(FAULT, injection, cluster)
        assert host.off_ms == 0

    run_virtual(main())
