"""The invariants of Kafka's raft simulation, checked after every effect of every step.

They look at the disks and at what replicas say, never into a replica. The names are those of
``RaftEventSimulationTest``, with ours for what it does not look at. Those of voters and snapshots
are in ``raft_quorum_invariants``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from node.core import effects as fx
from node.core.messages import FetchRequest, VoteRequest, VoteResponse
from node.core.types import ReplicaKey
from tests.support.raft.quorum_invariants import QuorumInvariants

if TYPE_CHECKING:
    from tests.support.raft.disk import Record, Snapshot
    from tests.support.raft.env import Cluster


class Invariants(QuorumInvariants):
    """What must hold in every schedule, however unlucky."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.committed: list[Record] = []  # by offset
        self._commits: list[tuple[int, int]] = []  # (epoch of the leader, end), as it happened
        self._written: dict[tuple[int, int], int] = {}  # (offset, epoch) -> fingerprint
        self._commits_as_leader: int | None = None  # epoch of who raises its high watermark
        self._leader_of: dict[int, int] = {}
        self._vote_of: dict[tuple[ReplicaKey, int], ReplicaKey] = {}
        self._high_watermark: dict[int, int] = {}
        self._barrier_floor: dict[int, int] = {}
        self.checks = 0

    def crashed(self, node_id: int) -> None:
        self._high_watermark.pop(node_id, None)

    def tampered(self, node_id: int) -> None:
        """Somebody changed the disk of a stopped node: what it swore before is void."""
        for key in [k for k in self._vote_of if k[0].id == node_id]:
            del self._vote_of[key]

    def barrier_asked(self, token: int) -> None:
        self._barrier_floor[token] = len(self.committed)

    def after_effect(self, node_id: int, effect: fx.Effect) -> None:
        self.checks += 1
        match effect:
            case fx.Fatal(reason):
                raise AssertionError(f"node {node_id} died: {reason}")
            case fx.PersistElectionState():
                self._monotonic_epoch_and_one_vote(node_id, effect)
            case fx.AppendAsLeader(base_offset=base, content=content):
                self._record_identity(node_id)
                self._one_change_at_a_time(node_id, base, content)
            case fx.AppendBatches():
                self._record_identity(node_id)
            case fx.LeadershipAcquired(epoch):
                self._leader_completeness(node_id, epoch)
            case fx.Trace("hwm", epoch, fields):
                self._commits_as_leader = epoch if fields["as"] == "leader" else None
            case fx.Trace("elected", fields=fields):
                self._majority_election(node_id, fields["grants"])
            case fx.HighWatermarkAdvanced(high_watermark):
                self._monotonic_high_watermark(node_id, high_watermark)
                self._majority_reached_high_watermark(node_id, high_watermark)
                self._consistent_committed_data(node_id, high_watermark)
            case fx.Reply(response=VoteResponse() as response):
                self._vote_is_durable(node_id, response)
            case fx.Send(request=VoteRequest() as request):
                self._candidacy_is_durable(node_id, request)
            case fx.Send(request=FetchRequest() as request):
                self._durable_before_fetch(node_id, request)
            case fx.BarrierConfirmed(token, read_offset):
                floor = self._barrier_floor[token]
                assert read_offset >= floor, (
                    f"ReadBarrier: node {node_id} reads at {read_offset}, but {floor} was "
                    "committed before it was asked"
                )
            case _:
                pass

    def after_step(self, node_id: int) -> None:
        self._single_leader(node_id)
        replica = self._cluster.nodes[node_id].up
        disk = self._cluster.nodes[node_id].disk
        assert replica.log_end_offset == disk.end, (replica.log_end_offset, disk.end)
        assert replica.log_start_offset == disk.start, (replica.log_start_offset, disk.start)
        self.quorum_after_step(node_id)
        assert replica.flushed_offset <= disk.flushed, (replica.flushed_offset, disk.flushed)

    # -------------------------------------------------------------- Kafka's

    def _single_leader(self, node_id: int) -> None:
        replica = self._cluster.nodes[node_id].up
        if replica.is_leader:
            leader = self._leader_of.setdefault(replica.epoch, node_id)
            assert leader == node_id, (
                f"SingleLeader: {leader} and {node_id} both lead epoch {replica.epoch}"
            )

    def _monotonic_epoch_and_one_vote(self, node_id: int, effect: fx.PersistElectionState) -> None:
        own = self._cluster.nodes[node_id].key
        epochs = [e for key, e in self._vote_of if key == own]
        state = effect.state
        assert state.epoch >= max(epochs, default=0), f"MonotonicEpoch: node {node_id}: {state}"
        if state.voted is not None:
            vote = self._vote_of.setdefault((own, state.epoch), state.voted)
            assert vote == state.voted, (
                f"OneVote: node {node_id} votes for {vote} and {state.voted} in {state.epoch}"
            )
        elif (own, state.epoch) in self._vote_of:
            raise AssertionError(f"OneVote: node {node_id} forgets its vote of {state.epoch}")

    def _monotonic_high_watermark(self, node_id: int, high_watermark: int) -> None:
        before = self._high_watermark.get(node_id, 0)
        assert high_watermark > before, (
            f"MonotonicHighWatermark: node {node_id} goes from {before} to {high_watermark}"
        )
        self._high_watermark[node_id] = high_watermark

    def _majority_reached_high_watermark(self, node_id: int, high_watermark: int) -> None:
        if self._commits_as_leader is None:
            return
        voters = self._cluster.voters_on_disk(node_id)
        mine = self._prefix(node_id, high_watermark)
        disks = {str(voter.key): self._cluster.disk_of(voter.key) for voter in voters}
        holders = [
            key
            for key, disk in disks.items()
            if disk.flushed >= high_watermark and disk.records(high_watermark) == mine
        ]
        assert len(holders) >= voters.majority, (
            f"MajorityReachedHighWatermark: {high_watermark} of leader {node_id} is only on "
            f"the disks of {holders}"
        )

    def _consistent_committed_data(self, node_id: int, high_watermark: int) -> None:
        mine = self._prefix(node_id, high_watermark)
        known = min(len(mine), len(self.committed))
        assert mine[:known] == self.committed[:known], (
            f"ConsistentCommittedData: node {node_id} has other records below {known}"
        )
        if high_watermark > len(self.committed):
            epoch = self._commits_as_leader
            assert epoch is not None, f"{node_id} committed {high_watermark} before any leader"
            self.committed = mine
            self._commits.append((epoch, high_watermark))

    def _prefix(self, node_id: int, end: int) -> list[Record]:
        return self._cluster.nodes[node_id].disk.records(end)

    # -------------------------------------------------------------- ours

    def _leader_completeness(self, node_id: int, epoch: int) -> None:
        end = max((end for by, end in self._commits if by < epoch), default=0)
        assert self._prefix(node_id, end) == self.committed[:end], (
            f"LeaderCompleteness: node {node_id} leads {epoch} without all below {end}"
        )

    def installing(self, node_id: int, snapshot: Snapshot) -> None:
        """A node is about to begin its log after ``snapshot``."""
        end = snapshot.id.offset
        floor = self._high_watermark.get(node_id, 0)
        assert end >= floor, f"Install: {snapshot.id} lies below the high watermark {floor}"
        assert list(snapshot.records) == self.committed[:end], f"Install: {snapshot.id} is wrong"
        mine = self._cluster.nodes[node_id].disk.records(end)
        assert mine != list(snapshot.records), f"Install: node {node_id} had all of {snapshot.id}"

    def _record_identity(self, node_id: int) -> None:
        for batch in self._cluster.nodes[node_id].disk.batches[-3:]:
            crc = self._written.setdefault((batch.base_offset, batch.epoch), batch.crc)
            assert crc == batch.crc, f"RecordIdentity: node {node_id} wrote another {batch}"

    def _vote_is_durable(self, node_id: int, response: VoteResponse) -> None:
        election = self._cluster.nodes[node_id].disk.election
        request = self._cluster.answering
        assert election.epoch >= response.epoch, f"node {node_id} speaks before {election} is kept"
        if response.granted and isinstance(request, VoteRequest) and not request.pre_vote:
            assert election.voted == request.candidate, (
                f"VoteDurability: node {node_id} grants {request}, but keeps {election}"
            )

    def _candidacy_is_durable(self, node_id: int, request: VoteRequest) -> None:
        election = self._cluster.nodes[node_id].disk.election
        if not request.pre_vote:
            assert election.epoch == request.epoch, f"{request} before {election} is kept"
            assert election.voted == request.candidate, f"{request} before {election} is kept"

    def _durable_before_fetch(self, node_id: int, request: FetchRequest) -> None:
        if self._cluster.nodes[node_id].up.is_voter:
            flushed = self._cluster.nodes[node_id].disk.flushed
            assert request.offset <= flushed, (
                f"DurableBeforeFetch: node {node_id} fetches at {request.offset}, flushed {flushed}"
            )
