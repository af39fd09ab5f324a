"""``VoterHistory`` knows the voter set in force: the newest one in the log, committed or not.

A replica uses a voter set as soon as it is in its log, and falls back to the one before when the
record is truncated. Without any in the log the static set of the configuration holds.

Source: KIP-853 "Voters record"; Kafka 4.1 ``KRaftControlRecordStateMachine``, ``VoterSetHistory``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from node.core.messages import ControlRecord, KRaftVersion, LeaderChange, Voters
from node.core.types import VoterSet

T = TypeVar("T")


class _History(Generic[T]):
    """A history keeps values by the offset from which on they hold, ascending."""

    def __init__(self, entries: Iterable[tuple[int, T]]) -> None:
        self._entries: list[tuple[int, T]] = []
        for offset, value in entries:
            self.add(offset, value)

    @property
    def last(self) -> tuple[int, T] | None:
        return self._entries[-1] if self._entries else None

    def add(self, offset: int, value: T) -> None:
        last = self.last
        if last is not None and offset <= last[0]:
            raise ValueError(
                f"{value!r} at offset {offset} does not follow the one at {last[0]}: "
                "hand in what the log holds, oldest first"
            )
        self._entries.append((offset, value))

    def truncate_from_end(self, to: int) -> None:
        while self._entries and self._entries[-1][0] >= to:
            self._entries.pop()

    def truncate_from_start(self, start: int) -> None:
        """Forget what is superseded at ``start`` already."""
        while len(self._entries) > 1 and self._entries[1][0] < start:
            del self._entries[0]


class VoterHistory:
    """A voter history keeps the voter sets and ``kraft.version`` levels of one log, by offset.

    What a snapshot says counts at the last offset it covers; the bootstrap snapshot at -1.
    """

    def __init__(
        self,
        static: VoterSet,
        voters: Iterable[tuple[int, VoterSet]] = (),
        kraft_versions: Iterable[tuple[int, int]] = (),
    ) -> None:
        """Take over what the log holds; raises ValueError when it is not in order."""
        self._static = static
        self._voters = _History(voters)
        self._versions = _History(kraft_versions)

    @property
    def voters(self) -> VoterSet:
        """Give the set in force."""
        last = self._voters.last
        return self._static if last is None else last[1]

    @property
    def offset(self) -> int | None:
        """Give the offset that the set in force comes from, None for the static one."""
        last = self._voters.last
        return None if last is None else last[0]

    @property
    def kraft_version(self) -> int:
        """Give the level in force: 0 for static voters, 1 for voters in the log."""
        last = self._versions.last
        return 0 if last is None else last[1]

    def add(self, offset: int, record: ControlRecord) -> None:
        """Take a control record that is now in the log at ``offset``."""
        match record:
            case Voters(voters):
                self._voters.add(offset, voters)
            case KRaftVersion(level):
                self._versions.add(offset, level)
            case LeaderChange():
                pass

    def truncate_from_end(self, to: int) -> None:
        """Drop the records at and above ``to``: what was in force before is so again."""
        self._voters.truncate_from_end(to)
        self._versions.truncate_from_end(to)

    def truncate_from_start(self, start: int) -> None:
        """Begin the log at ``start``; what is in force there stays known."""
        self._voters.truncate_from_start(start)
        self._versions.truncate_from_start(start)

    def reset(self, end: int, voters: VoterSet | None, kraft_version: int) -> None:
        """Begin the log anew after a snapshot that ends at ``end`` and says this."""
        self._voters = _History([] if voters is None else [(end - 1, voters)])
        self._versions = _History([(end - 1, kraft_version)])
