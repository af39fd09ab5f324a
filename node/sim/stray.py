"""Delivers requests a second time, over a connection at whose other end nobody waits.

As from a proxy that sends again what it believes was lost: late, out of order, perhaps to the next
process of the host. Only what a replica or a prober asks comes twice: these requests must be
idempotent. A client's request is not: who sends it again asks for it to be done again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import Any

from node.sim.fabric import Fabric
from node.sim.network import VirtualLink, VirtualListener

REPEATABLE = ("take_ask", "take_bytes", "versions")  # methods of a VirtualLink


class StrayLink(VirtualLink):
    """The server's end of a connection whose other end is gone; what it answers is lost."""

    def __init__(self, listener: VirtualListener, host: str, number: int) -> None:
        self.id = number
        self.peer = (host, number)
        self.listener = listener

    def reset(self) -> None:
        """Close; nobody hears of it."""
        self.listener.links.pop(self.id, None)

    def _send(self, number: int, answer: Any) -> None:
        """The answer goes nowhere, and nothing more will come."""
        del number, answer
        self.reset()


def repeater(fabric: Fabric) -> Callable[[Callable[..., object]], Callable[..., object] | None]:
    """Make the function for ``Fabric.again``: it delivers a request again, where that may be."""

    def again(call: Callable[..., object]) -> Callable[..., object] | None:
        link, name = getattr(call, "__self__", None), getattr(call, "__name__", "")
        if not isinstance(link, VirtualLink) or name not in REPEATABLE:
            return None
        at, host = link.listener.at, link.peer[0]

        def deliver(*args: Any) -> None:
            listener: VirtualListener | None = fabric.listeners.get(at)
            if listener is None:
                return
            stray = StrayLink(listener, host, fabric.next_connection())
            listener.links[stray.id] = stray
            context: Context = listener.context
            fabric.loop.call_soon(getattr(stray, name), *args, context=context)

        return deliver

    return again
