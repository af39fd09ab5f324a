"""``OwnEntry`` tells the leader when this voter's entry in the voter set is out of date.

Source: KIP-853 "UpdateRaftVoter"; Kafka 4.1 ``KafkaRaftClient.pollFollowerAsVoter``.
"""

from __future__ import annotations

from node.core.messages import Error, UpdateVoterRequest, VoterChangeResponse
from node.core.role_changes import UPDATE_VOTER_FETCH_TIMEOUTS
from node.core.roles import Follower
from node.core.state import ReplicaState


class OwnEntry:
    """This handler keeps a voter's own entry true."""

    def __init__(self, state: ReplicaState) -> None:
        self._state = state

    def ask(self, role: Follower) -> bool:
        """Send an update to the idle leader when one is due; says whether that was so."""
        state = self._state
        if role.update_voter_ms > state.now_ms or not self._should_update(role):
            return False
        # Whatever becomes of it: fetching goes first, and a refused update can wait.
        period_ms = UPDATE_VOTER_FETCH_TIMEOUTS * state.config.fetch_timeout_ms
        role.update_voter_ms = state.now_ms + period_ms
        own = state.config.as_voter
        assert own is not None, "without listeners there is nothing to tell"
        state.send(
            role.leader_id,
            role.leader_endpoint,
            UpdateVoterRequest(
                voter=own.key,
                epoch=role.epoch,
                listeners=own.listeners,
                kraft_versions=own.kraft_versions,
                cluster_id=state.config.cluster_id,
            ),
        )
        return True

    def _should_update(self, role: Follower) -> bool:
        """Tell each leader once at kraft.version 0: the log says nothing of it (KAFKA-16538)."""
        log = self._state.log
        if log.kraft_version >= 1:
            return log.own_entry_is_outdated()
        return log.is_voter and log.config.as_voter is not None and not role.has_told

    def on_update_response(self, peer: int, response: VoterChangeResponse) -> None:
        """Take note that the leader knows, or make a pause."""
        if response.error in (Error.NONE, Error.UNSUPPORTED_VERSION):
            self.on_told()  # a leader before Kafka 4.1 has no use for it at kraft.version 0
        if response.error is not Error.NONE:
            self._state.back_off(peer)

    def on_told(self) -> None:
        """Tell this leader no more while the voters are static."""
        role = self._state.role
        if isinstance(role, Follower):
            role.has_told = True
