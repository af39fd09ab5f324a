"""A map of uncommitted changes over committed ones, with undo and commit per write.

Nothing is copied: a read looks at the few pending entries first. All pending entries go in
O(pending), so losing leadership costs nothing that grows with the state.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, Generic, TypeVar

from node.controller.operations import PendingWrite

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


# per write what it has changed: (map, key, the entry before), in order
Journal = dict[PendingWrite, list[tuple[Any, Any, Any]]]


class OverlayMap(Generic[K, V]):
    """Pending values by key, None = removed, each with the write that put it last."""

    def __init__(self, journal: Journal, committed: Callable[[K], V | None]) -> None:
        self._journal = journal
        self._committed = committed
        self._entries: dict[K, tuple[PendingWrite, V | None]] = {}

    def get(self, key: K) -> V | None:
        """The value with all pending writes done; None when there is none."""
        entry = self._entries.get(key)
        return self._committed(key) if entry is None else entry[1]

    def put(self, write: PendingWrite, key: K, value: V | None) -> None:
        """Set the value, or remove it with None."""
        old = self._entries.get(key)
        self._journal.setdefault(write, []).append((self, key, old))
        self._set(key, (write, value))

    def pending(self, key: K) -> bool:
        """Tell whether an uncommitted change replaces the committed value of that key."""
        return key in self._entries

    def items(self) -> Iterator[tuple[K, V | None]]:
        """The pending entries."""
        return ((key, value) for key, (_, value) in self._entries.items())

    def amend(self, key: K, value: V) -> None:
        """Say more exactly what the newest write of a key has put."""
        write, _ = self._entries[key]
        self._set(key, (write, value))

    def __len__(self) -> int:
        return len(self._entries)

    # ------------------------------------------------------------------ for the overlay

    def settle(self, write: PendingWrite, key: K) -> None:
        """The committed state has this write: forget its entry, unless a later one put it."""
        entry = self._entries.get(key)
        if entry is not None and entry[0] is write:
            self._set(key, None)

    def restore(self, key: K, entry: tuple[PendingWrite, V | None] | None) -> None:
        """Put back the entry that was there before."""
        self._set(key, entry)

    def clear(self) -> None:
        """Forget all that is pending."""
        self._entries.clear()

    def _set(self, key: K, entry: tuple[PendingWrite, V | None] | None) -> None:
        if entry is None:
            self._entries.pop(key, None)
        else:
            self._entries[key] = entry
