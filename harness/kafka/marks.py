"""Marks in the metadata: a node whose own image shows one has all that was committed before it.

A mark is the setting of a client metrics resource (KIP-714) that matches no client, and so changes
nothing. Where a release has none of these, it is the limit to which brokers throttle the replicas
that are listed for it, and none are (KIP-73); only brokers show that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.static.primitive import i8

from harness.contracts.clients import Outcome
from harness.kafka.route import Cluster, Route, request, the_row
from node.wire.network import Caller

NAME: Final = "krucible"
FIRST: Final = 100  # the least that Kafka takes
SET, DELETE = 0, 1  # config operations
POLL_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Kind:
    """A setting that may serve as a mark: of which resource it is, and its name."""

    resource_type: int
    resource_name: str
    setting: str
    is_ours: bool = True  # the resource: then its name has the cluster's prefix


OF_METRICS: Final = Kind(16, NAME, "interval.ms")
OF_BROKERS: Final = Kind(4, "", "follower.replication.throttled.rate", is_ours=False)


async def show_all(
    cluster: Cluster,
    nodes: Iterable[str],
    number: int,
    by_s: float,
    *,
    kind: Kind = OF_METRICS,
) -> bool:
    """Write mark ``number``, other than all before, and wait until all nodes show it.

    Args:
        cluster: Where the nodes are.
        nodes: Those that are to show it.
        number: Of the mark, from 0 on.
        by_s: Until when, by the event loop's clock.
        kind: The setting that is the mark.

    Returns:
        Whether all do by then.
    """
    names = tuple(nodes)
    value = str(FIRST + number)
    if not await _written(cluster, names, kind, value, by_s):
        return False
    return all(await asyncio.gather(*(_shown(cluster, name, kind, value, by_s) for name in names)))


async def remove(cluster: Cluster, by_s: float) -> bool:
    """Take the mark away, by way of any node; whether that was done by then."""
    return await _written(cluster, tuple(cluster.addresses), OF_METRICS, None, by_s)


def _name(cluster: Cluster, kind: Kind) -> str:
    return cluster.prefix + kind.resource_name if kind.is_ours else kind.resource_name


async def _written(
    cluster: Cluster, homes: tuple[str, ...], kind: Kind, value: str | None, by_s: float
) -> bool:
    """Write by way of each node in turn; it may be written more than once. None: delete it."""
    operation = i8(DELETE if value is None else SET)
    change = AlterableConfig(name=kind.setting, config_operation=operation, value=value)
    resource = AlterConfigsResource(
        resource_type=i8(kind.resource_type), resource_name=_name(cluster, kind), configs=(change,)
    )
    wanted = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)

    async def attempt(connection: Caller) -> None:
        the_row((await request(connection, wanted)).responses)

    loop, turn = asyncio.get_running_loop(), 0
    while loop.time() < by_s:
        route = Route(cluster, homes[turn % len(homes)])
        try:
            await route.at_controller(attempt, by_s)
        except Outcome:
            turn += 1
            await asyncio.sleep(POLL_S)
        else:
            return True
        finally:
            route.close()
    return False


async def _shown(cluster: Cluster, node: str, kind: Kind, value: str, by_s: float) -> bool:
    asked = DescribeConfigsResource(
        resource_type=i8(kind.resource_type),
        resource_name=_name(cluster, kind),
        configuration_keys=(kind.setting,),
    )
    question = DescribeConfigsRequest(
        resources=(asked,), include_synonyms=False, include_documentation=False
    )
    loop, route = asyncio.get_running_loop(), Route(cluster, node)
    try:
        while loop.time() < by_s:
            try:
                answer = await request(await route.connect(node), question)
                configs = the_row(answer.results).configs
            except Outcome:
                configs = ()
            if any(each.name == kind.setting and each.value == value for each in configs):
                return True
            await asyncio.sleep(POLL_S)
    finally:
        route.close()
    return False
