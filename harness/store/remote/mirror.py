"""A store in object storage, as a folder: runs are fetched when they are wanted, put when whole.

Runs go on in the folder, and are put when they have ended, or their harness has. What nights leave
beside them (ledger, summary, reports) is put whenever it has changed, after the runs.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from harness.errors import HarnessError
from harness.healing.heal import Leftover
from harness.store.home import found, home_of, in_order
from harness.store.remote.address import Address
from harness.store.remote.copies import Copy, left_behind
from harness.store.remote.folders import RemoteFolder
from harness.store.remote.manifest import mark_of, names_in
from harness.store.remote.nights import Nights
from harness.store.remote.objects import Objects
from harness.store.remote.runs import RemoteRuns, each_of

SEEN_S: Final = 1.0  # a listing is good for so long
SMALL: Final = ("spec.json", "run.json", "results.json")  # what a page on all runs is made of
_RESULTS: Final = "results.json"
_DROPPING: Final = ".dropping"  # in the folder: runs whose objects are being removed, by name


class Mirror:
    """A ``Home`` in object storage; ``root`` is the folder that stands for it."""

    def __init__(self, address: Address, copy: Copy) -> None:
        """Look at the store; raises UsageError when it is not there, or access is denied."""
        self.address = address
        self.root = copy.root
        self._copy = copy
        self._objects = Objects(address)
        self._remote = RemoteRuns(self._objects)
        self.nights = Nights(self._objects, self.root)
        self._tags: dict[str, str] = {}
        self._seen_s = float("-inf")
        self._small: dict[str, str] = {}  # by run: the tag with which its small files were fetched

    def close(self) -> None:
        """Store what is new and remove the folder; what cannot be stored is left behind for later.

        Raises:
            HarnessError: It cannot be stored now.
        """
        try:
            self._finish_drops()
            self.keep()
            self.nights.put()
        except BaseException as error:
            kept = found(self.root)
            self._copy.close(empty=False)
            if isinstance(error, HarnessError) and kept:
                more = f"{len(kept)} runs are kept in {self.root}: `krucible heal` stores them"
                error.args = (f"{error}; {more}",)
            raise
        self._copy.close(empty=True)

    # ------------------------------------------------------------------ Home

    def runs(self) -> list[Path]:
        """See ``Home``."""
        there = {self.root / run for run in self._listed()}
        return in_order(list(there | set(found(self.root))))

    def latest(self) -> Path | None:
        """See ``Home``."""
        return next(reversed(self.runs()), None)

    def fetch(self, run: Path, *names: str) -> None:
        """See ``Home``."""
        tag = self._listed().get(self._name(run))
        if tag is not None:  # else it was made here, and is not stored yet
            self._remote.fetch(self._name(run), run, names, tag)

    def size(self, run: Path) -> int:
        """See ``Home``."""
        tag = self._listed().get(self._name(run))
        manifest = None if tag is None else self._remote.manifest(self._name(run), tag)
        return 0 if manifest is None else manifest.size

    def drop(self, run: Path) -> None:
        """See ``Home``."""
        name = self._name(run)
        mark = self.root / _DROPPING / name.replace("/", "@")
        mark.parent.mkdir(exist_ok=True)
        mark.touch()
        self._remote.remove(name)
        mark.unlink()
        shutil.rmtree(run, ignore_errors=True)
        self._tags.pop(name, None)

    def fetch_nights(self) -> None:
        """See ``Home``."""
        self.nights.fetch()

    def keep(self) -> None:
        """See ``Home``."""
        for run in in_order(found(self.root)):
            if self._remote.put(self._name(run), run):
                self._seen_s = float("-inf")
            shutil.rmtree(run)
            self._small.pop(self._name(run), None)
        self.nights.put(now=False)

    def refresh(self) -> None:
        """See ``Home``."""
        tags = self._listed()
        for gone in self._small.keys() - tags.keys():
            shutil.rmtree(self.root / gone, ignore_errors=True)
            del self._small[gone]
        new = [run for run, tag in tags.items() if self._small.get(run) != tag]
        for run in new:
            if run in self._small:  # it was judged anew
                shutil.rmtree(self.root / run, ignore_errors=True)
        each_of(new, lambda run: self._remote.fetch(run, self.root / run, SMALL, tags[run]))
        self._small.update((run, tags[run]) for run in new)
        self.nights.fetch()

    def bring(self, path: str) -> None:
        """Have the file at a path below the store's root in the folder, if there is such a one.

        A folder of a run comes as a whole.
        """
        parts = [part for part in path.split("/") if part]
        run = "/".join(parts[:2])
        tags = self._listed()
        if run in tags:
            manifest = self._remote.manifest(run, tags[run])
            name = "/".join(parts[2:])
            alone = manifest is not None and name in manifest.files
            self._remote.fetch(run, self.root / run, (name,) if alone else (), tags[run])
        elif parts:
            self.nights.bring(parts)

    def fetch_all(self) -> None:
        """Have all runs in the folder; see ``fetch_new``."""
        self.fetch_new({})

    def fetch_new(self, seen: Mapping[str, str]) -> dict[str, str]:
        """Have those runs in the folder whose tag is not known; a file's time goes by its content.

        So who compares names, sizes and times finds the same run each time that it is fetched.

        Args:
            seen: Tags of runs, by their names.

        Returns:
            The tags of all runs that nothing will be added to: whoever has taken in what is in the
            folder now has seen these.
        """
        tags, done = self._listed(), dict[str, str]()
        for run in self.runs():
            name = self._name(run)
            tag = tags.get(name)
            if tag is not None and seen.get(name) == tag:
                done[name] = tag
                continue
            self.fetch(run)
            begun_s = begun_of(run)
            for file in names_in(run):
                digest = int(mark_of(run / file).sha256[:7], 16)
                stamp = begun_s * 1_000_000_000 + digest
                os.utime(run / file, ns=(stamp, stamp))
            if tag is not None and (run / _RESULTS).is_file():
                done[name] = tag  # one that nobody judged is left for later while it is young
        return done

    def folder(self, name: str) -> RemoteFolder:
        """Files of the store that are neither runs nor of nights, in a hidden folder."""
        return RemoteFolder(self._objects, name, self.root / name)

    def sweep(self, before: datetime) -> list[str]:
        """See ``RemoteRuns``."""
        return self._remote.sweep(before)

    # ------------------------------------------------------------------ details

    def _listed(self) -> dict[str, str]:
        if time.monotonic() - self._seen_s > SEEN_S:
            self._tags = self._remote.tags()
            self._seen_s = time.monotonic()
        return self._tags

    def _name(self, run: Path) -> str:
        return f"{run.parent.name}/{run.name}"

    def _finish_drops(self) -> None:
        for mark in _files(self.root / _DROPPING):
            self._remote.remove(mark.name.replace("@", "/"))
            mark.unlink()


def _files(folder: Path) -> Iterable[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else ()


def begun_of(run: Path) -> int:
    """The second at which a run began, as its name tells; 0 when it tells none."""
    match = re.match(r"\d{8}T\d{6}", run.name)
    if match is None:
        return 0
    return int(datetime.strptime(match[0], "%Y%m%dT%H%M%S").replace(tzinfo=UTC).timestamp())


def opened(address: Address) -> Mirror:
    """Open a store with an empty folder; raises UsageError when it is not there, or is denied."""
    return _at(Copy.made(address))


def store_left(address: Address | None = None) -> Iterator[Leftover]:
    """Store what killed harnesses of this machine left, of one store or of all; tells of each."""
    for copy in left_behind(address):
        name, runs = home_of(copy.root), len(found(copy.root))
        what = {"store": name, "folder": str(copy.root)}
        try:
            mirror = _at(copy)
            mirror.nights.adopt()
            mirror.close()
        except HarnessError as error:
            copy.close(empty=False)
            yield Leftover(copy.root.name, "runs", what, f"cannot be stored: {error}", done=False)
        else:
            done = f"{runs} runs stored" if runs else "removed: all was stored"
            yield Leftover(copy.root.name, "runs", what, done, done=True)


def _at(copy: Copy) -> Mirror:
    try:
        return Mirror(Address.parse(home_of(copy.root) or ""), copy)
    except BaseException:
        copy.close(empty=not found(copy.root))
        raise
