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
    """Brokers or controllers, as asked; a controller's listener refuses to tell brokers.

    Extensions of ours, where Kafka refuses: a broker tells the controllers too, and a controller
    that answers Metadata stands for the broker that it is then taken for.
    """
    asked = int(getattr(call.body, "endpoint_type", BROKERS))
    known = {CONTROLLERS} if serving.is_controller else {BROKERS, CONTROLLERS}
    if ApiKey.METADATA in serving.table:
        known.add(BROKERS)
    if asked not in known:
        serving.answer(call, _refused(call, asked))
        return
    if serving.is_controller or asked == CONTROLLERS:
        nodes, controller = serving.controllers(), serving.controller_id
    else:
        fenced_too = getattr(call.body, "include_fenced_brokers", False)
        nodes = serving.brokers(include_fenced=fenced_too)
        controller = serving.some_broker([node.id for node in nodes if not node.is_fenced])
    if controller not in {node.id for node in nodes}:
        controller = NO_ID
    serving.answer(call, _described(serving, call, asked, nodes, controller))


def _described(
    serving: Serving,
    call: Call,
    asked: int,
    nodes: tuple[ClusterBroker, ...],
    controller_id: int,
) -> Any:
    operations = (
        CLUSTER_OPERATIONS
        if call.body.include_cluster_authorized_operations
        else AUTHORIZED_OPERATIONS_OMITTED
    )
    return call.struct(
        **fields_of(ApiError.NONE),
        endpoint_type=asked,
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


def _refused(call: Call, asked: int) -> Any:
    if asked == BROKERS:
        error = _MISMATCHED_ENDPOINT_TYPE
        why = "This is an endpoint of type CONTROLLER, asked was one of type BROKER"
    else:
        error, why = _UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {asked}"
    if call.version == 0:  # which knows neither types nor these errors
        error = ApiError.INVALID_REQUEST
    return call.struct(
        **fields_of(error, why),
        endpoint_type=CONTROLLERS,
        cluster_id="",
        controller_id=NO_ID,
        brokers=(),
        cluster_authorized_operations=AUTHORIZED_OPERATIONS_OMITTED,
    )
