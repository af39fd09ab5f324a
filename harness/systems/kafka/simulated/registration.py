"""Kafka's simulated controllers register, which their server does beside them (KIP-919).

``ControllerRegistrationManager`` is a part of Kafka's server that simulated nodes have not. A level
is finalised only when all controllers have told which ones they know, so it is told for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from kio.schema.controller_registration.v0.request import (
    ControllerRegistrationRequest,
    Feature,
    Listener,
)
from kio.static.primitive import i16, i32, u16

from harness.kafka.route import Cluster, Route, no_error, request
from node.log.meta_properties import random_id
from node.metadata.features import FEATURES
from node.wire.network import Caller

LISTENER = "CONTROLLER"


async def register_controllers(
    cluster: Cluster, known: Mapping[int, Mapping[str, int]], rng: Random, by_s: float
) -> None:
    """Register controllers, each as another incarnation.

    Args:
        cluster: Where the nodes are.
        known: The highest level of each feature that a controller knows, by its node id.
        rng: Draws whom it asks, and incarnations.
        by_s: No attempt begins after it (the event loop's time).

    Raises:
        Outcome: One could not be registered.
    """
    route = Route(cluster, rng.choice(sorted(cluster.addresses)))
    try:
        for node_id, levels in known.items():
            at = cluster.addresses[cluster.names[node_id]]
            listener = Listener(
                name=LISTENER, host=at.host, port=u16(at.port), security_protocol=i16(0)
            )
            wanted = ControllerRegistrationRequest(
                controller_id=i32(node_id),
                incarnation_id=random_id(rng),
                zk_migration_ready=False,
                listeners=(listener,),
                features=tuple(
                    Feature(
                        name=name,
                        min_supported_version=i16(FEATURES[name].lowest),
                        max_supported_version=i16(level),
                    )
                    for name, level in levels.items()
                ),
            )

            async def attempt(to: Caller, wanted: ControllerRegistrationRequest = wanted) -> None:
                no_error(await request(to, wanted))

            await route.at_controller(attempt, by_s)
    finally:
        route.close()
