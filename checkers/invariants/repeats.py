"""Judges by the committed log that a controller which is registered registers no more: L12.

It registers once for each of its processes. An answer that is lost may have it ask again before it
has read of its registration, which a few of these allow for. Source: KIP-919.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from uuid import UUID

from checkers.invariants.liveness import L12
from harness.verdict import Anomaly
from node.metadata import schemas as s

REPEATS_MAX: Final = 5  # of one registration; in 30 healthy runs of our node none came twice


class Repeats:
    """Counts the registrations of each controller's present process."""

    def __init__(self) -> None:
        self.checked = 0
        self._of: dict[int, tuple[UUID | None, int]] = {}  # by controller: whose, and how many

    def record(self, record: s.MetadataRecord, offset: int) -> Iterator[Anomaly]:
        """Take in a record."""
        if not isinstance(record, s.RegisterControllerRecord):
            return
        self.checked += 1
        process, times = self._of.get(record.controller_id, (None, 0))
        times = times + 1 if process == record.incarnation_id else 1
        self._of[record.controller_id] = record.incarnation_id, times
        if times == REPEATS_MAX + 1:
            yield Anomaly(
                L12.name,
                f"controller {record.controller_id} has registered {times} times in one and the"
                f" same process ({record.incarnation_id}), the last time at offset {offset}",
            )
