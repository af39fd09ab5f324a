"""``ReplicaView`` is what others may read of a replica; all that they do goes through ``step``."""

from __future__ import annotations

from node.core.config import ReplicaConfig
from node.core.roles import Leader, RoleName
from node.core.state import ReplicaState
from node.core.types import (
    ElectionState,
    Endpoint,
    OffsetAndEpoch,
    ReplicaKey,
    SnapshotInfo,
    VoterSet,
)


class ReplicaView:
    """A view reads the state of a replica and changes nothing."""

    def __init__(self, state: ReplicaState) -> None:
        self._state = state

    # ------------------------------------------------------------------ the role

    @property
    def config(self) -> ReplicaConfig:
        """Give what the replica was told about itself."""
        return self._state.config

    @property
    def role(self) -> RoleName:
        """Give the present role."""
        return self._state.role.name

    @property
    def epoch(self) -> int:
        """Give the highest epoch seen."""
        return self._state.role.epoch

    @property
    def leader_id(self) -> int | None:
        """Give the leader of this epoch, as far as known; a resigned leader still names itself."""
        return self._state.role.leader_id

    @property
    def leader_endpoint(self) -> Endpoint | None:
        """Give the endpoint of that leader, None when it is not known."""
        return self._state.role.leader_endpoint

    @property
    def is_leader(self) -> bool:
        """Say whether this replica leads (a resigned one does not)."""
        return isinstance(self._state.role, Leader)

    @property
    def epoch_start(self) -> int | None:
        """Give the offset of the leader's first batch, None when this replica does not lead."""
        role = self._state.role
        return role.epoch_start if isinstance(role, Leader) else None

    @property
    def election_state(self) -> ElectionState:
        """Give what is on disk: epoch, leader and vote."""
        return self._state.election

    @property
    def last_vote(self) -> ReplicaKey | None:
        """Give whom this replica voted for in the present epoch."""
        return self._state.election.voted

    # ------------------------------------------------------------------ the log

    @property
    def high_watermark(self) -> int | None:
        """Give the end of the committed records; a leader knows none before one of its epoch."""
        return self._state.high_watermark

    @property
    def log_start_offset(self) -> int:
        """Give the offset of the first record; what lies below is in a snapshot."""
        return self._state.log.start

    @property
    def log_end_offset(self) -> int:
        """Give the offset of the next record (exclusive end)."""
        return self._state.log.end

    @property
    def flushed_offset(self) -> int:
        """Give the end of what is known to be on disk."""
        return self._state.log.flushed

    @property
    def last(self) -> OffsetAndEpoch:
        """Give the log end offset and the epoch of the last record."""
        return self._state.log.last

    @property
    def snapshots(self) -> tuple[SnapshotInfo, ...]:
        """Give the complete snapshots on disk without the bootstrap one, oldest first."""
        return self._state.log.snapshots

    # ------------------------------------------------------------------ the voters

    @property
    def voters(self) -> VoterSet:
        """Give the voter set in force: the newest one in the log, committed or not."""
        return self._state.log.voters

    @property
    def is_voter(self) -> bool:
        """Say whether this replica is in the voter set in force."""
        return self._state.log.is_voter

    @property
    def kraft_version(self) -> int:
        """Give the level in force: 0 for static voters, 1 for voters in the log."""
        return self._state.log.kraft_version
