"""The links between simulated hosts: how long a message takes, and whether it gets through.

What travels are calls. Like TCP under our fault models a link keeps the order of one flow; a lost
packet is sent again and so only comes late; a cut link holds everything back until it is healed,
also what its sender has given up meanwhile, so that requests of long ago arrive out of the blue.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from node.core.types import Endpoint
from node.sim.loop import VirtualLoop

US: Final = 1_000
MS: Final = 1_000_000
RETRANSMIT_NS: Final = 200 * MS  # Linux's smallest timeout; it doubles with each loss


@dataclass(slots=True)
class Flow:
    """One direction of one connection."""

    source: str
    destination: str
    last_ns: int = 0  # when its last message arrives
    link: Link | None = None  # that between the two hosts, once it was used


Held = tuple[Flow, Context, Callable[..., object], tuple[Any, ...]]


@dataclass(slots=True)
class Link:
    """One direction between two hosts; may be changed at any time."""

    latency_ns: int = 100 * US
    jitter_ns: int = 100 * US  # at most so much more, evenly
    loss: float = 0.0  # of a packet
    jam_ns: int = 0  # what is sent goes on its way at the next multiple of this time
    cut: bool = False
    held: list[Held] = field(default_factory=list)
    passed: int = 0  # messages
    lost: int = 0  # packets, each sent again

    def draw_ns(self, rng: Random, now_ns: int = 0) -> int:
        """How long a message that is sent now takes."""
        delay_ns = self.latency_ns + (rng.randrange(self.jitter_ns) if self.jitter_ns else 0)
        if self.jam_ns:
            delay_ns += -now_ns % self.jam_ns
        if self.loss:
            wait_ns = RETRANSMIT_NS
            while rng.random() < self.loss:
                self.lost += 1
                delay_ns += wait_ns
                wait_ns *= 2
        return delay_ns


class Fabric:
    """All links, and who listens where.

    Args:
        loop: The time.
        rng: Decides latencies and losses.
        default: Makes the links that were never asked for.
    """

    def __init__(self, loop: VirtualLoop, rng: Random, default: Callable[[], Link] = Link) -> None:
        self.loop = loop
        self.listeners: dict[Endpoint, Any] = {}
        self._rng = rng
        self._default = default
        self._links: dict[tuple[str, str], Link] = {}
        self._connections = 0

    def link(self, source: str, destination: str) -> Link:
        """The link from one host to another."""
        link = self._links.get((source, destination))
        if link is None:
            link = self._links[source, destination] = self._default()
        return link

    def links(self) -> dict[tuple[str, str], Link]:
        """All links that were ever used or asked for."""
        return dict(self._links)

    def next_connection(self) -> int:
        """A number for a new connection."""
        self._connections += 1
        return self._connections

    def carry(self, flow: Flow, context: Context, call: Callable[..., object], *args: Any) -> None:
        """Call something at the other end, in its context, once the message has got there."""
        link = flow.link
        if link is None:
            link = flow.link = self.link(flow.source, flow.destination)
        if link.cut:
            link.held.append((flow, context, call, args))
            return
        link.passed += 1
        now_ns = self.loop.now_ns
        flow.last_ns = max(flow.last_ns, now_ns + link.draw_ns(self._rng, now_ns))
        self.loop.call_in_ns(flow.last_ns - now_ns, call, *args, context=context)

    def cut(self, source: str, destination: str) -> None:
        """Let nothing through any more; what is under way arrives."""
        self.link(source, destination).cut = True

    def heal(self, source: str, destination: str) -> None:
        """Let everything through again, first what was held back."""
        link = self.link(source, destination)
        link.cut = False
        held, link.held = link.held, []
        for flow, context, call, args in held:
            self.carry(flow, context, call, *args)
