"""Leaving a foreign cluster: what the run's clients made there is removed, as far as that goes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from kio.schema.types import BrokerId
from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest

from harness.contracts.clients import Outcome
from harness.contracts.environment import Address
from harness.kafka import marks
from harness.kafka.broker import FIRST_ID
from harness.kafka.client import KafkaClient
from harness.kafka.route import Cluster, Route, deadline_s, no_error, request
from harness.kafka.survey import topics_of
from node.wire.network import Caller

ASK_S: Final = 3.0
MARK_S: Final = 5.0
GAP: Final = 20  # ids in a row that nobody has: no client played a later one
AT_A_TIME: Final = 8
NOT_REGISTERED: Final = "broker-id-not-registered"


async def leave(
    cluster: Cluster, ask: Sequence[Address], *, plays: bool, marked: bool
) -> list[str]:
    """Delete the run's topics and mark, unregister the brokers that its clients played.

    Args:
        cluster: The cluster, with the run's prefix.
        ask: Who tells of the topics: brokers.
        plays: Whether clients played brokers.
        marked: Whether there may be a mark (``harness.kafka.marks``).

    Returns:
        What stays, in sentences.
    """
    stays = await _delete_topics(cluster, ask)
    if marked and not await marks.remove(cluster, asyncio.get_running_loop().time() + MARK_S):
        stays.append(
            f"the client metrics resource {cluster.prefix}{marks.NAME} could not be deleted"
        )
    if plays:
        stays += await _unregister(cluster)
        stays.append("the producer ids and broker epochs that were handed out stay handed out")
    return stays


async def _delete_topics(cluster: Cluster, ask: Sequence[Address]) -> list[str]:
    names: list[str] | None = None
    for address in ask:
        names = await topics_of(cluster.prefix, address, cluster.network, timeout_s=ASK_S)
        if names is not None:
            break
    if names is None:
        return [f"nobody told which topics begin with {cluster.prefix}: delete them by hand"]
    room, left = asyncio.Semaphore(AT_A_TIME), dict[str, str]()

    async def delete(name: str) -> None:
        client = await KafkaClient(cluster).open(next(iter(cluster.addresses)))
        try:
            async with room:
                await client.delete(name.removeprefix(cluster.prefix))
        except Outcome as outcome:
            left[name] = outcome.error
        finally:
            await client.close()

    await asyncio.gather(*map(delete, names))
    return [f"topic {name} could not be deleted: {why}" for name, why in sorted(left.items())]


async def _unregister(cluster: Cluster) -> list[str]:
    route, stays = Route(cluster, next(iter(cluster.addresses))), list[str]()
    number, missed = FIRST_ID, 0
    try:
        while missed < GAP:
            wanted = UnregisterBrokerRequest(broker_id=BrokerId(number))

            async def attempt(connection: Caller, wanted: UnregisterBrokerRequest = wanted) -> None:
                no_error(await request(connection, wanted))

            try:
                await route.at_controller(attempt, deadline_s())
                missed = 0
            except Outcome as outcome:
                missed += 1
                if outcome.error != NOT_REGISTERED:
                    stays.append(f"broker {number} could not be unregistered: {outcome.error}")
            number += 1
    finally:
        route.close()
    return stays
