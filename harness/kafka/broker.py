"""Brokers that clients play: they register and send heartbeats as a real broker would (KIP-631).

So a workload decides itself about incarnations, sessions and shutdowns. A played broker stores
nothing and serves nobody; what it says to have read of the metadata is what was committed before.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from uuid import UUID

from kio.schema.broker_heartbeat.v1.request import BrokerHeartbeatRequest
from kio.schema.broker_registration.v4.request import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from kio.schema.types import BrokerId
from kio.static.primitive import i16, i64, u16

from harness.contracts.clients import Outcome
from harness.kafka.route import Cluster, Route, no_error, request
from node.core.messages import DescribeQuorumRequest, DescribeQuorumResponse
from node.log.meta_properties import random_id
from node.metadata.features import FEATURES
from node.wire import codec
from node.wire.network import Caller

FIRST_ID = 1001  # above all nodes of a cluster
NO_EPOCH = -1
PORT = 9092
_DESCRIBE_QUORUM_VERSION = 2


@dataclass(slots=True)
class PlayedBroker:
    """A broker as it knows itself; ``epoch`` is None until it has registered."""

    id: int
    incarnation: UUID
    directory: UUID
    epoch: int | None = None

    def restart(self, rng: Random) -> None:
        """The next incarnation: not registered yet, on the same disk."""
        self.incarnation, self.epoch = random_id(rng), None


@dataclass(slots=True)
class Cast:
    """The brokers of one run: hands out ids that nobody else has; ``rng`` makes their names."""

    rng: Random
    made: int = 0

    def another(self) -> PlayedBroker:
        """A broker that never was before."""
        self.made += 1
        return PlayedBroker(FIRST_ID + self.made - 1, random_id(self.rng), random_id(self.rng))


@dataclass(frozen=True, slots=True)
class Beat:
    """The answer to a heartbeat."""

    caught_up: bool
    fenced: bool
    shut_down: bool


async def register(
    route: Route, broker: PlayedBroker, by_s: float, *, previous_epoch: int = NO_EPOCH
) -> int:
    """Register the incarnation; returns the epoch that it has from now on.

    Args:
        route: The way to the controller.
        broker: Who registers.
        by_s: No attempt begins after it (the event loop's time).
        previous_epoch: Of the incarnation before, if that stopped in good order.

    Raises:
        Outcome: The controller did not say yes.
    """
    wanted = _registration(route.cluster, broker, previous_epoch)

    async def attempt(connection: Caller) -> int:
        return int(no_error(await request(connection, wanted)).broker_epoch)

    broker.epoch = await route.at_controller(attempt, by_s)
    return broker.epoch


def _registration(
    cluster: Cluster, broker: PlayedBroker, previous_epoch: int
) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(
        broker_id=BrokerId(broker.id),
        cluster_id=cluster.id,
        incarnation_id=broker.incarnation,
        listeners=(
            Listener(name="PLAINTEXT", host="127.0.0.1", port=u16(PORT), security_protocol=i16(0)),
        ),
        features=tuple(
            Feature(
                name=feature.name,
                min_supported_version=i16(feature.lowest),
                max_supported_version=i16(feature.highest),
            )
            for feature in FEATURES.values()
        ),
        rack=None,
        log_dirs=(broker.directory,),
        previous_broker_epoch=i64(previous_epoch),
    )


async def heartbeat(
    route: Route,
    broker: PlayedBroker,
    offset: int,
    by_s: float,
    *,
    want_fence: bool = False,
    want_shut_down: bool = False,
) -> Beat:
    """Say that the incarnation lives and has the metadata up to ``offset``; raises Outcome."""
    if broker.epoch is None:
        raise Outcome("not-registered", definite=True)
    beat = BrokerHeartbeatRequest(
        broker_id=BrokerId(broker.id),
        broker_epoch=i64(broker.epoch),
        current_metadata_offset=i64(offset),
        want_fence=want_fence,
        want_shut_down=want_shut_down,
    )

    async def attempt(connection: Caller) -> Beat:
        answer = no_error(await request(connection, beat))
        return Beat(answer.is_caught_up, answer.is_fenced, answer.should_shut_down)

    return await route.at_controller(attempt, by_s)


async def committed_offset(route: Route, by_s: float) -> int:
    """The last offset that the active controller knows to be committed; raises Outcome."""
    question = DescribeQuorumRequest()

    async def attempt(connection: Caller) -> int:
        wire = codec.request_to_wire(question, _DESCRIBE_QUORUM_VERSION)
        answer = codec.response_from_wire(await request(connection, wire), question)
        if not isinstance(answer, DescribeQuorumResponse) or answer.high_watermark is None:
            raise Outcome("no-high-watermark", definite=True)
        return answer.high_watermark - 1

    return await route.at_controller(attempt, by_s)
