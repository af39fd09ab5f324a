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
        if role.update_voter_ms > self._now_ms or not self._should_update():
            super()._ask_leader(role)
            return
        self._put_off_update(role)
        own = self.config.as_voter
        assert own is not None, "an outdated entry is another than ours"
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

    def _should_update(self) -> bool:
        return self.kraft_version >= 1 and self._entry_is_outdated()

    def _put_off_update(self, role: Follower) -> None:
        """Whatever becomes of it: fetching goes first, and a refused update can wait."""
        period_ms = UPDATE_VOTER_FETCH_TIMEOUTS * self.config.fetch_timeout_ms
        role.update_voter_ms = self._now_ms + period_ms

    def _on_update_response(self, peer: int, response: VoterChangeResponse) -> None:
        if response.error is not Error.NONE:
            self._back_off(peer)
