"""Folders of this machine that stand for a store in object storage while a command works.

::

    ~/.cache/krucible/stores/<bucket>-<digest>/<start>-<pid>/
        .home   the name of the store
        .lock   locked for as long as a process of ours works here

A command that is killed leaves its folder behind with what was not stored yet. The lock is the
kernel's, so whoever comes next knows that nobody works there any more, stores what is left and
removes the folder: the next command with that store, or ``krucible heal``.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from harness.store.home import MARK, home_of
from harness.store.remote.address import Address

CACHE: Final = Path(".cache") / "krucible" / "stores"  # in the home folder
LOCK: Final = ".lock"
DYING_S: Final = 60.0  # what a killed command has begun may go on for so long
PERIOD_S: Final = 0.1


class Copy:
    """A folder for a store, and its lock: held until ``close``, also by forked children."""

    def __init__(self, root: Path, lock: IO[bytes]) -> None:
        self.root = root
        self._lock = lock

    @classmethod
    def made(cls, address: Address) -> Copy:
        """Make an empty one."""
        folder = _folder(address)
        name = f"{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}-{os.urandom(3).hex()}"
        draft, root = folder / f".{name}", folder / name
        draft.mkdir(parents=True)
        lock = (draft / LOCK).open("wb")
        fcntl.flock(lock, fcntl.LOCK_SH)
        lock.write(f"{os.getpid()}\n".encode())
        lock.flush()
        (draft / MARK).write_text(f"{address}\n", encoding="utf-8")
        draft.rename(root)  # from now on others look at it
        return cls(root, lock)

    def close(self, *, empty: bool) -> None:
        """Let go of it; one whose content is stored is removed."""
        if empty:
            shutil.rmtree(self.root)
        self._lock.close()


def joined(root: Path) -> IO[bytes] | None:
    """Hold a copy that another process has made, as long as the file is open; None for no copy."""
    if home_of(root) is None:
        return None
    lock = (root / LOCK).open("rb")
    fcntl.flock(lock, fcntl.LOCK_SH)
    return lock


def left_behind(address: Address | None = None) -> Iterator[Copy]:
    """Give the copies at which nobody works any more; of one store, or of all.

    Waits for the processes of a command that was killed, which end with it, for a minute at most.
    """
    base = Path.home() / CACHE
    folders = sorted(base.glob("*")) if address is None else [_folder(address)]
    for folder in folders:
        for root in sorted(folder.glob("[!.]*")):
            found = _taken(root)
            if found is not None:
                yield found


def has_copies() -> bool:
    """Tell whether this machine has used a store in object storage, and something may be left."""
    return any((Path.home() / CACHE).glob("*/*"))


def _taken(root: Path) -> Copy | None:
    try:
        lock = (root / LOCK).open("rb+")
    except OSError:  # whoever made it has not got so far, or has just removed it
        return None
    end_s = time.monotonic() + DYING_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not _is_dying(lock) or time.monotonic() > end_s:
                lock.close()
                return None
            time.sleep(PERIOD_S)
        else:
            if home_of(root) is None:  # whoever worked here has removed it just now
                lock.close()
                return None
            return Copy(root, lock)


def _is_dying(lock: IO[bytes]) -> bool:
    """Tell whether the process that made the copy is gone, and others of it are not yet."""
    lock.seek(0)
    maker = lock.read().strip()
    return bool(maker) and not Path("/proc", maker.decode()).exists()


def _folder(address: Address) -> Path:
    digest = hashlib.sha256(str(address).encode()).hexdigest()[:8]
    return Path.home() / CACHE / f"{address.bucket}-{digest}"
