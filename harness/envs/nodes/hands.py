"""Hands on the files of an environment's nodes: here, or where the files are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from harness.errors import EnvError
from node.faults.hands import Hands, HandsError


class NodeHands(Protocol):
    """An environment that makes the ``Hands`` of each node do things; see ``node.faults.hands``."""

    def folder_seen(self, node: str) -> str:
        """The node's folder as its process sees it."""
        ...

    async def reach(self, node: str, do: str, **arguments: Any) -> Any:
        """Have the hands of a node do something, one thing at a time; raises EnvError."""
        ...

    async def damage(self, node: str, do: str, **arguments: Any) -> Any:
        """Have them do something to the files of a node that is down; raises EnvError."""
        ...


class HandsHere:
    """``NodeHands`` on files of this host."""

    def __init__(self, node_dir: Callable[[str], Path]) -> None:
        """Touch nothing yet; ``node_dir`` tells the folder of a node."""
        self._node_dir = node_dir
        self._hands: dict[str, tuple[Hands, asyncio.Lock]] = {}

    def folder_seen(self, node: str) -> str:
        """See ``NodeHands``; it is this host's own."""
        return str(self._node_dir(node))

    async def reach(self, node: str, do: str, **arguments: Any) -> Any:
        """See ``NodeHands``.

        In a thread: files may be large, and clients have their timeouts meanwhile.
        """
        if node not in self._hands:
            self._hands[node] = Hands(self._node_dir(node)), asyncio.Lock()
        hands, one = self._hands[node]
        try:
            async with one:
                return await asyncio.to_thread(getattr(hands, do), **arguments)
        except HandsError as error:
            raise EnvError(f"{node}: {error}") from error

    async def damage(self, node: str, do: str, **arguments: Any) -> Any:
        """See ``NodeHands``."""
        return await self.reach(node, do, **arguments)
