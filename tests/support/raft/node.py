"""One member of the quorum in memory, and what travels between them."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from node.core.messages import Request, Response
from node.core.replica import Replica, ReplicaConfig
from node.core.types import Endpoint, Listener, OffsetAndEpoch, ReplicaKey
from tests.support.raft.disk import Disk


@dataclass(frozen=True)
class Message:
    """A request or a response on its way; ``connection`` is the sender's link it travels by."""

    number: int
    source: int
    target: int
    peer: int  # what the requester calls the other side
    correlation: int
    connection: int
    body: Request | Response
    is_request: bool


@dataclass
class Node:
    """One member: its disk, its clock and, while it runs, its replica."""

    config: ReplicaConfig
    disk: Disk
    replica: Replica | None = None
    now_ms: int = 1_000
    incarnation: int = 0
    connections: dict[int, int] = field(default_factory=dict)
    pending: dict[int, tuple[int, int]] = field(default_factory=dict)  # peer -> (correlation, due)
    tokens: dict[int, Message] = field(default_factory=dict)  # requests not yet answered
    flushes: list[int] = field(default_factory=list)
    installing: OffsetAndEpoch | None = None

    @property
    def key(self) -> ReplicaKey:
        return self.config.key

    @property
    def up(self) -> Replica:
        assert self.replica is not None, f"node {self.key.id} is down"
        return self.replica


def endpoint(node_id: int) -> Endpoint:
    return Endpoint(f"n{node_id}", node_id)


def directory(node_id: int, disk: int = 0) -> UUID:
    """The directory id of a node's first, second... disk."""
    return UUID(int=node_id << 124 | disk)


def listeners(node_id: int) -> tuple[Listener, ...]:
    return (Listener("CONTROLLER", endpoint(node_id)),)
