"""Runs as objects: put whole, with the manifest last; fetched and checked; removed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from harness.errors import EnvError, UsageError
from harness.store.remote.manifest import FOLDER, Manifest, Mark, manifest_of, mark_of
from harness.store.remote.objects import Objects

AT_A_TIME: Final = 16  # requests
KNOWN: Final = ".manifest.json"  # in a run's folder: the manifest that it was fetched or put with
TRIES: Final = 3
NIGHTS: Final = "nights"  # beside the families of runs
RUN_PARTS: Final = 2  # of a name: the family and the run
_SUFFIX: Final = ".json"


class RemoteRuns:
    """The runs below an address, by their names: ``FAMILY/RUN``."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._known: dict[str, tuple[str, Manifest]] = {}  # by run: tag and content

    def tags(self) -> dict[str, str]:
        """All whole runs, each with the tag of its manifest."""
        found = {}
        for entry in self._objects.below(FOLDER):
            name = entry.name.removeprefix(f"{FOLDER}/")
            if name.endswith(_SUFFIX) and name.count("/") == 1:
                found[name.removesuffix(_SUFFIX)] = entry.tag
        return found

    def manifest(self, run: str, tag: str | None = None) -> Manifest | None:
        """The manifest of a run, as it was when that tag was seen; None when there is none."""
        known = self._known.get(run)
        if known is not None and known[0] == tag:
            return known[1]
        name = _object(run)
        content = self._objects.read(name)
        if content is None:
            return None
        found = Manifest.decoded(content, f"{self._objects.address}/{name}")
        if tag is not None:
            self._known[run] = tag, found
        return found

    def fetch(self, run: str, folder: Path, names: Sequence[str] = (), tag: str = "") -> None:
        """Have files of a run in a folder, all or some; those that are there are left alone.

        Raises:
            UsageError: There is no such run.
            EnvError: A file is not what the manifest says: it was changed by somebody else.
        """
        found = self.manifest(run, tag or None)
        if found is None:
            raise UsageError(f"{self._objects.address}/{run}: there is no such run")
        wanted = [
            name
            for name in found.files
            if (not names or name in names) and not (folder / name).exists()
        ]
        each_of(wanted, lambda name: self._fetch(run, folder, name, found.files[name]))
        known = _read_known(folder)
        marks = {**known.files, **{name: mark_of(folder / name) for name in wanted}}
        _write_known(folder, Manifest(marks))

    def put(self, run: str, folder: Path) -> bool:
        """Write what is new or changed in a folder since it was fetched; whether anything was.

        Raises:
            UsageError: Another run of that name is there.
            EnvError: A file changed again and again while it was written.
        """
        known, here = _read_known(folder), manifest_of(folder)
        changed = here.changed(known)
        if not changed:
            return False
        there = self.manifest(run) or Manifest({})
        self._check_same(run, here, there)
        new = [name for name in changed if name not in there.files]
        marks = {**here.files, **self._put_all(run, folder, new)}
        while True:
            told = Manifest(marks).after(there)
            self._objects.write(_object(run), told.encoded())
            rest = self._put_all(run, folder, [name for name in changed if name in there.files])
            if marks == {**marks, **rest}:
                break
            marks |= rest  # they have changed once more since they were looked at
        _write_known(folder, Manifest({**known.files, **marks}))
        return True

    def remove(self, run: str) -> None:
        """Remove a run: first its manifest, so that nobody takes what is left for a run."""
        self._objects.remove([_object(run)])
        self.remove_files(run)

    def remove_files(self, run: str) -> None:
        """Remove what is left of a run without a manifest."""
        self._objects.remove([entry.name for entry in self._objects.below(run)])

    def sweep(self, before: datetime) -> list[str]:
        """Remove what has lain there without a manifest since before a moment; tells the runs.

        That is what a harness left that was killed while it put or removed a run, on a machine
        that did not come back.
        """
        whole = self.tags()
        newest: dict[str, datetime] = {}
        for entry in self._objects.below(""):
            parts = entry.name.split("/")
            if len(parts) > RUN_PARTS and parts[0] != NIGHTS and not parts[0].startswith("."):
                run = "/".join(parts[:RUN_PARTS])
                newest[run] = max(entry.changed, newest.get(run, entry.changed))
        gone = [run for run, at in sorted(newest.items()) if run not in whole and at < before]
        for run in gone:
            self.remove_files(run)
        return gone

    def _check_same(self, run: str, here: Manifest, there: Manifest) -> None:
        ours, theirs = here.files.get("run.json"), there.files.get("run.json")
        if ours is not None and theirs is not None and ours.sha256 != theirs.sha256:
            raise UsageError(
                f"{self._objects.address}/{run}: another run of this name is there, made at the "
                "same time from the same seed; it was left alone"
            )

    def _fetch(self, run: str, folder: Path, name: str, mark: Mark) -> None:
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        draft = place.with_name(f".{place.name}.{os.getpid()}.tmp")
        try:
            self._objects.download(f"{run}/{name}", draft)
            got = mark_of(draft).sha256
            if got not in (mark.sha256, mark.before) and not self._is_now(run, name, got):
                raise EnvError(
                    f"{self._objects.address}/{run}/{name}: not what the run's manifest says: "
                    "somebody changed it"
                )
            draft.replace(place)
        finally:
            draft.unlink(missing_ok=True)

    def _is_now(self, run: str, name: str, sha256: str) -> bool:
        """Tell whether a file has that digest since the run was judged anew, a moment ago."""
        now = self.manifest(run)
        mark = None if now is None else now.files.get(name)
        return mark is not None and sha256 in (mark.sha256, mark.before)

    def _put_all(self, run: str, folder: Path, names: Sequence[str]) -> dict[str, Mark]:
        put = each_of(names, lambda name: self._put(run, folder, name))
        return dict(zip(names, put, strict=True))

    def _put(self, run: str, folder: Path, name: str) -> Mark:
        """Write a file as it is at one moment, and tell how it was."""
        path = folder / name
        for _ in range(TRIES):
            mark = mark_of(path)
            self._objects.upload(path, f"{run}/{name}")
            if mark_of(path) == mark:
                return mark
        raise EnvError(f"{path}: changes while it is stored in {self._objects.address}")


def each_of(items: Iterable[str], do: Callable[[str], Any]) -> list[Any]:
    """Do something with several objects at a time; raises what the first raises that fails."""
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        return list(pool.map(do, items))


def _object(run: str) -> str:
    return f"{FOLDER}/{run}{_SUFFIX}"


def _read_known(folder: Path) -> Manifest:
    path = folder / KNOWN
    return Manifest.decoded(path.read_bytes(), str(path)) if path.is_file() else Manifest({})


def _write_known(folder: Path, known: Manifest) -> None:
    draft = folder / f"{KNOWN}.tmp"
    draft.write_bytes(known.encoded())
    draft.replace(folder / KNOWN)
