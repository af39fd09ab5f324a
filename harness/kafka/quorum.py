"""Sees from outside who leads: DescribeQuorum to one controller."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from harness.contracts.environment import Address
from harness.kafka.exchange import exchange
from node.core.messages import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Error,
    ReplicaStatus,
)
from node.core.types import Endpoint, ReplicaKey
from node.wire.errors import WireError
from node.wire.network import Network


@dataclass(frozen=True, slots=True)
class Fetcher:
    """The progress of a node, and the time of its last Fetch, on the leader's clock."""

    log_end: int | None
    last_fetch_ms: int | None


@dataclass(frozen=True, slots=True)
class QuorumView:
    """A leader's description of its quorum; ``nodes`` by node id, voters and observers."""

    epoch: int
    leader_id: int
    high_watermark: int | None
    nodes: Mapping[int, Fetcher]
    voters: tuple[ReplicaKey, ...] = ()
    endpoints: Mapping[int, frozenset[Endpoint]] = field(default_factory=dict)  # of voters, by id

    @property
    def asked_ms(self) -> int | None:
        """Tell when the leader said so, on its own clock."""
        leader = self.nodes.get(self.leader_id)
        return None if leader is None else leader.last_fetch_ms

    @property
    def log_end(self) -> int | None:
        """Tell where the leader's own log ends."""
        leader = self.nodes.get(self.leader_id)
        return None if leader is None else leader.log_end

    def all_caught_up(self, wanted: Set[int], *, since_ms: int | None) -> bool:
        """Tell whether all ``wanted`` have everything that was committed when the leader was asked.

        With ``since_ms``, only those count that fetched after it: a leader remembers nodes that
        are not there any more.
        """
        end = self.high_watermark
        return end is not None and all(self._reached(i, end, since_ms) for i in wanted)

    def _reached(self, node_id: int, end: int, since_ms: int | None) -> bool:
        node = self.nodes.get(node_id)
        if node is None or node.log_end is None or node.log_end < end:
            return False
        if since_ms is None or node_id == self.leader_id:
            return True
        return node.last_fetch_ms is not None and node.last_fetch_ms > since_ms


async def ask(
    address: Address, network: Network, *, timeout_s: float, older: bool = False
) -> QuorumView | None:
    """The view of the controller at ``address``; None when it does not lead or does not answer.

    ``older``: it may not speak our versions, so it is asked which before.
    """
    request = DescribeQuorumRequest()
    try:
        entity, response = await exchange(
            request, address, network, timeout_s=timeout_s, older=older
        )
    except WireError:
        return None
    assert isinstance(response, DescribeQuorumResponse)  # noqa: S101 - the answer to that request
    if response.error is not Error.NONE or response.leader_id is None:
        return None
    return QuorumView(
        response.epoch,
        response.leader_id,
        response.high_watermark,
        _newest((*response.observers, *response.voters), response.leader_id),
        tuple(voter.key for voter in response.voters),
        {
            node.node_id: frozenset(Endpoint(each.host, each.port) for each in node.listeners)
            for node in getattr(entity, "nodes", ())
        },
    )


async def ask_all(
    addresses: Iterable[Address], network: Network, *, timeout_s: float, older: bool = False
) -> QuorumView | None:
    """The view of the leader of the newest epoch among these controllers; see ``ask``."""
    asked = (ask(each, network, timeout_s=timeout_s, older=older) for each in addresses)
    led = [view for view in await asyncio.gather(*asked) if view is not None]
    return max(led, key=lambda view: view.epoch, default=None)


def _newest(replicas: Sequence[ReplicaStatus], leader_id: int) -> dict[int, Fetcher]:
    """Each node once: a leader may remember replicas that it was before, on other disks.

    A leader whose clock was ahead keeps the times of then. One that is not over yet says nothing of
    which replica is the newer one.
    """
    now_ms = next((each.last_fetch_ms for each in replicas if each.key.id == leader_id), None)

    def age(status: ReplicaStatus) -> tuple[bool, int]:
        fetched_ms = status.last_fetch_ms or 0
        return now_ms is None or fetched_ms <= now_ms, fetched_ms

    found: dict[int, ReplicaStatus] = {}
    for status in replicas:
        known = found.get(status.key.id)
        if known is None or age(known) <= age(status):
            found[status.key.id] = status
    return {i: Fetcher(each.log_end_offset, each.last_fetch_ms) for i, each in found.items()}
