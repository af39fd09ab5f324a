"""Brokers that clients play: they register and send heartbeats as a real broker would (KIP-631).

So a workload decides itself about incarnations, sessions and shutdowns. A played broker stores
nothing and serves nobody; what it says to have read of the metadata is what was committed before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any
from uuid import UUID

from kio.schema.types import BrokerId
from kio.static.primitive import i16, i64, u16
from kio.static.protocol import RequestPayload

from harness.contracts.clients import Outcome
from harness.kafka.incarnation import next_incarnation
from harness.kafka.route import Cluster, Route, describe_quorum, no_error, request, spoken
from node.log.meta_properties import random_id
from node.metadata.features import FEATURES, HIGHEST_OF_KAFKA
from node.wire.api import ApiKey
from node.wire.network import Caller
from node.wire.payloads import api_schema
from node.wire.structs import build

FIRST_ID = 1001  # above all nodes of a cluster
NO_EPOCH = -1
PORT = 9092
_FIRST_WITH_LEVEL_ZERO = 4  # of BrokerRegistration
_BEFORE_CORDONS = 1  # of BrokerHeartbeat


@dataclass(slots=True)
class PlayedBroker:
    """A broker as it knows itself; ``epoch`` is None until it has registered.

    ``directories`` are the ids of its disks, of which ``failed`` ones can be neither read nor
    written since it started. ``placed`` tells on which disk the replica of a topic is, once the
    controller has been told. ``cordoned`` are those that are to get no new replicas (KIP-1066); it
    tells once it has caught up. None: it knows nothing of that.
    """

    id: int
    incarnation: UUID
    directories: tuple[UUID, ...]
    epoch: int | None = None
    failed: tuple[UUID, ...] = ()
    cordoned: tuple[UUID, ...] | None = None
    caught_up: bool = False
    placed: dict[str, UUID] = field(default_factory=dict)

    def restart(self, rng: Random, *, unclean: bool = False) -> None:
        """The next incarnation: not registered yet, on the same disks; ``unclean``: it had died."""
        self.incarnation, self.epoch = next_incarnation(rng, unclean=unclean), None
        self.caught_up = False

    @property
    def working(self) -> tuple[UUID, ...]:
        """Its disks that have not failed."""
        return tuple(each for each in self.directories if each not in self.failed)

    def serves(self, topic: str) -> bool:
        """Tell whether its replica of a topic is, as far as it knows, on a disk that works."""
        return self.placed.get(topic) in (None, *self.working)


@dataclass(slots=True)
class Cast:
    """The brokers of one run: hands out ids that nobody else has; ``rng`` makes their names."""

    rng: Random
    made: int = 0

    def another(self, disks: int = 1) -> PlayedBroker:
        """A broker that never was before."""
        self.made += 1
        incarnation = random_id(self.rng)
        directories = tuple(random_id(self.rng) for _ in range(disks))
        return PlayedBroker(FIRST_ID + self.made - 1, incarnation, directories)


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

    async def attempt(connection: Caller) -> int:
        version = spoken(connection, ApiKey.BROKER_REGISTRATION)
        wanted = _registration(route.cluster, broker, previous_epoch, version)
        return int(no_error(await request(connection, wanted)).broker_epoch)

    broker.epoch = await route.at_controller(attempt, by_s)
    return broker.epoch


def _registration(
    cluster: Cluster, broker: PlayedBroker, previous_epoch: int, version: int
) -> RequestPayload:
    """In a version; what that lacks is left out: before 3 the epoch, before 2 the disk.

    Before 4 so are features that are supported from level 0 on (KAFKA-17492).
    """
    payload = api_schema(ApiKey.BROKER_REGISTRATION, version).request
    port, plain = u16(PORT), i16(0)
    wanted: RequestPayload = build(
        payload,
        broker_id=BrokerId(broker.id),
        cluster_id=cluster.id,
        incarnation_id=broker.incarnation,
        listeners=(
            build(
                payload,
                "Listener",
                name="PLAINTEXT",
                host="127.0.0.1",
                port=port,
                security_protocol=plain,
            ),
        ),
        features=tuple(
            build(
                payload,
                "Feature",
                name=feature.name,
                min_supported_version=i16(feature.lowest),
                max_supported_version=i16(HIGHEST_OF_KAFKA[feature.name]),
            )
            for feature in FEATURES.values()
            if feature.lowest > 0 or version >= _FIRST_WITH_LEVEL_ZERO
        ),
        rack=None,
        log_dirs=broker.working,
        previous_broker_epoch=i64(previous_epoch),
    )
    return wanted


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
    # One that may be cordoned tells so when it has caught up, and wants to be fenced until then.
    silent = broker.cordoned is not None and not broker.caught_up
    known: dict[str, Any] = {
        "broker_id": BrokerId(broker.id),
        "broker_epoch": i64(broker.epoch),
        "current_metadata_offset": i64(offset),
        "want_fence": want_fence or silent,
        "want_shut_down": want_shut_down,
        "offline_log_dirs": broker.failed,
        "cordoned_log_dirs": None if silent else broker.cordoned,
    }

    async def attempt(connection: Caller) -> Beat:
        version = spoken(connection, ApiKey.BROKER_HEARTBEAT)
        if broker.cordoned is None:
            version = min(version, _BEFORE_CORDONS)
        wanted = build(api_schema(ApiKey.BROKER_HEARTBEAT, version).request, **known)
        answer = no_error(await request(connection, wanted))
        return Beat(answer.is_caught_up, answer.is_fenced, answer.should_shut_down)

    beat = await route.at_controller(attempt, by_s)
    broker.caught_up = broker.caught_up or beat.caught_up
    return beat


async def committed_offset(route: Route, by_s: float) -> int:
    """The last offset that the active controller knows to be committed; raises Outcome."""

    async def attempt(connection: Caller) -> int:
        answer = await describe_quorum(connection)
        if answer is None or answer.high_watermark is None:
            raise Outcome("no-high-watermark", definite=True)
        return answer.high_watermark - 1

    return await route.at_controller(attempt, by_s)
