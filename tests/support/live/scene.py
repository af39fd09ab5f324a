"""A cluster of nodes as real processes, and faults put upon it one by one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from harness import seeds
from harness.contracts.hosts import Disks, Power
from harness.healing.journal import Journal
from harness.kafka.quorum import QuorumView, ask
from harness.registry import environments, systems
from harness.spec import RunSpec
from harness.store.folder import Store
from tests.support.live.tried_fault import Scenery

SPEC = RunSpec(1, voters=3, observers=0)


class LiveScene(Scenery):
    """Nodes that serve; those of ``ssh`` want its hosts file in the environment."""

    def __init__(self, folder: Path, spec: RunSpec, abilities: frozenset[type]) -> None:
        run_dir = Store(folder).new_run(spec)
        self.journal = Journal.open("live-scene", folder=folder / "state")
        self.env: Any = environments.get(spec.env)(run_dir.path, self.journal)
        self.env.expect(abilities, seeds.rng(spec.seed, "hosts"))
        super().__init__(systems.get(spec.system)(spec, self.env, run_dir), self.env)

    def events(self, kind: str, node: str) -> list[dict[str, Any]]:
        """Give a node's events of a kind; leave out a line that it has not finished."""
        whole, _, _ = (self.env.node_dir(node) / "events.jsonl").read_text().rpartition("\n")
        return [e for e in map(json.loads, whole.splitlines()) if e["t"] == kind]

    async def look(self, node: str) -> QuorumView | None:
        """Ask a node to describe its quorum; None when it does not lead one."""
        where = self.system.cluster()
        return await ask(where.addresses[node], where.network, timeout_s=2.0)

    def open_entries(self, kind: str) -> list[str]:
        """The nodes that the journal has open entries of a kind for."""
        return [str(e.what["node"]) for e in self.journal.open_entries() if e.kind == kind]

    def printed(self, node: str) -> str:
        """What the node's processes have printed."""
        return str(self.env.log_file(node).read_text())


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
