"""The links between containers: firewall rules of ours inside each one's network, and nowhere else.

A cut link (a, b) is a rule in b's network that drops all packets from a, as in Jepsen. Packets are
lost and not held: what TCP had on its way is sent again after the heal. With a packet filter a
one-way cut keeps answers back too: b's data reaches a, but a's acknowledgements are lost. Packets
of a link that is to be slow or lossy go through netem, or a queue in user space: see ``shaping``.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.contracts.environment import Address, Link, Probe
from harness.envs.docker.agents import Agents
from harness.envs.docker.packets import DockerNetems
from harness.envs.links.shaping import ShapedCuts, Shapers
from harness.envs.links.tcp_probe import REQUEST
from harness.errors import EnvError
from harness.healing.journal import Journal

CHAIN_MAX = 28  # bytes of a chain's name
_SOURCE = 7  # its column in a listing of a chain


@dataclass(slots=True)
class _Dropped:
    """What was dropped on a link: by rules that are gone, and by the present one."""

    packets: int = 0
    bytes: int = 0
    past: tuple[int, int] = field(default=(0, 0))

    def now(self, packets: int, size: int) -> None:
        """The present rule's counters."""
        self.packets, self.bytes = self.past[0] + packets, self.past[1] + size


class DockerNet(ShapedCuts):
    """``Net`` by iptables in the networks of a run's containers."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(journal)
        self._agents: Agents | None = None
        self._in_kernel: DockerNetems | None = None
        self._chain = ""
        self._holders: Mapping[str, str] = {}
        self._addresses: Mapping[str, Address] = {}
        self._names: dict[str, str] = {}
        self._dropped: dict[Link, _Dropped] = defaultdict(_Dropped)

    async def start(
        self,
        agents: Agents,
        chain: str,
        addresses: Mapping[str, Address],
        shapers: Shapers,
        netems: DockerNetems,
    ) -> None:
        """Make our chain in every node's network.

        Args:
            agents: What changes the nodes' networks.
            chain: The chain's name.
            addresses: By node, where it listens.
            shapers: What holds packets of links that are to be slow, where there is no netem.
            netems: What does so where there is.

        Raises:
            EnvError: There is no packet filter to be had.
        """
        self._agents, self._chain, self._holders = agents, chain, agents.holders
        self._addresses, self._shapers = addresses, shapers
        self._netems = self._in_kernel = netems
        self._names = {address.host: node for node, address in addresses.items()}
        await asyncio.gather(*(self._change(node) for node in self._holders))

    async def stop(self) -> None:
        """The containers are gone, and the rules with them."""
        await self._forget()

    async def probe(self, source: str, destination: str, *, timeout_s: float = 0.5) -> Probe:
        """Send one ApiVersions request from inside ``source``'s network, wait for any answer."""
        self._check((source, destination))
        address = self._addresses[destination]
        seen = await self._order(
            source,
            "probe",
            host=address.host,
            port=address.port,
            timeout_s=timeout_s,
            request=REQUEST.hex(),
        )
        return Probe(source, destination, **seen)

    async def stats(self) -> Mapping[Link, Mapping[str, int]]:
        """Per link that was ever cut: ``dropped_packets``; ``held_bytes`` are the bytes of them."""
        async with self._changing:
            nodes = {destination for _, destination in self._cuts}
            said = await asyncio.gather(*map(self._count, nodes))
            for node, text in zip(nodes, said, strict=True):
                self._note(node, text)
        return {
            link: {"held_bytes": dropped.bytes, "dropped_packets": dropped.packets}
            for link, dropped in self._dropped.items()
        }

    # ---- rules

    async def _announce(self, links: Iterable[Link]) -> int:
        """Journal that rules for these links are about to be installed."""
        named = list(links)
        return await self._journal.announce(
            "rules",
            engine=None if self._agents is None else self._agents.engine.host,
            chain=self._chain,
            qdisc=None if self._in_kernel is None else self._in_kernel.handle,
            containers=sorted({self._holders[node] for link in named for node in link}),
            links=[list(link) for link in named],
        )

    async def _install(self, nodes: Iterable[str]) -> None:
        """Make the chains of these nodes' networks what is cut now, each at one blow.

        The whole chain is written anew, so that half a change before does not matter.
        """
        wanted = sorted(set(nodes))
        said = await asyncio.gather(*map(self._change, wanted))
        for node, text in zip(wanted, said, strict=True):
            self._note(node, text)
            for link, dropped in self._dropped.items():
                if link[1] == node:
                    dropped.past = (dropped.packets, dropped.bytes)

    def _rules(self, node: str) -> list[str]:
        return [
            f"-s {self._addresses[source].host}/32 {does}"
            for source, does in self._treatment(node).items()
        ]

    def _note(self, node: str, listing: str) -> None:
        """Take the counters of a chain's rules: ``packets bytes DROP ... source destination``."""
        for line in listing.splitlines():
            fields = line.split()
            if len(fields) > _SOURCE and fields[2] == "DROP" and fields[_SOURCE] in self._names:
                link = (self._names[fields[_SOURCE]], node)
                self._dropped[link].now(int(fields[0]), int(fields[1]))

    async def _change(self, node: str) -> str:
        """Make a node's chain what is wanted now; returns its counters before."""
        rules = self._rules(node)
        return str((await self._order(node, "rules", chain=self._chain, rules=rules))["before"])

    async def _count(self, node: str) -> str:
        return str((await self._order(node, "counters", chain=self._chain))["before"])

    async def _order(self, node: str, do: str, **arguments: Any) -> dict[str, Any]:
        if self._agents is None:
            raise EnvError("the docker environment is not set up")
        return await self._agents.order(node, do, **arguments)

    def _check(self, link: Link) -> None:
        for name in link:
            if name not in self._holders:
                raise EnvError(f"no node is called {name!r}; there are: {', '.join(self._holders)}")
