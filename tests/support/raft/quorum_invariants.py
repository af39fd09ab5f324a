"""The invariants of a quorum that changes: which voters count, and for whom (KRaft S6, S23-S33)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from node.core.messages import ControlRecords, LeaderChange, Records, Voters
from node.core.types import ReplicaKey, VoterSet

if TYPE_CHECKING:
    from tests.support.raft.env import Cluster


class QuorumInvariants:
    """What must hold of the voters and of those who are none."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def quorum_after_step(self, node_id: int) -> None:
        """To be asked after every step of a node."""
        self._latest_set_in_force(node_id)
        self._observers_passive(node_id)
        self._removed_leader_resigns(node_id)

    def _latest_set_in_force(self, node_id: int) -> None:
        node = self._cluster.nodes[node_id]
        latest = self._cluster.voters_on_disk(node_id)
        assert node.up.voters == latest, (
            f"LatestSetInForce: node {node_id} uses {node.up.voters.ids}, its log says {latest.ids}"
        )
        assert node.up.is_voter == latest.contains(node.key)

    def _observers_passive(self, node_id: int) -> None:
        replica = self._cluster.nodes[node_id].up
        assert replica.is_voter or replica.role not in ("prospective", "candidate"), (
            f"ObserversPassive: {node_id} is {replica.role}"
        )

    def _removed_leader_resigns(self, node_id: int) -> None:
        node = self._cluster.nodes[node_id]
        if not node.up.is_leader or node.up.is_voter:
            return
        offset = node.disk.voter_sets()[-1][0]
        assert (node.up.high_watermark or 0) <= offset, (
            f"RemovedLeader: {node_id} still leads after its removal at {offset} was committed"
        )

    def _majority_election(self, node_id: int, grants: list[int]) -> None:
        voters = self._cluster.voters_on_disk(node_id)
        assert set(grants) <= set(voters.ids), f"MajorityElection: {grants} of {voters.ids}"
        assert len(grants) >= voters.majority, f"MajorityElection: {grants} of {voters.ids}"

    def _one_change_at_a_time(
        self, node_id: int, base: int, content: ControlRecords | Records
    ) -> None:
        """Consecutive sets differ by one key, and the one before was committed (KRaft S27)."""
        if not isinstance(content, ControlRecords):
            return
        if not isinstance(content.records[-1], Voters):
            return
        node = self._cluster.nodes[node_id]
        sets = node.disk.voter_sets()
        if len(sets) == 1:
            self._put_into_the_log(node_id, sets[0][1])
            return
        (offset, before), (_, after) = sets[-2:]
        assert len(keys(before) ^ keys(after)) <= 1, f"OneChange: {before.ids} to {after.ids}"
        if isinstance(content.records[0], LeaderChange):
            assert keys(before) == keys(after), "OneChange: an election changes no voters"
            return
        high_watermark = node.up.high_watermark
        assert high_watermark is not None, "OneChange: before a commit of the epoch"
        assert offset < high_watermark, f"OneChange: at {base}, while {offset} is uncommitted"

    def _put_into_the_log(self, node_id: int, voters: VoterSet) -> None:
        """The first set of a log that began with static voters: the same, with their disks."""
        node = self._cluster.nodes[node_id]
        assert voters.ids == node.config.voters.ids, "Upgrade: another voter set than configured"
        assert all(voter.key.directory_id is not None for voter in voters), "Upgrade: no disk named"
        assert node.up.high_watermark is not None, "Upgrade: before a commit of the epoch"


def keys(voters: VoterSet) -> set[ReplicaKey]:
    return {voter.key for voter in voters}
