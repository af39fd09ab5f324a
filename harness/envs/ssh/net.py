"""The links between ssh hosts: firewall rules of ours on each, in a chain of the run's own.

A cut link (a, b) drops, on b's host, what comes from a's host to the node's port there or from the
node's port here; nothing else between the two hosts is touched, ssh least of all. Packets are lost
and not held, and acknowledgements with them: see ``docker_net``.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harness.contracts.environment import Address, Link, Probe
from harness.envs.links.shaping import ShapedCuts
from harness.envs.links.tcp_probe import REQUEST
from harness.envs.ssh.heal import RULES_ENTRY
from harness.envs.ssh.packets import SshNetems, SshShapers
from harness.envs.ssh.remote import CALL_TIMEOUT_S, Remote
from harness.errors import EnvError
from harness.healing.journal import Journal

CHAIN_MAX = 28  # bytes of a chain's name
_SOURCE = 7  # its column in a listing of a chain


@dataclass(slots=True)
class _Dropped:
    """What was dropped on a link: by rules that are gone, and by the present ones."""

    past_packets: int = 0
    past_bytes: int = 0
    packets: int = 0
    bytes: int = 0


class SshNet(ShapedCuts):
    """``Net`` by iptables on the hosts, where each of them lets us."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(journal)
        self._remotes: Mapping[str, Remote] = {}
        self._addresses: dict[str, Address] = {}
        self._names: dict[str, str] = {}
        self.why_not_shape: str | None = None
        self._why_not: str | None = "the ssh environment is not set up"
        self._dropped: dict[Link, _Dropped] = defaultdict(_Dropped)

    async def start(
        self,
        remotes: Mapping[str, Remote],
        addresses: Mapping[str, Address],
        why_not: str | None,
        no_queue: Mapping[str, str],
    ) -> None:
        """Begin; ``why_not`` says why links cannot be cut, None when they can.

        ``no_queue``: by node, why its host can hand no packets to a process. Links to it can be
        shaped by netem only, on all hosts.
        """
        self._remotes, self._addresses, self._why_not = remotes, dict(addresses), why_not
        self._shapers, self._why_no_queue = SshShapers(remotes), dict(no_queue)
        self._netems = SshNetems(remotes, self._addresses)
        if no_queue:
            reasons = await asyncio.gather(*map(self._netems.why_not, remotes))
            without = [f"{n}: {why}" for n, why in zip(remotes, reasons, strict=True) if why]
            if without:
                queue = "; ".join(no_queue.values())
                self.why_not_shape = f"{queue}; and there is no netem: {'; '.join(without)}"
        self._names = {address.host: node for node, address in addresses.items()}

    async def stop(self) -> None:
        """The hosts are cleaned, and the rules are gone."""
        await self._forget()

    async def move(self, node: str, address: Address) -> None:
        """A node that is down will listen there; what is cut and shaped stays so."""
        async with self._changing:
            self._addresses[node] = address
            shaped = [link for link, shapes in self._shapes.items() if shapes]
            await self._reshape(shaped)
            await self._install({destination for _, destination in self._cuts})

    @property
    def why_not_cut(self) -> str | None:
        """Why links cannot be cut here; None when they can."""
        return self._why_not

    async def cut(self, links: Iterable[Link]) -> None:
        """Drop all packets on these directed links; journalled before it takes effect."""
        if self._why_not is not None:
            raise EnvError(f"links cannot be cut: {self._why_not}")
        await super().cut(links)

    async def probe(self, source: str, destination: str, *, timeout_s: float = 0.5) -> Probe:
        """Send one ApiVersions request from ``source``'s host, wait for any answer."""
        self._check((source, destination))
        address = self._addresses[destination]
        seen = await self._remotes[source].call(
            "probe",
            within_s=timeout_s + CALL_TIMEOUT_S,
            host=address.host,
            port=address.port,
            timeout_s=timeout_s,
            request=REQUEST.hex(),
        )
        return Probe(source, destination, **seen)

    async def stats(self) -> Mapping[Link, Mapping[str, int]]:
        """Per link that was ever cut: ``dropped_packets``; ``held_bytes`` are the bytes of them."""
        async with self._changing:
            nodes = sorted({destination for _, destination in self._cuts})
            answers = await asyncio.gather(*(self._remotes[n].call("counters") for n in nodes))
            for node, answer in zip(nodes, answers, strict=True):
                self._note(node, str(answer["before"]))
        return {
            link: {
                "held_bytes": seen.past_bytes + seen.bytes,
                "dropped_packets": seen.past_packets + seen.packets,
            }
            for link, seen in self._dropped.items()
        }

    async def _announce(self, links: Iterable[Link]) -> int:
        return await self._journal.announce(RULES_ENTRY, links=[list(link) for link in links])

    async def _install(self, nodes: Iterable[str]) -> None:
        """Make the chains of these nodes' hosts what is cut now, each at one blow."""
        wanted = sorted(set(nodes))
        answers = await asyncio.gather(
            *(self._remotes[node].call("rules", rules=self._rules(node)) for node in wanted)
        )
        for node, answer in zip(wanted, answers, strict=True):
            self._note(node, str(answer["before"]))
            for link, seen in self._dropped.items():
                if link[1] == node:  # the new rules count from nothing
                    seen.past_packets += seen.packets
                    seen.past_bytes += seen.bytes
                    seen.packets = seen.bytes = 0

    def _rules(self, node: str) -> list[str]:
        here = self._addresses[node]
        rules = []
        for source, does in self._treatment(node).items():
            there = self._addresses[source]
            match = f"-s {there.host}/32 -d {here.host}/32 -p tcp"
            rules.append(f"{match} --dport {here.port} {does}")
            rules.append(f"{match} --sport {there.port} ! --dport {here.port} {does}")
        return rules

    def _note(self, node: str, listing: str) -> None:
        """Take the counters of a chain's rules: ``packets bytes DROP ... source destination``."""
        seen: dict[Link, tuple[int, int]] = {}
        for line in listing.splitlines():
            fields = line.split()
            if len(fields) > _SOURCE and fields[2] == "DROP" and fields[_SOURCE] in self._names:
                link = (self._names[fields[_SOURCE]], node)
                packets, size = seen.get(link, (0, 0))
                seen[link] = (packets + int(fields[0]), size + int(fields[1]))
        for link, (packets, size) in seen.items():
            self._dropped[link].packets, self._dropped[link].bytes = packets, size

    def _check(self, link: Link) -> None:
        for name in link:
            if name not in self._remotes:
                known = ", ".join(self._remotes)
                raise EnvError(f"no node is called {name!r}; there are: {known}")
