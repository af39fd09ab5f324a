"""Stores a night's ledger and pages beside the runs: each file is put again when it has changed.

The ledger of a night grows while it works. It is put whole, now and then, so that another machine
can continue the night: what is not in it is done again. It is never put over one that went another
way: two harnesses that continue one night tell of it, and the second stops.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from harness.errors import EnvError
from harness.store.remote.objects import Entry, Objects
from harness.store.remote.runs import NIGHTS, each_of

LEDGER: Final = "ledger.jsonl"
OVER: Final = "summary.json"  # a night with one is over
SHARE: Final = 20  # a ledger that took a second to be put is not put again for so many
_Stamp = tuple[int, int]  # of a file: time of change, size


class Nights:
    """The files of nights, and those at the top of a store."""

    def __init__(self, objects: Objects, root: Path) -> None:
        self._objects = objects
        self._root = root
        self._stamps: dict[str, _Stamp] = {}  # as they were put or fetched
        self._tags: dict[str, str] = {}  # of ledgers, as they are there
        self._wait_until_s = 0.0

    def fetch(self, *, whole: bool = False) -> None:
        """Have the summaries of nights that are over, and all of those that are not.

        Args:
            whole: All of those that are over, too.
        """
        entries = self._objects.below(NIGHTS)
        over = {_night(e) for e in entries if e.name.endswith(f"/{OVER}")}
        wanted = [
            e for e in entries if whole or _night(e) not in over or e.name.endswith(f"/{OVER}")
        ]
        missing = {e.name: e for e in wanted if not (self._root / e.name).exists()}
        each_of(missing, lambda name: self._download(missing[name]))

    def bring(self, parts: list[str]) -> None:
        """Have the files at a path, and below it."""
        name = "/".join(parts)
        if parts[0] != NIGHTS and len(parts) > 1:
            return
        alone = self._objects.entry(name)
        found = self._objects.below(name) if alone is None else [alone]
        missing = {each.name: each for each in found if not (self._root / each.name).exists()}
        each_of(missing, lambda each: self._download(missing[each]))

    def put(self, *, now: bool = True) -> None:
        """Write all files that changed; without ``now`` not, when it was done a short time ago.

        Raises:
            EnvError: Another harness has continued the same night meanwhile.
        """
        if not now and time.monotonic() < self._wait_until_s:
            return
        began_s = time.monotonic()
        changed = {name: stamp for name, stamp in self._files() if self._stamps.get(name) != stamp}
        # who finds the summary takes all before it to be there
        for name in sorted(changed, key=lambda name: (name.endswith(f"/{OVER}"), name)):
            self._put(name)
            self._stamps[name] = changed[name]
        self._wait_until_s = time.monotonic() + SHARE * (time.monotonic() - began_s)

    def adopt(self) -> None:
        """Put what a killed harness left, but for nights that somebody has continued since."""
        for ledger in sorted((self._root / NIGHTS).glob(f"*/{LEDGER}")):
            name = ledger.relative_to(self._root).as_posix()
            there = self._objects.read(name) or b""
            if ledger.read_bytes().startswith(there):
                self._tags[name] = self._tag(name)
            else:
                for file in ledger.parent.iterdir():
                    file.unlink()
        self.put()

    def _files(self) -> list[tuple[str, _Stamp]]:
        paths = [*self._root.glob("*"), *(self._root / NIGHTS).glob("*/*")]
        files = [path for path in paths if path.is_file() and not path.name.startswith(".")]
        return [(path.relative_to(self._root).as_posix(), _stamp(path)) for path in files]

    def _put(self, name: str) -> None:
        content = (self._root / name).read_bytes()
        if name.endswith(f"/{LEDGER}"):
            if self._tag(name) != self._tags.get(name, ""):
                raise EnvError(
                    f"{self._objects.address}/{name}: another harness continues this night; let "
                    "one of them work, or begin a new night with --fresh"
                )
            self._objects.write(name, content)
            self._tags[name] = self._tag(name)
        else:
            self._objects.write(name, content)

    def _tag(self, name: str) -> str:
        found = self._objects.entry(name)
        return "" if found is None else found.tag

    def _download(self, entry: Entry) -> None:
        path = self._root / entry.name
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.tmp")
        self._objects.download(entry.name, draft)
        draft.replace(path)
        self._stamps[entry.name] = _stamp(path)
        if path.name == LEDGER:
            self._tags[entry.name] = entry.tag


def _night(entry: Entry) -> str:
    return entry.name.split("/")[1]


def _stamp(path: Path) -> _Stamp:
    seen = path.stat()
    return seen.st_mtime_ns, seen.st_size
