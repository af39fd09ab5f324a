"""A node of another cluster that has lost its way: its requests must find no hearing (KIP-595)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from harness.contracts.environment import Address
from harness.kafka.exchange import UnreachableError, exchange
from node.core.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    Request,
    VoteRequest,
)
from node.core.types import Endpoint, OffsetAndEpoch, ReplicaKey
from node.wire.errors import WireError
from node.wire.network import Network

CLUSTER_ID: Final = "another-cluster"
ID: Final = 77  # of a node that no cluster of a test has
NOWHERE: Final = Endpoint("127.0.0.1", 1)
TIMEOUT_S: Final = 1.0
UNHEARD: Final = "no"  # what is told of a request without an answer begins so
END: Final = 1 << 40  # of its log: nobody has more


def requests(epoch: int) -> Mapping[str, Request]:
    """Make its requests to a quorum in ``epoch``, by name: what each would do is plain to see.

    It stands, says that it leads, ends that, and fetches, all in its own cluster's name.
    """
    stranger, newer = ReplicaKey(ID), epoch + 1
    return {
        "vote": VoteRequest(
            stranger, newer, OffsetAndEpoch(END, epoch), pre_vote=False, cluster_id=CLUSTER_ID
        ),
        "pre-vote": VoteRequest(
            stranger, newer, OffsetAndEpoch(END, epoch), pre_vote=True, cluster_id=CLUSTER_ID
        ),
        "begin": BeginQuorumEpochRequest(ID, newer, NOWHERE, cluster_id=CLUSTER_ID),
        "end": EndQuorumEpochRequest(ID, newer, (), NOWHERE, cluster_id=CLUSTER_ID),
        "fetch": FetchRequest(stranger, epoch, 0, 0, 0, 1 << 20, cluster_id=CLUSTER_ID),
    }


async def say(request: Request, address: Address, network: Network) -> str:
    """The error code with which the node at ``address`` answers, by name, or why it does not.

    See ``was_heard``.
    """
    try:
        _, response = await exchange(request, address, network, timeout_s=TIMEOUT_S, older=True)
    except UnreachableError as error:
        return f"{UNHEARD} connection: {error}"
    except WireError as error:
        return f"{UNHEARD} answer: {error}"
    return response.error.name


def was_heard(answer: str) -> bool:
    """Tell whether what ``say`` tells is an answer."""
    return not answer.startswith(f"{UNHEARD} ")
