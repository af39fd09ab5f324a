"""Changes of the voters as an administrator makes them: requests to the leader (KIP-853)."""

from __future__ import annotations

from harness.contracts.abilities import Change
from harness.contracts.environment import Address
from harness.kafka.quorum import QuorumView
from node.core.messages import AddVoterRequest, Error, RemoveVoterRequest, VoterChangeResponse
from node.core.types import Endpoint
from node.wire import codec
from node.wire.errors import WireError
from node.wire.network import Network

REQUEST_TIMEOUT_S = 2.5


class Seen:
    """Finds whether a voter set is committed: a leader tells of what it only wrote, too.

    A leader that is cut off writes a set that another one's log truncates. Source: KIP-853, where
    a set is in force from its offset on, committed or not.
    """

    def __init__(self) -> None:
        self._first: QuorumView | None = None

    def other(self) -> None:
        """The set is not the one that is waited for."""
        self._first = None

    def is_committed(self, view: QuorumView) -> bool:
        """Tell whether the leader has committed all its log held when it first told of this set."""
        if self._first is None or self._first.epoch != view.epoch:
            self._first = view
        end = self._first.log_end
        return end is not None and view.high_watermark is not None and end <= view.high_watermark


async def ask(
    request: AddVoterRequest | RemoveVoterRequest,
    address: Address,
    network: Network,
    *,
    older: bool = False,
) -> Change:
    """One request to the leader at ``address``; it answers when the change is committed.

    ``older``: it may not speak our versions, so it is asked which before.
    """
    try:
        connection = await network.connect(
            Endpoint(address.host, address.port), timeout_s=REQUEST_TIMEOUT_S
        )
    except WireError as error:
        return Change(done=False, detail=str(error))
    try:
        peer = await connection.negotiate(REQUEST_TIMEOUT_S) if older else None
        wire = codec.request_to_wire(request, codec.version_for(request, peer))
        entity = await connection.request(wire, timeout_s=REQUEST_TIMEOUT_S)
        response = codec.response_from_wire(entity, request)
    except WireError as error:
        return Change(done=False, detail=str(error))
    finally:
        connection.close()
    assert isinstance(response, VoterChangeResponse)  # noqa: S101 - the answer to that request
    if response.error is Error.NONE:
        return Change(done=True, detail="committed")
    return Change(done=False, detail=f"{response.error.name}: {response.message}")
