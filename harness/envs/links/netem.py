"""Links made slow, lossy, narrow, ... by the kernel's netem, where the sender's kernel has it.

The harness's side of ``harness.agent.netem``. Whether a node's network has netem is tried once a
run, on the very interface; what it cannot do goes through a queue in user space (see ``shaping``),
and the reason is in the evidence. Netem's dice are the kernel's: the run's seed does not decide
them.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from harness.contracts.environment import Link
from harness.contracts.hosts import Shape

NETEM: Final = "netem"
_LIMIT = ("limit", "16384")  # packets held of one link; more are lost, as in any queue
_IN_ORDER = ("rate", "10gbit")  # netem keeps the order only of what has a rate
_DELAYS = {"delay", "rate", "slot"}
_HANDLES = range(0x1000, 0x7000)  # roots of ours; those of their netems lie just above each


def handle_of(mark: str) -> int:
    """The handle of the roots of a run, for the agent's netem."""
    digest = hashlib.sha256(mark.encode()).digest()
    return _HANDLES[int.from_bytes(digest[:4], "big") % len(_HANDLES)]


def stages(shape: Shape) -> tuple[tuple[str, ...], ...]:
    """The words of the netems that treat a link so, one inside the other; none for a plain link.

    What is kept back is what netem delays while it sends the rest at once (``reorder``), past its
    own queue: such a netem can delay nothing else, and is the inner one of two if there is more.
    """
    chances = {"loss": shape.loss, "duplicate": shape.duplicate, "corrupt": shape.corrupt}
    given = (words for word, share in chances.items() if share for words in (word, _percent(share)))
    always = _delays(shape)
    first: tuple[str, ...] = (*given, *always)
    keeps_back: tuple[str, ...] = ()
    if shape.keep_back:
        half_us = shape.late_ms * 500
        share = _percent(1 - shape.keep_back)
        keeps_back = ("delay", f"{half_us}us", f"{half_us}us", "reorder", share)
    found = (first, keeps_back) if always else (first + keeps_back,)
    return tuple((*_LIMIT, *words) for words in found if words)


def _delays(shape: Shape) -> tuple[str, ...]:
    words: tuple[str, ...] = ()
    if shape.delay_ms or shape.jitter_ms:
        half_us = shape.jitter_ms * 500  # netem's jitter goes both ways
        words += ("delay", f"{shape.delay_ms * 1000 + half_us}us", f"{half_us}us")
    if shape.bytes_per_s:
        words += ("rate", f"{shape.bytes_per_s}bps")  # which are bytes, in tc
    elif shape.jitter_ms:
        words += _IN_ORDER
    if shape.jam_ms:
        words += ("slot", f"{shape.jam_ms}ms", f"{shape.jam_ms}ms")
    return words


def _percent(share: float) -> str:
    return f"{share * 100:.6g}%"


def to_address(host: str, *words: str) -> list[str]:
    """The words of a u32 filter of what goes to an IPv4 address."""
    return ["match", "ip", "dst", f"{host}/32", *words]


def counters(told: Sequence[Mapping[str, Any]]) -> Counter[str]:
    """Put the kernel's statistics of a link's netems in the words of ``Packets.shaped``."""
    if not told:
        return Counter()
    first, last = told[0], told[-1]
    kept_back = held = 0
    if "reorder" in last["options"]:  # requeues count what went past the queue
        kept_back = held = max(0, _came(last) - int(last["requeues"]))
    if len(told) > 1 or (not kept_back and _DELAYS & first["options"].keys()):
        held = _came(first)
    return Counter(
        passed=int(last["packets"]),
        bytes=int(last["bytes"]),
        lost=int(first["drops"]),  # what the inner one drops is counted here, too
        kept_back=kept_back,
        held=held,
    )


def _came(stage: Mapping[str, Any]) -> int:
    return int(stage["packets"]) + int(stage["qlen"])


class Netems:
    """The netems of a run: which nodes' networks have them, and what they were told."""

    def __init__(
        self,
        nodes: Sequence[str],
        order: Callable[..., Awaitable[Any]],
        place: Callable[[Link], dict[str, Any]],
    ) -> None:
        """Try nothing yet.

        Args:
            nodes: All of the run.
            order: ``order(node, do, **arguments)`` has the netem of the node's agent do something;
                raises EnvError.
            place: Says where packets of a link go to, and how to tell them: ``to`` and ``match``.
        """
        self._order, self._place = order, place
        self._why_not: dict[str, str | None] = {}  # by node, once it was tried
        self._numbers = {node: str(number) for number, node in enumerate(nodes, start=1)}
        self._installed: dict[Link, dict[str, Any]] = {}
        self._past: dict[Link, Counter[str]] = {}

    async def why_not(self, node: str) -> str | None:
        """Try netem in the node's network once, and tell why it has none; None when it has.

        Raises:
            EnvError: It cannot be asked.
        """
        if node not in self._why_not:
            links = {number: self._place((node, other)) for other, number in self._others(node)}
            self._why_not[node] = await self._order(node, "attempt", links=links)
        return self._why_not[node]

    async def apply(self, node: str, shapes: Mapping[str, Shape]) -> dict[str, str]:
        """Shape the packets from the node to these others, and no other packets.

        Returns:
            By destination, why netem does not do it: these links are plain.

        Raises:
            EnvError: It cannot be told.
        """
        if not shapes and not any(source == node for source, _ in self._installed):
            return {}
        if (reason := await self.why_not(node)) is not None:
            return dict.fromkeys(shapes, f"{node} has no netem: {reason}")
        changes, links = {}, {}
        for other, number in self._others(node):
            link = (node, other)
            wanted = {**self._place(link), "stages": stages(shapes.get(other, Shape()))}
            if (wanted if wanted["stages"] else None) != self._installed.get(link):
                links[number], changes[number] = wanted, link
        if not links:
            return {}
        done = await self._order(node, "change", links=links)
        for number, link in changes.items():
            self._past[link] = self._past.get(link, Counter()) + counters(
                done["before"].get(number, ())
            )
            self._installed.pop(link, None)
            if links[number]["stages"] and number not in done["problems"]:
                self._installed[link] = links[number]
        return {changes[number][1]: str(why) for number, why in done["problems"].items()}

    async def counters(self, link: Link) -> tuple[Counter[str], Sequence[Mapping[str, Any]]]:
        """Count a link's packets since the start; also give the kernel's present statistics."""
        past = self._past.get(link, Counter())
        if link not in self._installed:
            return past, ()
        told = await self._order(link[0], "statistics")
        now = told.get(self._numbers[link[1]], ())
        return past + counters(now), now

    def _others(self, node: str) -> list[tuple[str, str]]:
        return [(other, number) for other, number in self._numbers.items() if other != node]
