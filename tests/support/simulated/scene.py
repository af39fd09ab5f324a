"""A simulated cluster of our own nodes, and faults put upon it one by one."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, cast

from harness import seeds
from harness.envs.sim import hosts as sim
from harness.sessions.simulated import NOWHERE
from harness.spec import SIM, RunSpec
from harness.systems.kraft.plugin import Kraft
from tests.support.live.tried_fault import Scenery

SPEC = RunSpec(1, env=SIM, voters=3, observers=1)
DYNAMIC = replace(SPEC, settings={"krucible.quorum": "dynamic"})
SNAPSHOTS = replace(
    SPEC,
    settings={
        "metadata.log.max.record.bytes.between.snapshots": "600",
        "metadata.max.retention.bytes": "1",
        "metadata.log.segment.bytes": "4096",
        "metadata.max.idle.interval.ms": "20",
        "krucible.log.clean.interval.ms": "200",
    },
)


class Scene(Scenery):
    """A simulated cluster that serves, with what its nodes have told and printed."""

    def __init__(self, spec: RunSpec) -> None:
        self.events: list[dict[str, Any]] = []
        self.env = sim.Sim(seeds.rng(spec.seed, "sim"), self._take)
        super().__init__(Kraft(spec, self.env, NOWHERE), self.env)

    def _take(self, node: str, line: bytes) -> None:
        self.events.append({"name": node, **sim_json(line)})

    def kinds(self, kind: str, node: str | None = None) -> list[dict[str, Any]]:
        """Events of a kind, of one node or of all."""
        return [e for e in self.events if e["t"] == kind and node in (None, e["name"])]

    def printed(self, node: str) -> str:
        """What the node's processes have printed."""
        return "\n".join(self.env.output.lines.get(node, []))

    def last_offsets(self) -> dict[str, int]:
        """How far each node's log goes."""
        return {n: self.system.stored_log(n)[-1].last for n in self.system.nodes}


def sim_json(line: bytes) -> dict[str, Any]:
    return cast("dict[str, Any]", json.loads(line))


def play(main: Callable[[Scene], Awaitable[None]], spec: RunSpec = SPEC) -> Scene:
    """Play a scene on a cluster that is up; tears it down in order."""

    async def whole() -> Scene:
        scene = Scene(spec)
        with scene.env.output:
            await scene.env.setup(scene.system.nodes)
            await scene.system.setup()
            await main(scene)
            await scene.system.teardown()
            await scene.env.teardown()
        return scene

    return sim.run(whole)
