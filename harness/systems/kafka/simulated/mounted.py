"""A simulated disk in which one folder is a real one of this host."""

from __future__ import annotations

from pathlib import Path

from node.log.disk import Disk, File, FileDisk, Lock


class MountedDisk:
    """Shows the harness a simulated disk and the real folder in it as one ``node.log.disk.Disk``.

    Args:
        below: The simulated disk.
        at: The path there that ``folder`` takes the place of.
        folder: The real folder.
    """

    def __init__(self, below: Disk, at: Path, folder: Path) -> None:
        self._below = below
        self._at = at
        self._folder = folder
        self._real = FileDisk()

    def open(self, path: Path, *, create: bool = False, write: bool = True) -> File:
        """See ``Disk``."""
        disk, place = self._find(path)
        return disk.open(place, create=create, write=write)

    def make_read_only(self, path: Path) -> None:
        """See ``Disk``."""
        disk, place = self._find(path)
        disk.make_read_only(place)

    def rename(self, source: Path, target: Path) -> None:
        """See ``Disk``; both are in the real folder, or neither."""
        disk, place = self._find(source)
        disk.rename(place, self._find(target)[1])

    def unlink(self, path: Path) -> None:
        """See ``Disk``."""
        disk, place = self._find(path)
        disk.unlink(place)

    def listdir(self, directory: Path) -> list[str]:
        """See ``Disk``."""
        disk, place = self._find(directory)
        return disk.listdir(place)

    def make_dirs(self, directory: Path) -> None:
        """See ``Disk``."""
        disk, place = self._find(directory)
        disk.make_dirs(place)

    def fsync_dir(self, directory: Path) -> None:
        """See ``Disk``."""
        disk, place = self._find(directory)
        disk.fsync_dir(place)

    def lock(self, path: Path) -> Lock:
        """See ``Disk``."""
        disk, place = self._find(path)
        return disk.lock(place)

    # ------------------------------------------------------------------ from outside

    def has(self, path: Path) -> bool:
        """Tell whether a file of the real folder is there."""
        return self._find(path)[1].is_file()

    def sizes(self) -> dict[Path, int]:
        """All files of the real folder and their lengths in bytes, sorted."""
        names = self._real.listdir(self._folder)
        return {self._at / name: (self._folder / name).stat().st_size for name in names}

    def peek(self, path: Path, offset: int, size: int) -> bytes:
        """A part of a file of the real folder; empty when it is not there, or ends before."""
        try:
            file = self._real.open(self._find(path)[1], write=False)
        except FileNotFoundError:
            return b""
        try:
            return file.read(offset, size)
        finally:
            file.close()

    def _find(self, path: Path) -> tuple[Disk, Path]:
        if path.is_relative_to(self._at):
            return self._real, self._folder / path.relative_to(self._at)
        return self._below, path
