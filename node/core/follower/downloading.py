"""``Downloading`` fetches a snapshot where the leader's log begins after what this replica lacks.

Source: KIP-630 "FetchSnapshot"; Kafka 4.1 ``KafkaRaftClient.handleFetchSnapshotResponse``. Where
Kafka dies of an answer that does not fit, the download begins again: it only shows that somebody
is wrong.
"""

from __future__ import annotations

from node.core.effects import DiscardSnapshot, InstallSnapshot, OpenSnapshot, WriteSnapshot
from node.core.inputs import SnapshotInstalled, SnapshotRejected
from node.core.messages import (
    Error,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
)
from node.core.own_log import IllegalStateError, voter_keys
from node.core.roles import Download, Follower, Role
from node.core.state import ReplicaState
from node.core.types import OffsetAndEpoch

# Less than what Kafka asks for: the 70,000 records in 8 MiB keep both sides busy for longer than
# a vote should have to wait.


class Downloading:
    """This handler takes a follower to a snapshot."""

    def __init__(self, state: ReplicaState) -> None:
        self._state = state

    # ------------------------------------------------------------------ asking

    def is_installing(self, role: Role) -> bool:
        """Say whether a snapshot is whole and waits to be installed."""
        return isinstance(role, Follower) and role.download is not None and role.download.is_whole

    def ask(self, role: Follower) -> bool:
        """Ask the idle leader for the next bytes of a download; says whether there is one."""
        state, download = self._state, role.download
        if download is None:
            return False
        state.send(
            role.leader_id,
            role.leader_endpoint,
            FetchSnapshotRequest(
                replica=state.config.key,
                epoch=role.epoch,
                snapshot=download.id,
                position=download.position,
                max_bytes=state.config.fetch_snapshot_max_bytes,
                cluster_id=state.config.cluster_id,
            ),
        )
        return True

    # ------------------------------------------------------------------ answers

    def needs_snapshot(self, peer: int, role: Follower, response: FetchResponse) -> bool:
        """Open the snapshot that the leader names; without one, forget what was being fetched."""
        wanted, download = response.snapshot, role.download
        if wanted is None:
            if download is not None:
                self._forget(role, download)
            return False
        if not self._wants(wanted):
            self._state.back_off(peer)
            return True
        if download is None or download.id != wanted:
            self._open(role, wanted)
        if peer != role.leader_id:
            # It would say the same again; the bytes come from the leader.
            self._state.back_off(peer)
        return True

    def _wants(self, id_: OffsetAndEpoch) -> bool:
        """Say whether that snapshot tells what our log does not, and nothing committed goes.

        Only a confused leader names another: a committed record is in the log of every leader.
        """
        log = self._state.log
        if id_.offset < max(1, log.committed_floor) or not 0 <= id_.epoch <= self._state.epoch:
            return False
        return not log.holds(id_)

    def _open(self, role: Follower, id_: OffsetAndEpoch) -> None:
        if role.download is not None and role.download.id != id_:
            self._state.out.emit(DiscardSnapshot(role.download.id))
        role.download = Download(id_)
        self._state.out.emit(OpenSnapshot(id_))

    def _forget(self, role: Follower, download: Download) -> None:
        role.download = None
        self._state.out.emit(DiscardSnapshot(download.id))

    def on_fetch_snapshot_response(
        self, peer: int, request: FetchSnapshotRequest, response: FetchSnapshotResponse
    ) -> None:
        """Write the next bytes, or begin again."""
        state, role = self._state, self._state.role
        if not isinstance(role, Follower) or response.leader_id != role.leader_id:
            state.back_off(peer)
            return
        download = role.download
        if download is None or download.id != request.snapshot:
            return
        if response.error in (Error.SNAPSHOT_NOT_FOUND, Error.POSITION_OUT_OF_RANGE):
            # The leader has cleaned it away: it will name a newer one.
            self._hear_from_leader(role)
            self._forget(role, download)
        elif response.error is not Error.NONE:
            state.back_off(peer)
        elif not _continues(download, response):
            state.back_off(peer)
            self._open(role, download.id)
        elif not response.data:
            state.back_off(peer)
        else:
            self._hear_from_leader(role)
            self._write_chunk(download, response)

    def _hear_from_leader(self, role: Follower) -> None:
        role.deadline_ms = self._state.now_ms + self._state.config.fetch_timeout_ms
        role.has_fetched = True

    def _write_chunk(self, download: Download, response: FetchSnapshotResponse) -> None:
        self._state.out.emit(WriteSnapshot(download.id, download.position, response.data))
        download.position += len(response.data)
        download.size = response.size
        if download.is_whole:
            self._state.out.emit(InstallSnapshot(download.id))

    # ------------------------------------------------------------------ the end of it

    def on_snapshot_installed(self, installed: SnapshotInstalled) -> None:
        """Begin the log anew after the snapshot; all that it covers is committed."""
        id_, size = installed.snapshot
        self._take(id_)
        self._state.out.trace(
            "snap",
            op="install",
            id=list(id_),
            size=size,
            sha=installed.sha,
            voters=None if installed.voters is None else voter_keys(installed.voters),
            kv=installed.kraft_version,
        )
        self._state.log.begin_after(installed.snapshot, installed.voters, installed.kraft_version)

    def on_snapshot_rejected(self, rejected: SnapshotRejected) -> None:
        """Ask again what to do when the bytes were no snapshot, but not at once."""
        id_ = rejected.snapshot
        self._state.out.trace("snap", op="reject", id=list(id_), why=rejected.reason)
        self._state.back_off(self._take(id_).leader_id)

    def _take(self, id_: OffsetAndEpoch) -> Follower:
        """End the download that was being installed."""
        role = self._state.role
        download = role.download if isinstance(role, Follower) else None
        if not isinstance(role, Follower) or download is None or download.id != id_:
            raise IllegalStateError(f"snapshot {id_} was not being installed")
        role.download = None
        return role


def _continues(download: Download, response: FetchSnapshotResponse) -> bool:
    """Say whether these bytes are the next ones of that snapshot."""
    return (
        response.snapshot == download.id
        and response.position == download.position
        and download.size in (None, response.size)
        and 0 < response.position + len(response.data) <= response.size
    )
