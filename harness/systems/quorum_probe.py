"""Who leads, seen from outside: DescribeQuorum to one controller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.protocols import Address
from node.core.messages import DescribeQuorumRequest, DescribeQuorumResponse, Error
from node.core.types import Endpoint
from node.wire import codec
from node.wire.connection import Connection
from node.wire.errors import WireError


@dataclass(frozen=True, slots=True)
class QuorumView:
    """What a leader said of its quorum; ``log_ends`` by node id, voters and observers."""

    epoch: int
    leader_id: int
    high_watermark: int | None
    log_ends: Mapping[int, int | None]


async def ask(address: Address, source_host: str | None, *, timeout_s: float) -> QuorumView | None:
    """The view of the controller at ``address``; None when it does not lead or does not answer."""
    request = DescribeQuorumRequest()
    try:
        connection = await Connection.open(
            Endpoint(address.host, address.port),
            source_host=source_host,
            connect_timeout_s=timeout_s,
        )
    except WireError:
        return None
    try:
        entity = await connection.request(codec.request_to_wire(request, 2), timeout_s=timeout_s)
        response = codec.response_from_wire(entity, request)
    except WireError:
        return None
    finally:
        connection.close()
    assert isinstance(response, DescribeQuorumResponse)  # noqa: S101 - the answer to that request
    if response.error is not Error.NONE or response.leader_id is None:
        return None
    return QuorumView(
        response.epoch,
        response.leader_id,
        response.high_watermark,
        {s.key.id: s.log_end_offset for s in (*response.voters, *response.observers)},
    )
