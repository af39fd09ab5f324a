"""What shapes links in the networks of containers: netem there, or a queue in user space.

The queue is told and heard through a folder that we share.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.contracts.environment import Address, Link
from harness.envs.docker.engine import Engine, in_thread
from harness.envs.links import netem
from harness.envs.links.shaping import SOURCE, Shapers
from harness.errors import EnvError

_IN_BACKGROUND = '"$@" >>"$0" 2>&1 </dev/null & '


class DockerShapers(Shapers):
    """The shapers of a run in containers."""

    def __init__(self, engine: Engine, holders: Mapping[str, str], folder: Path) -> None:
        """Nothing is started.

        Args:
            engine: Where the containers are.
            holders: By node, the container of its network; ``folder/<node>`` is mounted there.
            folder: Gets a folder for each node.
        """
        super().__init__(tuple(holders))
        self._engine = engine
        self._holders = holders
        self._folder = folder

    async def start(self, node: str) -> None:
        """In the background of the node's holder."""
        arguments = [str(self._folder / node), node, json.dumps(self.queues)]
        program = ["python3", "-I", "-c", SOURCE, *arguments]
        argv = ["sh", "-c", _IN_BACKGROUND, str(self._log(node)), *program]
        code, said = await in_thread(self._engine.execute, self._holders[node], argv)
        if code:
            raise EnvError(f"cannot start the shaper of {node}: {said.strip()}")

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

    def __init__(
        self,
        engine: Engine,
        handle: int,
        holders: Mapping[str, str],
        addresses: Mapping[str, Address],
    ) -> None:
        """Nothing is tried.

        Args:
            engine: Where the containers are.
            handle: Of our roots.
            holders: By node, the container of its network.
            addresses: By node, where it listens.
        """
        super().__init__(tuple(holders))
        self.handle = handle
        self._engine = engine
        self._holders = holders
        self._addresses = addresses

    async def order(self, node: str, do: str, **arguments: Any) -> Any:
        """By a program in the node's holder."""
        order = json.dumps({"do": do, "handle": self.handle, **arguments})
        argv = ["python3", "-I", "-c", netem.SOURCE, order]
        code, said = await in_thread(self._engine.execute, self._holders[node], argv)
        answer = json.loads(said) if code == 0 else {"error": said.strip()[-1000:]}
        if "error" in answer:
            raise EnvError(f"cannot {do} netem in the network of {node}: {answer['error']}")
        return answer["ok"]

    def place(self, link: Link) -> dict[str, Any]:
        """All packets to the other node's address."""
        host = self._addresses[link[1]].host
        return {"to": host, "match": [netem.to_address(host)]}
