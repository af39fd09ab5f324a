"""What shapes links of ssh hosts: netem there, or a queue in user space, by the supervisors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.contracts.environment import Address, Link
from harness.envs.links import netem
from harness.envs.links.shaping import Shapers
from harness.envs.ssh.remote import Remote


class SshShapers(Shapers):
    """The shapers of a run on hosts."""

    def __init__(self, remotes: Mapping[str, Remote]) -> None:
        """Nothing is started."""
        super().__init__(tuple(remotes))
        self._remotes = remotes

    async def start(self, node: str) -> None:
        """By its supervisor, with which it ends."""
        await self._remotes[node].call("shaper", seed=node, queues=self.queues)

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


class SshNetems(netem.Netems):
    """The netems of a run on hosts: on the interfaces that lead from each to the others."""

    def __init__(self, remotes: Mapping[str, Remote], addresses: Mapping[str, Address]) -> None:
        """Nothing is tried; ``addresses`` is where nodes listen, which may change."""
        super().__init__(tuple(remotes))
        self._remotes = remotes
        self._addresses = addresses

    async def order(self, node: str, do: str, **arguments: Any) -> Any:
        """By its supervisor, which knows the handle."""
        answer = await self._remotes[node].call("netem", order={"do": do, **arguments})
        return answer["answer"]

    def place(self, link: Link) -> dict[str, Any]:
        """What goes to the other node's port, or back to that node from this one's."""
        here, there = (self._addresses[node] for node in link)
        tcp = ("match", "ip", "protocol", "6", "0xff")
        to_port = ("match", "ip", "dport", str(there.port), "0xffff")
        back = ("match", "ip", "sport", str(here.port), "0xffff")
        return {
            "to": there.host,
            "match": [netem.to_address(there.host, *tcp, *port) for port in (to_port, back)],
        }
