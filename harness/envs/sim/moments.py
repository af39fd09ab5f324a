"""Moments of simulated nodes: events and disk changes, told of in the very step."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from functools import partial
from typing import Any

from harness.contracts.moments import Tell
from node.sim.host import VirtualHost
from node.sim.loop import VirtualLoop


class SimMoments:
    """``Moments`` of a simulation; ``hosts`` are its own, by node, once they are there."""

    def __init__(self, loop: VirtualLoop, hosts: Mapping[str, VirtualHost]) -> None:
        self._loop = loop
        self._hosts = hosts

    def watch(self, tell: Tell | None) -> None:
        """See ``Moments``."""
        for node, host in self._hosts.items():
            host.watch = None if tell is None else partial(tell, node)

    def begin(self, work: Coroutine[Any, Any, None], *, name: str) -> asyncio.Task[None]:
        """See ``Moments``: up to its first wait it is done when this returns."""
        return self._loop.begin(work, name=name)
