"""Shapers on ssh hosts: started, told and heard by the supervisors there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.envs.shaping import SOURCE, Shapers
from harness.envs.ssh_remote import Remote


class SshShapers(Shapers):
    """The shapers of a run on hosts."""

    def __init__(self, remotes: Mapping[str, Remote]) -> None:
        """Nothing is started."""
        super().__init__(tuple(remotes))
        self._remotes = remotes

    async def start(self, node: str) -> None:
        """By its supervisor, with which it ends."""
        await self._remotes[node].call("shaper", source=SOURCE, seed=node, queues=self.queues)

    async def put(self, node: str, wanted: Mapping[str, Any]) -> None:
        """By its supervisor."""
        await self._remotes[node].call("shape", wanted=dict(wanted))

    async def told(self, node: str) -> Mapping[str, Any]:
        """From its supervisor."""
        return dict((await self._remotes[node].call("shaped"))["told"])

    async def complaint(self, node: str) -> str:
        """From its supervisor."""
        last = (await self._remotes[node].call("shaped"))["last"]
        return str(last or "it says nothing")
