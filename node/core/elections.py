"""Elections: asking for votes, giving votes, announcing and ending a leadership.

Source: KIP-595 "Vote", "BeginQuorumEpoch", "EndQuorumEpoch"; KIP-996 (pre-vote); KIP-853
(replica keys in votes).
"""

from __future__ import annotations

from typing import Any

from node.core import effects as fx
from node.core.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    Error,
    QuorumEpochResponse,
    VoteRequest,
    VoteResponse,
)
from node.core.own_log import directory
from node.core.roles import (
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Unattached,
)
from node.core.state import EPOCH_MAX, ReplicaState
from node.core.types import Endpoint, ReplicaKey, Voter

VOTERS_TOLD_MAX = 100  # anybody may send a list of any length: it does not fill the trace


class Elections(ReplicaState):
    """What a replica does to get, give and end a leadership."""

    # ------------------------------------------------------------------ start-up

    def _initial_role(self) -> None:
        """The role in which a restarted replica begins, by the first rule that applies.

        Source: Kafka 4.1 ``QuorumState.initialize``.
        """
        state, key = self._election, self.config.key
        log_epoch = self._epochs.latest_epoch
        if state.epoch < log_epoch:
            # quorum-state was lost or restored: the log has seen more. Its vote means nothing.
            self._start_unattached(log_epoch, None, None, "log is ahead of quorum-state")
        elif state.leader_id == key.id and self.is_voter:
            # Unflushed records may be lost: leading on could write one offset twice.
            self._start_resigned()
        elif state.leader_id == key.id:
            self._start_unattached(state.epoch, key.id, state.voted, "led, is no voter any more")
        elif self._voted_for_self(state.voted) and state.leader_id is None and self.is_voter:
            deadline_ms = self._random_election_deadline()
            self._enter(
                Candidate(state.epoch, key, deadline_ms, self._new_tally()), None, "had voted self"
            )
        elif state.leader_id is not None and (endpoint := self._voters.endpoint(state.leader_id)):
            follower = self._follower(state.epoch, state.leader_id, endpoint, state.voted)
            self._enter(follower, None, "knew the leader")
        else:
            self._start_unattached(state.epoch, state.leader_id, state.voted, "start")

    def _voted_for_self(self, voted: ReplicaKey | None) -> bool:
        return voted is not None and voted.matches(self.config.key)

    def _start_unattached(
        self, epoch: int, leader_id: int | None, voted: ReplicaKey | None, why: str
    ) -> None:
        deadline_ms = self._random_election_deadline() if self.is_voter else None
        role = Unattached(epoch, leader_id, voted, deadline_ms)
        self._persist(role.durable)
        self._enter(role, None, why)

    def _start_resigned(self) -> None:
        state = self._election
        self._enter(
            Resigned(
                state.epoch,
                state.voted,
                self.config.key.id,
                self.advertised,
                self._random_election_deadline(),
                self._other_voter_ids(),
                (),
            ),
            None,
            "was leader before the restart",
        )

    def _other_voter_ids(self) -> set[int]:
        return set(self._voters.ids) - {self.config.key.id}

    @property
    def _is_lone_voter(self) -> bool:
        return self.is_voter and len(self._voters) == 1

    # ------------------------------------------------------------------ what time brings

    def _poll_prospective(self, role: Prospective) -> None:
        if self._has_majority(role.tally.granted) and self.epoch < EPOCH_MAX:
            self._become_candidate("pre-vote won")
        elif role.tally.lost:
            self._give_up_pre_vote(role, "pre-vote lost")
        elif role.deadline_ms <= self._now_ms:
            self._give_up_pre_vote(role, "election timeout")
        else:
            self._ask_for_votes(role)

    def _poll_candidate(self, role: Candidate) -> None:
        if self._has_majority(role.tally.granted):
            self._become_leader(tuple(sorted(role.tally.granted)))
        elif role.deadline_ms <= self._now_ms:
            self._become_prospective("election timeout")
        elif not role.tally.lost:
            # A lost election is waited out: backing off and retrying made candidates
            # move in lock-step (KAFKA-18345).
            self._ask_for_votes(role)

    def _poll_resigned(self, role: Resigned) -> None:
        if self._is_lone_voter and not self._stopping:
            self._become_prospective("lone voter")
        elif role.deadline_ms is not None and role.deadline_ms <= self._now_ms:
            self._become_unattached(role.epoch + 1, "resigned and heard of no successor")
        else:
            self._tell_successors(role)

    def _has_majority(self, granted: set[int]) -> bool:
        """Whether these voters suffice to elect: more than half of the voter set."""
        return len(granted) >= self._voters.majority

    def _give_up_pre_vote(self, role: Prospective, why: str) -> None:
        """Back to the last leader if there is one to go to: being stuck here helps nobody."""
        if role.leader_id is not None and role.leader_endpoint is not None:
            self._become_follower(role.epoch, role.leader_id, role.leader_endpoint, why)
        else:
            self._become_unattached(role.epoch, why, role.leader_id)

    def _become_candidate(self, why: str) -> None:
        """Raise the epoch and vote for oneself, on disk before anybody is asked."""
        deadline_ms = self._random_election_deadline()
        self._become(
            Candidate(self.epoch + 1, self.config.key, deadline_ms, self._new_tally()), why
        )

    def _become_leader(self, grants: tuple[int, ...]) -> None:
        """Take the leadership that ``grants`` gave; defined where leading is."""
        raise NotImplementedError

    def _become_resigned(self, role: Leader, why: str) -> None:
        """Give up a leadership without forgetting it: no vote and no lead in this epoch again."""
        deadline_ms = None if self._stopping else self._random_election_deadline()
        self._become(
            Resigned(
                role.epoch,
                role.voted,
                role.leader_id,
                role.leader_endpoint,
                deadline_ms,
                self._other_voter_ids(),
                role.progress.others_by_progress(),
            ),
            why,
        )

    def _idle_voters(self, ids: set[int]) -> list[Voter]:
        """Those of the voters ``ids`` to whom a request may leave now."""
        if not ids:
            return []
        return [
            voter
            for voter in self._voters
            if voter.key.id in ids and self._connections.is_ready(voter.key.id, self._now_ms)
        ]

    def _ask_for_votes(self, role: Prospective | Candidate) -> None:
        pre_vote = isinstance(role, Prospective)
        missing = {i for i in self._other_voter_ids() if not role.tally.has_answer_of(i)}
        for voter in self._idle_voters(missing):
            self._trace("votereq", pre=pre_vote, to=voter.key.id)
            self._send(
                voter.key.id,
                voter.endpoint,
                VoteRequest(
                    candidate=self.config.key,
                    epoch=role.epoch,
                    last=self.last,
                    pre_vote=pre_vote,
                    voter=voter.key,
                    cluster_id=self.config.cluster_id,
                ),
            )

    def _tell_successors(self, role: Resigned) -> None:
        for voter in self._idle_voters(role.unacked):
            self._send(
                voter.key.id,
                voter.endpoint,
                EndQuorumEpochRequest(
                    leader_id=role.leader_id,
                    epoch=role.epoch,
                    preferred=role.preferred,
                    leader_endpoint=role.leader_endpoint,
                    cluster_id=self.config.cluster_id,
                ),
            )

    # ------------------------------------------------------------------ Vote, receiving

    def _on_vote_request(self, token: int, request: VoteRequest) -> None:
        due_ms = self._election_due_ms
        error, granted = self._answer_vote(request)
        self._trace(
            "vote",
            pre=request.pre_vote,
            ok=granted,
            cand=request.candidate.id,
            cand_dir=directory(request.candidate),
            cl_ep=request.last.epoch,
            cl_leo=request.last.offset,
            my_ep=self.last.epoch,
            my_leo=self.last.offset,
            req_ep=request.epoch,
            err=int(error),
            due=(due_ms, self._election_due_ms),
            **self._foreign(request.cluster_id),
        )
        if error is not Error.NONE:
            self._trace_refusal("Vote", request.candidate.id, request.epoch, error)
        self._emit(
            fx.Reply(
                token,
                VoteResponse(error, self.epoch, self.leader_id, granted, self.leader_endpoint),
            )
        )

    @property
    def _election_due_ms(self) -> int | None:
        """When this replica will want another leader, None when no timer decides that."""
        role = self._role
        return None if isinstance(role, Leader) else role.deadline_ms

    def _answer_vote(self, request: VoteRequest) -> tuple[Error, bool]:
        """Judge a (pre-)vote request; may move to its epoch and may record a vote."""
        error = self._check_vote_request(request)
        if error is Error.NONE and request.epoch > self.epoch:
            # For a pre-vote too: its sender did not raise its epoch, so we are merely behind.
            self._become_unattached(request.epoch, "vote request of a newer epoch")
        if error is Error.NONE and request.voter and not self._addressed_to_me(request.voter):
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

    def _check_vote_request(self, request: VoteRequest) -> Error:
        if not self._same_cluster(request.cluster_id):
            return Error.INCONSISTENT_CLUSTER_ID
        last, newest_epoch = request.last, request.epoch if request.pre_vote else request.epoch - 1
        if last.offset < 0 or not 0 <= last.epoch <= newest_epoch or request.candidate.id < 0:
            return Error.INVALID_REQUEST
        return self._check_epoch(request.epoch)

    def _check_epoch(self, epoch: int) -> Error:
        """The fence: nobody speaks to this replica from an epoch that has passed."""
        if not 0 <= epoch <= EPOCH_MAX:
            return Error.INVALID_REQUEST
        return Error.FENCED_LEADER_EPOCH if epoch < self.epoch else Error.NONE

    def _same_cluster(self, cluster_id: str | None) -> bool:
        return cluster_id is None or cluster_id == self.config.cluster_id

    def _addressed_to_me(self, voter: ReplicaKey) -> bool:
        return voter.matches(self.config.key)

    def _is_up_to_date(self, request: VoteRequest) -> bool:
        """Whether the candidate's log holds all that ours may have helped to commit."""
        return request.last.at_least(self.last)

    def _grants_pre_vote(self, *, up_to_date: bool) -> bool:
        """Would we vote? Not while we hear from a leader ourselves (KIP-996)."""
        role = self._role
        if isinstance(role, Leader):
            return False
        if isinstance(role, Follower) and role.has_fetched:
            return False
        return up_to_date

    def _grants_vote(self, candidate: ReplicaKey, *, up_to_date: bool) -> bool:
        """One vote per epoch, none once its leader is known, none for a log behind ours.

        A vote that is asked for again is given again only while the log is still up to date: the
        candidate may have been restarted on a damaged disk. Source: Raft, figure 2, RequestVote;
        Apache Kafka does not look at the log then (docs/findings.md).
        """
        role = self._role
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
        role = self._role
        assert isinstance(role, Unattached | Prospective), role
        if role.voted is not None:
            return
        self._persist_vote(candidate)
        role.voted = candidate
        if role.deadline_ms is not None:
            role.deadline_ms = self._random_election_deadline()

    def _persist_vote(self, candidate: ReplicaKey) -> None:
        role = self._role
        self._persist(type(self._election)(role.epoch, role.leader_id, candidate))

    # ------------------------------------------------------------------ Vote, answers

    def _on_vote_response(self, peer: int, request: VoteRequest, response: VoteResponse) -> None:
        role = self._role
        if not isinstance(role, Prospective | Candidate):
            return
        if response.error is Error.UNSUPPORTED_VERSION and request.pre_vote:
            self._pre_vote_unsupported()
        elif response.error is not Error.NONE:
            self._back_off(peer)
        elif peer in self._voters.voters:
            role.tally.record(peer, granted=response.granted)

    def _pre_vote_unsupported(self) -> None:
        """A voter too old for pre-votes: stand at once, as it would (KIP-996, mixed versions)."""
        if isinstance(self._role, Prospective) and self.epoch < EPOCH_MAX:
            self._become_candidate("a voter does not know pre-votes")

    # ------------------------------------------------------------------ Begin/EndQuorumEpoch

    def _on_begin_request(self, token: int, request: BeginQuorumEpochRequest) -> None:
        error = self._hear_leader(
            request.cluster_id,
            request.epoch,
            request.leader_id,
            request.leader_endpoint,
            "leader announced itself",
        )
        if error is Error.NONE and request.voter and not self._addressed_to_me(request.voter):
            error = Error.INVALID_VOTER_KEY
        self._reply_quorum_epoch(token, "BeginQuorumEpoch", request, error)

    def _on_end_request(self, token: int, request: EndQuorumEpochRequest) -> None:
        error = self._hear_leader(
            request.cluster_id,
            request.epoch,
            request.leader_id,
            request.leader_endpoint,
            "leader resigned",
        )
        role = self._role
        if error is Error.NONE and isinstance(role, Follower) and self.is_voter:
            role.deadline_ms = self._now_ms + self._succession_delay_ms(request.preferred)
        self._reply_quorum_epoch(
            token, "EndQuorumEpoch", request, error, **self._told_order(request.preferred)
        )

    def _told_order(self, preferred: tuple[ReplicaKey, ...]) -> dict[str, Any]:
        """The order in which to stand, and how long this voter waits, for the trace."""
        role = self._role
        if not isinstance(role, Follower) or not self.is_voter or len(preferred) > VOTERS_TOLD_MAX:
            return {}
        return {
            "preferred": [(key.id, directory(key)) for key in preferred],
            "wait_ms": role.deadline_ms - self._now_ms,
            "backoff_ms": self.config.election_backoff_max_ms,
        }

    def _hear_leader(
        self,
        cluster_id: str | None,
        epoch: int,
        leader_id: int,
        endpoint: Endpoint | None,
        why: str,
    ) -> Error:
        """Take a leader's own word that it leads (or led) ``epoch``."""
        if not self._same_cluster(cluster_id):
            return Error.INCONSISTENT_CLUSTER_ID
        if leader_id < 0 or leader_id == self.config.key.id:
            return Error.INVALID_REQUEST
        error = self._check_epoch(epoch)
        if error is Error.NONE and not self._learn(epoch, leader_id, endpoint, why):
            return Error.INVALID_REQUEST
        return error

    def _succession_delay_ms(self, preferred: tuple[ReplicaKey, ...]) -> int:
        """How long to wait before standing: nothing for the first, then in steps.

        Source: KIP-595 "EndQuorumEpoch": doubling steps below the maximum backoff.
        """
        longest_ms = self.config.election_backoff_max_ms
        for position, key in enumerate(preferred):
            if key.matches(self.config.key):
                if position == 0:
                    return 0
                step_ms = longest_ms >> min(len(preferred) - 1, 30)
                return min(longest_ms, step_ms << min(position - 1, 30))
        return longest_ms

    def _reply_quorum_epoch(
        self,
        token: int,
        api: str,
        request: BeginQuorumEpochRequest | EndQuorumEpochRequest,
        error: Error,
        **told: Any,
    ) -> None:
        """Answer, and trace it; ``told`` is what the request told beyond epoch and leader."""
        if error is not Error.NONE:
            self._trace_refusal(api, request.leader_id, request.epoch, error)
        else:
            leader = ReplicaKey(request.leader_id)
            self._trace_accepted(api, leader, request.epoch, request.cluster_id, **told)
        self._emit(
            fx.Reply(
                token,
                QuorumEpochResponse(error, self.epoch, self.leader_id, self.leader_endpoint),
            )
        )

    def _on_quorum_epoch_response(self, peer: int, response: QuorumEpochResponse) -> None:
        """A voter has heard of the beginning or the end of our epoch."""
        role = self._role
        if response.error not in (Error.NONE, Error.INVALID_VOTER_KEY):
            self._back_off(peer)
        elif isinstance(role, Leader):
            role.begin_pending.discard(peer)
        elif isinstance(role, Resigned):
            role.unacked.discard(peer)
