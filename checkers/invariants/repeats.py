"""Judges by the committed log that a controller which is registered registers no more: L12.

It registers once for each of its processes. An answer that is lost may have it ask again before it
has read of its registration, which a few of these allow for. Source: KIP-919.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from checkers.invariants.liveness import L12
from harness.verdict import Anomaly
from node.metadata import schemas as s

REPEATS_MAX: Final = 5  # of one registration; in 30 healthy runs of our node none came twice


class Repeats:
    """Counts the equal registrations of each controller's present process."""

    def __init__(self) -> None:
        self.checked = 0
        # by controller: the last one, and how often it has come like that
        self._of: dict[int, tuple[s.RegisterControllerRecord, int]] = {}

    def record(self, record: s.MetadataRecord, offset: int) -> Iterator[Anomaly]:
        """Take in a record."""
        if not isinstance(record, s.RegisterControllerRecord):
            return
        self.checked += 1
        before, times = self._of.get(record.controller_id, (None, 0))
        times = times + 1 if before == record else 1
        self._of[record.controller_id] = record, times
        if times == REPEATS_MAX + 1:
            yield Anomaly(
                L12.name,
                f"controller {record.controller_id} has registered {times} times in one and the"
                f" same process ({record.incarnation_id}), the last time at offset {offset}",
            )
