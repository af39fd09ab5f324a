"""Links that are slow, lossy, narrow, jammed or out of order: by netem, else by a queue of ours.

The kernel's netem does it where the sender has it; else firewall rules hand packets to a queue in
user space at the receiver. This is the harness's side of ``docker_shaper``, which is that queue: it
sits in a node's network, wherever that is, and holds what comes in. It is started when the first
link to that node is to be shaped so, and stays, idle, until the end. Environments say how it is
started, told and heard.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

from harness.agent import packets
from harness.contracts.environment import Link
from harness.contracts.hosts import Clocks, Disks, Power, Repeats, Shape
from harness.envs.clocks.orders import NodeClocks
from harness.envs.disks.orders import NodeDisks
from harness.envs.links.cuts import Cuts
from harness.envs.links.netem import NETEM, Netems
from harness.errors import EnvError, NotShapedError
from harness.healing.journal import Journal

QUEUED = "NFQUEUE"
SOURCE = Path(packets.__file__).read_text(encoding="utf-8")
_ANSWER_TIMEOUT_S = 10.0
_POLL_S = 0.005
_NO_COUNTERS = dict.fromkeys(("passed", "lost", "kept_back", "held", "bytes"), 0)


class Shapers:
    """The shapers of a run, one for each node that needs it."""

    def __init__(self, nodes: Sequence[str]) -> None:
        """Nothing is started."""
        self.queues = {node: number for number, node in enumerate(nodes)}
        self._versions: dict[str, int] = {}

    # ---- what an environment does in its own way

    async def start(self, node: str) -> None:
        """Start ``SOURCE`` in the node's network; raises EnvError."""
        raise NotImplementedError

    async def put(self, node: str, wanted: Mapping[str, Any]) -> None:
        """Let ``shape.json`` of the node's shaper be that, at one blow."""
        raise NotImplementedError

    async def told(self, node: str) -> Mapping[str, Any]:
        """What the node's shaper has said last in ``counters.json``; empty when it has not."""
        raise NotImplementedError

    async def complaint(self, node: str) -> str:
        """What it has printed last, and where more is to be found."""
        raise NotImplementedError

    # ---- what nets use

    def rule(self, source: str) -> str:
        """What a firewall rule does with packets of a source that is shaped."""
        return f"! -i lo -j {QUEUED} --queue-num {self.queues[source]} --queue-bypass"

    async def apply(self, node: str, shapes: Mapping[str, Shape]) -> None:
        """Let packets from these sources to the node be treated so, and all others not.

        Raises:
            EnvError: The shaper does not obey.
        """
        if node not in self._versions:
            if not shapes:
                return
            await self.start(node)
            self._versions[node] = 0
        version = self._versions[node] = self._versions[node] + 1
        links = {source: asdict(shape) for source, shape in shapes.items()}
        await self.put(node, {"version": version, "links": links})
        try:
            async with asyncio.timeout(_ANSWER_TIMEOUT_S):
                while (await self.told(node)).get("version", -1) < version:  # noqa: ASYNC110
                    await asyncio.sleep(_POLL_S)
        except TimeoutError as error:
            raise EnvError(
                f"the shaper of {node} does not obey within {_ANSWER_TIMEOUT_S:g} s: "
                f"{await self.complaint(node)}"
            ) from error

    async def counters(self, link: Link) -> Mapping[str, int]:
        """What became of a link's packets while it was shaped, since the start."""
        source, destination = link
        if destination not in self._versions:
            return _NO_COUNTERS
        told = await self.told(destination)
        return {**_NO_COUNTERS, **told.get("links", {}).get(source, {})}


class ShapedCuts(Cuts):
    """Links that can be cut, and shaped by shapers; see ``Packets``."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(journal)
        self._shapers: Shapers | None = None
        self._netems: Netems | None = None
        self._why_no_queue: dict[str, str] = {}  # node -> why packets to it cannot go through one
        self._ruled: set[str] = set()  # nodes with rules that hand packets to queues
        self._why_queued: dict[Link, str] = {}  # shaped link -> why netem does not do it
        self._shapes: dict[Link, dict[int, Shape]] = {}  # by owner
        self._shaping: dict[int, int] = {}  # owner -> its journal entry

    async def shape(self, owner: int, links: Iterable[Link], shape: Shape | None) -> None:
        """See ``Packets``: by netem or by a queue in user space; journalled first."""
        chosen = list(dict.fromkeys(links))
        for link in chosen:
            self._check(link)
        async with self._changing:
            if shape is not None and owner not in self._shaping:
                self._shaping[owner] = await self._announce(chosen)
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
        """Why a link is not as wanted: neither netem nor a queue treats it. None when it is."""
        no_queue = self._why_no_queue.get(link[1])
        if link not in self._why_queued or no_queue is None:
            return None
        return f"the link {link[0]} -> {link[1]}: {self._why_queued[link]}; {no_queue}"

    async def _reshape(self, links: Collection[Link]) -> None:
        """Let links be as they are wanted now: by netem at their sources, else by the queues.

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
            refused = dict.fromkeys(shapes, "netem is not asked here")
        else:
            refused = await self._netems.apply(source, shapes)
        for link in [link for link in self._why_queued if link[0] == source]:
            del self._why_queued[link]
        self._why_queued |= {(source, b): why for b, why in refused.items()}

    async def shaped(self, link: Link) -> Mapping[str, Any]:
        """See ``Packets``; ``by`` says what does it, and ``why_not_netem`` why that does not."""
        self._check(link)
        wanted = sum(self._shapes.get(link, {}).values(), Shape())
        counted = Counter(_NO_COUNTERS)
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
        """What rules do with packets to a node, by their source; a cut comes first."""
        does = dict.fromkeys(sorted(a for a, b in self._cuts if b == node), "-j DROP")
        if self._shapers is not None:
            does = {a: self._shapers.rule(a) for a in self._queued_to(node)} | does
        return does

    def _queued_to(self, node: str) -> dict[str, Shape]:
        """What queues do with packets to a node, by their source."""
        if node in self._why_no_queue:
            return {}
        return {
            source: sum(self._shapes[source, destination].values(), Shape())
            for source, destination in self._why_queued
            if destination == node
        }

    async def _forget(self) -> None:
        await super()._forget()
        for entry in self._shaping.values():
            await asyncio.to_thread(self._journal.undone, entry)
        self._shaping.clear()
        self._why_queued.clear()
        self._ruled.clear()


def no_repeats(ability: type) -> str | None:
    """Why links that are shaped so have not an ability, whatever the run; None when they have."""
    if ability is Repeats:
        return "TCP drops a packet that comes twice; requests are repeated only in 'sim'"
    return None


class SpoiledHosts(NodeDisks, NodeClocks):
    """What environments share whose links are shaped so, beside their nodes' disks and clocks."""

    def __init__(self, journal: Journal) -> None:
        NodeDisks.__init__(self, journal)
        NodeClocks.__init__(self, journal)

    def expect(self, abilities: Collection[type], rng: Random) -> None:
        """See ``Expects``."""
        if {Disks, Power} & set(abilities):
            self.use_fault_disks(rng)
        if Clocks in abilities:
            self.use_fake_clocks()
