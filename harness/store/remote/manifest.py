"""The manifest of a run: each of its files with size and digest.

It is the last object of a run that is written and the first that is removed: a run without one is
no run. It lies apart from the run, so that one listing shows all whole runs::

    PREFIX/.manifests/<family>/<run>.json
    PREFIX/<family>/<run>/spec.json ...

A run that is judged anew has new files, and others that change. The new ones are written before
the manifest, which then names both digests of those that change, the one before and the one after,
and these are written last: each file is whole at all times, and so is the run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from harness.errors import EnvError

FOLDER: Final = ".manifests"
VERSION: Final = 1
_CHUNK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Mark:
    """The size and the digest of a file, and those that it may still have instead."""

    size: int
    sha256: str
    before: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Give it as a JSON object."""
        told: dict[str, Any] = {"size": self.size, "sha256": self.sha256}
        return told if self.before is None else {**told, "before": self.before}


@dataclass(frozen=True, slots=True)
class Manifest:
    """The files of a run, by their names in its folder."""

    files: Mapping[str, Mark]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(mark.size for mark in self.files.values())

    def changed(self, since: Manifest) -> list[str]:
        """The files that are other ones here than there, or not there."""
        return [
            name
            for name, mark in self.files.items()
            if name not in since.files or since.files[name].sha256 != mark.sha256
        ]

    def after(self, since: Manifest) -> Manifest:
        """This manifest and what that one has besides, with the digests of both."""
        both = dict(since.files)
        for name, mark in self.files.items():
            before = since.files.get(name)
            if before is None or before.sha256 == mark.sha256:
                both[name] = mark
            else:
                both[name] = replace(mark, before=before.sha256)
        return Manifest(both)

    def encoded(self) -> bytes:
        """Give it as an object's content."""
        files = {name: mark.to_json() for name, mark in sorted(self.files.items())}
        return (
            msgspec.json.format(msgspec.json.encode({"version": VERSION, "files": files})) + b"\n"
        )

    @classmethod
    def decoded(cls, content: bytes, name: str) -> Manifest:
        """Read an object's content; raises EnvError with its name."""
        try:
            told = msgspec.json.decode(content)["files"]
            return cls({str(file): Mark(**mark) for file, mark in told.items()})
        except (msgspec.DecodeError, KeyError, TypeError, AttributeError) as error:
            raise EnvError(f"{name}: not the manifest of a run: {error!r}") from error


def manifest_of(folder: Path) -> Manifest:
    """Read all files of a folder but the hidden ones."""
    return Manifest({name: mark_of(folder / name) for name in names_in(folder)})


def names_in(folder: Path) -> Iterator[str]:
    """The files of a folder but the hidden ones, by name."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") for part in name.parts):
            yield name.as_posix()


def mark_of(path: Path) -> Mark:
    """Read a file."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return Mark(size, digest.hexdigest())
