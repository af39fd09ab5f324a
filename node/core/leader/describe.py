"""``QuorumDescription`` tells what the quorum looks like to its leader.

Source: KIP-836 (DescribeQuorum).
"""

from __future__ import annotations

from node.core.effects import Reply
from node.core.messages import DescribeQuorumResponse, Error, ReplicaStatus
from node.core.roles import Leader
from node.core.state import ReplicaState


class QuorumDescription:
    """This handler answers DescribeQuorum."""

    def __init__(self, state: ReplicaState) -> None:
        self._state = state

    def on_describe_request(self, token: int) -> None:
        """Answer with the progress of all replicas; only a leader knows it."""
        state, role = self._state, self._state.role
        if not isinstance(role, Leader):
            error = Error.NOT_LEADER_OR_FOLLOWER
            refusal = DescribeQuorumResponse(error, role.epoch, role.leader_id)
            state.out.emit(Reply(token, refusal))
            return
        log, now_ms = state.log, state.clock_ms
        local = role.progress.local()
        # Static voters have no directory ids, and what is said of the leader is as of the others.
        keys = {voter.key.id: voter.key for voter in log.voters}
        own_key = keys[local.key.id] if log.is_voter else local.key
        own = ReplicaStatus(own_key, log.end, now_ms, now_ms)
        voters = tuple(own if p is local else p.status() for p in role.progress.voters.values())
        observers = tuple(p.status() for p in role.progress.live_observers(now_ms))
        if not log.is_voter:
            observers = (own, *observers)  # removed, and leading until that is committed
        state.out.emit(
            Reply(
                token,
                DescribeQuorumResponse(
                    Error.NONE, role.epoch, role.leader_id, role.high_watermark, voters, observers
                ),
            )
        )
