"""A node's simulated disk as Java sees it: ``krucible.Disk``.

Java's side knows Python's weakly: a circle through both languages is one that neither garbage
collector sees through.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from weakref import ref

from harness.systems.kafka.simulated.bridge import bridge
from harness.systems.kafka.simulated.packed import Kind
from node.log.disk import Disk, File, read_file
from node.log.memory_disk import MemoryDisk, PowerCutError

DISK: Final = "krucible.Disk"
POWER_FAILURE: Final = "krucible.PowerFailure"
CHANGES: Final = ("create", "append", "truncate", "fsync", "rename", "unlink")

Tell = Callable[[bytes], None]  # takes lines of events without their heads; or outputs


class PartitionDisk:
    """The folder of the metadata partition on a disk.

    Args:
        disk: The disk.
        folder: The partition's folder there.
        tell: Told of the events before each change.
        release: Given what other threads did, before one waits for an fsync.
    """

    def __init__(self, disk: Disk, folder: Path, tell: Tell, release: Tell) -> None:
        self._disk = disk
        self._folder = folder
        self._tell = tell
        self._release = release
        self._open: dict[str, File] = {}

    @property
    def is_sound(self) -> bool:
        """Tell whether no change can fail now: then a turn's changes are made when it is over."""
        return isinstance(self._disk, MemoryDisk) and self._disk.is_sound

    def make(self, kind: int, size: int, data: bytes) -> None:
        """Make a change that was put off; see ``Kinds.java`` for what is in ``data``."""
        name, _, rest = data.partition(b"\0")
        path = name.decode()
        match kind:
            case Kind.WRITE:
                self.append(b"", path, rest)
            case Kind.FSYNC:
                self.fsync(b"", path)
            case Kind.CREATE:
                self.create(b"", path)
            case Kind.TRUNCATE:
                self.truncate(b"", path, size)
            case Kind.RENAME:
                self.rename(b"", path, rest.decode())
            case Kind.UNLINK:
                self.unlink(b"", path)
            case Kind.FSYNC_NAMES:
                self.fsync_names(b"")
            case _:
                raise AssertionError(f"no change of kind {kind}")

    def read(self, path: str) -> bytes | None:
        """The content of a file; None when there is none."""
        return read_file(self._disk, self._folder / path)

    def durable(self, path: str) -> int:
        """Count the bytes at the file's beginning that no loss of power can change.

        One may take away all of a file whose name is not durable.
        """
        file = self._folder / path
        if isinstance(self._disk, MemoryDisk) and self._disk.is_settled(file):
            return self._disk.fsynced_size(file)
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

    def release(self, outputs: bytes) -> None:
        """Let go of outputs of a turn that is not over."""
        self._release(outputs)

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
    """Give the disk as an object of Java's, a ``krucible.Disk``."""
    jpype, known = bridge(), ref(disk)
    io_error, power_failure = jpype.JClass("java.io.IOException"), jpype.JClass(POWER_FAILURE)

    def guarded(name: str, *args: Any) -> Any:
        there = known()
        if there is None:
            raise power_failure()
        try:
            return getattr(there, name)(*args)
        except OSError as error:
            raise io_error(f"{error.filename}: {error.strerror}") from None
        except PowerCutError:
            raise power_failure() from None

    def change(name: str) -> Callable[..., None]:
        def make(told: Any, *args: Any) -> None:
            guarded(name, str(told).encode(), *map(python, args))

        return make

    def python(value: Any) -> Any:
        if isinstance(value, jpype.JString):
            return str(value)
        return bytes(value) if isinstance(value, jpype.JArray) else int(value)

    def read(path: Any) -> Any:
        found = guarded("read", str(path))
        return None if found is None else jpype.JArray(jpype.JByte)(found)

    calls: dict[str, Callable[..., Any]] = {
        "read": read,
        "durable": lambda path: guarded("durable", str(path)),
        "list": lambda: jpype.JArray(jpype.JString)(guarded("list")),
        "fsyncNames": change("fsync_names"),
        "release": lambda outputs: guarded("release", bytes(outputs)),
        **{name: change(name) for name in CHANGES},
    }
    return jpype.JProxy(DISK, dict=calls)
