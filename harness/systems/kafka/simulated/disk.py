"""A node's simulated disk as Java sees it: ``krucible.Disk``.

Java's side knows Python's weakly: a circle through both languages is one that neither garbage
collector sees through.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from weakref import ref

from node.log.disk import Disk, File, read_file
from node.log.memory_disk import MemoryDisk, PowerCutError

Tell = Callable[[bytes], None]  # takes lines of events without their heads


class PartitionDisk:
    """The folder of the metadata partition on a disk.

    Args:
        disk: The disk.
        folder: The partition's folder there.
        tell: Told of the events before each change.
    """

    def __init__(self, disk: Disk, folder: Path, tell: Tell) -> None:
        self._disk = disk
        self._folder = folder
        self._tell = tell
        self._open: dict[str, File] = {}

    def read(self, path: str) -> bytes | None:
        """The content of a file; None when there is none."""
        return read_file(self._disk, self._folder / path)

    def durable(self, path: str) -> int:
        """How many bytes at its beginning no loss of power can change."""
        if isinstance(self._disk, MemoryDisk):
            return self._disk.fsynced_size(self._folder / path)
        return 0

    def list(self) -> list[str]:
        """The names of all files, sorted."""
        return self._disk.listdir(self._folder)

    def create(self, told: bytes, path: str) -> None:
        """Make an empty file."""
        self._tell(told)
        file = self._open[path] = self._disk.open(self._folder / path, create=True)
        if file.size():
            file.truncate(0)

    def append(self, told: bytes, path: str, data: bytes) -> None:
        """Write at the end of a file."""
        self._tell(told)
        self._file(path).append(data)

    def truncate(self, told: bytes, path: str, size: int) -> None:
        """Drop everything from a size on."""
        self._tell(told)
        self._file(path).truncate(size)

    def fsync(self, told: bytes, path: str) -> None:
        """Make the content of a file durable."""
        self._tell(told)
        self._file(path).fsync()

    def rename(self, told: bytes, source: str, target: str) -> None:
        """Put a file in the place of another one."""
        self._tell(told)
        self._open.pop(source, None)
        self._open.pop(target, None)
        self._disk.rename(self._folder / source, self._folder / target)

    def unlink(self, told: bytes, path: str) -> None:
        """Remove a file."""
        self._tell(told)
        self._open.pop(path, None)
        self._disk.unlink(self._folder / path)

    def fsync_names(self, told: bytes) -> None:
        """Make the names durable."""
        self._tell(told)
        self._disk.fsync_dir(self._folder)

    def _file(self, path: str) -> File:
        file = self._open.get(path)
        if file is None:
            file = self._open[path] = self._disk.open(self._folder / path)
        return file


def java_disk(disk: PartitionDisk) -> Any:
    """The same as an object of Java's."""
    return _proxy()(disk)


@cache
def _proxy() -> Any:
    """The class of them; made once there is a JVM."""
    import jpype  # noqa: PLC0415 - optional

    io_error = jpype.JClass("java.io.IOException")
    power_failure = jpype.JClass("krucible.PowerFailure")

    def guarded(call: Callable[..., Any], *args: Any) -> Any:
        try:
            return call(*args)
        except OSError as error:
            raise io_error(f"{error.filename}: {error.strerror}") from None
        except PowerCutError:
            raise power_failure() from None

    def told(text: Any) -> bytes:
        return str(text).encode()

    @jpype.JImplements("krucible.Disk")
    class JavaDisk:
        """Passes calls on."""

        def __init__(self, disk: PartitionDisk) -> None:
            self._known = ref(disk)

        @property
        def _disk(self) -> PartitionDisk:
            disk = self._known()
            if disk is None:
                raise power_failure()
            return disk

        @jpype.JOverride
        def read(self, path: Any) -> Any:
            found = guarded(self._disk.read, str(path))
            return None if found is None else jpype.JArray(jpype.JByte)(found)

        @jpype.JOverride
        def durable(self, path: Any) -> int:
            return self._disk.durable(str(path))

        @jpype.JOverride
        def list(self) -> Any:
            return jpype.JArray(jpype.JString)(guarded(self._disk.list))

        @jpype.JOverride
        def create(self, events: Any, path: Any) -> None:
            guarded(self._disk.create, told(events), str(path))

        @jpype.JOverride
        def append(self, events: Any, path: Any, data: Any) -> None:
            guarded(self._disk.append, told(events), str(path), bytes(data))

        @jpype.JOverride
        def truncate(self, events: Any, path: Any, size: Any) -> None:
            guarded(self._disk.truncate, told(events), str(path), int(size))

        @jpype.JOverride
        def fsync(self, events: Any, path: Any) -> None:
            guarded(self._disk.fsync, told(events), str(path))

        @jpype.JOverride
        def rename(self, events: Any, source: Any, target: Any) -> None:
            guarded(self._disk.rename, told(events), str(source), str(target))

        @jpype.JOverride
        def unlink(self, events: Any, path: Any) -> None:
            guarded(self._disk.unlink, told(events), str(path))

        @jpype.JOverride
        def fsyncNames(self, events: Any) -> None:  # noqa: N802 - Java's name
            guarded(self._disk.fsync_names, told(events))

    return JavaDisk
