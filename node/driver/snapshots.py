"""The snapshots of a node: its own when due, the leader's when it is behind, old ones away.

Everything goes through the pump, so the core hears of a change on the disk before anything else.
A snapshot of the node's own is written in slices from a copy of the image, which shares all that
does not change meanwhile.

Source: Kafka's SnapshotGenerator and KafkaRaftClient.maybeClean; KIP-630.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from node.config import NodeConfig
from node.core import inputs
from node.core.own_log import voter_keys
from node.core.types import OffsetAndEpoch, SnapshotInfo, VoterSet
from node.driver.pump import NodeFatalError, Pump
from node.driver.state_machine import StateMachine
from node.loading.committed import Provenance
from node.loading.snapshot_policy import SnapshotPolicy
from node.log.cleaning import Retention
from node.log.file_log import FileLog
from node.log.snapshots import (
    PartialSnapshot,
    SnapshotError,
    SnapshotReader,
    SnapshotWriter,
)
from node.metadata.records import MetadataRecord, decode_record
from node.metadata.snapshot import image_values

log = logging.getLogger("krucible.node")

RECORDS_PER_SLICE = 1_000


@dataclass(slots=True)
class _Generation:
    """A snapshot of this node's own that is being written."""

    id: OffsetAndEpoch
    writer: SnapshotWriter
    values: Iterator[bytes]


class Snapshots:
    """Makes, receives and cleans the snapshots of a node; see the module's text."""

    def __init__(
        self,
        config: NodeConfig,
        pump: Pump,
        machine: StateMachine,
        policy: SnapshotPolicy,
        file_log: FileLog,
    ) -> None:
        retention = config.retention
        self.policy = policy
        self._pump = pump
        self._machine = machine
        self._log = file_log
        self._clean_interval_ms = config.timers.log_clean_interval_ms
        self._store = self._log.snapshots
        self._retention = Retention(retention.retention_bytes, retention.retention_ms)
        self._partial: PartialSnapshot | None = None
        self._generation: _Generation | None = None
        self._due_timer: asyncio.TimerHandle | None = None

    # ------------------------------------------------------------------ life

    def schedule(self) -> None:
        """Look now and then for what need not be kept; call once."""
        self._pump.every("CleanLog", self._clean_interval_ms, self.clean)

    def restore(self) -> None:
        """Begin with the newest snapshot, the image that an earlier process has left."""
        latest = self._store.latest
        if latest is not None:
            self._load(latest)

    def close(self) -> None:
        """Leave no half-written files. Idempotent."""
        if self._due_timer is not None:
            self._due_timer.cancel()
        if self._generation is not None:
            self._generation.writer.abort()
            self._generation = None
        if self._partial is not None:
            self._partial.discard()
            self._partial = None

    def _load(self, snapshot: OffsetAndEpoch) -> tuple[VoterSet | None, int]:
        """Begin to fold a snapshot into the image; returns its voters and kraft.version."""
        reader = self._store.open(snapshot)
        timestamp_ms = reader.last_contained_log_timestamp_ms
        self._machine.restore(
            _records(reader), Provenance(snapshot.offset - 1, snapshot.epoch, timestamp_ms)
        )
        return reader.voters, reader.kraft_version

    # ------------------------------------------------------------------ the leader's

    def open(self, snapshot: OffsetAndEpoch) -> None:
        """Begin to receive a snapshot."""
        if self._partial is not None:
            self._partial.discard()
        self._partial = self._store.open_partial(snapshot)

    def write(self, snapshot: OffsetAndEpoch, position: int, data: bytes) -> None:
        """Add received bytes."""
        self._receiving(snapshot).write(position, data)

    def discard(self, snapshot: OffsetAndEpoch) -> None:
        """Give up what was received."""
        if self._partial is not None and self._partial.id == snapshot:
            self._partial.discard()
            self._partial = None

    def install(
        self, snapshot: OffsetAndEpoch
    ) -> inputs.SnapshotInstalled | inputs.SnapshotRejected:
        """Put a received snapshot in place, and begin log and image anew after it."""
        partial = self._receiving(snapshot)
        self._partial = None
        try:
            info = partial.install()
        except SnapshotError as error:
            partial.discard()
            return inputs.SnapshotRejected(snapshot, str(error))
        self._log.truncate_fully_to(snapshot)
        voters, kraft_version = self._load(snapshot)
        log.info("installed the snapshot %d-%d, %d bytes", *snapshot, info.size)
        sha = self._store.sha256(snapshot)
        return inputs.SnapshotInstalled(info, voters, kraft_version, sha)

    def _receiving(self, snapshot: OffsetAndEpoch) -> PartialSnapshot:
        if self._partial is None or self._partial.id != snapshot:
            raise NodeFatalError(f"snapshot {snapshot} is not being received")
        return self._partial

    # ------------------------------------------------------------------ its own

    def applied(self) -> None:
        """Begin a snapshot if one is due, now that more of the log was applied."""
        self._begin_if_due()

    def _begin_if_due(self) -> None:
        if self._machine.is_behind:
            return
        why = self.policy.due(self._pump.now_ms())
        if why is not None:
            self._begin(why)
        elif self._due_timer is None:
            self._arm()

    def _arm(self) -> None:
        """Wake up when a snapshot becomes due by time alone."""
        deadline_ms = self.policy.next_deadline_ms()
        if deadline_ms is not None:
            wait_s = max(1, deadline_ms - self._pump.now_ms()) / 1000
            loop = asyncio.get_running_loop()
            self._due_timer = loop.call_later(wait_s, self._pump.enqueue, self._on_due)

    def _on_due(self) -> None:
        self._due_timer = None
        self._begin_if_due()

    def _begin(self, why: str) -> None:
        machine = self._machine
        snapshot = self._next_id()
        writer = self._log.create_snapshot(snapshot, high_watermark=machine.committed)
        if writer is None:
            self.policy.loaded()  # there is one that holds as much
            return
        self.policy.started()
        log.info("writing the snapshot %d-%d: %s", *snapshot, why)
        self._generation = _Generation(snapshot, writer, image_values(machine.image.copy()))
        self._write_slice()

    def _next_id(self) -> OffsetAndEpoch:
        """Name a snapshot of the present image: by the first offset that is not in it."""
        return OffsetAndEpoch(self._machine.applied, self._machine.epoch)

    def _write_slice(self) -> None:
        generation = self._generation
        if generation is None:
            return
        values = list(islice(generation.values, RECORDS_PER_SLICE))
        generation.writer.append(values)
        if len(values) == RECORDS_PER_SLICE:
            self._pump.soon(self._write_slice)
            return
        self._generation = None
        info = generation.writer.freeze()
        self.policy.finished()
        self._trace("freeze", info)
        log.info("wrote the snapshot %d-%d, %d bytes", *info.id, info.size)
        self._tell()

    # ------------------------------------------------------------------ old ones

    def clean(self) -> None:
        """Delete snapshots, and the log that newer ones cover, beyond what is to be kept."""
        before, now_ms = self._store.infos, self._pump.wall_ms()
        held = self._log.size + sum(info.size for info in before)
        ages_ms = [now_ms - self._store.timestamp_ms(info.id) for info in before]
        cleaning = self._log.clean(now_ms=now_ms, retention=self._retention)
        if cleaning is None:
            return
        left = self._store.infos
        for info, age_ms in zip(before, ages_ms, strict=True):
            if info not in left:
                old = {"id": list(info.id), "size": info.size, "age_ms": age_ms}
                self._pump.trace("snap", op="delete", held=held, **old)
                held -= info.size
        log.info("the log begins at %d now: %s", cleaning.start.offset, cleaning.reasons[-1])
        self._tell()

    def _trace(self, op: str, info: SnapshotInfo) -> None:
        with self._store.open(info.id) as reader:
            voters, kraft_version = reader.voters, reader.kraft_version
        self._pump.trace(
            "snap",
            op=op,
            id=list(info.id),
            size=info.size,
            sha=self._store.sha256(info.id),
            voters=None if voters is None else voter_keys(voters),
            kv=kraft_version,
        )

    def _tell(self) -> None:
        self._pump.do_next(inputs.SnapshotsChanged(self._store.infos, self._log.start_offset))


def _records(reader: SnapshotReader) -> Iterator[MetadataRecord]:
    with reader:
        for value in reader.values():
            yield decode_record(value)
