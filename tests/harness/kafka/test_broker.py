"""Brokers that clients play speak the versions that the controller knows."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from harness.kafka.broker import Cast, committed_offset, register
from harness.kafka.route import Route, deadline_s
from node.wire.api import ALL_APIS, ApiKey, ApiRange, ApiTable, table
from tests.support.live.fake_kafka import (
    CLUSTER,
    FakeNode,
    describes,
    fake_cluster,
    leads,
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
