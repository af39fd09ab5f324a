"""The links between containers: by the agents in the nodes' holders, told apart by addresses."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.contracts.environment import Address, Link
from harness.envs.docker.agents import Agents
from harness.envs.links.netem import to_address
from harness.healing.journal import Journal


class DockerFilters:
    """``Filters`` in the networks of a run's containers."""

    def __init__(self, agents: Agents, journal: Journal, *, chain: str, handle: int) -> None:
        """Order nothing yet; ``chain`` and ``handle`` are the run's, in each network."""
        self._agents = agents
        self._journal = journal
        self._chain = chain
        self._handle = handle

    async def order(self, node: str, do: str, **arguments: Any) -> Mapping[str, Any]:
        """See ``Filters``."""
        if do == "netem":
            arguments["order"] = {**arguments["order"], "handle": self._handle}
        elif do in ("rules", "counters"):
            arguments["chain"] = self._chain
        return await self._agents.order(node, do, **arguments)

    def rules(self, source: Address, destination: Address, does: str) -> list[str]:  # noqa: ARG002
        """Give the rule for all packets from the other node's address."""
        return [f"-s {source.host}/32 {does}"]

    def match(self, source: Address, destination: Address) -> list[list[str]]:  # noqa: ARG002
        """Give the match for all packets to the other node's address."""
        return [to_address(destination.host)]

    async def announce(self, links: Sequence[Link]) -> int:
        """See ``Filters``; names the containers that the rules will be in."""
        holders = self._agents.holders
        return await self._journal.announce(
            "rules",
            engine=self._agents.engine.host,
            chain=self._chain,
            qdisc=self._handle,
            agent=str(self._agents.file),
            containers=sorted({holders[node] for link in links for node in link}),
            links=[list(link) for link in links],
        )


class DockerQueues:
    """``Queues`` in the nodes' holders, told and heard through a folder that we share."""

    def __init__(self, agents: Agents, folder: Path) -> None:
        """Start nothing yet; ``folder/<node>`` is mounted into the node's holder."""
        self._agents = agents
        self._folder = folder

    async def start(self, node: str, queues: Mapping[str, int]) -> None:
        """Start the shaper in the background of the node's holder."""
        arguments = (str(self._folder / node), node, json.dumps(queues))
        await self._agents.start(node, "queue", *arguments, log=self._log(node))

    async def put(self, node: str, wanted: Mapping[str, Any]) -> None:
        """Write ``shape.json`` into the shared folder."""
        draft = self._folder / node / "shape.draft"
        draft.write_text(json.dumps(wanted), encoding="utf-8")
        draft.replace(self._folder / node / "shape.json")

    async def told(self, node: str) -> Mapping[str, Any]:
        """Read ``counters.json`` from the shared folder."""
        try:
            text = (self._folder / node / "counters.json").read_text(encoding="utf-8")
        except FileNotFoundError:
            return {}
        found: dict[str, Any] = json.loads(text)
        return found

    async def complaint(self, node: str) -> str:
        """Give the last line of the shaper's log, and where the log is."""
        last = self._log(node).read_text(encoding="utf-8").strip().rpartition("\n")[2]
        return f"{last or 'it has printed nothing'}; its log is {self._log(node)}"

    def _log(self, node: str) -> Path:
        return self._folder / node / "shaper.log"
