"""Surveys a cluster from outside: who its nodes are and where, by what they tell of themselves.

A controller is asked for the controllers and a broker for the brokers (DescribeCluster, KIP-919),
the controllers for their voters (DescribeQuorum). Nothing is changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kio.schema.describe_cluster.v1.request import DescribeClusterRequest
from kio.schema.metadata.v12.request import MetadataRequest
from kio.static.primitive import i8
from kio.static.protocol import RequestPayload

from harness.contracts.environment import Address
from harness.errors import EnvError
from harness.kafka import quorum
from harness.kafka.quorum import QuorumView
from node.core.types import Endpoint
from node.wire.errors import WireError
from node.wire.network import Network

BROKERS: Final = 1  # endpoint types of DescribeCluster
CONTROLLERS: Final = 2


@dataclass(frozen=True, slots=True)
class Place:
    """A node of a surveyed cluster: where its controller, its broker, or both listen."""

    id: int
    voter: bool
    controller: Address | None = None
    broker: Address | None = None

    @property
    def address(self) -> Address:
        """Where it is asked first: as a controller, if it is one."""
        found = self.controller or self.broker
        assert found is not None, "a place has an address"  # noqa: S101
        return found

    def __str__(self) -> str:
        parts = [f"{self.id}"]
        if self.controller is not None:
            parts.append(f"controller={self.controller}")
        if self.broker is not None:
            parts.append(f"broker={self.broker}")
        return " ".join(parts)

    @classmethod
    def parse(cls, text: str, *, voter: bool) -> Place:
        """Read what ``str`` gives; raises ValueError."""
        number, *parts = text.split()
        found: dict[str, Address] = {}
        for part in parts:
            role, _, address = part.partition("=")
            host, _, port = address.rpartition(":")
            if role not in ("controller", "broker") or not host:
                raise ValueError(f"{part!r} is no place of a node")
            found[role] = Address(host, int(port))
        if not found:
            raise ValueError(f"{text!r} names no address")
        return cls(int(number), voter, **found)


@dataclass(frozen=True, slots=True)
class Survey:
    """A cluster as its nodes describe it."""

    cluster_id: str
    places: tuple[Place, ...]  # voters first, each group by id
    view: QuorumView
    silent: tuple[Address, ...] = ()  # given addresses that did not answer
    unplaced: tuple[int, ...] = ()  # ids in the quorum of which nobody told the address

    @property
    def voters(self) -> tuple[Place, ...]:
        """Those that vote."""
        return tuple(place for place in self.places if place.voter)


async def survey(
    controllers: Sequence[Address],
    brokers: Sequence[Address],
    network: Network,
    *,
    timeout_s: float,
) -> Survey:
    """Ask the given nodes who else is there.

    Raises:
        EnvError: No controller answers, no leader is known, the nodes are of several clusters, or a
            voter's address is not told.
    """
    asked = await asyncio.gather(
        *(_described(each, CONTROLLERS, network, timeout_s) for each in controllers),
        *(_described(each, BROKERS, network, timeout_s) for each in brokers),
    )
    silent = tuple(
        address
        for address, answer in zip((*controllers, *brokers), asked, strict=True)
        if answer is None
    )
    of_controllers = [answer for answer in asked[: len(controllers)] if answer is not None]
    of_brokers = [answer for answer in asked[len(controllers) :] if answer is not None]
    if not of_controllers:
        raise EnvError(
            f"no controller answers at {_listed(controllers)} as Kafka 3.7 or newer does"
        )
    if brokers and not of_brokers:
        raise EnvError(f"no broker answers at {_listed(brokers)}")
    ids = {str(answer.cluster_id) for answer in (*of_controllers, *of_brokers)}
    if len(ids) > 1:
        raise EnvError(f"the addresses are of several clusters: {', '.join(sorted(ids))}")
    as_controllers, as_brokers = _addresses(of_controllers), _addresses(of_brokers)
    controllers_at = as_controllers.values()
    view = await quorum.ask_all(controllers_at, network, timeout_s=timeout_s, older=True)
    if view is None:
        raise EnvError(
            f"no leader is known to the controllers at {_listed(as_controllers.values())}"
        )
    voters = {key.id for key in view.voters}
    for id_ in voters - as_controllers.keys():
        for endpoint in sorted(map(str, view.endpoints.get(id_, ()))):
            host, _, port = endpoint.rpartition(":")
            as_controllers[id_] = Address(host, int(port))
    if lost := sorted(voters - as_controllers.keys()):
        raise EnvError(f"nobody tells where the voters {lost} are; is each of them up?")
    known = sorted(as_controllers.keys() | as_brokers.keys(), key=lambda i: (i not in voters, i))
    places = tuple(
        Place(id_, id_ in voters, as_controllers.get(id_), as_brokers.get(id_)) for id_ in known
    )
    unplaced = tuple(sorted(view.nodes.keys() - set(known)))
    return Survey(ids.pop(), places, view, silent, unplaced)


async def under_replicated(address: Address, network: Network, *, timeout_s: float) -> int | None:
    """Ask a broker how many partitions have replicas out of sync; None: no answer."""
    answer = await _all_topics(address, network, timeout_s)
    if answer is None:
        return None
    partitions = [each for topic in answer.topics for each in topic.partitions]
    return sum(len(each.isr_nodes) < len(each.replica_nodes) for each in partitions)


async def topics_of(
    prefix: str, address: Address, network: Network, *, timeout_s: float
) -> list[str] | None:
    """The names of topics that begin so, by a broker; None when it does not answer."""
    answer = await _all_topics(address, network, timeout_s)
    if answer is None:
        return None
    names = [str(topic.name) for topic in answer.topics if topic.name is not None]
    return sorted(name for name in names if name.startswith(prefix))


async def _all_topics(address: Address, network: Network, timeout_s: float) -> Any | None:
    asked = MetadataRequest(
        topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )
    try:
        return await _ask(asked, address, network, timeout_s)
    except WireError:
        return None


async def _described(
    address: Address, endpoint_type: int, network: Network, timeout_s: float
) -> Any | None:
    asked = DescribeClusterRequest(
        include_cluster_authorized_operations=False, endpoint_type=i8(endpoint_type)
    )
    try:
        answer = await _ask(asked, address, network, timeout_s)
    except WireError:
        return None
    return None if int(answer.error_code) else answer


async def _ask(asked: RequestPayload, address: Address, network: Network, timeout_s: float) -> Any:
    connection = await network.connect(Endpoint(address.host, address.port), timeout_s=timeout_s)
    try:
        await connection.negotiate(timeout_s)
        return await connection.request(asked, timeout_s=timeout_s)
    finally:
        connection.close()


def _addresses(answers: Iterable[Any]) -> dict[int, Address]:
    return {
        int(each.broker_id): Address(str(each.host), int(each.port))
        for answer in answers
        for each in answer.brokers
    }


def _listed(addresses: Iterable[Address]) -> str:
    return ", ".join(map(str, addresses))
