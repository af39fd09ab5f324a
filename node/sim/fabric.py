"""The links between simulated hosts: they decide how long a message takes, or lose it.

What travels are calls. Like TCP under our fault models a link keeps the order of one flow; a lost
packet is sent again and so only comes late; a cut link holds everything back until it is healed,
also what its sender has given up meanwhile, so that requests of long ago arrive out of the blue.
A link may also repeat what allows it, as a proxy does that tries again, and keep some messages
back while later ones of other flows overtake them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from node.core.types import Endpoint
from node.sim.loop import VirtualLoop
from node.sim.luck import Luck

US: Final = 1_000
MS: Final = 1_000_000
RETRANSMIT_NS: Final = 200 * MS  # Linux's smallest timeout; it doubles with each loss
OBJECT_BYTES: Final = 150  # what a message counts for a link's bandwidth, beside its record bytes


@dataclass(slots=True)
class Flow:
    """One direction of one connection."""

    source: str
    destination: str
    last_ns: int = 0  # when its last message arrives
    link: Link | None = None  # that between the two hosts, once it was used


@dataclass(slots=True)
class AnswerLoss:
    """The loss of answers that a host gives: of so many of them, to these hosts.

    A lost answer takes its connection along, or is waited for in vain on one that stays.
    """

    left: int  # how many are lost yet
    to: frozenset[str]  # hosts
    resets: bool  # whether the connection breaks
    lost: int = 0

    def takes(self, destination: str) -> bool:
        """Tell whether the next answer to a host is lost, and count it."""
        if not self.left or destination not in self.to:
            return False
        self.left -= 1
        self.lost += 1
        return True


Held = tuple[Flow, Context, Callable[..., object], tuple[Any, ...]]


@dataclass(slots=True)
class Link:
    """One direction between two hosts; may be changed at any time."""

    latency_ns: int = 100 * US
    jitter_ns: int = 100 * US  # at most so much more, evenly
    loss: float = 0.0  # of a packet
    jam_ns: int = 0  # what is sent goes on its way at the next multiple of this time
    cut: bool = False
    repeat: float = 0.0  # share of repeatable messages that come twice
    keep_back: float = 0.0  # share of messages that are kept back on the way
    late_ns: int = MS  # by how much what is repeated or kept back is late, at most
    bytes_per_s: int = 0  # 0: as many as there are
    odd: bool = False  # cut, or any of these four is in force, see ``settle``
    held: list[Held] = field(default_factory=list)
    busy_until_ns: int = 0  # with what was sent before
    passed: int = 0  # messages
    lost: int = 0  # packets, each sent again
    repeated: int = 0  # messages
    kept_back: int = 0  # messages
    luck: Luck = field(default_factory=lambda: Luck(0))

    def settle(self) -> None:
        """Note whether the link treats messages in an uncommon way; after each change of that."""
        self.odd = bool(self.cut or self.repeat or self.keep_back or self.bytes_per_s)

    def draw_ns(self, now_ns: int) -> int:
        """Draw the time that a message takes which is sent now."""
        luck, delay_ns = self.luck, self.latency_ns
        luck.at(now_ns)
        if self.jitter_ns:
            delay_ns += luck.below(self.jitter_ns)
        if self.jam_ns:
            delay_ns += -now_ns % self.jam_ns
        if self.loss:
            wait_ns = RETRANSMIT_NS
            while luck.share() < self.loss:
                self.lost += 1
                delay_ns += wait_ns
                wait_ns *= 2
        return delay_ns

    def queue_ns(self, now_ns: int, size: int) -> int:
        """Give the time that a message of so many bytes waits on the way, or is kept back there."""
        wait_ns = 0
        if self.bytes_per_s:
            begin_ns = max(now_ns, self.busy_until_ns)
            self.busy_until_ns = begin_ns + size * 1_000 * MS // self.bytes_per_s
            wait_ns = self.busy_until_ns - now_ns
        if self.keep_back and self.luck.share() < self.keep_back:
            self.kept_back += 1
            wait_ns += self.luck.below(self.late_ns)
        return wait_ns


class Fabric:
    """All links, and the listeners by address.

    Args:
        loop: The time.
        rng: The links' luck, that is latencies and losses, is of a seed that it gives.
        default: Makes the links that were never asked for.
    """

    def __init__(self, loop: VirtualLoop, rng: Random, default: Callable[[], Link] = Link) -> None:
        self.loop = loop
        self.listeners: dict[Endpoint, Any] = {}
        self._seed = rng.getrandbits(64)
        self.default = default
        # What delivers a message a second time, out of order; None: it must not come twice.
        self.again: Callable[[Callable[..., object]], Callable[..., object] | None] | None = None
        self.answer_loss: dict[str, AnswerLoss] = {}  # by the host that answers
        self._links: dict[tuple[str, str], Link] = {}
        self._connections = 0

    def link(self, source: str, destination: str) -> Link:
        """The link from one host to another."""
        link = self._links.get((source, destination))
        if link is None:
            link = self._links[source, destination] = self.default()
            link.luck = self._luck(source, destination)
        return link

    def redraw(self, salt: str) -> None:
        """Give all links other luck from now on."""
        self._seed = Random(f"links:{salt}").getrandbits(64)
        for ends, link in self._links.items():
            link.luck = self._luck(*ends)

    def _luck(self, source: str, destination: str) -> Luck:
        return Luck(Random(f"{self._seed}:{source}:{destination}").getrandbits(64))

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
        if link.odd:
            self._carry_oddly(link, flow, context, call, args)
            return
        link.passed += 1
        loop = self.loop
        due_ns = loop.now_ns + link.draw_ns(loop.now_ns)
        if due_ns < flow.last_ns:
            due_ns = flow.last_ns
        else:
            flow.last_ns = due_ns
        loop.call_at_ns(due_ns, call, args, context)

    def _carry_oddly(
        self,
        link: Link,
        flow: Flow,
        context: Context,
        call: Callable[..., object],
        args: tuple[Any, ...],
    ) -> None:
        """``carry`` over a link that is cut, narrow, or not to be relied on."""
        if link.cut:
            link.held.append((flow, context, call, args))
            return
        link.passed += 1
        now_ns = self.loop.now_ns
        delay_ns = link.draw_ns(now_ns) + link.queue_ns(now_ns, _size(args))
        flow.last_ns = max(flow.last_ns, now_ns + delay_ns)
        self.loop.call_in_ns(flow.last_ns - now_ns, call, *args, context=context)
        if link.repeat and link.luck.share() < link.repeat and self.again is not None:
            again = self.again(call)
            if again is not None:
                link.repeated += 1
                late_ns = link.draw_ns(now_ns) + link.luck.below(link.late_ns)
                self.loop.call_in_ns(delay_ns + late_ns, again, *args, context=Context())

    def cut(self, source: str, destination: str) -> None:
        """Let nothing through any more; what is under way still arrives."""
        link = self.link(source, destination)
        link.cut = True
        link.settle()

    def heal(self, source: str, destination: str) -> None:
        """Let everything through again, beginning with what was held back."""
        link = self.link(source, destination)
        link.cut = False
        link.settle()
        held, link.held = link.held, []
        for flow, context, call, args in held:
            self.carry(flow, context, call, *args)


def _size(args: tuple[Any, ...]) -> int:
    """About how many bytes a message has."""
    size = OBJECT_BYTES
    for arg in args:
        if isinstance(arg, bytes):
            size += len(arg)
        elif isinstance(arg, tuple):
            size += sum(len(part) for part in arg if isinstance(part, bytes))
    return size
