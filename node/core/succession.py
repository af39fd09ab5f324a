"""``Succession`` hears of leaders that begin or end, and ends a leadership of one's own.

Source: KIP-595 "BeginQuorumEpoch", "EndQuorumEpoch".
"""

from __future__ import annotations

from typing import Any

from node.core.effects import Reply
from node.core.fencing import Fencing
from node.core.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    Error,
    QuorumEpochResponse,
)
from node.core.own_log import directory
from node.core.role_changes import RoleChanges
from node.core.roles import Follower, Leader, Resigned
from node.core.state import ReplicaState, addressed, earliest
from node.core.types import ReplicaKey

VOTERS_TOLD_MAX = 100  # anybody may send a list of any length: it does not fill the trace


class Succession:
    """This handler hands leadership over, and takes word of it."""

    def __init__(self, state: ReplicaState, roles: RoleChanges, fencing: Fencing) -> None:
        self._state = state
        self._roles = roles
        self._fencing = fencing

    # ------------------------------------------------------------------ leaving

    def on_resign(self, epoch: int) -> None:
        """Resign for the controller, unless its epoch is over anyway."""
        role = self._state.role
        if isinstance(role, Leader) and role.epoch == epoch:
            self._roles.become_resigned(role, "the controller resigned")

    def on_shutdown(self) -> None:
        """Leave for good; a leader resigns first."""
        self._state.stopping = True
        role = self._state.role
        if isinstance(role, Leader):
            self._roles.become_resigned(role, "shutdown")

    def poll_resigned(self, role: Resigned) -> None:
        """Tell the voters that this leadership is over, or go on when nobody has succeeded."""
        state = self._state
        if state.is_lone_voter and not state.stopping:
            self._roles.become_prospective("lone voter")
        elif role.deadline_ms is not None and role.deadline_ms <= state.now_ms:
            self._roles.become_unattached(role.epoch + 1, "resigned and heard of no successor")
        else:
            self._tell_successors(role)

    def deadline_ms(self, role: Resigned) -> int | None:
        """Say when there is something to do next."""
        return earliest(role.deadline_ms, self._state.next_send_ms(role.unacked))

    def _tell_successors(self, role: Resigned) -> None:
        for voter in self._state.idle_voters(role.unacked):
            self._state.send(
                voter.key.id,
                voter.endpoint,
                EndQuorumEpochRequest(
                    leader_id=role.leader_id,
                    epoch=role.epoch,
                    preferred=role.preferred,
                    leader_endpoint=role.leader_endpoint,
                    cluster_id=self._state.config.cluster_id,
                ),
            )

    def on_quorum_epoch_response(self, peer: int, response: QuorumEpochResponse) -> None:
        """Note that a voter has heard of the beginning or the end of our epoch."""
        role = self._state.role
        if response.error not in (Error.NONE, Error.INVALID_VOTER_KEY):
            self._state.back_off(peer)
        elif isinstance(role, Leader):
            role.begin_pending.discard(peer)
        elif isinstance(role, Resigned):
            role.unacked.discard(peer)

    # ------------------------------------------------------------------ hearing of a leader

    def on_begin_request(self, token: int, request: BeginQuorumEpochRequest) -> None:
        """Take word of a leader that has begun."""
        error = self._fencing.hear_leader(
            request.cluster_id,
            request.epoch,
            request.leader_id,
            request.leader_endpoint,
            "leader announced itself",
        )
        if error is Error.NONE and request.voter and not self._fencing.is_for_me(request.voter):
            error = Error.INVALID_VOTER_KEY
        self._reply(token, "BeginQuorumEpoch", request, error, **addressed(request.voter))

    def on_end_request(self, token: int, request: EndQuorumEpochRequest) -> None:
        """Take word of a leader that has ended, and stand when one's turn comes."""
        state = self._state
        error = self._fencing.hear_leader(
            request.cluster_id,
            request.epoch,
            request.leader_id,
            request.leader_endpoint,
            "leader resigned",
        )
        role = state.role
        if error is Error.NONE and isinstance(role, Follower) and state.log.is_voter:
            role.deadline_ms = state.now_ms + self._succession_delay_ms(request.preferred)
        order = {} if error is not Error.NONE else self._told_order(request.preferred)
        self._reply(token, "EndQuorumEpoch", request, error, **order)

    def _told_order(self, preferred: tuple[ReplicaKey, ...]) -> dict[str, Any]:
        """Give the order in which to stand, and how long this voter waits, for the trace."""
        state, role = self._state, self._state.role
        if not isinstance(role, Follower) or not state.log.is_voter:
            return {}
        if len(preferred) > VOTERS_TOLD_MAX:
            return {}
        return {
            "preferred": [(key.id, directory(key)) for key in preferred],
            "wait_ms": role.deadline_ms - state.now_ms,
            "backoff_ms": state.config.election_backoff_max_ms,
        }

    def _succession_delay_ms(self, preferred: tuple[ReplicaKey, ...]) -> int:
        """Say how long to wait before standing: nothing for the first, then in steps.

        Source: KIP-595 "EndQuorumEpoch": doubling steps below the maximum backoff.
        """
        longest_ms = self._state.config.election_backoff_max_ms
        for position, key in enumerate(preferred):
            if key.matches(self._state.config.key):
                if position == 0:
                    return 0
                step_ms = longest_ms >> min(len(preferred) - 1, 30)
                return min(longest_ms, step_ms << min(position - 1, 30))
        return longest_ms

    def _reply(
        self,
        token: int,
        api: str,
        request: BeginQuorumEpochRequest | EndQuorumEpochRequest,
        error: Error,
        **told: Any,
    ) -> None:
        """Answer, and trace it; ``told`` is what the request told beyond epoch and leader."""
        state = self._state
        if error is not Error.NONE:
            state.trace_refusal(api, request.leader_id, request.epoch, error, **told)
        else:
            leader = ReplicaKey(request.leader_id)
            state.trace_accepted(api, leader, request.epoch, request.cluster_id, **told)
        role = state.role
        response = QuorumEpochResponse(error, role.epoch, role.leader_id, role.leader_endpoint)
        state.out.emit(Reply(token, response))
