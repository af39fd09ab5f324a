"""How an environment gets its hands on the files of its nodes: here, or where the files are."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from harness.contracts.environment import ProcessState
from harness.errors import EnvError
from node.faults.hands import Hands, HandsError


class NodeHands:
    """What the mix-ins for disks and clocks share; the files are on this host unless told so."""

    _hands: dict[str, tuple[Hands, asyncio.Lock]]

    # ---- what the environment gives

    def node_dir(self, node: str) -> Path:
        """The node's folder."""
        raise NotImplementedError

    def process(self, node: str) -> ProcessState:
        """The node's process."""
        raise NotImplementedError

    # ---- what it may do in its own way

    def folder_seen(self, node: str) -> str:
        """The node's folder as its process sees it."""
        return str(self.node_dir(node))

    async def reach(self, node: str, do: str, **arguments: Any) -> Any:
        """Have the ``Hands`` of a node do something, one thing at a time; raises EnvError.

        In a thread: files may be large, and clients have their timeouts meanwhile.
        """
        if not hasattr(self, "_hands"):
            self._hands = {}
        if node not in self._hands:
            self._hands[node] = Hands(self.node_dir(node)), asyncio.Lock()
        hands, one = self._hands[node]
        try:
            async with one:
                return await asyncio.to_thread(getattr(hands, do), **arguments)
        except HandsError as error:
            raise EnvError(f"{node}: {error}") from error
