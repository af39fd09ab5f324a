"""``SnapshotFetches`` serves a leader's snapshots in chunks.

Source: KIP-630 "FetchSnapshot".
"""

from __future__ import annotations

from node.core.effects import Reply
from node.core.fencing import Fencing
from node.core.leader.leadership import Leadership
from node.core.messages import Error, FetchSnapshotRequest, FetchSnapshotResponse, SnapshotRange
from node.core.roles import Leader
from node.core.state import ReplicaState


class SnapshotFetches:
    """This handler answers FetchSnapshot."""

    def __init__(self, state: ReplicaState, fencing: Fencing, leadership: Leadership) -> None:
        self._state = state
        self._fencing = fencing
        self._leadership = leadership

    def on_fetch_snapshot_request(self, token: int, request: FetchSnapshotRequest) -> None:
        """Answer with the bytes from the position on, or say what is wrong with the request."""
        state = self._state
        error, size = self._check(request)
        role, replica = state.role, request.replica
        asked = {"snap": tuple(request.snapshot), "pos": request.position}
        if error is not Error.NONE or not isinstance(role, Leader):
            state.trace_refusal("FetchSnapshot", replica.id, request.epoch, error, **asked)
            response = FetchSnapshotResponse(
                error, role.epoch, role.leader_id, role.leader_endpoint, request.snapshot
            )
            state.out.emit(Reply(token, response))
            return
        state.trace_accepted("FetchSnapshot", replica, request.epoch, request.cluster_id, **asked)
        voter = role.progress.voter(replica)
        if voter is not None:
            self._leadership.heard_from(role, voter.key.id)
        most = min(request.max_bytes, state.config.fetch_snapshot_max_bytes)
        length = min(most, size - request.position)
        state.out.emit(
            Reply(
                token,
                FetchSnapshotResponse(
                    Error.NONE,
                    role.epoch,
                    role.leader_id,
                    role.leader_endpoint,
                    snapshot=request.snapshot,
                    size=size,
                    position=request.position,
                    chunk=SnapshotRange(request.snapshot, request.position, length),
                ),
            )
        )

    def _check(self, request: FetchSnapshotRequest) -> tuple[Error, int]:
        """Say what is wrong with the request, in Kafka's order, and the size of its snapshot."""
        if not self._fencing.same_cluster(request.cluster_id):
            return Error.INCONSISTENT_CLUSTER_ID, 0
        if request.max_bytes < 0:
            return Error.INVALID_REQUEST, 0
        error = self._fencing.check_leader_only(request.epoch)
        if error is not Error.NONE:
            return error, 0
        snapshots = self._state.log.snapshots
        size = next((s.size for s in snapshots if s.id == request.snapshot), None)
        if size is None:
            return Error.SNAPSHOT_NOT_FOUND, 0
        if not 0 <= request.position < size:
            return Error.POSITION_OUT_OF_RANGE, 0
        return Error.NONE, size
