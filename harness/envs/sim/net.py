"""Links between the hosts of a simulation: the fabric's, cut and shaped."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any

from harness.contracts.environment import Link, Probe
from harness.contracts.hosts import Shape
from harness.envs.nodes.names import known
from node.sim.fabric import MS, AnswerLoss, Fabric
from node.sim.host import VirtualHost
from node.sim.network import VirtualNetwork

# Asks a node from a network, with a timeout in s: whether it answered, what was seen, after how
# many ms.
Try = Callable[[VirtualNetwork, str, float], Awaitable[tuple[bool, str, float]]]


class SimNet:
    """The links between the hosts of a simulation."""

    def __init__(self, fabric: Fabric, hosts: Mapping[str, VirtualHost], try_from: Try) -> None:
        """Begin with no link cut.

        Args:
            fabric: What hosts send over.
            hosts: Those of the simulation, by node, once they are there.
            try_from: Asks a node what it serves, from whoever has that network.
        """
        self._fabric = fabric
        self._nodes = hosts
        self._try_from = try_from
        self._cuts: set[Link] = set()
        self._shapes: dict[Link, dict[int, Shape]] = {}  # by owner

    async def cut(self, links: Iterable[Link]) -> None:
        """Hold back everything on these directed links from now on."""
        for link in links:
            self._cuts.add(link)
            self._fabric.cut(*self._hosts(link))

    async def heal(self, links: Iterable[Link] | None = None) -> None:
        """Let everything through again: on these links, or on all."""
        for link in sorted(self._cuts if links is None else self._cuts.intersection(links)):
            self._cuts.discard(link)
            self._fabric.heal(*self._hosts(link))

    def cuts(self) -> frozenset[Link]:
        """The links cut at present."""
        return frozenset(self._cuts)

    async def probe(self, source: str, destination: str, *, timeout_s: float = 0.5) -> Probe:
        """A request from ``source``'s own host, and its answer."""
        network = VirtualNetwork(self._fabric, known(self._nodes, source).address)
        passed, detail, elapsed_ms = await self._try_from(network, destination, timeout_s)
        return Probe(source, destination, passed, detail, elapsed_ms)

    async def stats(self) -> Mapping[Link, Mapping[str, int]]:
        """Per link: messages that passed and that are held back now, packets that were lost."""
        names = {host.address: node for node, host in self._nodes.items()}
        return {
            (names[a], names[b]): {
                "passed": link.passed,
                "held_bytes": len(link.held),
                "lost": link.lost,
            }
            for (a, b), link in self._fabric.links().items()
            if a in names and b in names
        }

    async def shape(self, owner: int, links: Iterable[Link], shape: Shape | None) -> None:
        """See ``Packets``."""
        plain = self._fabric.default()
        for link in links:
            shapes = self._shapes.setdefault(link, {})
            shapes.pop(owner, None)
            if shape is not None:
                shapes[owner] = shape
            wanted = sum(shapes.values(), Shape())
            found = self._fabric.link(*self._hosts(link))
            found.latency_ns = plain.latency_ns + wanted.delay_ms * MS
            found.jitter_ns = plain.jitter_ns + wanted.jitter_ms * MS
            found.loss = wanted.loss
            found.jam_ns = wanted.jam_ms * MS
            found.repeat = wanted.repeat
            found.keep_back = wanted.keep_back
            found.late_ns = max(1, wanted.late_ms) * MS
            found.bytes_per_s = wanted.bytes_per_s
            found.settle()

    async def shaped(self, link: Link) -> Mapping[str, Any]:
        """See ``Packets``."""
        found = self._fabric.link(*self._hosts(link))
        return {
            "link": list(link),
            "latency_ms": found.latency_ns / MS,
            "jitter_ms": found.jitter_ns / MS,
            "loss": found.loss,
            "jam_ms": found.jam_ns / MS,
            "repeat": found.repeat,
            "keep_back": found.keep_back,
            "bytes_per_s": found.bytes_per_s,
            "passed": found.passed,
            "lost": found.lost,
            "repeated": found.repeated,
            "kept_back": found.kept_back,
        }

    async def lose_answers(
        self, node: str, count: int, to: Collection[str], *, resets: bool
    ) -> None:
        """See ``LosesAnswers``."""
        host = known(self._nodes, node).address
        hosts = frozenset(known(self._nodes, name).address for name in to)
        self._fabric.answer_loss[host] = AnswerLoss(count, hosts, resets)

    async def lost_answers(self, node: str) -> int:
        """See ``LosesAnswers``."""
        loss = self._fabric.answer_loss.get(known(self._nodes, node).address)
        return 0 if loss is None else loss.lost

    def _hosts(self, link: Link) -> tuple[str, str]:
        source, destination = link
        return known(self._nodes, source).address, known(self._nodes, destination).address
