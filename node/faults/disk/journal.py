"""Journals how to undo what the kernel still holds of a disk: a power failure would take it.

SIGKILL keeps the page cache, so a kill says nothing about fsync. A node that runs on a fault disk
writes down, before each change, how it is undone, and what an fsync has made durable. After its
death the harness rolls its files back to that.

The journal is JSON lines in a file of its own, in the order of the changes; ``kept`` beside it has
a hard link to each file that an undo may need, named by inode, for names can be lost as well.
It is as long as what is not durable: once all is, it is empty.
"""

from __future__ import annotations

import base64
import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from node.log.memory_disk import Undo

_JOURNAL, _KEPT = "journal", "kept"
Names = dict[Path, int | None]  # what a name stood for before: an inode, or nothing


class DiskJournal:
    """The journal of one disk, in a folder on the same file system; thread-safe.

    ``changes`` are those of each file (by inode) that are not durable, each as it is undone.
    ``names`` are those of directories: creations, renames, removals.
    """

    def __init__(self, folder: Path) -> None:
        """Go on with what an earlier process has left there."""
        self._kept = folder / _KEPT
        self._kept.mkdir(parents=True, exist_ok=True)
        self.changes: dict[int, list[Undo]] = {}
        self.names: list[Names] = []
        self._lock = threading.Lock()
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(folder / _JOURNAL, flags, 0o644)
        self._read((folder / _JOURNAL).read_bytes())

    def changed(self, fd: int, at: int, old: bytes, size: int) -> None:
        """The file, ``size`` bytes long, is about to lose ``old`` at ``at``, or to grow from there.

        What is cut off its end may leave its last zeros out.
        """
        inode = os.fstat(fd).st_ino
        with self._lock:
            self._keep(Path(f"/proc/self/fd/{fd}"), inode)
            self._write(["change", inode, at, base64.b64encode(old).decode(), size])

    def mark(self, fd: int) -> int:
        """Count the changes of the file up to now, for ``synced`` after its fsync."""
        return len(self.changes.get(os.fstat(fd).st_ino, ()))

    def synced(self, fd: int, mark: int) -> None:
        """The first so many changes of the file are durable."""
        if mark:
            with self._lock:
                self._write(["sync", os.fstat(fd).st_ino, mark])
                self._forget()

    def renamed(self, *paths: Path) -> None:
        """These names are about to change in one step."""
        before: dict[str, int | None] = {}
        with self._lock:
            for path in paths:
                inode = path.stat().st_ino if path.exists() else None
                before[str(path)] = inode
                if inode is not None:
                    self._keep(path, inode)
            self._write(["names", before])

    def dir_synced(self, directory: Path) -> None:
        """The names of a directory are durable."""
        if self.names:
            with self._lock:
                self._write(["dir", str(directory)])
                self._forget()

    def kept(self, inode: int) -> Path:
        """A name of a file that is in the journal."""
        return self._kept / str(inode)

    def clear(self) -> None:
        """All is durable as it is now."""
        with self._lock:
            self.changes.clear()
            self.names.clear()
            self._forget()

    def close(self) -> None:
        """Release the journal; what is in it stays."""
        os.close(self._fd)

    # ------------------------------------------------------------------ inside

    def _keep(self, path: Path, inode: int) -> None:
        try:
            # Only with a folder given does it follow links, which those in /proc are.
            os.link(path, self.kept(inode), src_dir_fd=self._fd, follow_symlinks=True)
        except FileExistsError:
            return
        except FileNotFoundError:
            return  # removed while it was open, so nobody will find it again

    def _write(self, line: list[Any]) -> None:
        os.write(self._fd, json.dumps(line).encode() + b"\n")
        self._apply(line)

    def _read(self, data: bytes) -> None:
        whole, newline, _torn = data.rpartition(b"\n")
        os.ftruncate(self._fd, len(whole) + len(newline))  # its change did not come to be
        for line in whole.splitlines():
            self._apply(json.loads(line))

    def _apply(self, line: list[Any]) -> None:
        match line:
            case ["change", int(inode), int(at), str(old), int(size)]:
                self.changes.setdefault(inode, []).append((at, base64.b64decode(old), size))
            case ["sync", int(inode), int(mark)]:
                del self.changes.get(inode, [])[:mark]
                if not self.changes.get(inode):
                    self.changes.pop(inode, None)
            case ["names", dict(before)]:
                self.names.append(_paths(before))
            case ["dir", str(directory)]:
                self.names = [
                    change
                    for change in self.names
                    if all(path.parent != Path(directory) for path in change)
                ]
            case _:
                raise ValueError(f"{self._kept.parent / _JOURNAL} holds {line!r}: not written here")

    def _forget(self) -> None:
        """Drop the files that no undo needs; begin anew when nothing is left to undo."""
        needed = set(self.changes).union(*(c.values() for c in self.names))
        for name in os.listdir(self._kept):  # noqa: PTH208 - a syscall per change matters
            if int(name) not in needed:
                (self._kept / name).unlink()
        if not needed and not self.names:
            os.ftruncate(self._fd, 0)


def _paths(before: Mapping[str, int | None]) -> Names:
    return {Path(path): inode for path, inode in before.items()}
