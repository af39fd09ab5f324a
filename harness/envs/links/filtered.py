"""Links by packet filters beside the nodes: rules cut them, netem or a queue shapes them.

A cut link (a, b) is rules in b's network that drop all packets from a, as in Jepsen. Packets are
lost and not held: what TCP had on its way is sent again after the heal. With a packet filter a
one-way cut keeps answers back too: b's data reaches a, but a's acknowledgements are lost. A link
that is to be slow, lossy, ... goes through the kernel's netem where the sender has it, else through
a queue in user space at the receiver; see ``netem`` and ``shaping``.

The net is the same for containers and for ssh hosts: agents beside the nodes obey its orders.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Protocol

from harness.contracts.environment import Address, Link, Probe
from harness.contracts.hosts import Shape
from harness.envs.links.netem import NETEM, Netems
from harness.envs.links.shaping import NO_COUNTERS, QUEUED, Queues, Shapers
from harness.envs.links.tcp_probe import REQUEST
from harness.envs.nodes.names import check_known
from harness.errors import EnvError, NotShapedError
from harness.healing.journal import Journal

CHAIN_MAX: Final = 28  # bytes of a chain's name
_SOURCE = 7  # its column in a listing of a chain


class Filters(Protocol):
    """The agents beside the nodes, and how packets of a link are told from all others there."""

    async def order(self, node: str, do: str, **arguments: Any) -> Mapping[str, Any]:
        """Have the node's agent do something, in the run's chain and under its root of netems.

        See ``harness.agent.orders``.

        Raises:
            EnvError: It refuses, or cannot be reached.
        """
        ...

    def rules(self, source: Address, destination: Address, does: str) -> list[str]:
        """The rules at the destination that do so with packets of a link."""
        ...

    def match(self, source: Address, destination: Address) -> list[list[str]]:
        """The words of u32 filters at the source that match packets of a link."""
        ...

    async def announce(self, links: Sequence[Link]) -> int:
        """Journal that links are about to be cut or shaped; the entry."""
        ...


@dataclass(slots=True)
class _Dropped:
    """Counts of packets dropped on a link: by rules that are gone, and by the present ones."""

    past_packets: int = 0
    past_bytes: int = 0
    packets: int = 0
    bytes: int = 0


class FilteredNet:
    """``Net`` and ``Packets`` by packet filters."""

    def __init__(self, journal: Journal) -> None:
        """Begin without links: ``start`` adds them."""
        self._journal = journal
        self._changing = asyncio.Lock()
        self._filters: Filters | None = None
        self._addresses: dict[str, Address] = {}
        self._names: dict[str, str] = {}  # by host
        self._why_not: str | None = None
        self.why_not_shape: str | None = None
        self._cuts: dict[Link, int] = {}  # cut link -> its journal entry
        self._dropped: dict[Link, _Dropped] = defaultdict(_Dropped)
        self._shapers: Shapers | None = None
        self._netems: Netems | None = None
        self._why_no_queue: dict[str, str] = {}  # node -> why packets to it cannot go through one
        self._ruled: set[str] = set()  # nodes with rules that hand packets to queues
        self._why_queued: dict[Link, str] = {}  # shaped link -> why netem does not do it
        self._shapes: dict[Link, dict[int, Shape]] = {}  # by owner
        self._shaping: dict[int, int] = {}  # owner -> its journal entry

    async def start(
        self,
        filters: Filters,
        addresses: Mapping[str, Address],
        queues: Queues,
        *,
        why_not: str | None = None,
        no_queue: Mapping[str, str] | None = None,
    ) -> None:
        """Begin; no rule is installed.

        Args:
            filters: What is beside the nodes.
            addresses: By node, where it listens.
            queues: What holds packets where there is no netem.
            why_not: Why links cannot be cut; None when they can.
            no_queue: By node, why packets to it cannot be handed to a process. Links to it can be
                shaped by netem only, and by that on all hosts.
        """
        self._filters, self._addresses = filters, dict(addresses)
        self._names = {address.host: node for node, address in addresses.items()}
        self._why_not, self._why_no_queue = why_not, dict(no_queue or {})
        self._shapers = Shapers(tuple(addresses), queues)
        netems = self._netems = Netems(tuple(addresses), self._order_netem, self._place)
        if no_queue:
            reasons = await asyncio.gather(*map(netems.why_not, addresses))
            without = [f"{n}: {why}" for n, why in zip(addresses, reasons, strict=True) if why]
            if without:
                queue = "; ".join(no_queue.values())
                self.why_not_shape = f"{queue}; and there is no netem: {'; '.join(without)}"

    async def make_chains(self) -> None:
        """Make our chain beside every node, without a rule.

        Raises:
            EnvError: There is no packet filter to be had.
        """
        await self._install(self._addresses)

    async def stop(self) -> None:
        """Forget all links: the rules are gone with what held them. Idempotent."""
        for entry in {*self._cuts.values(), *self._shaping.values()}:
            await asyncio.to_thread(self._journal.undone, entry)
        self._cuts.clear()
        self._shaping.clear()
        self._why_queued.clear()
        self._ruled.clear()

    async def move(self, node: str, address: Address) -> None:
        """A node that is down will listen there; what is cut and shaped stays so."""
        async with self._changing:
            self._addresses[node] = address
            self._names[address.host] = node
            shaped = [link for link, shapes in self._shapes.items() if shapes]
            await self._reshape(shaped)
            await self._install({destination for _, destination in self._cuts})

    # ---- cuts

    @property
    def why_not_cut(self) -> str | None:
        """Tell why links cannot be cut here; None when they can."""
        return self._why_not

    async def cut(self, links: Iterable[Link]) -> None:
        """Drop all packets on these directed links; journalled before it takes effect."""
        if self._why_not is not None:
            raise EnvError(f"links cannot be cut: {self._why_not}")
        async with self._changing:
            fresh = [link for link in dict.fromkeys(links) if link not in self._cuts]
            for link in fresh:
                check_known(self._addresses, *link)
            if fresh:
                entry = await self._known().announce(fresh)
                self._cuts.update(dict.fromkeys(fresh, entry))
                await self._install(destination for _, destination in fresh)

    async def heal(self, links: Iterable[Link] | None = None) -> None:
        """Let packets through again: on these links, or on all. Idempotent."""
        async with self._changing:
            wanted = list(self._cuts) if links is None else list(dict.fromkeys(links))
            for link in wanted:
                check_known(self._addresses, *link)
            chosen = [link for link in wanted if link in self._cuts]
            kept = {link: self._cuts.pop(link) for link in chosen}
            try:
                await self._install(destination for _, destination in chosen)
            except BaseException:
                self._cuts.update(kept)
                raise
            for entry in set(kept.values()) - set(self._cuts.values()):
                await asyncio.to_thread(self._journal.undone, entry)

    def cuts(self) -> frozenset[Link]:
        """The links cut at present."""
        return frozenset(self._cuts)

    async def probe(self, source: str, destination: str, *, timeout_s: float = 0.5) -> Probe:
        """Send one ApiVersions request from beside ``source``, wait for any answer."""
        check_known(self._addresses, source, destination)
        address = self._addresses[destination]
        seen = await self._known().order(
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
            nodes = sorted({destination for _, destination in self._cuts})
            told = await asyncio.gather(*(self._known().order(n, "counters") for n in nodes))
            for node, answer in zip(nodes, told, strict=True):
                self._note(node, str(answer["before"]))
        return {
            link: {
                "held_bytes": seen.past_bytes + seen.bytes,
                "dropped_packets": seen.past_packets + seen.packets,
            }
            for link, seen in self._dropped.items()
        }

    # ---- shapes

    async def shape(self, owner: int, links: Iterable[Link], shape: Shape | None) -> None:
        """See ``Packets``: by netem or by a queue in user space; journalled first."""
        chosen = list(dict.fromkeys(links))
        for link in chosen:
            check_known(self._addresses, *link)
        async with self._changing:
            if shape is not None and owner not in self._shaping:
                self._shaping[owner] = await self._known().announce(chosen)
            self._want(owner, chosen, shape)
            await self._reshape(chosen)
            reason = next(filter(None, map(self._lacking, chosen)), None)
            if shape is not None and reason is not None:
                self._want(owner, chosen, None)
                await self._reshape(chosen)
            if (shape is None or reason is not None) and owner in self._shaping:
                await asyncio.to_thread(self._journal.undone, self._shaping.pop(owner))
        if shape is not None and reason is not None:
            raise NotShapedError(reason)

    def _want(self, owner: int, links: Iterable[Link], shape: Shape | None) -> None:
        for link in links:
            shapes = self._shapes.setdefault(link, {})
            shapes.pop(owner, None)
            if shape is not None:
                shapes[owner] = shape

    def _lacking(self, link: Link) -> str | None:
        """Tell why neither netem nor a queue treats a link as wanted; None when one does."""
        no_queue = self._why_no_queue.get(link[1])
        if link not in self._why_queued or no_queue is None:
            return None
        return f"the link {link[0]} -> {link[1]}: {self._why_queued[link]}; {no_queue}"

    async def _reshape(self, links: Collection[Link]) -> None:
        """Shape the links as they are wanted now: by netem at their sources, else by the queues.

        Other links of a source may change hands: a kernel takes or refuses what is there together.
        """
        before = self._why_queued.keys() | ()
        await asyncio.gather(*(self._by_netem(node) for node in sorted({a for a, _ in links})))
        moved = before ^ self._why_queued.keys()
        nodes = sorted({destination for _, destination in (*links, *moved)})
        queues = {node for node in nodes if self._queued_to(node)}
        if self._shapers is not None:
            await asyncio.gather(*(self._shapers.apply(n, self._queued_to(n)) for n in nodes))
        if ruled := queues | self._ruled.intersection(nodes):  # netem needs no rules
            await self._install(sorted(ruled))
        self._ruled = self._ruled.difference(nodes) | queues

    async def _by_netem(self, source: str) -> None:
        """Have netem treat what a node sends as far as it can; the rest is for queues."""
        shapes = {
            destination: sum(shapes.values(), Shape())
            for (a, destination), shapes in self._shapes.items()
            if a == source and shapes
        }
        if self._netems is None:
            refused = dict.fromkeys(shapes, "this run does not use netem")
        else:
            refused = await self._netems.apply(source, shapes)
        for link in [link for link in self._why_queued if link[0] == source]:
            del self._why_queued[link]
        self._why_queued |= {(source, b): why for b, why in refused.items()}

    async def shaped(self, link: Link) -> Mapping[str, Any]:
        """See ``Packets``; ``by`` says what does it, and ``why_not_netem`` why that does not."""
        check_known(self._addresses, *link)
        wanted = sum(self._shapes.get(link, {}).values(), Shape())
        counted = Counter(NO_COUNTERS)
        qdiscs: Sequence[Mapping[str, Any]] = ()
        if self._shapers is not None:
            counted.update(await self._shapers.counters(link))
        if self._netems is not None:
            by_netem, qdiscs = await self._netems.counters(link)
            counted.update(by_netem)
        why = self._why_queued.get(link)
        told: dict[str, Any] = {
            "link": list(link),
            "by": QUEUED if why is not None else (NETEM if qdiscs else None),
            "latency_ms": wanted.delay_ms,
            **{key: value for key, value in asdict(wanted).items() if key != "delay_ms"},
            "repeated": 0,
            **counted,
        }
        if why is not None:
            told["why_not_netem"] = why
        if qdiscs:
            told["qdiscs"] = [dict(each) for each in qdiscs]
        return told

    def _treatment(self, node: str) -> dict[str, str]:
        """The rules for packets to a node, by their source; a cut comes first."""
        does = dict.fromkeys(sorted(a for a, b in self._cuts if b == node), "-j DROP")
        if self._shapers is not None:
            does = {a: self._shapers.rule(a) for a in self._queued_to(node)} | does
        return does

    def _queued_to(self, node: str) -> dict[str, Shape]:
        """The queues for packets to a node, by their source."""
        if node in self._why_no_queue:
            return {}
        return {
            source: sum(self._shapes[source, destination].values(), Shape())
            for source, destination in self._why_queued
            if destination == node
        }

    # ---- rules and netems

    async def _install(self, nodes: Iterable[str]) -> None:
        """Make the chains of these nodes what is wanted now, each at one blow.

        The whole chain is written anew, so that half a change before does not matter.
        """
        wanted = sorted(set(nodes))
        told = await asyncio.gather(
            *(self._known().order(node, "rules", rules=self._rules(node)) for node in wanted)
        )
        for node, answer in zip(wanted, told, strict=True):
            self._note(node, str(answer["before"]))
            for link, seen in self._dropped.items():
                if link[1] == node:  # the new rules count from nothing
                    seen.past_packets += seen.packets
                    seen.past_bytes += seen.bytes
                    seen.packets = seen.bytes = 0

    def _rules(self, node: str) -> list[str]:
        here = self._addresses[node]
        return [
            rule
            for source, does in self._treatment(node).items()
            for rule in self._known().rules(self._addresses[source], here, does)
        ]

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

    async def _order_netem(self, node: str, do: str, **arguments: Any) -> Any:
        done = await self._known().order(node, "netem", order={"do": do, **arguments})
        return done["answer"]

    def _place(self, link: Link) -> dict[str, Any]:
        """Give the address that packets of a link go to, and the match that picks them out."""
        here, there = (self._addresses[node] for node in link)
        return {"to": there.host, "match": self._known().match(here, there)}

    def _known(self) -> Filters:
        if self._filters is None:
            raise EnvError("the environment is not set up")
        return self._filters
