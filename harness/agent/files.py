"""The files of a node on an ssh host are sent as they grow, as archives, and removed at the end."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import tarfile
import time
from collections.abc import Callable, Container
from pathlib import Path
from typing import Any

from harness.agent.firewall import Refused

MARK_FILE = ".krucible"
_PREFIX = "krucible-"
_GONE_TIMEOUT_S = 5.0
_CHUNK = 96 * 1024


def remove_folder(folder: str, mark: str) -> bool:
    """Remove the run's folder if it is ours; whether it was there.

    Another supervisor may be about to do the same: what vanishes meanwhile is no problem.
    """
    path, found = Path(folder), False
    deadline = time.monotonic() + _GONE_TIMEOUT_S
    while path.is_dir():
        found = True
        with contextlib.suppress(FileNotFoundError):
            note = path / MARK_FILE
            said = note.read_text() if note.is_file() else None
            if not path.name.startswith(_PREFIX) or said not in (None, mark):
                raise Refused(
                    f"{folder} does not belong to run {mark} and was not touched; look at it"
                )
            if said is not None or not any(path.iterdir()):
                shutil.rmtree(path)
                continue
        if time.monotonic() > deadline:
            raise Refused(f"{folder} does not name its run and was not touched; look at it")
        time.sleep(0.02)
    return found


class Tail:
    """A file that grows."""

    def __init__(self, path: Path) -> None:
        self._path, self._inode, self._at = path, 0, 0

    def read(self) -> bytes:
        """Tell what is new, up to a chunk."""
        try:
            with self._path.open("rb", buffering=0) as file:
                now = os.fstat(file.fileno())
                if now.st_ino != self._inode or now.st_size < self._at:
                    self._inode, self._at = now.st_ino, 0
                file.seek(self._at)
                data = file.read(_CHUNK)
        except FileNotFoundError:
            return b""
        self._at += len(data)
        return data


def pack(folder: Path, but: Container[str], send: Callable[[bytes], None]) -> None:
    """Send the plain files below a folder as an archive, without the names ``but``.

    A file of two names, as a fault disk has them, is sent twice: there are no links in it.
    """
    with tarfile.open(fileobj=Parts(send), mode="w|gz", dereference=True) as tar:
        for path in sorted(folder.rglob("*")):
            name = str(path.relative_to(folder))
            if path.is_file() and not path.is_symlink() and name not in but:
                tar.add(path, name)


class Parts(io.RawIOBase):
    """A file that is sent as it is written."""

    def __init__(self, send: Any) -> None:
        self._send = send

    def writable(self) -> bool:
        """Say that the file can be written; it exists for nothing else."""
        return True

    def write(self, data: Any) -> int:
        """Send it."""
        self._send(bytes(data))
        return len(data)


def add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    """Add a file of that name and content to an archive."""
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    tar.addfile(entry, io.BytesIO(data))
