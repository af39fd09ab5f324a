"""Room that is set aside on the store's disk, so that a full disk leaves some for the report."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from harness.errors import EnvError

SIZE_BYTES = 2 << 20
FULL_BYTES = 64 << 10  # with less than this left, writes of nodes and harness fail
_NAME = ".ballast"


class Ballast:
    """A file of the run's folder that is there for nothing but its room."""

    def __init__(self, folder: Path) -> None:
        """Take the room.

        Raises:
            EnvError: There is none, so that there is no point in a run.
        """
        self._path = folder / _NAME
        try:
            with self._path.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, SIZE_BYTES)
        except OSError as error:
            self.drop()
            raise EnvError(
                f"the disk of {folder} has no room for a run: {error.strerror}; free some, or "
                f"choose another folder: --store DIR"
            ) from error

    def drop(self) -> bool:
        """Give the room back; whether there was hardly any other. Idempotent."""
        disk = os.statvfs(self._path.parent)
        self._path.unlink(missing_ok=True)
        return disk.f_bavail * disk.f_frsize < FULL_BYTES


def tells_full_disk(reason: str | None) -> bool:
    """Tell whether the harness broke because a disk was full."""
    return reason is not None and os.strerror(errno.ENOSPC) in reason
