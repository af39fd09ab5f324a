"""Requests of an administrator that changes the voters."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from harness.contracts.environment import Address
from harness.kafka import voters as kraft_voters
from node.core.messages import AddVoterRequest
from node.core.types import Endpoint, Listener, ReplicaKey
from node.wire.api import ApiRange
from node.wire.api_versions import Negotiated
from node.wire.errors import Disconnected

ADD_RAFT_VOTER = 80
ADD = AddVoterRequest(
    ReplicaKey(1, UUID(int=7)), (Listener("CONTROLLER", Endpoint("127.0.0.1", 1)),), 1, "krucible"
)


class Peer:
    """A connection to a node that speaks only the first version; it hangs up on every request."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    async def connect(self, *_: Any, **__: Any) -> Peer:
        return self

    async def negotiate(self, timeout_s: float) -> Negotiated:
        del timeout_s
        return Negotiated([ApiRange(ADD_RAFT_VOTER, 0, 0)])

    async def request(self, request: Any, *, timeout_s: float) -> Any:
        del timeout_s
        self.asked.append(int(request.__version__))
        raise Disconnected("closed by the peer")

    def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize(("older", "version"), [(True, 0), (False, 1)])
def test_who_may_not_speak_our_versions_is_asked_which_before(older: bool, version: int) -> None:
    peer: Any = Peer()
    done = asyncio.run(kraft_voters.ask(ADD, Address("127.0.0.1", 1), peer, older=older))
    assert (done.done, peer.asked) == (False, [version])
