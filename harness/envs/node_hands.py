"""How an environment gets its hands on the files of its nodes: here, or where the files are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.errors import EnvError
from harness.protocols import ProcessState
from node.hands import Hands, HandsError


class NodeHands:
    """What the mix-ins for disks and clocks share; the files are on this host unless told so."""

    _hands: dict[str, Hands]

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
        """Have the ``Hands`` of a node do something; raises EnvError."""
        if not hasattr(self, "_hands"):
            self._hands = {}
        hands = self._hands.setdefault(node, Hands(self.node_dir(node)))
        try:
            return getattr(hands, do)(**arguments)
        except HandsError as error:
            raise EnvError(f"{node}: {error}") from error
