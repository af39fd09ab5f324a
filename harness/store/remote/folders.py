"""A folder of files as objects, for those that are written once: tables of an analysis."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.errors import EnvError
from harness.store.remote.objects import Objects
from harness.store.remote.runs import each_of


class RemoteFolder:
    """The objects below a name, and the folder that they are worked on in."""

    def __init__(self, objects: Objects, name: str, path: Path) -> None:
        self.path = path
        self._objects = objects
        self._name = name
        self._there: dict[str, str] = {}  # by the file: the tag of its object, when fetched or put

    def fetch(self) -> None:
        """Have all files in the folder, which is empty."""
        self.path.mkdir(parents=True, exist_ok=True)
        self._there = self._tags()
        each_of(self._there, self._download)

    def put(self, last: Sequence[str] = ()) -> None:
        """Write the files that are new, or may have changed; remove those that are gone.

        Args:
            last: What makes the others count: written after them, file by file or by folder, one
                after the other.

        Raises:
            EnvError: Somebody else has put files meanwhile; nothing was written.
        """
        if self._tags() != self._there:
            raise EnvError(
                f"{self._objects.address}/{self._name}: somebody else has written here meanwhile; "
                "do it again"
            )
        paths = (path for path in self.path.rglob("*") if path.is_file())
        files = {path.relative_to(self.path).as_posix() for path in paths}
        kept = {name for name in files & self._there.keys() if name.endswith(".parquet")}
        late = {name for name in files if name.partition("/")[0] in last}
        each_of(files - kept - late, self._upload)
        for part in last:
            each_of({name for name in late - kept if name.partition("/")[0] == part}, self._upload)
        self._objects.remove(f"{self._name}/{name}" for name in self._there.keys() - files)
        self._there = self._tags()

    def _tags(self) -> dict[str, str]:
        entries = self._objects.below(self._name)
        return {entry.name.removeprefix(f"{self._name}/"): entry.tag for entry in entries}

    def _download(self, name: str) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        self._objects.download(f"{self._name}/{name}", path)

    def _upload(self, name: str) -> None:
        self._objects.upload(self.path / name, f"{self._name}/{name}")
