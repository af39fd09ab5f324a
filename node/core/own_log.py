"""The replica's own log as the core knows it: its ends, epochs, snapshots, and the voters in it.

What the log says of the quorum holds from the moment it is appended until it is truncated.

Source: KIP-595 "Log truncation", KIP-630 (snapshots), KIP-853 (voters in the log).
"""

from __future__ import annotations

from typing import Any

from node.core import effects as fx
from node.core.config import LogState, ReplicaConfig
from node.core.epoch_cache import EpochCache
from node.core.messages import Batch, ControlRecord
from node.core.types import OffsetAndEpoch, ReplicaKey, SnapshotInfo, VoterSet
from node.core.voter_history import VoterHistory


class IllegalStateError(Exception):
    """Raised inside a step when this replica's own state is not what it must be."""


class OwnLog:
    """The log of one replica, the voters that it names, and what is to be done about them."""

    def __init__(self, config: ReplicaConfig, log: LogState) -> None:
        self.config = config
        self._out: list[fx.Effect] = []
        self._history = VoterHistory(config.voters, log.voters, log.kraft_versions)
        self._voters = self._history.voters
        self._in_force = self._history.offset, self._history.kraft_version
        self._is_voter = self._voters.contains(config.key)
        self._snapshots = _replicated(log.snapshots)
        self._epochs = EpochCache(log.epochs, _epoch_at(self._snapshots, log.start_offset))
        self._log_start = log.start_offset
        self._log_end = log.end_offset
        self._flushed = log.flushed_offset
        self._committed: int | None = None  # the highest high watermark of this incarnation

    # ------------------------------------------------------------------ read-only view

    @property
    def epoch(self) -> int:
        """The highest epoch seen; defined with the roles."""
        raise NotImplementedError

    @property
    def log_end_offset(self) -> int:
        """Offset of the next record (exclusive end)."""
        return self._log_end

    @property
    def flushed_offset(self) -> int:
        """Everything below is known to be on disk."""
        return self._flushed

    @property
    def log_start_offset(self) -> int:
        """Offset of the first record; what lies below is in a snapshot."""
        return self._log_start

    @property
    def snapshots(self) -> tuple[SnapshotInfo, ...]:
        """The complete snapshots on disk without the bootstrap one, oldest first."""
        return self._snapshots

    @property
    def voters(self) -> VoterSet:
        """The voter set in force: the newest one in the log, committed or not."""
        return self._voters

    @property
    def kraft_version(self) -> int:
        """The level in force: 0 for static voters, 1 for voters in the log."""
        return self._history.kraft_version

    def quorum_at(self, end: int) -> tuple[VoterSet | None, int]:
        """What a snapshot of the log up to ``end`` must say: voters (None: static) and level."""
        return self._history.at(end)

    @property
    def is_voter(self) -> bool:
        """Whether this replica is in the voter set in force."""
        return self._is_voter

    @property
    def last(self) -> OffsetAndEpoch:
        """Log end offset and the epoch of the last record, by which logs are compared."""
        return OffsetAndEpoch(self._log_end, self._epochs.latest_epoch)

    # ------------------------------------------------------------------ effects

    def _emit(self, *effects: fx.Effect) -> None:
        self._out.extend(effects)

    def _trace(self, type_: str, **fields: Any) -> None:
        self._out.append(fx.Trace(type_, self.epoch, fields))

    # ------------------------------------------------------------------ the log

    def _appended(self, batch: Batch) -> None:
        """Account for a batch of the leader that is now in the log."""
        self._epochs.assign(batch.epoch, batch.base_offset)
        self._log_end = batch.last_offset + 1
        if batch.controls:
            self._take_controls(batch.base_offset, batch.controls)

    def _truncate(self, to: int, why: str) -> None:
        """Cut the log back to ``to``; committed records must never go."""
        self._check_truncation(to)
        was = self._log_end
        self._trace("trunc", to=to, was=was, why=why)
        self._emit(fx.TruncateLog(to))
        # Even when no record goes, the epoch of a leader that wrote nothing must.
        self._epochs.truncate_from_end(to)
        self._log_end = to
        self._flushed = min(self._flushed, to)
        self._history.truncate_from_end(to)
        self._adopt_voters(revert=True)

    def _check_truncation(self, to: int) -> None:
        if to < self._committed_floor:
            raise IllegalStateError(
                f"asked to truncate to {to}, below the high watermark {self._committed_floor}"
            )

    @property
    def _committed_floor(self) -> int:
        """All below is known to be committed: snapshots hold nothing else."""
        snapshot = self._snapshots[-1].id.offset if self._snapshots else 0
        return max(self._committed or 0, snapshot)

    def _end_offset_for(self, epoch: int) -> OffsetAndEpoch:
        """Where ``epoch`` ends in this log, or the snapshot before it when that is the same point.

        Source: Kafka 4.1 ``KafkaRaftLog.endOffsetForEpoch``.
        """
        found = self._epochs.end_offset_for(epoch, self._log_end)
        if self._snapshots and found.epoch == epoch:
            earliest = self._snapshots[0].id
            if found.offset == earliest.offset:
                return earliest
        return found

    def _holds(self, point: OffsetAndEpoch) -> bool:
        """Whether the log goes through ``point``."""
        return (
            self._log_start <= point.offset <= self._log_end
            and self._epochs.epoch_before(point.offset) == point.epoch
        )

    def _on_snapshots_changed(self, snapshots: tuple[SnapshotInfo, ...], log_start: int) -> None:
        """Snapshots came or went, and with the old ones perhaps the beginning of the log."""
        self._snapshots = _replicated(snapshots)
        if log_start == self._log_start:
            return
        if not self._log_start < log_start <= min(self._log_end, self._committed_floor):
            raise IllegalStateError(
                f"the log start went from {self._log_start} to {log_start}; the log ends at "
                f"{self._log_end} and is committed up to {self._committed_floor}"
            )
        self._log_start = log_start
        self._trace("lstart", v=log_start)
        self._epochs.truncate_from_start(log_start)
        self._epochs.before = _epoch_at(self._snapshots, log_start)
        self._history.truncate_from_start(log_start)

    # ------------------------------------------------------------------ the voters

    def _take_controls(self, base: int, controls: tuple[ControlRecord, ...]) -> None:
        """Control records are in the log now, and with that in force (KIP-853)."""
        for offset, record in enumerate(controls, base):
            self._history.add(offset, record)
        self._adopt_voters(revert=False)

    def _adopt_voters(self, *, revert: bool) -> None:
        """Use the newest voter set of the log, when it is another one than before."""
        history = self._history
        in_force = history.offset, history.kraft_version
        # A snapshot may put another set in the place of an uncommitted one of the same offset.
        changed = self._in_force[1] != history.kraft_version or self._voters != history.voters
        if in_force == self._in_force and not changed:
            return
        self._in_force = in_force
        self._voters = history.voters
        self._is_voter = self._voters.contains(self.config.key)
        self._trace(
            "voters",
            off=history.offset,
            set=voter_keys(self._voters),
            kv=history.kraft_version,
            revert=revert,
        )
        if not changed:
            return
        self._emit(fx.VotersChanged(self._voters, history.kraft_version))
        if self._must_flush and self._flushed < self._log_end:
            self._emit(fx.FlushLog(self._log_end))  # as an observer it need not have been
        self._follow_voters()

    def _follow_voters(self) -> None:
        """Let the present role work with the new voter set; extended where it matters.

        Only a follower and a leader write to their log, and a follower has nothing to change.
        """

    @property
    def _must_flush(self) -> bool:
        """Whether what is appended must be on disk before it is told to a leader."""
        return self.config.flush_before_fetch or self.is_voter

    def _commit(self, high_watermark: int, **trace: Any) -> None:
        """Expose a high watermark that has grown."""
        self._committed = high_watermark
        self._trace("hwm", v=high_watermark, **trace)
        self._emit(fx.HighWatermarkAdvanced(high_watermark))


def directory(key: ReplicaKey) -> str | None:
    """A directory id for the trace."""
    return None if key.directory_id is None else key.directory_id.hex


def voter_keys(voters: VoterSet) -> list[tuple[int, str | None]]:
    """Node and directory ids of a voter set for the trace."""
    return [(voter.key.id, directory(voter.key)) for voter in voters]


def _replicated(snapshots: tuple[SnapshotInfo, ...]) -> tuple[SnapshotInfo, ...]:
    """Without the bootstrap snapshot, which every node makes for itself when it is formatted."""
    return tuple(s for s in snapshots if s.id.offset > 0)


def _epoch_at(snapshots: tuple[SnapshotInfo, ...], log_start: int) -> int:
    """The epoch of the last record before the log."""
    return next((s.id.epoch for s in snapshots if s.id.offset == log_start), 0)
