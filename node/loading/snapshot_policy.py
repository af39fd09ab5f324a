"""Decides when a node writes a snapshot of its image, which a restart begins with.

Every node makes its own, brokers too: after enough committed bytes, or after enough time if
anything was committed in it. Pure: it is told what happened and asked whether a snapshot is due.
Nothing but a snapshot, made or loaded, resets what is counted: a change of leader must not, or a
quorum that elects often enough never makes one (KAFKA-14300). Source: Kafka's SnapshotGenerator;
KIP-630, KIP-876.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

BETWEEN_SNAPSHOTS_BYTES: Final = 20 * 1024 * 1024
SNAPSHOT_INTERVAL_MS: Final = 3_600_000


@dataclass(slots=True)
class _Since:
    """The amount that was committed since the newest snapshot."""

    bytes: int = 0
    at_ms: int | None = None  # when the first of it came; None = nothing did


class SnapshotPolicy:
    """Says when a snapshot is due, and why.

    Args:
        max_bytes: ``metadata.log.max.record.bytes.between.snapshots``.
        max_interval_ms: ``metadata.log.max.snapshot.interval.ms``; 0 = never for the time alone.
    """

    def __init__(
        self,
        *,
        max_bytes: int = BETWEEN_SNAPSHOTS_BYTES,
        max_interval_ms: int = SNAPSHOT_INTERVAL_MS,
    ) -> None:
        if max_bytes <= 0 or max_interval_ms < 0:
            raise ValueError(
                f"max_bytes={max_bytes}, max_interval_ms={max_interval_ms}: want > 0, >= 0"
            )
        self._max_bytes = max_bytes
        self._max_interval_ms = max_interval_ms
        self._since = _Since()
        self._before: _Since | None = None  # the counters as the one in progress began
        self._in_transaction = False
        self._disabled: str | None = None

    @property
    def bytes_since_snapshot(self) -> int:
        """Committed bytes since the newest snapshot, or the one in progress, began."""
        return self._since.bytes

    @property
    def in_progress(self) -> bool:
        """Tell whether a snapshot is being written."""
        return self._before is not None

    @property
    def disabled(self) -> str | None:
        """The reason why no snapshot is made any more; None = they are."""
        return self._disabled

    def committed(self, size: int, now_ms: int, *, in_transaction: bool = False) -> None:
        """Take note of ``size`` committed and applied bytes.

        ``in_transaction`` says whether a metadata transaction is open after them: an image cut
        there would hold half of it.
        """
        if self._since.at_ms is None:
            self._since.at_ms = now_ms
        self._since.bytes += size
        self._in_transaction = in_transaction

    def due(self, now_ms: int) -> str | None:
        """Give the reason to make a snapshot of the published image now; None = there is none."""
        since = self._since
        if self._disabled or self.in_progress or self._in_transaction or since.at_ms is None:
            return None
        if since.bytes >= self._max_bytes:
            return f"{since.bytes} bytes since the last snapshot"
        waited_ms = now_ms - since.at_ms
        if self._max_interval_ms and waited_ms >= self._max_interval_ms:
            return f"{waited_ms} ms since the first record after the last snapshot"
        return None

    def next_deadline_ms(self) -> int | None:
        """Give the time when a snapshot becomes due by time alone; None = it does not."""
        if self._disabled or self.in_progress or self._in_transaction:
            return None
        if not self._max_interval_ms or self._since.at_ms is None:
            return None
        return self._since.at_ms + self._max_interval_ms

    def started(self) -> None:
        """A snapshot is being written; what is committed from now on is not in it."""
        if self.in_progress:
            raise ValueError("a snapshot is in progress already")
        self._before, self._since = self._since, _Since()

    def finished(self) -> None:
        """The snapshot is on disk, or was found to be there already."""
        self._before = None

    def failed(self) -> None:
        """The snapshot came to nothing: what it was to cover counts again."""
        before, self._before = self._before, None
        if before is not None:
            self._since.bytes += before.bytes
            self._since.at_ms = before.at_ms

    def loaded(self) -> None:
        """A snapshot was loaded: the log before it is of no concern any more.

        One in progress goes on, but if it fails it has nothing to give back.
        """
        self._since = _Since()
        self._in_transaction = False
        if self._before is not None:
            self._before = _Since()

    def fault(self, why: str) -> None:
        """The image may be wrong: never write it to disk. The first reason stays."""
        self._disabled = self._disabled or why
