"""``Votes`` gives votes to others, or refuses them.

Source: KIP-595 "Vote"; KIP-996 (pre-vote); KIP-853 (replica keys in votes).
"""

from __future__ import annotations

from node.core.effects import Reply
from node.core.fencing import Fencing
from node.core.messages import Error, VoteRequest, VoteResponse
from node.core.own_log import directory
from node.core.role_changes import RoleChanges
from node.core.roles import Follower, Leader, Prospective, Unattached
from node.core.state import ReplicaState, addressed
from node.core.types import ElectionState, ReplicaKey


class Votes:
    """This handler judges the vote requests of candidates."""

    def __init__(self, state: ReplicaState, roles: RoleChanges, fencing: Fencing) -> None:
        self._state = state
        self._roles = roles
        self._fencing = fencing

    def on_vote_request(self, token: int, request: VoteRequest) -> None:
        """Answer, and trace what was compared."""
        state = self._state
        due_ms = self._election_due_ms
        error, granted = self._answer_vote(request)
        last = state.log.last
        state.out.trace(
            "vote",
            pre=request.pre_vote,
            ok=granted,
            cand=request.candidate.id,
            cand_dir=directory(request.candidate),
            cl_ep=request.last.epoch,
            cl_leo=request.last.offset,
            my_ep=last.epoch,
            my_leo=last.offset,
            req_ep=request.epoch,
            err=int(error),
            due=(due_ms, self._election_due_ms),
            **addressed(request.voter),
            **state.foreign(request.cluster_id),
        )
        if error is not Error.NONE:
            state.trace_refusal("Vote", request.candidate.id, request.epoch, error)
        role = state.role
        response = VoteResponse(error, role.epoch, role.leader_id, granted, role.leader_endpoint)
        state.out.emit(Reply(token, response))

    @property
    def _election_due_ms(self) -> int | None:
        """Say when this replica will want another leader, None when no timer decides that."""
        role = self._state.role
        return None if isinstance(role, Leader) else role.deadline_ms

    def _answer_vote(self, request: VoteRequest) -> tuple[Error, bool]:
        """Judge a (pre-)vote request; may move to its epoch and may record a vote."""
        error = self._check_request(request)
        if error is Error.NONE and request.epoch > self._state.epoch:
            # For a pre-vote too: its sender did not raise its epoch, so we are merely behind.
            self._roles.become_unattached(request.epoch, "vote request of a newer epoch")
        if error is Error.NONE and request.voter and not self._fencing.is_for_me(request.voter):
            error = Error.INVALID_VOTER_KEY
        if error is not Error.NONE:
            return error, False
        up_to_date = self._is_up_to_date(request)
        if request.pre_vote:
            return Error.NONE, self._grants_pre_vote(up_to_date=up_to_date)
        granted = self._grants_vote(request.candidate, up_to_date=up_to_date)
        if granted:
            self._record_vote(request.candidate)
        return Error.NONE, granted

    def _check_request(self, request: VoteRequest) -> Error:
        if not self._fencing.same_cluster(request.cluster_id):
            return Error.INCONSISTENT_CLUSTER_ID
        last, newest_epoch = request.last, request.epoch if request.pre_vote else request.epoch - 1
        if last.offset < 0 or not 0 <= last.epoch <= newest_epoch or request.candidate.id < 0:
            return Error.INVALID_REQUEST
        return self._fencing.check_epoch(request.epoch)

    def _is_up_to_date(self, request: VoteRequest) -> bool:
        """Say whether the candidate's log holds all that ours may have helped to commit."""
        return request.last.at_least(self._state.log.last)

    def _grants_pre_vote(self, *, up_to_date: bool) -> bool:
        """Say whether we would vote: not while we hear from a leader ourselves (KIP-996)."""
        role = self._state.role
        if isinstance(role, Leader):
            return False
        if isinstance(role, Follower) and role.has_fetched:
            return False
        return up_to_date

    def _grants_vote(self, candidate: ReplicaKey, *, up_to_date: bool) -> bool:
        """Give one vote per epoch, none once its leader is known, none for a log behind ours.

        A vote that is asked for again is given again only while the log is still up to date: the
        candidate may have been restarted on a damaged disk. Source: Raft, figure 2, RequestVote;
        Apache Kafka does not look at the log then (docs/findings.md).
        """
        role = self._state.role
        if not up_to_date or not isinstance(role, Unattached | Prospective):
            return False
        if role.voted is not None:
            # Again for the same candidate: our first answer may have been lost.
            return role.voted.id == candidate.id and role.voted.directory_id in (
                None,
                candidate.directory_id,
            )
        return role.leader_id is None

    def _record_vote(self, candidate: ReplicaKey) -> None:
        """Put a new vote on disk, then in memory; give the candidate time to win."""
        role = self._state.role
        assert isinstance(role, Unattached | Prospective), role
        if role.voted is not None:
            return
        self._persist_vote(candidate)
        role.voted = candidate
        if role.deadline_ms is not None:
            role.deadline_ms = self._state.random_election_deadline()

    def _persist_vote(self, candidate: ReplicaKey) -> None:
        role = self._state.role
        self._roles.persist(ElectionState(role.epoch, role.leader_id, candidate))
