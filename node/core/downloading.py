"""Fetching a snapshot from the leader, where its log begins after what this replica lacks.

Source: KIP-630 "FetchSnapshot"; Kafka 4.1 ``KafkaRaftClient.handleFetchSnapshotResponse``. Where
Kafka dies of an answer that does not fit, the download begins again: it only shows that somebody
is wrong.
"""

from __future__ import annotations

from node.core import effects as fx
from node.core.config import MIB
from node.core.epoch_cache import EpochCache
from node.core.following import Following
from node.core.inputs import SnapshotInstalled, SnapshotRejected
from node.core.messages import (
    Error,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
)
from node.core.own_log import IllegalStateError, voter_keys
from node.core.roles import Download, Follower
from node.core.types import OffsetAndEpoch

# Less than what Kafka asks for: the 70,000 records in 8 MiB keep both sides busy for longer than
# a vote should have to wait.
CHUNK_BYTES = MIB


class Downloading(Following):
    """A follower's way to a snapshot."""

    # ------------------------------------------------------------------ asking

    def _may_fetch(self) -> bool:
        if not super()._may_fetch():
            return False
        role = self._role
        installing = isinstance(role, Follower) and role.download
        return not installing or not installing.is_whole

    def _ask_leader(self, role: Follower) -> None:
        download = role.download
        if download is None:
            super()._ask_leader(role)
            return
        self._send(
            role.leader_id,
            role.leader_endpoint,
            FetchSnapshotRequest(
                replica=self.config.key,
                epoch=role.epoch,
                snapshot=download.id,
                position=download.position,
                max_bytes=min(self.config.fetch_max_bytes, CHUNK_BYTES),
                cluster_id=self.config.cluster_id,
            ),
        )

    # ------------------------------------------------------------------ answers

    def _needs_snapshot(self, peer: int, role: Follower, response: FetchResponse) -> bool:
        """Open the snapshot that the leader names; without one, forget what was being fetched."""
        wanted, download = response.snapshot, role.download
        if wanted is None:
            if download is not None:
                self._forget_download(role, download)
            return False
        if not self._wants_snapshot(wanted):
            self._back_off(peer)
            return True
        if download is None or download.id != wanted:
            self._open_download(role, wanted)
        if peer != role.leader_id:
            self._back_off(peer)  # it would say the same again; the bytes come from the leader
        return True

    def _wants_snapshot(self, id_: OffsetAndEpoch) -> bool:
        """Whether that snapshot tells something that our log does not, and nothing committed goes.

        Only a confused leader names another: a committed record is in the log of every leader.
        """
        if id_.offset < max(1, self._committed_floor) or not 0 <= id_.epoch <= self.epoch:
            return False
        return not self._holds(id_)

    def _open_download(self, role: Follower, id_: OffsetAndEpoch) -> None:
        if role.download is not None and role.download.id != id_:
            self._emit(fx.DiscardSnapshot(role.download.id))
        role.download = Download(id_)
        self._emit(fx.OpenSnapshot(id_))

    def _forget_download(self, role: Follower, download: Download) -> None:
        role.download = None
        self._emit(fx.DiscardSnapshot(download.id))

    def _on_fetch_snapshot_response(
        self, peer: int, request: FetchSnapshotRequest, response: FetchSnapshotResponse
    ) -> None:
        role = self._role
        if not isinstance(role, Follower) or response.leader_id != role.leader_id:
            self._back_off(peer)
            return
        download = role.download
        if download is None or download.id != request.snapshot:
            return
        if response.error in (Error.SNAPSHOT_NOT_FOUND, Error.POSITION_OUT_OF_RANGE):
            # The leader has cleaned it away: it will name a newer one.
            self._hear_from_leader(role)
            self._forget_download(role, download)
        elif response.error is not Error.NONE:
            self._back_off(peer)
        elif not _continues(download, response):
            self._back_off(peer)
            self._open_download(role, download.id)
        elif not response.data:
            self._back_off(peer)
        else:
            self._hear_from_leader(role)
            self._write_chunk(download, response)

    def _hear_from_leader(self, role: Follower) -> None:
        role.deadline_ms = self._now_ms + self.config.fetch_timeout_ms
        role.has_fetched = True

    def _write_chunk(self, download: Download, response: FetchSnapshotResponse) -> None:
        self._emit(fx.WriteSnapshot(download.id, download.position, response.data))
        download.position += len(response.data)
        download.size = response.size
        if download.is_whole:
            self._emit(fx.InstallSnapshot(download.id))

    # ------------------------------------------------------------------ the end of it

    def _on_snapshot_installed(self, installed: SnapshotInstalled) -> None:
        """The log begins anew after the snapshot; all that it covers is committed."""
        id_, size = installed.snapshot
        self._take_download(id_)
        self._trace(
            "snap",
            op="install",
            id=list(id_),
            size=size,
            sha=installed.sha,
            voters=None if installed.voters is None else voter_keys(installed.voters),
            kv=installed.kraft_version,
        )
        self._snapshots = (installed.snapshot,)
        self._epochs = EpochCache(before=id_.epoch)
        self._log_start = self._log_end = self._flushed = id_.offset
        self._trace("lstart", v=id_.offset)
        self._history.reset(id_.offset, installed.voters, installed.kraft_version)
        self._adopt_voters(revert=False)
        self._follow_high_watermark(id_.offset)

    def _on_snapshot_rejected(self, rejected: SnapshotRejected) -> None:
        """The bytes were no snapshot: ask again what to do, but not at once."""
        self._trace("snap", op="reject", id=list(rejected.snapshot), why=rejected.reason)
        self._back_off(self._take_download(rejected.snapshot).leader_id)

    def _take_download(self, id_: OffsetAndEpoch) -> Follower:
        """End the download that was being installed."""
        role = self._role
        download = role.download if isinstance(role, Follower) else None
        if not isinstance(role, Follower) or download is None or download.id != id_:
            raise IllegalStateError(f"snapshot {id_} was not being installed")
        role.download = None
        return role


def _continues(download: Download, response: FetchSnapshotResponse) -> bool:
    """Whether these bytes are the next ones of that snapshot."""
    return (
        response.snapshot == download.id
        and response.position == download.position
        and download.size in (None, response.size)
        and 0 < response.position + len(response.data) <= response.size
    )
