"""Clocks of simulated hosts."""

from __future__ import annotations

from collections.abc import Mapping

from harness.envs.nodes.names import known
from node.sim.fabric import MS
from node.sim.host import VirtualHost
from node.sim.loop import VirtualLoop


class SimClocks:
    """``ClockOrders`` of simulated hosts."""

    def __init__(self, loop: VirtualLoop, hosts: Mapping[str, VirtualHost]) -> None:
        """Leave each clock as its host was made; ``hosts`` are by node, once they are there."""
        self._loop = loop
        self._hosts = hosts

    async def set_rate(self, node: str, ppm: int) -> None:
        """See ``ClockOrders``."""
        known(self._hosts, node).set_rate(ppm)

    async def jump_wall(self, node: str, ms: int) -> None:
        """See ``ClockOrders``."""
        known(self._hosts, node).wall_offset_ms += ms

    async def clock(self, node: str) -> Mapping[str, int]:
        """See ``ClockOrders``."""
        host = known(self._hosts, node)
        return {
            "true_ms": self._loop.now_ns // MS,
            "steady_ms": host.steady_ms(),
            "wall_ms": host.wall_ms(),
            "rated_ms": host.steady_ms(),
        }
