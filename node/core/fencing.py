"""``Fencing`` judges a message by its cluster, epoch and leader before anything else in it counts.

Source: Kafka 4.1 ``KafkaRaftClient.validateLeaderOnlyRequest``, ``maybeHandleCommonResponse``.
"""

from __future__ import annotations

from node.core.messages import (
    Error,
    FetchResponse,
    FetchSnapshotResponse,
    QuorumEpochResponse,
    VoterChangeResponse,
    VoteResponse,
)
from node.core.role_changes import RoleChanges
from node.core.roles import Leader, Prospective, Resigned
from node.core.state import EPOCH_MAX, ReplicaState
from node.core.types import Endpoint, ReplicaKey

# The answers that tell epoch and leader.
QuorumResponse = (
    VoteResponse | QuorumEpochResponse | FetchResponse | FetchSnapshotResponse | VoterChangeResponse
)


class Fencing:
    """This handler keeps out what is of another cluster or of a past epoch, and learns of newer."""

    def __init__(self, state: ReplicaState, roles: RoleChanges) -> None:
        self._state = state
        self._roles = roles

    # ------------------------------------------------------------------ requests

    def same_cluster(self, cluster_id: str | None) -> bool:
        """Say whether a request is for this cluster, or does not say for which."""
        return cluster_id is None or cluster_id == self._state.config.cluster_id

    def is_for_me(self, voter: ReplicaKey) -> bool:
        """Say whether this replica is the voter that a request is addressed to."""
        return voter.matches(self._state.config.key)

    def check_epoch(self, epoch: int) -> Error:
        """Refuse an epoch that has passed: nobody speaks to this replica from it."""
        if not 0 <= epoch <= EPOCH_MAX:
            return Error.INVALID_REQUEST
        return Error.FENCED_LEADER_EPOCH if epoch < self._state.epoch else Error.NONE

    def check_leader_only(self, epoch: int) -> Error:
        """Refuse a request for the leader of ``epoch`` unless this replica is just that."""
        error = self.check_epoch(epoch)
        if error is not Error.NONE:
            return error
        role = self._state.role
        if epoch > role.epoch:
            return Error.UNKNOWN_LEADER_EPOCH
        return Error.NONE if isinstance(role, Leader) else Error.NOT_LEADER_OR_FOLLOWER

    def hear_leader(
        self,
        cluster_id: str | None,
        epoch: int,
        leader_id: int,
        endpoint: Endpoint | None,
        why: str,
    ) -> Error:
        """Take a leader's own word that it leads (or led) ``epoch``."""
        if not self.same_cluster(cluster_id):
            return Error.INCONSISTENT_CLUSTER_ID
        if leader_id < 0 or leader_id == self._state.config.key.id:
            return Error.INVALID_REQUEST
        error = self.check_epoch(epoch)
        if error is Error.NONE and not self._learn(epoch, leader_id, endpoint, why):
            return Error.INVALID_REQUEST
        return error

    # ------------------------------------------------------------------ responses

    def is_settled_by_epoch(self, peer: int, response: QuorumResponse) -> bool:
        """Follow epoch and leader of a response; True when nothing else in it counts.

        The order is Kafka's: stale first, then newer, then a leader that we did not know.
        """
        state = self._state
        error, epoch = response.error, response.epoch
        if error is Error.UNSUPPORTED_VERSION or not 0 <= epoch <= EPOCH_MAX:
            return error is not Error.UNSUPPORTED_VERSION
        role = state.role
        if epoch < role.epoch or error is Error.UNKNOWN_LEADER_EPOCH:
            return True
        why = f"response of {peer}"
        agrees = self._learn(epoch, response.leader_id, response.leader_endpoint, why)
        if not agrees:
            state.trace_refusal(type(response).__name__, peer, epoch, Error.INVALID_REQUEST)
            return True
        if error in (Error.FENCED_LEADER_EPOCH, Error.NOT_LEADER_OR_FOLLOWER):
            return True
        if state.role is not role:
            # A new follower may use what came with the news, if it is about this very epoch.
            return epoch != role.epoch or error is not Error.NONE
        return False

    # ------------------------------------------------------------------ both

    def _learn(
        self, epoch: int, leader_id: int | None, endpoint: Endpoint | None, why: str
    ) -> bool:
        """Take over the (not older) epoch and leader that somebody told; False if that conflicts.

        Two leaders of one epoch, or a newer epoch that this replica is said to lead, cannot both
        be true with a healthy quorum. Kafka dies of it. Here the teller's word is not followed
        and not fatal either: it proves that *somebody* is wrong, and one bad packet must not be
        able to kill a healthy replica. Whoever checks the traces sees both leaders.
        """
        state, roles = self._state, self._roles
        role = state.role
        if leader_id == state.config.key.id:
            # "You lead epoch e": a disk was lost. Never vote in that epoch again, but ask for
            # another one: the teller will say so until there is one.
            if epoch > role.epoch:
                roles.become_unattached(epoch, why, leader_id)
            return isinstance(role, Leader | Resigned | Prospective) and epoch == role.epoch
        if leader_id is not None and endpoint is None:
            endpoint = state.log.voters.endpoint(leader_id)
        if epoch > role.epoch:
            if leader_id is None or endpoint is None:
                roles.become_unattached(epoch, why, leader_id)
            else:
                roles.become_follower(epoch, leader_id, endpoint, why)
            return True
        if leader_id is None or leader_id == role.leader_id:
            if leader_id is not None and endpoint is not None and role.leader_endpoint is None:
                roles.become_follower(epoch, leader_id, endpoint, why)
            return True
        if role.leader_id is not None:
            return False
        if endpoint is not None:
            roles.become_follower(epoch, leader_id, endpoint, why)
        return True
