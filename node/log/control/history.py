"""The history of voters and kraft.version in a log, by offset.

The newest entry counts whether committed or not, and goes when the log is truncated below it. What
a snapshot says is filed at the last offset it covers: -1 for the bootstrap snapshot.
Source: Kafka's KRaftControlRecordStateMachine, TreeMapLogHistory; KIP-853.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from node.core.messages import Batch, ControlRecord, KRaftVersion, Voters
from node.core.types import VoterSet

T = TypeVar("T")


class ControlHistory:
    """Entries (offset, what is in force from there), ascending."""

    def __init__(self) -> None:
        self._voters: list[tuple[int, VoterSet]] = []
        self._kraft_versions: list[tuple[int, int]] = []

    @property
    def voters(self) -> tuple[tuple[int, VoterSet], ...]:
        """The voter sets."""
        return tuple(self._voters)

    @property
    def kraft_versions(self) -> tuple[tuple[int, int], ...]:
        """The levels of kraft.version."""
        return tuple(self._kraft_versions)

    def at(self, offset: int) -> tuple[int, VoterSet | None]:
        """kraft.version (0 when never set) and voters in force at ``offset``, inclusive."""
        return _at(self._kraft_versions, offset) or 0, _at(self._voters, offset)

    def note(self, batch: Batch) -> None:
        """Take in the control records of a batch at the end of the log."""
        for offset, record in enumerate(batch.controls, batch.base_offset):
            self._note(offset, record)

    def begin_with(self, end_offset: int, controls: Iterable[ControlRecord]) -> None:
        """Forget all and begin with what a snapshot of that end offset says."""
        self._voters, self._kraft_versions = [], []
        for record in controls:
            self._note(end_offset - 1, record)

    def truncate_from_end(self, end_offset: int) -> None:
        """Drop what lies at or above the new log end."""
        self._voters = [entry for entry in self._voters if entry[0] < end_offset]
        self._kraft_versions = [e for e in self._kraft_versions if e[0] < end_offset]

    def truncate_from_start(self, start_offset: int) -> None:
        """Drop what is not in force any more just below the new log start."""
        self._voters = _from(self._voters, start_offset - 1)
        self._kraft_versions = _from(self._kraft_versions, start_offset - 1)

    def _note(self, offset: int, record: ControlRecord) -> None:
        if isinstance(record, KRaftVersion):
            self._kraft_versions.append((offset, record.level))
        elif isinstance(record, Voters):
            self._voters.append((offset, record.voters))


def _at(entries: list[tuple[int, T]], offset: int) -> T | None:
    for at, value in reversed(entries):
        if at <= offset:
            return value
    return None


def _from(entries: list[tuple[int, T]], offset: int) -> list[tuple[int, T]]:
    """The last entry at or below ``offset``, and all after it."""
    first = max((i for i, (at, _) in enumerate(entries) if at <= offset), default=0)
    return entries[first:]
