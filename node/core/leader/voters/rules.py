"""``VoterRules`` says what stands against a change of the voters.

One change at a time: the set that it replaces must be committed, and so must something of this
leader's epoch.

Source: KIP-853; Kafka 4.1 ``AddVoterHandler``, ``RemoveVoterHandler``, ``UpdateVoterHandler``.
"""

from __future__ import annotations

from node.core.fencing import Fencing
from node.core.leader.voters.changes import Refusal, VoterChanges
from node.core.messages import AddVoterRequest, Error, RemoveVoterRequest, UpdateVoterRequest
from node.core.roles import Leader
from node.core.state import ReplicaState
from node.core.types import Listener, ReplicaKey, VersionRange

# The record that holds all voters must fit into a batch, whatever anybody asks for.
LISTENERS_MAX = 32  # of one voter
LISTENER_TEXT_MAX = 255  # characters of a name or host; DNS allows no more


class VoterRules:
    """This handler checks the preconditions of each change, in Kafka's order."""

    def __init__(self, state: ReplicaState, fencing: Fencing, changes: VoterChanges) -> None:
        self._state = state
        self._fencing = fencing
        self._changes = changes

    # ------------------------------------------------------------------ each request

    def refuse_add(self, request: AddVoterRequest) -> Refusal | None:
        """Say why that voter cannot be added."""
        role, voter = self._state.role, request.voter
        if not self._fencing.same_cluster(request.cluster_id):
            return Refusal(Error.INCONSISTENT_CLUSTER_ID, "another cluster")
        if not isinstance(role, Leader):
            return Refusal(Error.NOT_LEADER_OR_FOLLOWER, "not the leader")
        refusal = self._refuse_key(voter) or self._refuse_listeners(voter, request.listeners)
        refusal = refusal or self._refuse_any(role)
        if refusal is None and voter.id in self._state.log.voters.voters:
            return Refusal(Error.DUPLICATE_VOTER, f"node {voter.id} is a voter already")
        return refusal

    def refuse_remove(self, request: RemoveVoterRequest) -> Refusal | None:
        """Say why that voter cannot be removed."""
        role, voter, voters = self._state.role, request.voter, self._state.log.voters
        if not self._fencing.same_cluster(request.cluster_id):
            return Refusal(Error.INCONSISTENT_CLUSTER_ID, "another cluster")
        if not isinstance(role, Leader):
            return Refusal(Error.NOT_LEADER_OR_FOLLOWER, "not the leader")
        refusal = self._refuse_key(voter) or self._refuse_any(role)
        if refusal is not None:
            return refusal
        if not voters.contains(voter):
            return Refusal(Error.VOTER_NOT_FOUND, f"{voter} is not a voter")
        if len(voters) == 1:
            return Refusal(Error.INVALID_REQUEST, f"{voter} is the last voter")
        return None

    def refuse_update(self, request: UpdateVoterRequest) -> Refusal | None:
        """Say why that voter's entry cannot be updated."""
        voter = request.voter
        if not self._fencing.same_cluster(request.cluster_id):
            return Refusal(Error.INCONSISTENT_CLUSTER_ID, "another cluster")
        error, role = self._fencing.check_leader_only(request.epoch), self._state.role
        if error is not Error.NONE or not isinstance(role, Leader):
            return Refusal(error, "not the leader of that epoch")
        refusal = self._refuse_key(voter) or self.refuse_known(role)
        if refusal is not None:
            return refusal
        if not self.supports_quorum(request.kraft_versions):
            return Refusal(
                Error.INVALID_REQUEST, f"supports kraft.version {request.kraft_versions}"
            )
        refusal = self._refuse_listeners(voter, request.listeners)
        if refusal is not None:
            return refusal
        if not self._state.log.voters.contains(voter):
            return Refusal(Error.VOTER_NOT_FOUND, f"{voter} is not a voter")
        return None

    # ------------------------------------------------------------------ what they share

    def _refuse_key(self, voter: ReplicaKey) -> Refusal | None:
        if voter.id < 0 or voter.directory_id is None:
            return Refusal(Error.INVALID_REQUEST, f"{voter} has no node and directory id")
        return None

    def _refuse_listeners(
        self, voter: ReplicaKey, listeners: tuple[Listener, ...]
    ) -> Refusal | None:
        if self.default_listener(listeners) is None:
            return Refusal(Error.INVALID_REQUEST, f"{voter} lacks the quorum's listener")
        longest = max(len(text) for x in listeners for text in (x.name, x.endpoint.host))
        if len(listeners) > LISTENERS_MAX or longest > LISTENER_TEXT_MAX:
            return Refusal(
                Error.INVALID_REQUEST,
                f"{voter} has more than {LISTENERS_MAX} listeners, or a name or host of more than "
                f"{LISTENER_TEXT_MAX} characters",
            )
        return None

    def _refuse_any(self, role: Leader) -> Refusal | None:
        """Say what stands against every change, in Kafka's order."""
        refusal = self._refuse_early(role)
        if refusal is not None:
            return refusal
        if self._state.log.kraft_version < 1:
            return Refusal(Error.UNSUPPORTED_VERSION, "kraft.version is 0: the voters are static")
        if not self._voters_committed(role):
            return Refusal(Error.REQUEST_TIMED_OUT, "the last change is not committed yet")
        return None

    def refuse_known(self, role: Leader) -> Refusal | None:
        """Say the same of what static voters may ask for, too: they cannot be changing."""
        return self._refuse_any(role) if self._state.log.kraft_version else self._refuse_early(role)

    def _refuse_early(self, role: Leader) -> Refusal | None:
        if self._changes.change is not None:
            return Refusal(Error.REQUEST_TIMED_OUT, "another change of the voters is under way")
        if not self._may_reconfigure(role):
            return Refusal(Error.REQUEST_TIMED_OUT, "nothing of this epoch is committed yet")
        return None

    def _may_reconfigure(self, role: Leader) -> bool:
        """Wait until a record of the own epoch is committed: the bug of single-server changes.

        Source: Ongaro, "bug in single-server membership changes", raft-dev 2015.
        """
        return role.high_watermark is not None

    def _voters_committed(self, role: Leader) -> bool:
        offset = self._state.log.history.offset
        return (
            offset is not None and role.high_watermark is not None and offset < role.high_watermark
        )

    def supports_quorum(self, versions: VersionRange | None) -> bool:
        """Say whether a node of those versions can be a voter of this quorum."""
        level = self._state.log.kraft_version
        return versions is not None and versions.min <= level <= versions.max

    def default_listener(self, listeners: tuple[Listener, ...]) -> Listener | None:
        """Find the one by which the quorum speaks: of the name that this leader's own has."""
        own = self._state.config.listeners
        named = [x for x in listeners if not own or x.name == own[0].name]
        return named[0] if named else None
