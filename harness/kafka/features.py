"""Finalised levels of features: what a node says of them, and how they are raised (KIP-584)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import cycle
from random import Random
from typing import Final

from kio.schema.api_versions.v3.request import ApiVersionsRequest
from kio.schema.api_versions.v3.response import ApiVersionsResponse
from kio.schema.update_features.v1.request import FeatureUpdateKey, UpdateFeaturesRequest
from kio.static.primitive import i8, i16

from harness.contracts.abilities import Change
from harness.contracts.clients import Outcome
from harness.contracts.environment import Address
from harness.kafka import errors
from harness.kafka.route import Cluster, NotController, Route, request
from harness.kafka.tries import until_done
from node.core.types import Endpoint
from node.wire.errors import WireError
from node.wire.network import Caller, Network

_CLIENT: Final = "krucible"
_UPGRADE: Final = 1  # KIP-778
_TRY_S: Final = 1.0  # until then a try may begin: the node that it asks first may be down


async def finalized(
    address: Address, network: Network, *, timeout_s: float
) -> Mapping[str, int] | None:
    """Tell which levels the node at an address says are finalised; None: it does not answer."""
    try:
        connection = await network.connect(
            Endpoint(address.host, address.port), timeout_s=timeout_s
        )
    except WireError:
        return None
    asked = ApiVersionsRequest(client_software_name=_CLIENT, client_software_version="1")
    try:
        answer = await connection.request(asked, timeout_s=timeout_s)
    except WireError:
        return None
    finally:
        connection.close()
    assert isinstance(answer, ApiVersionsResponse)  # noqa: S101 - the answer to that request
    return {str(row.name): int(row.max_version_level) for row in answer.finalized_features}


async def raise_level(
    cluster: Cluster, feature: str, level: int, rng: Random, *, timeout_s: float
) -> Change:
    """UpdateFeatures at the active controller, again and again until it says yes or time is up.

    Args:
        cluster: Where the nodes are.
        feature: Its name, as in ``metadata.version``.
        level: The level that it shall have.
        rng: Draws whom it asks first who the controller is.
        timeout_s: No try begins after it.
    """
    loop = asyncio.get_running_loop()
    by_s = loop.time() + timeout_s
    homes = list(cluster.addresses)
    rng.shuffle(homes)
    turns = cycle(homes)

    async def attempt() -> Change:
        route = Route(cluster, next(turns))
        try:
            try_by_s = min(by_s, loop.time() + _TRY_S)
            await route.at_controller(lambda to: _update(to, feature, level), try_by_s)
        except Outcome as outcome:
            return Change(done=False, detail=outcome.error)
        finally:
            route.close()
        return Change(done=True, detail="committed")

    return await until_done(attempt, timeout_s)


async def _update(connection: Caller, feature: str, level: int) -> None:
    update = FeatureUpdateKey(
        feature=feature, max_version_level=i16(level), upgrade_type=i8(_UPGRADE)
    )
    answer = await request(
        connection, UpdateFeaturesRequest(feature_updates=(update,), validate_only=False)
    )
    for told in (*answer.results, answer):
        code = int(told.error_code)
        if code == errors.NOT_CONTROLLER:
            raise NotController
        if code != 0:
            known = errors.describe(code)
            raise Outcome(f"{known.name}: {told.error_message}", definite=known.definite)
