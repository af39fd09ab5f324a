"""Single requests to one node, synchronous, in the wire format that both kinds of node speak."""

from __future__ import annotations

import asyncio
from typing import Any

from node.core.messages import DescribeQuorumResponse, Error
from node.core.types import Endpoint
from node.wire.connection import Connection
from node.wire.errors import WireError
from node.wire.payloads import api_schema
from node.wire.quorum.describe import describe_request_to_wire, describe_response_from_wire
from node.wire.structs import build

_DESCRIBE_QUORUM = (55, 2)
_DESCRIBE_CLUSTER = (60, 1)
_BROKERS = 1
_DESCRIBE_CONFIGS = (32, 4)
_INCREMENTAL_ALTER_CONFIGS = (44, 1)
_BROKER = 4
_SET = 0
_TIMEOUT_S = 5.0


def call(endpoint: Endpoint, key: int, version: int, **values: Any) -> Any:
    """The answer to the request built from those values; raises WireError."""
    return ask(endpoint, build(api_schema(key, version).request, **values))


def ask(endpoint: Endpoint, request: Any) -> Any:
    """The answer to a request; raises WireError."""

    async def exchange() -> Any:
        async with await Connection.open(endpoint) as connection:
            return await connection.request(request, timeout_s=_TIMEOUT_S)

    return asyncio.run(exchange())


def describe_quorum(endpoint: Endpoint) -> DescribeQuorumResponse | None:
    """The answer of a leader, None when the node does not lead or does not answer."""
    try:
        answer = ask(endpoint, describe_request_to_wire(api_schema(*_DESCRIBE_QUORUM).request))
    except WireError:
        return None
    view = describe_response_from_wire(answer)
    return view if view.error is Error.NONE else None


def serves_clients(endpoint: Endpoint) -> bool:
    """Tell whether a broker answers clients; it follows the quorum some time before it does."""
    values = {"include_cluster_authorized_operations": False, "endpoint_type": _BROKERS}
    try:
        answer = call(endpoint, *_DESCRIBE_CLUSTER, **values)
    except WireError:
        return False
    return not answer.error_code


def set_broker_default(endpoint: Endpoint, name: str, value: str) -> int:
    """Set a setting of all brokers through the active controller; the error code, 0 when done.

    It needs no broker, so a quorum of controllers alone can be written to.
    """
    request = api_schema(*_INCREMENTAL_ALTER_CONFIGS).request
    change = build(request, "AlterableConfig", name=name, config_operation=_SET, value=value)
    resource = build(
        request,
        "AlterConfigsResource",
        resource_type=_BROKER,
        resource_name="",
        configs=(change,),
    )
    answer = ask(endpoint, build(request, resources=(resource,), validate_only=False))
    return int(answer.responses[0].error_code)


def broker_default(endpoint: Endpoint, name: str) -> str | None:
    """The value of that setting in the node's own image; None: not set, or no answer."""
    request = api_schema(*_DESCRIBE_CONFIGS).request
    resource = build(
        request,
        "DescribeConfigsResource",
        resource_type=_BROKER,
        resource_name="",
        configuration_keys=(name,),
    )
    try:
        answer = ask(
            endpoint,
            build(
                request,
                resources=(resource,),
                include_synonyms=False,
                include_documentation=False,
            ),
        )
    except WireError:
        return None
    result = answer.results[0]
    assert int(result.error_code) == 0, result
    found = [config.value for config in result.configs if config.name == name]
    return None if not found else found[0]
