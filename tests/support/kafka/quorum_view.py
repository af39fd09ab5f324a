"""The voters and observers of a quorum, as its leader describes them."""

from __future__ import annotations

from node.core.messages import DescribeQuorumResponse
from tests.support.kafka.calls import describe_quorum
from tests.support.kafka.cluster import Quorum


def described(quorum: Quorum) -> DescribeQuorumResponse:
    """The answer of the leader to our own request."""
    return quorum.wait_for(
        lambda: describe_quorum(quorum[quorum.await_leader().leader_id].endpoint),
        "the leader describes the quorum",
    )


def voters(quorum: Quorum) -> set[int]:
    """The voters, as the leader tells."""
    return {voter.key.id for voter in described(quorum).voters}


def await_observer(quorum: Quorum, node_id: int) -> None:
    """Wait until that controller, which is no voter, has all that is committed."""

    def caught_up() -> bool:
        view = described(quorum)
        return any(
            each.key.id == node_id and (each.log_end_offset or 0) >= (view.high_watermark or 0) > 0
            for each in view.observers
        )

    quorum.wait_for(caught_up, f"{node_id} has caught up")
