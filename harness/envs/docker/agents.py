"""The agents in the holders of a run's nodes: one archive, mounted into each of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from harness.envs.agents.archive import archive
from harness.envs.docker.engine import Engine, in_thread
from harness.errors import EnvError

_PYTHON: Final = ("python3", "-I")
_IN_BACKGROUND: Final = '"$@" >>"$0" 2>&1 </dev/null & '


class RefusedError(EnvError):
    """Raised when an agent does not obey an order; says why."""


def ordering(file: Path, do: str, **arguments: Any) -> list[str]:
    """Make the command that gives an order where the agent is this file."""
    return [*_PYTHON, str(file), "order", json.dumps({"do": do, **arguments})]


def answered(code: int, said: str) -> dict[str, Any]:
    """Read what such a command said; raises RefusedError when the order was not obeyed."""
    answer: dict[str, Any] = {"error": said.strip()[-1000:]} if code else json.loads(said)
    if "error" in answer:
        raise RefusedError(answer["error"])
    return dict(answer["ok"])


class Agents:
    """Starts agents in the nodes' networks, where nothing else may change them."""

    def __init__(self, engine: Engine, holders: Mapping[str, str], file: Path) -> None:
        """Start nothing yet.

        Args:
            engine: Where the containers are.
            holders: By node, the container of its network.
            file: The agent, as every holder has it mounted; see ``write``.
        """
        self.engine = engine
        self.holders = holders
        self.file = file

    @staticmethod
    def write(file: Path) -> None:
        """Write the agent there, before a holder mounts it."""
        file.write_bytes(archive())

    async def order(self, node: str, do: str, **arguments: Any) -> dict[str, Any]:
        """Have an agent beside the node do something; see ``harness.agent.orders``.

        Raises:
            EnvError: It refuses, or cannot be started.
        """
        try:
            return answered(*await self._execute(node, ordering(self.file, do, **arguments)))
        except RefusedError as error:
            raise EnvError(
                f"the agent in the network of {node} cannot do {do!r}: {error}"
            ) from error

    async def start(self, node: str, verb: str, *arguments: str, log: Path) -> None:
        """Start an agent that stays; what it prints goes to ``log``, as the holder sees it.

        Raises:
            EnvError: It cannot be started.
        """
        program = [*_PYTHON, str(self.file), verb, *arguments]
        code, said = await self._execute(node, ["sh", "-c", _IN_BACKGROUND, str(log), *program])
        if code:
            raise EnvError(
                f"cannot start the agent {verb!r} in the network of {node}: {said.strip()}"
            )

    async def _execute(self, node: str, argv: list[str]) -> tuple[int, str]:
        return await in_thread(self.engine.execute, self.holders[node], argv)
