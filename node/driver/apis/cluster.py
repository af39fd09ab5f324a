"""DescribeCluster (60): who is in the cluster. Source: KIP-700, KIP-919, KIP-1073."""

from __future__ import annotations

from typing import Any, Final

from node.controller.broker_operations import ClusterBroker
from node.controller.errors import ApiError
from node.driver.apis.call import Call
from node.driver.apis.fields import (
    AUTHORIZED_OPERATIONS_OMITTED,
    CLUSTER_OPERATIONS,
    fields_of,
)
from node.driver.apis.registry import Listener, serves
from node.driver.apis.serving import NO_ID, Serving
from node.wire.api import ApiKey

BROKERS: Final = 1  # endpoint types
CONTROLLERS: Final = 2
_MISMATCHED_ENDPOINT_TYPE: Final = 114
_UNSUPPORTED_ENDPOINT_TYPE: Final = 115


@serves(ApiKey.DESCRIBE_CLUSTER, Listener.CONTROLLER, Listener.BROKER)
def describe_cluster(serving: Serving, call: Call) -> None:
    """A controller's listener knows controllers, a broker's brokers; the other type is refused."""
    own = CONTROLLERS if serving.is_controller else BROKERS
    asked = int(getattr(call.body, "endpoint_type", BROKERS))
    if asked != own:
        serving.answer(call, _refused(call, asked, own))
        return
    nodes = _nodes(serving, call)
    if serving.is_controller:
        controller = serving.controller_id
    else:
        controller = serving.some_broker([node.id for node in nodes if not node.is_fenced])
    known = controller in {node.id for node in nodes}
    serving.answer(call, _described(serving, call, nodes, controller if known else NO_ID))


def _nodes(serving: Serving, call: Call) -> tuple[ClusterBroker, ...]:
    if serving.is_controller:
        return serving.controllers()
    return serving.brokers(include_fenced=getattr(call.body, "include_fenced_brokers", False))


def _described(
    serving: Serving, call: Call, nodes: tuple[ClusterBroker, ...], controller_id: int
) -> Any:
    operations = (
        CLUSTER_OPERATIONS
        if call.body.include_cluster_authorized_operations
        else AUTHORIZED_OPERATIONS_OMITTED
    )
    return call.struct(
        **fields_of(ApiError.NONE),
        endpoint_type=CONTROLLERS if serving.is_controller else BROKERS,
        cluster_id=serving.node.storage.cluster_id,
        controller_id=controller_id,
        brokers=tuple(
            [
                call.struct(
                    "DescribeClusterBroker",
                    broker_id=node.id,
                    host=node.host,
                    port=node.port,
                    rack=node.rack,
                    is_fenced=node.is_fenced,
                )
                for node in nodes
            ]
        ),
        cluster_authorized_operations=operations,
    )


def _refused(call: Call, asked: int, own: int) -> Any:
    names = {BROKERS: "BROKER", CONTROLLERS: "CONTROLLER"}
    if asked not in names:
        error, why = _UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {asked}"
    else:
        error = _MISMATCHED_ENDPOINT_TYPE
        why = f"This is an endpoint of type {names[own]}, asked was one of type {names[asked]}"
    if call.version == 0:  # which knows neither types nor these errors
        error = ApiError.INVALID_REQUEST
    return call.struct(
        **fields_of(error, why),
        endpoint_type=own,
        cluster_id="",
        controller_id=NO_ID,
        brokers=(),
        cluster_authorized_operations=AUTHORIZED_OPERATIONS_OMITTED,
    )
