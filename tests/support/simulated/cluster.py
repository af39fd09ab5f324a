"""Simulated clusters for tests: nodes on one virtual loop, and what their events say."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

from node.config import NodeConfig, parse
from node.core.types import Endpoint
from node.log.meta_properties import format_directory, random_id
from node.sim.fabric import Fabric
from node.sim.host import VirtualHost
from node.sim.loop import VirtualLoop
from node.sim.program import program_of

PORT = 9093
DATA = Path("/data")
TIMERS = {
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.request.timeout.ms": "1000",
    "controller.quorum.election.backoff.max.ms": "500",
    "controller.quorum.append.linger.ms": "0",
}


class SimCluster:
    """Voters 1..., then brokers, each on a host of its own."""

    def __init__(self, seed: int, voters: int = 3, brokers: int = 0, **settings: str) -> None:
        rng = Random(seed)
        self.loop = VirtualLoop()
        self.fabric = Fabric(self.loop, rng)
        self.lines: list[bytes] = []
        self._events: list[dict[str, Any]] = []
        self.voters = range(1, voters + 1)
        self.hosts: dict[int, VirtualHost] = {}
        self.configs: dict[int, NodeConfig] = {}
        for number in range(1, voters + brokers + 1):
            host = VirtualHost(
                self.fabric, address(number), Random(rng.getrandbits(64)), self.lines.append
            )
            format_directory(
                host.disk, DATA, cluster_id="krucible", node_id=number, directory_id=random_id(rng)
            )
            self.hosts[number] = host
            self.configs[number] = self._config(number, seed, settings)

    def _config(self, number: int, seed: int, settings: dict[str, str]) -> NodeConfig:
        voter = number in self.voters
        listener = f"{'CONTROLLER' if voter else 'PLAINTEXT'}://{address(number)}:{PORT}"
        return parse(
            {
                "node.id": str(number),
                "process.roles": "controller" if voter else "broker",
                "controller.quorum.voters": ",".join(
                    f"{i}@{address(i)}:{PORT}" for i in self.voters
                ),
                "listeners": listener,
                "log.dirs": str(DATA),
                "krucible.seed": str(seed),
                **TIMERS,
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )

    def start(self, *numbers: int) -> None:
        """Start these nodes, or all."""
        for number in numbers or self.hosts:
            self.hosts[number].start(program_of(self.configs[number]))

    def run(self, main: Callable[[], Awaitable[Any]]) -> Any:
        """Run a coroutine to its end, then stop the world."""
        try:
            return self.loop.run_until_complete(main())
        finally:
            self.loop.close()

    def cut(self, *numbers: int) -> None:
        """Cut these nodes off from all others."""
        for one in numbers:
            for other in self.hosts.keys() - set(numbers):
                self.fabric.cut(address(one), address(other))
                self.fabric.cut(address(other), address(one))

    def heal(self) -> None:
        """Heal all links."""
        for source, destination in self.fabric.links():
            self.fabric.heal(source, destination)

    # ------------------------------------------------------------------ what happened

    @property
    def events(self) -> list[dict[str, Any]]:
        """All events up to now."""
        self._events += map(json.loads, self.lines[len(self._events) :])
        return self._events

    def kinds(self, *types: str, node: int | None = None) -> list[dict[str, Any]]:
        """The events of these types, of one node or all."""
        return [e for e in self.events if e["t"] in types and node in (None, e["node"])]

    def leader(self) -> int | None:
        """Who became active controller last, if its process is still there."""
        claims = self.kinds("claim")
        if not claims or self.hosts[claims[-1]["node"]].process is None:
            return None
        return int(claims[-1]["node"])

    async def until(self, condition: Callable[[], Any], what: str, limit_s: float = 60.0) -> Any:
        """Let time pass until something is true; returns it."""
        end_s = self.loop.time() + limit_s
        while not (found := condition()):
            assert self.loop.time() < end_s, f"never happened: {what}"
            await asyncio.sleep(0.05)
        return found

    async def until_led(self, but: int | None = None) -> int:
        """Let time pass until there is an active controller, and another one than ``but``."""
        found: int = await self.until(
            lambda: (leader := self.leader()) != but and leader, "a leader"
        )
        return found


def address(number: int) -> str:
    """The host of a node."""
    return f"10.0.0.{number}"


def endpoint(number: int) -> Endpoint:
    """Where a node listens."""
    return Endpoint(address(number), PORT)
