"""The links between ssh hosts: by the supervisors there, told apart by addresses and ports.

Only what goes from one host to the other's node, and back from its node, is meant; nothing else
between the two hosts is touched, ssh least of all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.contracts.environment import Address, Link
from harness.envs.links.netem import to_address
from harness.envs.ssh.heal import RULES_ENTRY
from harness.envs.ssh.remote import CALL_TIMEOUT_S, Remote
from harness.healing.journal import Journal


class SshFilters:
    """``Filters`` on the hosts of a run; supervisors know their chains and handles."""

    def __init__(self, remotes: Mapping[str, Remote], journal: Journal) -> None:
        """Order nothing yet."""
        self._remotes = remotes
        self._journal = journal

    async def order(self, node: str, do: str, **arguments: Any) -> Mapping[str, Any]:
        """See ``Filters``."""
        within_s = CALL_TIMEOUT_S + float(arguments.get("timeout_s", 0.0))
        return await self._remotes[node].call(do, within_s=within_s, **arguments)

    def rules(self, source: Address, destination: Address, does: str) -> list[str]:
        """Match what comes from there to the node's port here, or from the node's port there."""
        match = f"-s {source.host}/32 -d {destination.host}/32 -p tcp"
        return [
            f"{match} --dport {destination.port} {does}",
            f"{match} --sport {source.port} ! --dport {destination.port} {does}",
        ]

    def match(self, source: Address, destination: Address) -> list[list[str]]:
        """Match packets that go to the other node's port, or back to that node from this one's."""
        tcp = ("match", "ip", "protocol", "6", "0xff")
        to_port = ("match", "ip", "dport", str(destination.port), "0xffff")
        back = ("match", "ip", "sport", str(source.port), "0xffff")
        return [to_address(destination.host, *tcp, *port) for port in (to_port, back)]

    async def announce(self, links: Sequence[Link]) -> int:
        """See ``Filters``; chain and handle are in the entry of each host."""
        return await self._journal.announce(RULES_ENTRY, links=[list(link) for link in links])


class SshQueues:
    """``Queues`` by the supervisors, with which they end."""

    def __init__(self, remotes: Mapping[str, Remote]) -> None:
        """Start nothing yet."""
        self._remotes = remotes

    async def start(self, node: str, queues: Mapping[str, int]) -> None:
        """Have the node's supervisor start its shaper."""
        await self._remotes[node].call("shaper", seed=node, queues=dict(queues))

    async def put(self, node: str, wanted: Mapping[str, Any]) -> None:
        """Have the node's supervisor shape packets so from now on."""
        await self._remotes[node].call("shape", wanted=dict(wanted))

    async def told(self, node: str) -> Mapping[str, Any]:
        """Ask the node's supervisor."""
        return dict((await self._remotes[node].call("shaped"))["told"])

    async def complaint(self, node: str) -> str:
        """Ask the node's supervisor."""
        last = (await self._remotes[node].call("shaped"))["last"]
        return str(last or "it has printed nothing")
