"""Marks in the metadata: a node whose own image shows one has all that was committed before it.

A mark is the setting of a client metrics resource (KIP-714) that matches no client, and so changes
nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
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

CLIENT_METRICS: Final = 16  # type of a resource
NAME: Final = "krucible"
SETTING: Final = "interval.ms"
FIRST: Final = 100  # the least that Kafka takes
SET, DELETE = 0, 1  # config operations
POLL_S: Final = 0.05


async def show_all(cluster: Cluster, nodes: Iterable[str], number: int, by_s: float) -> bool:
    """Write mark ``number``, other than all before, and wait until all nodes show it.

    Args:
        cluster: Where the nodes are.
        nodes: Those that are to show it.
        number: Of the mark, from 0 on.
        by_s: Until when, by the event loop's clock.

    Returns:
        Whether all do by then.
    """
    names = tuple(nodes)
    value = str(FIRST + number)
    if not await _written(cluster, names, value, by_s):
        return False
    return all(await asyncio.gather(*(_shown(cluster, name, value, by_s) for name in names)))


async def remove(cluster: Cluster, by_s: float) -> bool:
    """Take the mark away, by way of any node; whether that was done by then."""
    return await _written(cluster, tuple(cluster.addresses), None, by_s)


def _name(cluster: Cluster) -> str:
    return cluster.prefix + NAME


async def _written(
    cluster: Cluster, homes: tuple[str, ...], value: str | None, by_s: float
) -> bool:
    """Write by way of each node in turn; it may be written more than once. None: delete it."""
    operation = i8(DELETE if value is None else SET)
    change = AlterableConfig(name=SETTING, config_operation=operation, value=value)
    resource = AlterConfigsResource(
        resource_type=i8(CLIENT_METRICS), resource_name=_name(cluster), configs=(change,)
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


async def _shown(cluster: Cluster, node: str, value: str, by_s: float) -> bool:
    asked = DescribeConfigsResource(
        resource_type=i8(CLIENT_METRICS),
        resource_name=_name(cluster),
        configuration_keys=(SETTING,),
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
            if any(each.name == SETTING and each.value == value for each in configs):
                return True
            await asyncio.sleep(POLL_S)
    finally:
        route.close()
    return False
