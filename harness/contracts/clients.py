"""Clients talk to one node of a system on behalf of one process of the harness."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from harness.history.ops import Op


class Client(Protocol):
    """Speaks to one node on behalf of one process; opened from a prototype."""

    async def open(self, node: str) -> Client:
        """A client connected to (or ready to connect to) ``node``. Does not change ``self``."""
        ...

    async def invoke(self, op: Op) -> Op:
        """Do ``op`` and return its completion: same process, f and key; type ok, fail or info.

        Raises only on a programmer's error: what the system answers, or does not, is data.
        """
        ...

    async def close(self) -> None:
        """Release the connection; never raises."""
        ...


class Outcome(Exception):  # noqa: N818 - not an error of ours: the answer of the system
    """The system did not say yes. ``definite``: it surely did not happen (else nobody knows)."""

    def __init__(self, error: str, *, definite: bool) -> None:
        super().__init__(error)
        self.error = error
        self.definite = definite


class RegisterClient(Protocol):
    """Reads and writes registers by name at one node; raises Outcome."""

    async def open(self, node: str) -> RegisterClient:
        """A client of ``node``."""
        ...

    async def read(self, key: str) -> int | None:
        """Linearizable read; None when never written."""
        ...

    async def read_local(self, key: str) -> int | None:
        """Read this node's own image; it may be stale, and never goes backward in one process."""
        ...

    async def write(self, key: str, value: int) -> None:
        """Write; returning means committed."""
        ...

    async def close(self) -> None:
        """Release the connection; never raises."""
        ...


class TopicClient(Protocol):
    """Creates, deletes and lists topics at one node; raises Outcome."""

    async def open(self, node: str) -> TopicClient:
        """A client of ``node``."""
        ...

    async def create(self, name: str, *, partitions: int, configs: Mapping[str, str]) -> str:
        """Create a topic, all or nothing; returns its id (32 hex digits)."""
        ...

    async def delete(self, name: str) -> None:
        """Delete a topic."""
        ...

    async def describe(self, name: str) -> TopicView | None:
        """A linearizable look at one topic; None when there is none of that name."""
        ...

    async def describe_local(self, name: str) -> tuple[str, TopicView | None]:
        """Look at a topic in one node's own image; gives the node, and None where it has none."""
        ...

    async def close(self) -> None:
        """Release the connection; never raises."""
        ...


@dataclass(frozen=True, slots=True)
class TopicView:
    """A topic as it was described."""

    topic_id: str
    partitions: int
    configs: Mapping[str, str]
