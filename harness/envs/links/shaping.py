"""Links that are slow, lossy, narrow, jammed or out of order: by netem, else by a queue of ours.

The kernel's netem does it where the sender has it; else firewall rules hand packets to a queue in
user space at the receiver. This is the harness's side of ``harness.agent.packets``, which is that
queue: it sits in a node's network, wherever that is, and holds what comes in. It is started when
the first link to that node is to be shaped so, and stays, idle, until the end. Environments say how
it is started, told and heard.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final, Protocol

from harness.contracts.environment import Link
from harness.contracts.hosts import Repeats, Shape
from harness.errors import EnvError

QUEUED = "NFQUEUE"
_ANSWER_TIMEOUT_S = 10.0
_POLL_S = 0.005
NO_COUNTERS: Final = dict.fromkeys(("passed", "lost", "kept_back", "held", "bytes"), 0)


class Queues(Protocol):
    """The way to start, tell and hear the queues of an environment."""

    async def start(self, node: str, queues: Mapping[str, int]) -> None:
        """Start the agent's queue beside the node, one for each source; raises EnvError."""
        ...

    async def put(self, node: str, wanted: Mapping[str, Any]) -> None:
        """Replace ``shape.json`` of the node's shaper, atomically."""
        ...

    async def told(self, node: str) -> Mapping[str, Any]:
        """Read what the node's shaper said last in ``counters.json``; empty when it has not."""
        ...

    async def complaint(self, node: str) -> str:
        """Give its last output, and where more is to be found."""
        ...


class Shapers:
    """The shapers of a run, one for each node that needs it."""

    def __init__(self, nodes: Sequence[str], places: Queues) -> None:
        """Start nothing yet; ``places`` is where the shapers will run."""
        self._places = places
        self.queues = {node: number for number, node in enumerate(nodes)}
        self._versions: dict[str, int] = {}

    def rule(self, source: str) -> str:
        """The action of a firewall rule on packets of a source that is shaped."""
        return f"! -i lo -j {QUEUED} --queue-num {self.queues[source]} --queue-bypass"

    async def apply(self, node: str, shapes: Mapping[str, Shape]) -> None:
        """Shape the packets from these sources to the node, and no other packets.

        Raises:
            EnvError: The shaper does not obey.
        """
        if node not in self._versions:
            if not shapes:
                return
            await self._places.start(node, self.queues)
            self._versions[node] = 0
        version = self._versions[node] = self._versions[node] + 1
        links = {source: asdict(shape) for source, shape in shapes.items()}
        await self._places.put(node, {"version": version, "links": links})
        try:
            async with asyncio.timeout(_ANSWER_TIMEOUT_S):
                while (await self._places.told(node)).get("version", -1) < version:  # noqa: ASYNC110
                    await asyncio.sleep(_POLL_S)
        except TimeoutError as error:
            raise EnvError(
                f"the shaper of {node} did not apply a new shape within {_ANSWER_TIMEOUT_S:g} s: "
                f"{await self._places.complaint(node)}"
            ) from error

    async def counters(self, link: Link) -> Mapping[str, int]:
        """Count a link's packets while it was shaped, since the start."""
        source, destination = link
        if destination not in self._versions:
            return NO_COUNTERS
        told = await self._places.told(destination)
        return {**NO_COUNTERS, **told.get("links", {}).get(source, {})}


def no_repeats(ability: type) -> str | None:
    """Tell why links that are shaped so lack an ability in every run; None when they have it."""
    if ability is Repeats:
        return "TCP drops a packet that comes twice; requests are repeated only in 'sim'"
    return None
