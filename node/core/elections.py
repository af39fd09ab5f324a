"""``Elections`` asks for votes: it finds the first role, stands, counts, and hands over the win.

Source: KIP-595 "Vote"; KIP-996 (pre-vote); KIP-853 (replica keys in votes).
"""

from __future__ import annotations

from node.core.leader.leadership import Leadership
from node.core.messages import Error, VoteRequest, VoteResponse
from node.core.role_changes import RoleChanges
from node.core.roles import Candidate, Prospective, Resigned, Unattached
from node.core.state import EPOCH_MAX, ReplicaState, earliest
from node.core.types import ReplicaKey


class Elections:
    """This handler does what a replica does to be elected."""

    def __init__(self, state: ReplicaState, roles: RoleChanges, leadership: Leadership) -> None:
        self._state = state
        self._roles = roles
        self._leadership = leadership

    # ------------------------------------------------------------------ start-up

    def take_initial_role(self) -> None:
        """Take the role in which a restarted replica begins, by the first rule that applies.

        Source: Kafka 4.1 ``QuorumState.initialize``.
        """
        state, found, key = self._state, self._state.election, self._state.config.key
        log_epoch, is_voter = state.log.epochs.latest_epoch, state.log.is_voter
        if found.epoch < log_epoch:
            # quorum-state was lost or restored: the log has seen more. Its vote means nothing.
            self._start_unattached(log_epoch, None, None, "log is ahead of quorum-state")
        elif found.leader_id == key.id and is_voter:
            # Unflushed records may be lost: leading on could write one offset twice.
            self._start_resigned()
        elif found.leader_id == key.id:
            self._start_unattached(found.epoch, key.id, found.voted, "led, is no voter any more")
        elif self._voted_for_self(found.voted) and found.leader_id is None and is_voter:
            deadline_ms = state.random_election_deadline()
            candidate = Candidate(found.epoch, key, deadline_ms, self._roles.new_tally())
            self._roles.enter(candidate, None, "had voted self")
        elif found.leader_id is not None and (
            endpoint := state.log.voters.endpoint(found.leader_id)
        ):
            follower = self._roles.follower(found.epoch, found.leader_id, endpoint, found.voted)
            self._roles.enter(follower, None, "knew the leader")
        else:
            self._start_unattached(found.epoch, found.leader_id, found.voted, "start")

    def _voted_for_self(self, voted: ReplicaKey | None) -> bool:
        return voted is not None and voted.matches(self._state.config.key)

    def _start_unattached(
        self, epoch: int, leader_id: int | None, voted: ReplicaKey | None, why: str
    ) -> None:
        state = self._state
        deadline_ms = state.random_election_deadline() if state.log.is_voter else None
        role = Unattached(epoch, leader_id, voted, deadline_ms)
        self._roles.persist(role.durable)
        self._roles.enter(role, None, why)

    def _start_resigned(self) -> None:
        state, found = self._state, self._state.election
        self._roles.enter(
            Resigned(
                found.epoch,
                found.voted,
                state.config.key.id,
                state.advertised,
                state.random_election_deadline(),
                state.other_voter_ids(),
                (),
            ),
            None,
            "was leader before the restart",
        )

    # ------------------------------------------------------------------ time

    def poll_prospective(self, role: Prospective) -> None:
        """Stand, give up, or go on asking for pre-votes."""
        if self._has_majority(role.tally.granted) and role.epoch < EPOCH_MAX:
            self._roles.become_candidate("pre-vote won")
        elif role.tally.lost:
            self._give_up_pre_vote(role, "pre-vote lost")
        elif role.deadline_ms <= self._state.now_ms:
            self._give_up_pre_vote(role, "election timeout")
        else:
            self._ask_for_votes(role)

    def poll_candidate(self, role: Candidate) -> None:
        """Lead, begin anew, or go on asking for votes."""
        if self._has_majority(role.tally.granted):
            self._leadership.begin(tuple(sorted(role.tally.granted)))
        elif role.deadline_ms <= self._state.now_ms:
            self._roles.become_prospective("election timeout")
        elif not role.tally.lost:
            # A lost election is waited out: backing off and retrying made candidates
            # move in lock-step (KAFKA-18345).
            self._ask_for_votes(role)

    def deadline_ms(self, role: Prospective | Candidate) -> int | None:
        """Say when there is something to do next."""
        waiting = set() if role.tally.lost else self._silent_voters(role)
        return earliest(role.deadline_ms, self._state.next_send_ms(waiting))

    def _has_majority(self, granted: set[int]) -> bool:
        """Say whether these voters suffice to elect: more than half of the voter set."""
        return len(granted) >= self._state.log.voters.majority

    def _give_up_pre_vote(self, role: Prospective, why: str) -> None:
        """Go back to the last leader if there is one to go to: being stuck here helps nobody."""
        if role.leader_id is not None and role.leader_endpoint is not None:
            self._roles.become_follower(role.epoch, role.leader_id, role.leader_endpoint, why)
        else:
            self._roles.become_unattached(role.epoch, why, role.leader_id)

    # ------------------------------------------------------------------ Vote, asking

    def _silent_voters(self, role: Prospective | Candidate) -> set[int]:
        return {i for i in self._state.other_voter_ids() if not role.tally.has_answer_of(i)}

    def _ask_for_votes(self, role: Prospective | Candidate) -> None:
        state, pre_vote = self._state, isinstance(role, Prospective)
        for voter in state.idle_voters(self._silent_voters(role)):
            state.out.trace("votereq", pre=pre_vote, to=voter.key.id)
            state.send(
                voter.key.id,
                voter.endpoint,
                VoteRequest(
                    candidate=state.config.key,
                    epoch=role.epoch,
                    last=state.log.last,
                    pre_vote=pre_vote,
                    voter=voter.key,
                    cluster_id=state.config.cluster_id,
                ),
            )

    def on_vote_response(self, peer: int, request: VoteRequest, response: VoteResponse) -> None:
        """Count a voter's answer."""
        role = self._state.role
        if not isinstance(role, Prospective | Candidate):
            return
        if response.error is Error.UNSUPPORTED_VERSION and request.pre_vote:
            self.on_pre_vote_unsupported()
        elif response.error is not Error.NONE:
            self._state.back_off(peer)
        elif peer in self._state.log.voters.voters:
            role.tally.record(peer, granted=response.granted)

    def on_pre_vote_unsupported(self) -> None:
        """Stand at once, as a voter too old for pre-votes would (KIP-996, mixed versions)."""
        role = self._state.role
        if isinstance(role, Prospective) and role.epoch < EPOCH_MAX:
            self._roles.become_candidate("a voter does not know pre-votes")
