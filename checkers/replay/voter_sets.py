"""Voter sets as the trace tells of them: keys of (node id, directory id), and those of one log.

Before any set of the log was traced a replica's voters are known by id only; such a key fits every
directory. Source: KIP-853.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

NEVER = -1  # the offset of a set that is in force from the start


class VoterKey(NamedTuple):
    """A voter as a quorum counts it; ``directory`` None = any, or not known."""

    node: int
    directory: str | None

    def __str__(self) -> str:
        return f"n{self.node}"

    def fits(self, other: VoterKey) -> bool:
        """Tell whether both may mean the same replica."""
        unknown = self.directory is None or other.directory is None
        return self.node == other.node and (unknown or self.directory == other.directory)


VoterKeys = tuple[VoterKey, ...]


def keys_of(value: object) -> VoterKeys | None:
    """The keys in a list of ids or of [id, directory id]; None when it is no such list."""
    if not isinstance(value, list | tuple):
        return None
    keys: list[VoterKey] = []
    for item in value:
        key = key_of(item)
        if key is None:
            return None
        keys.append(key)
    return tuple(keys)


def key_of(item: object) -> VoterKey | None:
    """The key that an id or an [id, directory id] is; None when it is neither."""
    if isinstance(item, int):
        return VoterKey(item, None)
    if not isinstance(item, list | tuple) or len(item) < 2:  # noqa: PLR2004 - id and directory
        return None
    node, directory = item[:2]
    known = directory is None or isinstance(directory, str)
    return VoterKey(node, directory) if isinstance(node, int) and known else None


def holds(keys: Collection[VoterKey], key: VoterKey) -> bool:
    """Tell whether one of the keys fits."""
    node, directory = key
    for each, known in keys:  # a generator of ``fits`` costs thrice as much, for every fetch
        if each == node and (known is None or directory is None or known == directory):
            return True
    return False


def difference(one: VoterKeys, other: VoterKeys) -> list[VoterKey]:
    """The keys of either set that fit none of the other, in order."""
    missing = [key for key in one if not holds(other, key)]
    return sorted([*missing, *[key for key in other if not holds(one, key)]], key=str)


def told(keys: VoterKeys) -> str:
    """A set in a sentence."""
    return "[" + ", ".join(map(str, sorted(keys, key=str))) + "]"


class VoterHistory:
    """The sets of one log by the offsets from which on they hold; the newest is in force."""

    def __init__(self) -> None:
        self._entries: list[tuple[int, VoterKeys]] = []
        self._begun_below = NEVER  # where the set of a start stands at the latest
        self._cut = False  # perhaps away
        self._nodes: tuple[VoterKeys, frozenset[int]] = ((), frozenset())

    @property
    def nodes(self) -> frozenset[int]:
        """The node ids of the newest set."""
        in_force = self.in_force
        if in_force is not self._nodes[0]:
            self._nodes = in_force, frozenset(key.node for key in in_force)
        return self._nodes[1]

    @property
    def in_force(self) -> VoterKeys:
        """The newest set; empty when none is known."""
        return self._entries[-1][1] if self._entries else ()

    @property
    def offset(self) -> int:
        """Tell where the newest set stands."""
        return self._entries[-1][0] if self._entries else NEVER

    def at(self, end: int) -> VoterKeys | None:
        """The set in force at the last offset below ``end``; None when the trace does not tell."""
        entry = self.entry_at(end)
        return None if entry is None else entry[1]

    def entry_at(self, end: int) -> tuple[int, VoterKeys] | None:
        """Give the voters at that end, with the offset from which on they hold."""
        return next((entry for entry in reversed(self._entries) if entry[0] < end), None)

    @property
    def is_sure(self) -> bool:
        """Tell whether the newest set is in the log.

        One that a start told stands somewhere in a log that nobody saw grow, as after damage: a
        truncation of that log may have taken it away, and which one is in force then is not known.
        """
        return not (self._cut and self.offset == NEVER)

    def begin(self, keys: VoterKeys, end: int) -> None:
        """Tell what the start of a log that ends at ``end`` says, which knows no directories.

        It stands unless it is known better.
        """
        if difference(self.in_force, keys) or not self._entries:
            self._entries = [(NEVER, keys)]
            self._begun_below, self._cut = end, False

    def add(self, offset: int | None, keys: VoterKeys) -> None:
        """A set is in force from that offset on; what stood there or above is gone."""
        at = NEVER if offset is None else offset
        self.truncate(at)
        self._entries.append((at, keys))
        if at == NEVER:
            self._begun_below, self._cut = NEVER, False

    def truncate(self, to: int) -> None:
        """The log ends at ``to``."""
        self._cut = self._cut or to < self._begun_below
        while self._entries and self._entries[-1][0] >= to:
            self._entries.pop()
