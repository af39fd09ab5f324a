"""One request to one node, over a connection of its own."""

from __future__ import annotations

from typing import Any

from harness.contracts.environment import Address
from node.core.messages import Request, Response
from node.core.types import Endpoint
from node.wire import codec
from node.wire.errors import WireError
from node.wire.network import Network


class UnreachableError(WireError):
    """The node took no connection."""


async def exchange(
    request: Request,
    address: Address,
    network: Network,
    *,
    timeout_s: float,
    older: bool = False,
) -> tuple[Any, Response]:
    """Send a request and wait for its answer: as on the wire (kio's entity), and decoded.

    Args:
        request: The request.
        address: Of the node.
        network: The way to it.
        timeout_s: For the connection, and again for the answer.
        older: The node may not speak our versions: it is asked which it does before.

    Raises:
        UnreachableError: There is no connection.
        WireError: There is no answer, or none that can be read.
    """
    endpoint = Endpoint(address.host, address.port)
    try:
        connection = await network.connect(endpoint, timeout_s=timeout_s)
    except WireError as error:
        raise UnreachableError(str(error)) from error
    try:
        peer = await connection.negotiate(timeout_s) if older else None
        wire = codec.request_to_wire(request, codec.version_for(request, peer))
        entity = await connection.request(wire, timeout_s=timeout_s)
        return entity, codec.response_from_wire(entity, request)
    finally:
        connection.close()
