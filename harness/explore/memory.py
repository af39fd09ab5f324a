"""Keeps what the runs of a search showed in a file, so that a search that was killed goes on.

A line for each run: its number, a digest of what was played, its features, and the ms of those that
may still be rare. Features are numbers, by the order in which lines first name them in ``new``::

    {"n": 12, "run": "5f1c...", "new": ["near cut 3"], "seen": [4, 0, 71], "ms": [0, 1840, 96]}

``seen`` is null for a run that showed nothing, for it broke the harness, or could not be played.
The file holds no draws and no choices: they follow from the search's seed and from these lines. A
search of another version of krucible may draw others; its file is refused.
"""

from __future__ import annotations

import os
from collections.abc import Container, Mapping
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

import msgspec

from harness.errors import UsageError
from harness.explore.features import Seen
from harness.explore.search import Search, Step

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Memory:
    """A search, and the file that it can be made of again.

    Args:
        search: One that was not asked for a round yet.
        path: Of the file; one that is there already is read, and a torn last line is cut off.
        judged: Numbers of runs whose verdict is known. Others are played again, for it.

    Raises:
        UsageError: The file is of a search that played other runs.
    """

    def __init__(self, search: Search, path: Path, judged: Container[int]) -> None:
        self.search = search
        self.told: dict[int, Seen | None] = {}  # of the round's runs, by their numbers
        self.steps: list[Step] = search.round()
        self._ids: dict[str, int] = {}
        self._file = self._read(path, judged)

    @property
    def left(self) -> list[Step]:
        """The runs of the round that are still to be played."""
        return [step for step in self.steps if step.number not in self.told]

    def keep(self, number: int, seen: Seen | None, *, playable: bool = True) -> None:
        """Write down what a run of the round showed; it is on disk when this returns."""
        line: dict[str, Any] = {"n": number, "run": _digest(self._step(number)), "seen": None}
        if not playable:
            line["unplayable"] = True
        if seen is not None:
            new = [name for name in seen if name not in self._ids]
            self._ids |= {name: len(self._ids) + n for n, name in enumerate(new)}
            may_be_rare = self.search.corpus.may_be_rare
            line |= {
                "new": new,
                "seen": [self._ids[name] for name in seen],
                "ms": [ms if may_be_rare(name) else 0 for name, ms in seen.items()],
            }
        self._file.write(_encode(line) + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.told[number] = seen

    def learn(self) -> bool:
        """Take in the round, if all of it was played, and begin the next; tells whether it was."""
        if self.left:
            return False
        for step in self.steps:
            seen = self.told.pop(step.number)
            if seen is not None:
                self.search.learn(step, seen)
        self.steps = self.search.round()
        return True

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _step(self, number: int) -> Step:
        return self.steps[number - self.steps[0].number]

    def _read(self, path: Path, judged: Container[int]) -> IO[bytes]:
        """Learn all that the file tells, round after round, and open it for more."""
        names: list[str] = []
        file = path.open("ab+")
        file.seek(0)
        whole = 0
        for line in file:
            if not line.endswith(b"\n"):
                break
            whole += len(line)
            told = _decode(line)
            names += told.get("new", ())
            if told["n"] in judged or told.get("unplayable"):
                if told.get("run") != _digest(self._step(told["n"])):
                    file.close()
                    raise UsageError(
                        f"{path}: run {told['n']} of this search was another one than it is now: "
                        "the search was begun by another version of krucible, or with other options"
                        "; begin a new night (--fresh), or go on with the version that began it"
                    )
                self.told[told["n"]] = _seen(told, names)
                self.learn()
        self._ids = {name: number for number, name in enumerate(names)}
        file.truncate(whole)
        file.seek(0, os.SEEK_END)
        return file


def _digest(step: Step) -> str:
    return sha256(step.candidate.fingerprint()).hexdigest()[:16]


def _seen(told: Mapping[str, Any], names: list[str]) -> Seen | None:
    if told["seen"] is None:
        return None
    return {names[n]: ms for n, ms in zip(told["seen"], told["ms"], strict=True)}
