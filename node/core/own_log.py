"""``OwnLog`` holds what the core knows of a replica's log: ends, epochs, snapshots, voters.

What the log says of the quorum holds from the moment it is appended until it is truncated.

Source: KIP-595 "Log truncation", KIP-630 (snapshots), KIP-853 (voters in the log).
"""

from __future__ import annotations

from typing import Any

from node.core import effects as fx
from node.core.config import LogState, ReplicaConfig
from node.core.epoch_cache import EpochCache
from node.core.events import Events
from node.core.messages import Batch, ControlRecord
from node.core.outbox import Outbox
from node.core.types import OffsetAndEpoch, ReplicaKey, SnapshotInfo, VoterSet
from node.core.voter_history import VoterHistory


class IllegalStateError(Exception):
    """Raised inside a step when this replica's own state is not what it must be."""


class OwnLog:
    """An own log keeps what its replica must know of its log, and the voters that it names.

    ``end`` and ``flushed`` are exclusive ends: of the log, and of what is known to be on disk.
    ``start`` is the offset of the first record; what lies below is in a snapshot. ``snapshots``
    are the complete ones on disk without the bootstrap one, oldest first. ``voters`` is the set in
    force: the newest one in the log, committed or not; ``is_voter`` says whether this replica is
    in it. ``committed`` is the highest high watermark of this incarnation, None before the first.
    """

    def __init__(self, config: ReplicaConfig, log: LogState, out: Outbox, events: Events) -> None:
        self.config = config
        self._out = out
        self._events = events
        self.history = VoterHistory(config.voters, log.voters, log.kraft_versions)
        self.voters = self.history.voters
        self.is_voter = self.voters.contains(config.key)
        self._in_force = self.history.offset, self.history.kraft_version
        self.snapshots = _replicated(log.snapshots)
        self.epochs = EpochCache(log.epochs, _epoch_at(self.snapshots, log.start_offset))
        self.start = log.start_offset
        self.end = log.end_offset
        self.flushed = log.flushed_offset
        self.committed: int | None = None

    # ------------------------------------------------------------------ read-only view

    @property
    def kraft_version(self) -> int:
        """Give the level in force: 0 for static voters, 1 for voters in the log."""
        return self.history.kraft_version

    @property
    def last(self) -> OffsetAndEpoch:
        """Give the end and the epoch of the last record, by which logs are compared."""
        return OffsetAndEpoch(self.end, self.epochs.latest_epoch)

    @property
    def committed_floor(self) -> int:
        """Give the offset below which all is committed: snapshots hold nothing else."""
        snapshot = self.snapshots[-1].id.offset if self.snapshots else 0
        return max(self.committed or 0, snapshot)

    @property
    def must_flush(self) -> bool:
        """Say whether what is appended must be on disk before a leader is told of it."""
        return self.config.flush_before_fetch or self.is_voter

    # ------------------------------------------------------------------ the log

    def appended(self, batch: Batch) -> None:
        """Account for a batch of the leader that is now in the log."""
        self.epochs.assign(batch.epoch, batch.base_offset)
        self.end = batch.last_offset + 1
        if batch.controls:
            self.take_controls(batch.base_offset, batch.controls)

    def truncate(self, to: int, why: str) -> None:
        """Cut the log back to ``to``; committed records must never go."""
        self.check_truncation(to)
        was = self.end
        self._out.trace("trunc", to=to, was=was, why=why)
        self._out.emit(fx.TruncateLog(to))
        # Even when no record goes, the epoch of a leader that wrote nothing must.
        self.epochs.truncate_from_end(to)
        self.end = to
        self.flushed = min(self.flushed, to)
        self.history.truncate_from_end(to)
        self._adopt_voters(revert=True)

    def check_truncation(self, to: int) -> None:
        """Raise IllegalStateError when a cut at ``to`` would take committed records."""
        if to < self.committed_floor:
            raise IllegalStateError(
                f"asked to truncate to {to}, below the high watermark {self.committed_floor}"
            )

    def end_offset_for(self, epoch: int) -> OffsetAndEpoch:
        """Find where ``epoch`` ends in this log; a snapshot that ends right there is given.

        Source: Kafka 4.1 ``KafkaRaftLog.endOffsetForEpoch``.
        """
        found = self.epochs.end_offset_for(epoch, self.end)
        if self.snapshots and found.epoch == epoch:
            earliest = self.snapshots[0].id
            if found.offset == earliest.offset:
                return earliest
        return found

    def holds(self, point: OffsetAndEpoch) -> bool:
        """Say whether the log goes through ``point``."""
        return (
            self.start <= point.offset <= self.end
            and self.epochs.epoch_before(point.offset) == point.epoch
        )

    def on_snapshots_changed(self, snapshots: tuple[SnapshotInfo, ...], log_start: int) -> None:
        """Take over that snapshots came or went, and perhaps the beginning of the log."""
        self.snapshots = _replicated(snapshots)
        if log_start == self.start:
            return
        if not self.start < log_start <= min(self.end, self.committed_floor):
            raise IllegalStateError(
                f"the log start went from {self.start} to {log_start}; the log ends at "
                f"{self.end} and is committed up to {self.committed_floor}"
            )
        self.start = log_start
        self._out.trace("lstart", v=log_start)
        self.epochs.truncate_from_start(log_start)
        self.epochs.before = _epoch_at(self.snapshots, log_start)
        self.history.truncate_from_start(log_start)

    def begin_after(
        self, snapshot: SnapshotInfo, voters: VoterSet | None, kraft_version: int
    ) -> None:
        """Begin the log anew after ``snapshot``; all that it covers is committed."""
        end, epoch = snapshot.id
        self.snapshots = (snapshot,)
        self.epochs = EpochCache(before=epoch)
        self.start = self.end = self.flushed = end
        self._out.trace("lstart", v=end)
        self.history.reset(end, voters, kraft_version)
        self._adopt_voters(revert=False)
        self.follow_high_watermark(end)

    # ------------------------------------------------------------------ what is committed

    def follow_high_watermark(self, leader_high_watermark: int | None) -> None:
        """Take the leader's high watermark as far as this log goes; it never falls."""
        if leader_high_watermark is None:
            return
        high_watermark = min(leader_high_watermark, self.end)
        if high_watermark > (self.committed or 0):
            self.commit(high_watermark, **{"as": "follower" if self.is_voter else "observer"})

    def commit(self, high_watermark: int, **trace: Any) -> None:
        """Expose a high watermark that has grown."""
        self.committed = high_watermark
        self._out.trace("hwm", v=high_watermark, **trace)
        self._out.emit(fx.HighWatermarkAdvanced(high_watermark))

    # ------------------------------------------------------------------ the voters

    def take_controls(self, base: int, controls: tuple[ControlRecord, ...]) -> None:
        """Put control records in force that are in the log now (KIP-853)."""
        for offset, record in enumerate(controls, base):
            self.history.add(offset, record)
        self._adopt_voters(revert=False)

    def _adopt_voters(self, *, revert: bool) -> None:
        """Use the newest voter set of the log, when it is another one than before."""
        history = self.history
        in_force = history.offset, history.kraft_version
        # A snapshot may put another set in the place of an uncommitted one of the same offset.
        changed = self._in_force[1] != history.kraft_version or self.voters != history.voters
        if in_force == self._in_force and not changed:
            return
        self._in_force = in_force
        self.voters = history.voters
        self.is_voter = self.voters.contains(self.config.key)
        self._out.trace(
            "voters",
            off=history.offset,
            set=voter_keys(self.voters),
            kv=history.kraft_version,
            revert=revert,
        )
        if not changed:
            return
        self._out.emit(fx.VotersChanged(self.voters, history.kraft_version))
        if self.must_flush and self.flushed < self.end:
            self._out.emit(fx.FlushLog(self.end))  # as an observer it need not have been
        for tell in self._events.voters_changed:
            tell()

    def own_entry_is_outdated(self) -> bool:
        """Say whether the voter set tells something else of this voter than its configuration."""
        own, listed = self.config.as_voter, self.voters.voters.get(self.config.key.id)
        if own is None or listed is None or not self.is_voter:
            return False
        return (
            set(own.listeners) != set(listed.listeners)
            or own.kraft_versions != listed.kraft_versions
        )


def directory(key: ReplicaKey) -> str | None:
    """Give the directory id of ``key`` for the trace."""
    return None if key.directory_id is None else key.directory_id.hex


def voter_keys(voters: VoterSet) -> list[tuple[int, str | None]]:
    """Give the node and directory ids of a voter set for the trace."""
    return [(voter.key.id, directory(voter.key)) for voter in voters]


def _replicated(snapshots: tuple[SnapshotInfo, ...]) -> tuple[SnapshotInfo, ...]:
    """Leave out the bootstrap snapshot, which a node makes for itself when it is formatted."""
    return tuple(s for s in snapshots if s.id.offset > 0)


def _epoch_at(snapshots: tuple[SnapshotInfo, ...], log_start: int) -> int:
    """Give the epoch of the last record before the log."""
    return next((s.id.epoch for s in snapshots if s.id.offset == log_start), 0)
