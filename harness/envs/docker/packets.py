"""What shapes links in the networks of containers: netem there, or a queue in user space.

The queue is told and heard through a folder that we share.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.contracts.environment import Address, Link
from harness.envs.docker.agents import Agents
from harness.envs.links import netem
from harness.envs.links.shaping import Shapers


class DockerShapers(Shapers):
    """The shapers of a run in containers."""

    def __init__(self, agents: Agents, folder: Path) -> None:
        """Nothing is started; ``folder/<node>`` is mounted into the node's holder."""
        super().__init__(tuple(agents.holders))
        self._agents = agents
        self._folder = folder

    async def start(self, node: str) -> None:
        """In the background of the node's holder."""
        folder, queues = str(self._folder / node), json.dumps(self.queues)
        await self._agents.start(node, "queue", folder, node, queues, log=self._log(node))

    async def put(self, node: str, wanted: Mapping[str, Any]) -> None:
        """In the shared folder."""
        draft = self._folder / node / "shape.draft"
        draft.write_text(json.dumps(wanted), encoding="utf-8")
        draft.replace(self._folder / node / "shape.json")

    async def told(self, node: str) -> Mapping[str, Any]:
        """From the shared folder."""
        try:
            text = (self._folder / node / "counters.json").read_text(encoding="utf-8")
        except FileNotFoundError:
            return {}
        found: dict[str, Any] = json.loads(text)
        return found

    async def complaint(self, node: str) -> str:
        """From its log."""
        last = self._log(node).read_text(encoding="utf-8").strip().rpartition("\n")[2]
        return f"{last or 'it says nothing'}; its log is {self._log(node)}"

    def _log(self, node: str) -> Path:
        return self._folder / node / "shaper.log"


class DockerNetems(netem.Netems):
    """The netems of a run in containers: on the nodes' ends of their links to the run's bridge."""

    def __init__(self, agents: Agents, handle: int, addresses: Mapping[str, Address]) -> None:
        """Nothing is tried; ``handle`` is of our roots, ``addresses`` is where nodes listen."""
        super().__init__(tuple(agents.holders))
        self.handle = handle
        self._agents = agents
        self._addresses = addresses

    async def order(self, node: str, do: str, **arguments: Any) -> Any:
        """By an agent in the node's holder."""
        order = {"do": do, "handle": self.handle, **arguments}
        return (await self._agents.order(node, "netem", order=order))["answer"]

    def place(self, link: Link) -> dict[str, Any]:
        """All packets to the other node's address."""
        host = self._addresses[link[1]].host
        return {"to": host, "match": [netem.to_address(host)]}
