"""DescribeQuorum (55), AddRaftVoter (80), RemoveRaftVoter (81) on brokers: forwarded.

On a controller the core answers them; here is only the answer when they could not be forwarded.
"""

from __future__ import annotations

from typing import Any

from node.controller.broker_operations import Outcome
from node.controller.controller import QuorumController
from node.controller.operations import ControllerResult
from node.driver.apis.call import Call
from node.driver.apis.fields import error_fields
from node.driver.apis.registry import serves
from node.driver.apis.serving import Serving
from node.wire.api import ApiKey


@serves(ApiKey.DESCRIBE_QUORUM, forwarded=True)
@serves(ApiKey.ADD_RAFT_VOTER, forwarded=True)
@serves(ApiKey.REMOVE_RAFT_VOTER, forwarded=True)
def forward_to_the_quorum(serving: Serving, call: Call) -> None:
    """Say why the core of the leader could not be asked."""

    def encode(outcome: Outcome) -> Any:
        return call.struct(**error_fields(outcome), topics=(), nodes=())

    def operate(_: QuorumController) -> ControllerResult[Outcome]:
        raise AssertionError(f"{call.name} is the core's")

    serving.write(call, operate, Outcome, encode)
