"""Hands on the files of nodes on ssh hosts: the supervisors have them, and we a mirror."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.envs.nodes.names import known
from harness.envs.ssh.place import Place


class HandsThere:
    """``NodeHands`` on the nodes' hosts."""

    def __init__(self, places: Mapping[str, Place]) -> None:
        """Touch nothing yet; ``places`` are the run's, once it is set up."""
        self._places = places

    def folder_seen(self, node: str) -> str:
        """See ``NodeHands``; it is its host's."""
        return known(self._places, node).folder

    async def reach(self, node: str, do: str, **arguments: Any) -> Any:
        """See ``NodeHands``."""
        remote = known(self._places, node).remote
        return (await remote.call("hands", order={"do": do, **arguments}))["answer"]

    async def damage(self, node: str, do: str, **arguments: Any) -> Any:
        """See ``NodeHands``; of the damage there is to be seen in the mirror, too."""
        done = await self.reach(node, do, **arguments)
        await known(self._places, node).refresh()
        return done
