"""Faults put upon a cluster that is up, one by one."""

from __future__ import annotations

import asyncio
from typing import Any

from harness.contracts.nemesis import Cluster, Fault, Injection
from harness.registry import nemeses
from harness.run.guard import GuardedNemesis
from harness.systems.kraft.plugin import Kraft

RECOVERY_S = 20.0
LAST_LINES = 20  # of a node's log


class Scenery:
    """A cluster of our own nodes, simulated or live, that faults can be put upon."""

    def __init__(self, system: Kraft, env: Any) -> None:
        self.cluster = Cluster(system, env)
        self.system = system
        self.faults = 0

    async def leader(self) -> str:
        """Who leads, once somebody does."""
        while (name := await self.system.leader()) is None:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.05)
        return name

    async def told(self) -> str:
        """Describe a cluster that does not recover: quorum, processes, last lines of the logs."""
        view = await self.system._quorum(timeout_s=1.0)
        found = [f"quorum {view}"]
        for node in self.system.nodes:
            log = self.system._env.log_file(node)
            lines = log.read_text(errors="replace").splitlines() if log.exists() else ()
            found += [f"{node}: {self.system._env.process(node)}", *lines[-LAST_LINES:]]
        return "\n".join(found)

    async def inject(self, name: str, *, draw: float = 0.5, **params: Any) -> TriedFault:
        """Try to install a fault; its own choices go by ``draw``."""
        self.faults += 1
        fault = Fault(self.faults, name, 0, 1000, params, draw)
        nemesis = GuardedNemesis(name, nemeses.get(name)())
        assert nemesis.available(self.cluster) is None
        return TriedFault(self, nemesis, fault, await nemesis.inject(fault, self.cluster))


class TriedFault:
    """A fault that was tried."""

    def __init__(
        self, scene: Scenery, nemesis: GuardedNemesis, fault: Fault, injection: Injection
    ) -> None:
        self.injection = injection
        self._scene = scene
        self._nemesis = nemesis
        self._fault = fault

    def saw(self, what: str) -> list[dict[str, Any]]:
        """Its evidence of a kind."""
        return [dict(e) for e in self.injection.evidence if e["saw"] == what]

    async def heal(self) -> dict[str, Any]:
        """Undo it, and wait until all nodes are as far as the leader."""
        healed = await self.heal_alone()
        recovered = await self._scene.system.await_recovery(RECOVERY_S)
        assert recovered, f"{self._fault} healed as {healed}; {await self._scene.told()}"
        return healed

    async def heal_alone(self) -> dict[str, Any]:
        """Undo it."""
        assert self.injection.undo is not None, self.injection
        return dict(await self._nemesis.heal(self._fault, self.injection, self._scene.cluster))
