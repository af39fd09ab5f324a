"""A cluster of our own nodes as real processes, and faults put upon it one by one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from harness import seeds
from harness.guard import GuardedNemesis
from harness.hosts import Disks, Power
from harness.journal import Journal
from harness.protocols import Cluster, Fault, Injection
from harness.registry import environments, nemeses
from harness.spec import RunSpec
from harness.store import Store
from harness.systems.kraft import Kraft

SPEC = RunSpec(1, voters=3, observers=0)


class LiveScene:
    """Nodes that serve; those of ``ssh`` want its hosts file in the environment."""

    def __init__(self, folder: Path, spec: RunSpec, abilities: frozenset[type]) -> None:
        run_dir = Store(folder).new_run(spec)
        self.journal = Journal.open("live-scene", folder=folder / "state")
        self.env: Any = environments.get(spec.env)(run_dir.path, self.journal)
        self.env.expect(abilities, seeds.rng(spec.seed, "hosts"))
        self.system = Kraft(spec, self.env, run_dir)
        self.cluster = Cluster(self.system, self.env)
        self.faults = 0

    async def leader(self) -> str:
        """Who leads, once somebody does."""
        while (name := await self.system.leader()) is None:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.05)
        return name

    def events(self, kind: str, node: str) -> list[dict[str, Any]]:
        """What a node has told of a kind."""
        lines = (self.env.node_dir(node) / "events.jsonl").read_text().splitlines()
        return [e for e in map(json.loads, lines) if e["t"] == kind]

    def open_entries(self, kind: str) -> list[str]:
        """The nodes that the journal has open entries of a kind for."""
        return [str(e.what["node"]) for e in self.journal.open_entries() if e.kind == kind]

    def printed(self, node: str) -> str:
        """What the node's processes have printed."""
        return str(self.env.log_file(node).read_text())

    async def inject(self, name: str, **params: Any) -> LiveFault:
        """Install a fault."""
        self.faults += 1
        fault = Fault(self.faults, name, 0, 1000, params, 0.5)
        nemesis = GuardedNemesis(name, nemeses.get(name)())
        assert nemesis.available(self.cluster) is None
        return LiveFault(self, nemesis, fault, await nemesis.inject(fault, self.cluster))


class LiveFault:
    """A fault that was tried."""

    def __init__(
        self, scene: LiveScene, nemesis: GuardedNemesis, fault: Fault, injection: Injection
    ) -> None:
        self.scene = scene
        self.injection = injection
        self._nemesis = nemesis
        self._fault = fault

    def saw(self, what: str) -> list[dict[str, Any]]:
        """Its evidence of a kind."""
        return [dict(e) for e in self.injection.evidence if e["saw"] == what]

    async def heal(self) -> dict[str, Any]:
        """Heal it, and wait until all nodes are as far as the leader."""
        seen = dict(await self._nemesis.heal(self._fault, self.injection, self.scene.cluster))
        assert await self.scene.system.await_recovery(20.0)
        return seen


@asynccontextmanager
async def _live(
    folder: Path, spec: RunSpec, abilities: frozenset[type]
) -> AsyncIterator[LiveScene]:
    scene = LiveScene(folder, spec, abilities)
    try:
        await scene.env.setup(scene.system.nodes)
        await scene.system.setup()
        yield scene
    finally:
        await scene.system.teardown()
        await scene.env.teardown()
        left = scene.journal.open_entries()
        scene.journal.close()
    assert not left, "what was installed was undone"


def play(
    folder: Path,
    main: Callable[[LiveScene], Awaitable[None]],
    spec: RunSpec = SPEC,
    abilities: frozenset[type] = frozenset({Disks, Power}),
) -> None:
    """Start a cluster whose hosts have these abilities, and do something to it."""

    async def run() -> None:
        async with _live(folder, spec, abilities) as scene:
            await main(scene)

    asyncio.run(run())
