"""Brokers that clients play speak the versions that the controller knows."""

from __future__ import annotations

import asyncio
from random import Random
from uuid import UUID

import pytest
from kio.schema.broker_heartbeat.v2.request import BrokerHeartbeatRequest

from harness.kafka.broker import Cast, committed_offset, heartbeat, register
from harness.kafka.route import Route, deadline_s
from node.wire.api import ALL_APIS, ApiKey, ApiRange, ApiTable, table
from tests.support.live.fake_kafka import (
    CLUSTER,
    FakeNode,
    describes,
    fake_cluster,
    leads,
    lives,
    registered,
)

OF_3_7 = table(
    ALL_APIS.values(),
    ApiRange(ApiKey.BROKER_REGISTRATION, 0, 3),
    ApiRange(ApiKey.DESCRIBE_QUORUM, 0, 1),
)


@pytest.mark.parametrize(
    ("apis", "versions", "optional"), [(ALL_APIS, (4, 2), True), (OF_3_7, (3, 1), False)]
)
def test_a_played_broker_speaks_what_the_controller_knows(
    apis: ApiTable, versions: tuple[int, int], optional: bool
) -> None:
    node = FakeNode(1, apis=apis)
    node.answers(CLUSTER, leads(1))
    node.answers(ApiKey.BROKER_REGISTRATION, registered(7))
    node.answers(ApiKey.DESCRIBE_QUORUM, describes(12))

    async def main() -> tuple[int, int]:
        async with fake_cluster(node) as cluster:
            route, broker = Route(cluster, "n1"), Cast(Random(1)).another()
            try:
                epoch = await register(route, broker, deadline_s())
                return epoch, await committed_offset(route, deadline_s())
            finally:
                route.close()

    assert asyncio.run(main()) == (7, 11)
    wanted, asked = node.bodies[1:]
    assert (wanted.__version__, asked.__version__) == versions
    features = {feature.name: feature.min_supported_version for feature in wanted.features}
    assert features["metadata.version"] > 0
    assert (0 in features.values()) is optional  # KAFKA-17492


def test_a_broker_tells_of_cordons_when_it_has_caught_up_and_is_fenced_until_then() -> None:
    """KIP-1066: the controller hears of them with heartbeats, not with the registration."""
    node = FakeNode(1, apis=ALL_APIS)
    node.answers(CLUSTER, leads(1))
    node.answers(ApiKey.BROKER_REGISTRATION, registered(7), registered(9))
    beats = (False, True, True, False, True)
    node.answers(ApiKey.BROKER_HEARTBEAT, *(lives(caught_up=each) for each in beats))

    async def main() -> tuple[UUID, ...]:
        async with fake_cluster(node) as cluster:
            route, broker = Route(cluster, "n1"), Cast(Random(1)).another()
            broker.cordoned = broker.directories
            try:
                for times in (3, 2):  # of two incarnations
                    await register(route, broker, deadline_s())
                    for _ in range(times):
                        await heartbeat(route, broker, 11, deadline_s())
                    broker.restart(Random(2))
            finally:
                route.close()
            return broker.directories

    those = asyncio.run(main())
    said = [body for body in node.bodies if isinstance(body, BrokerHeartbeatRequest)]
    assert [each.cordoned_log_dirs for each in said] == [None, None, those, None, None]
    assert [each.want_fence for each in said] == [True, True, False, True, True]


def test_a_broker_that_cannot_be_cordoned_speaks_as_before() -> None:
    node = FakeNode(1, apis=ALL_APIS)
    node.answers(CLUSTER, leads(1))
    node.answers(ApiKey.BROKER_REGISTRATION, registered(7))
    node.answers(ApiKey.BROKER_HEARTBEAT, lives(caught_up=True))

    async def main() -> None:
        async with fake_cluster(node) as cluster:
            route, broker = Route(cluster, "n1"), Cast(Random(1)).another()
            try:
                await register(route, broker, deadline_s())
                await heartbeat(route, broker, 11, deadline_s())
            finally:
                route.close()

    asyncio.run(main())
    assert (node.bodies[-1].__version__, node.bodies[-1].want_fence) == (1, False)
