"""Tells a running node what is wrong with its disk, and counts what the node met of it.

Of a real disk both lie in a folder beside it: ``trouble.json``, replaced when something changes,
and ``counts``, which outlives the node. So the node needs no thread and no socket for it, and a
process that stands still is in nobody's way.
"""

from __future__ import annotations

import errno
import mmap
import os
import struct
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

FAILING: Final[Mapping[str, frozenset[str]]] = {
    "read": frozenset({"read"}),
    "write": frozenset({"append", "pwrite", "truncate"}),
    "fsync": frozenset({"fsync", "fsync_dir"}),
}
PROBE_FILE: Final = Path("/probe")  # on a simulated disk, for whoever looks at it
_TROUBLE, _COUNTS = "trouble.json", "counts"
_LAYOUT: Final = struct.Struct("<QQ")  # operations refused, fsyncs that were slow


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a disk; the defaults are a disk that is well.

    ``power_in`` changes from now (1 = the next) the power fails; of an append that it fails in, the
    share ``torn`` reaches the disk. ``serial`` tells one such order from the next.
    """

    full: bool = False
    failing: frozenset[str] = frozenset()  # operations
    fsync_ms: int = 0  # how much longer each takes
    power_in: int = 0
    torn: float = 0.0
    serial: int = 0


def refusal(operation: str, *, full: bool, failing: frozenset[str]) -> int | None:
    """The errno that an operation meets on such a disk, if it meets one."""
    if full and operation == "append":
        return errno.ENOSPC
    return errno.EIO if operation in failing else None


def order(folder: Path, trouble: Trouble) -> None:
    """Give the node whose folder this is, and its next processes, a disk with such troubles."""
    draft = folder / f"{_TROUBLE}.tmp"
    draft.write_bytes(msgspec.json.encode(trouble))
    draft.replace(folder / _TROUBLE)


class Troubles:
    """The trouble of one disk as it changes, and the counts of what came of it; thread-safe."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / _TROUBLE
        self._seen: tuple[int, int] | None = None
        self._now = Trouble()
        self._lock = threading.Lock()
        self._counts = _counters(folder / _COUNTS)

    def now(self) -> Trouble:
        """Give what holds now; looks at the file's times, and into it when they have changed."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return Trouble()
        mark = found.st_ino, found.st_mtime_ns
        if mark != self._seen:
            self._now = msgspec.json.decode(self._path.read_bytes(), type=Trouble)
            self._seen = mark
        return self._now

    def refuse(self, operation: str, path: Path) -> None:
        """Raise the OSError that an operation meets here, if it meets one."""
        now = self.now()
        number = refusal(operation, full=now.full, failing=now.failing)
        if number is not None:
            self._count(refused=1)
            raise OSError(number, os.strerror(number), str(path))

    def delay_s(self) -> float:
        """Give the time by which an fsync is to be longer now, in seconds, and count it."""
        delay_ms = self.now().fsync_ms
        if delay_ms:
            self._count(slowed=1)
        return delay_ms / 1e3

    def counts(self) -> tuple[int, int]:
        """(operations refused, fsyncs slowed) since the folder was made, by whoever it was."""
        refused, slowed = _LAYOUT.unpack(self._counts[:])
        return refused, slowed

    def _count(self, *, refused: int = 0, slowed: int = 0) -> None:
        with self._lock:
            before = _LAYOUT.unpack(self._counts[:])
            self._counts[:] = _LAYOUT.pack(before[0] + refused, before[1] + slowed)


class VirtualTroubles:
    """Keeps what is wrong with a simulated disk; ``refused``, ``slowed`` count what came of it."""

    def __init__(self) -> None:
        self.full = False
        self.failing: frozenset[str] = frozenset()
        self.fsync_ns = 0
        self.refused = 0
        self.slowed = 0

    @property
    def is_none(self) -> bool:
        """Tell whether nothing is wrong with the disk."""
        return not (self.full or self.failing or self.fsync_ns)

    def refuse(self, operation: str, path: Path) -> None:
        """Raise the OSError that an operation meets here, if it meets one."""
        number = refusal(operation, full=self.full, failing=self.failing)
        if number is not None:
            self.refused += 1
            raise OSError(number, os.strerror(number), str(path))


def _counters(path: Path) -> mmap.mmap:
    """Shared memory of a file, so that a count is there whatever becomes of who counted."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        if os.fstat(fd).st_size < _LAYOUT.size:
            os.ftruncate(fd, _LAYOUT.size)
        return mmap.mmap(fd, _LAYOUT.size)
    finally:
        os.close(fd)
