"""Moves files to an ssh host and back: our code, the node's folder, paths in its settings."""

from __future__ import annotations

import base64
import io
import tarfile
from collections.abc import Collection, Iterable, Iterator
from importlib import resources, util
from pathlib import Path
from typing import BinaryIO, Final

from harness.errors import EnvError

CONFIGURATIONS = (".properties",)  # their text names folders of this host
_FILE_MAX = 1 << 30  # of one file that comes back
_OF_DISKS: Final = (  # what the server of a file system takes, beside ``node``
    "__init__.py",
    "agent/__init__.py",
    "agent/mounts.py",
    "envs/__init__.py",
    "envs/disks/__init__.py",
    "envs/disks/fuse/__init__.py",
    "envs/disks/fuse/files.py",
    "envs/disks/fuse/protocol.py",
    "envs/disks/fuse/server.py",
)


def code_archive() -> str:
    """Our package ``node``, and the file system for nodes without it, as an archive to ``put``."""
    spec = util.find_spec("node")
    if spec is None or spec.origin is None:
        raise EnvError("the package `node` is not installed beside krucible")
    root = Path(spec.origin).parent
    ours = resources.files("harness")
    files = [(f"node/{path.relative_to(root)}", path.read_bytes()) for path in _code(root)]
    files += [(f"harness/{name}", ours.joinpath(name).read_bytes()) for name in _OF_DISKS]
    return archive(files)


def _code(root: Path) -> Iterator[Path]:
    for path in sorted(root.rglob("*")):
        parts = path.relative_to(root).parts
        if path.is_file() and not any(p == "__pycache__" or p.startswith(".") for p in parts):
            yield path


def archive(files: Iterable[tuple[str, bytes]]) -> str:
    """Files by name as a gzipped tar, in base64."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as tar:
        for name, content in files:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return base64.b64encode(buffer.getvalue()).decode()


def unpack(spool: BinaryIO, target: Path) -> None:
    """Unpack what a host sent: plain files below ``target``, nothing else. Raises EnvError."""
    spool.seek(0)
    try:
        with tarfile.open(fileobj=spool, mode="r:gz") as tar:
            for member in tar:
                _unpack_one(tar, member, target)
    except (tarfile.TarError, EOFError, OSError, ValueError) as error:
        raise EnvError(f"what came back of {target.name} cannot be unpacked: {error}") from error


def _unpack_one(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    name = Path(member.name)
    file = tar.extractfile(member) if member.isreg() else None
    if file is None or name.is_absolute() or ".." in name.parts:
        raise ValueError(f"{member.name!r} is no plain file below the folder")
    if member.size > _FILE_MAX:
        raise ValueError(f"{member.name!r} has {member.size} bytes, more than {_FILE_MAX}")
    path = target / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)  # one that is read-only is replaced as well
    with path.open("wb") as out:
        while data := file.read(1 << 20):
            out.write(data)


class Outbox:
    """The files of a node's folder that the harness has written and the host has not."""

    def __init__(self, folder: Path, there: str) -> None:
        """``there`` is the folder's path on the host."""
        self._folder, self._there = folder, there
        self._sent: dict[Path, tuple[int, int]] = {}

    def take(self, but: Iterable[str]) -> str | None:
        """Pack what is new or changed, without the names ``but``; None: nothing is."""
        left_out = set(but)
        files: list[tuple[str, bytes]] = []
        for path in sorted(self._folder.rglob("*")):
            name = str(path.relative_to(self._folder))
            if not path.is_file() or name in left_out:
                continue
            stamp = _stamp(path)
            if self._sent.get(path) != stamp:
                files.append((name, self._read(path)))
                self._sent[path] = stamp
        return archive(files) if files else None

    def mirrored(self, below: Path, there: Collection[str]) -> None:
        """Note that a part of the folder is now as it is on the host, where these names are.

        What is not there any more is removed; what was not sent yet stays, to be sent.
        """
        for path in sorted(below.rglob("*")):
            if not path.is_file():
                continue
            if str(path.relative_to(below)) in there:
                self._sent[path] = _stamp(path)
            elif self._sent.get(path) == _stamp(path):
                path.unlink()

    def translate(self, text: str) -> str:
        """Text that names the folder here, as it must be there."""
        return text.replace(str(self._folder), self._there)

    def _read(self, path: Path) -> bytes:
        data = path.read_bytes()
        if path.suffix not in CONFIGURATIONS:
            return data
        return self.translate(data.decode()).encode()


def _stamp(path: Path) -> tuple[int, int]:
    seen = path.stat()
    return seen.st_mtime_ns, seen.st_size
