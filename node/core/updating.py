"""Telling the leader when one's own entry in the voter set is out of date.

Source: KIP-853 "UpdateRaftVoter"; Kafka 4.1 ``KafkaRaftClient.pollFollowerAsVoter``.
"""

from __future__ import annotations

from node.core.downloading import Downloading
from node.core.messages import Error, UpdateVoterRequest, VoterChangeResponse
from node.core.roles import Follower
from node.core.state import UPDATE_VOTER_FETCH_TIMEOUTS


class Updating(Downloading):
    """A voter's own entry in the voter set."""

    def _ask_leader(self, role: Follower) -> None:
        if role.update_voter_ms > self._now_ms or not self._should_update(role):
            super()._ask_leader(role)
            return
        self._put_off_update(role)
        own = self.config.as_voter
        assert own is not None, "without listeners there is nothing to tell"
        self._send(
            role.leader_id,
            role.leader_endpoint,
            UpdateVoterRequest(
                voter=own.key,
                epoch=role.epoch,
                listeners=own.listeners,
                kraft_versions=own.kraft_versions,
                cluster_id=self.config.cluster_id,
            ),
        )

    def _should_update(self, role: Follower) -> bool:
        """At kraft.version 0 each leader is told once: the log says nothing of it (KAFKA-16538)."""
        if self.kraft_version >= 1:
            return self._entry_is_outdated()
        return self._is_voter and self.config.as_voter is not None and not role.has_told

    def _put_off_update(self, role: Follower) -> None:
        """Whatever becomes of it: fetching goes first, and a refused update can wait."""
        period_ms = UPDATE_VOTER_FETCH_TIMEOUTS * self.config.fetch_timeout_ms
        role.update_voter_ms = self._now_ms + period_ms

    def _on_update_response(self, peer: int, response: VoterChangeResponse) -> None:
        if response.error in (Error.NONE, Error.UNSUPPORTED_VERSION):
            self._has_told()  # a leader before Kafka 4.1 has no use for it at kraft.version 0
        if response.error is not Error.NONE:
            self._back_off(peer)

    def _has_told(self) -> None:
        """There is nothing more to tell this leader while the voters are static."""
        if isinstance(self._role, Follower):
            self._role.has_told = True
