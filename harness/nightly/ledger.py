"""Records what a night does: one JSON line each, on disk before the next is begun.

::

    <store>/nights/<start>/
        ledger.jsonl   begin, seed, reached, live, canary, again, shrunk, dropped, spent, end
        explore-<name>.jsonl   what each run of a search showed
        plan.json      what it does
        summary.json   what it came to; not there: the night is not over
        junit.xml      the same for machines that know JUnit
        summary.md     the same as Markdown
        fleet.html     the same for people

``seed`` is a run's number in its search, where a search has played it.

A night that was killed goes on from its ledger: what is in it is not done again, and a last line
that is torn is left out. ``Night`` is the fold of the lines.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from harness.errors import UsageError
from harness.sessions.reached import Reach

FOLDER: Final = "nights"
VERSION: Final = 1
Line = Mapping[str, Any]
Key = tuple[str, str, str]  # entry, verdict, signature
LIVE: Final = "live:"  # begins the name of an entry with real processes
EXPLORE: Final = "explore:"  # begins that of a search
# The verdict on a changed or shortened run of a search in which too little happened to judge all.
UNDECIDED: Final = "undecided"
NO_FAILURE: Final = frozenset({"valid", UNDECIDED})

_encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class Failing:
    """Runs of one entry that fail in one way: what they broke first, or what casts doubt on them.

    ``signature`` is that of ``harness.store.signatures``; ``invariants`` are all that the first of
    these runs broke, and ``findings`` what explains that: none where it is news.
    """

    entry: str
    verdict: str
    signature: str
    invariants: tuple[str, ...] = ()
    times: int = 0
    first_seed: int = 0
    last_seed: int = 0
    message: str = ""
    findings: tuple[str, ...] = ()
    runs: list[str] = field(default_factory=list)  # stored ones
    again: Line | None = None  # the first of them, run again: k of N
    shrunk: Line | None = None

    @property
    def key(self) -> Key:
        """The key under which failures are the same."""
        return self.entry, self.verdict, self.signature


def key_of(line: Line) -> Key:
    """The key of the failure that a line is about; lines of older nights name invariants only."""
    signature = line.get("signature") or ", ".join(line["invariants"])
    return str(line["entry"]), str(line["verdict"]), str(signature)


def unit_of(entry: str) -> str:
    """Tell what counts the runs of an entry: ``seed``, or ``run`` in a search."""
    return "run" if entry.startswith(EXPLORE) else "seed"


@dataclass(frozen=True, slots=True)
class Growth:
    """The features that were known at a moment of the night."""

    used_s: float
    histories: int  # simulated ones: only these show features
    features: int


@dataclass(slots=True)
class Seen:
    """How many runs saw what their system is known to do, and how often."""

    runs: int = 0
    times: int = 0


@dataclass(slots=True)
class Night:
    """All that a ledger says."""

    begun: Line = field(default_factory=dict)
    seeds: dict[str, set[int]] = field(default_factory=dict)  # by entry: judged
    verdicts: dict[str, Counter[str]] = field(default_factory=dict)  # by entry
    failing: dict[Key, Failing] = field(default_factory=dict)
    known: dict[str, Seen] = field(default_factory=dict)  # by finding
    different: list[str] = field(default_factory=list)  # runs that were not the same twice
    twice: int = 0  # seeds that were simulated twice
    reach: Reach = field(default_factory=Reach)
    features: dict[str, str] = field(
        default_factory=dict
    )  # each with the entry that showed it first
    growth: list[Growth] = field(default_factory=list)  # after each step
    canaries: dict[str, Line] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)  # what broke the harness, in words
    spent_s: dict[str, float] = field(default_factory=dict)  # by entry
    simulated_s: float = 0.0
    skipped: dict[str, str] = field(default_factory=dict)  # entries without a run, and why
    dropped: int = 0  # runs
    resumed: int = 0  # times
    ended: Line | None = None

    @property
    def news_first(self) -> list[Failing]:
        """Give the ways to fail, those that no finding explains first."""
        return sorted(self.failing.values(), key=lambda failing: bool(failing.findings))

    @property
    def used_s(self) -> float:
        """Seconds of work so far."""
        return sum(self.spent_s.values())

    @property
    def histories(self) -> int:
        """Histories that were checked."""
        return sum(map(len, self.seeds.values()))

    @property
    def simulated(self) -> int:
        """Histories of simulations."""
        return sum(len(of) for entry, of in self.seeds.items() if not entry.startswith(LIVE))

    def take(self, line: Line) -> None:
        """Add a line; one of a kind that is not known is left alone."""
        take = _TAKES.get(str(line.get("t")))
        if take is not None:
            take(self, line)

    def _begin(self, line: Line) -> None:
        if self.begun:
            self.resumed += 1
        else:
            self.begun = line

    def _judged(self, line: Line) -> None:
        entry, seed, verdict = line["entry"], line["seed"], line["verdict"]
        self.seeds.setdefault(entry, set()).add(seed)
        self.verdicts.setdefault(entry, Counter())[verdict] += 1
        for feature in line.get("new", ()):
            self.features.setdefault(feature, entry)
        for finding, times in line.get("known", {}).items():
            seen = self.known.setdefault(finding, Seen())
            seen.runs += 1
            seen.times += times
        self.simulated_s += line.get("simulated_s", 0.0)
        same = line.get("same_bytes")
        self.twice += same is not None
        if same is False:
            self.different.append(f"{unit_of(entry)} {seed} of {entry}")
        if line.get("harness_error"):
            self.broken.append(f"{entry}, {unit_of(entry)} {seed}: {line['harness_error']}")
        if verdict in NO_FAILURE and same is not False:
            return
        failing = self.failing.setdefault(key_of(line), Failing(*key_of(line)))
        if not failing.times:
            failing.first_seed, failing.message = seed, line.get("message", "")
            failing.invariants = tuple(line["invariants"])
            failing.findings = tuple(line.get("findings", ()))
        failing.times += 1
        failing.last_seed = seed
        if line.get("store"):
            failing.runs.append(line["store"])

    def _again(self, line: Line) -> None:
        self._failing_of(line).again = line

    def _shrunk(self, line: Line) -> None:
        self._failing_of(line).shrunk = line

    def _failing_of(self, line: Line) -> Failing:
        return self.failing[key_of(line)]

    def _reached(self, line: Line) -> None:
        self.reach.add(line)

    def _canary(self, line: Line) -> None:
        self.canaries[line["name"]] = line

    def _spent(self, line: Line) -> None:
        self.spent_s[line["entry"]] = self.spent_s.get(line["entry"], 0.0) + line["s"]
        if self.features:
            self.growth.append(Growth(self.used_s, self.simulated, len(self.features)))

    def _broke(self, line: Line) -> None:
        self.broken.append(str(line["reason"]))

    def _skipped(self, line: Line) -> None:
        self.skipped[line["entry"]] = str(line["reason"])

    def _dropped(self, line: Line) -> None:
        self.dropped += len(line["runs"])

    def _end(self, line: Line) -> None:
        self.ended = line


_TAKES: Final = {
    "begin": Night._begin,  # noqa: SLF001 - the table of its own methods
    "seed": Night._judged,  # noqa: SLF001
    "live": Night._judged,  # noqa: SLF001
    "again": Night._again,  # noqa: SLF001
    "shrunk": Night._shrunk,  # noqa: SLF001
    "reached": Night._reached,  # noqa: SLF001
    "canary": Night._canary,  # noqa: SLF001
    "spent": Night._spent,  # noqa: SLF001
    "broke": Night._broke,  # noqa: SLF001
    "skipped": Night._skipped,  # noqa: SLF001
    "dropped": Night._dropped,  # noqa: SLF001
    "end": Night._end,  # noqa: SLF001
}


class Ledger:
    """The ledger of one night, open for more."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.night = read(folder) if (folder / "ledger.jsonl").is_file() else Night()
        self._file: IO[bytes] = _open_whole(folder / "ledger.jsonl")

    def add(self, *lines: Line) -> None:
        """Keep lines, for ever: they are on disk when this returns."""
        self._file.write(b"".join(_encode(line) + b"\n" for line in lines))
        self._file.flush()
        os.fsync(self._file.fileno())
        for line in lines:
            self.night.take(line)

    def close(self) -> None:
        """Close the file: nothing more comes."""
        self._file.close()


def read(folder: Path) -> Night:
    """The night as its ledger says, also one that is not over; raises UsageError."""
    night = Night()
    for line in _lines(folder / "ledger.jsonl"):
        night.take(line)
    return night


def unfinished(root: Path, fingerprint: str) -> Path | None:
    """The last night of a store with that plan, when it is not over."""
    for folder in sorted((root / FOLDER).glob("*"), reverse=True):
        if _plan_of(folder) == fingerprint:
            return None if (folder / "summary.json").is_file() else folder
    return None


def _plan_of(folder: Path) -> str | None:
    """The fingerprint of a night's plan; where its ledger is not at hand, as its summary says."""
    ledger, summary = folder / "ledger.jsonl", folder / "summary.json"
    if ledger.is_file():
        told = next(_lines(ledger), {})
    elif summary.is_file():
        told = msgspec.json.decode(summary.read_bytes(), type=dict[str, Any])
    else:
        return None
    return told.get("plan")


def _lines(path: Path) -> Iterator[Line]:
    """The lines of a ledger without a torn last one; raises UsageError for any other bad one."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot read the ledger of a night: {error}") from error
    whole: Sequence[bytes] = data.split(b"\n")[:-1]
    for number, line in enumerate(whole, start=1):
        try:
            found = msgspec.json.decode(line)
        except msgspec.DecodeError as error:
            raise UsageError(
                f"{path}:{number}: not a line of a ledger: {error}; repair it, or begin a new "
                "night with --fresh"
            ) from error
        yield found


def _open_whole(path: Path) -> IO[bytes]:
    """Open for appending, without a torn last line."""
    file = path.open("ab+")
    file.seek(0)
    data = file.read()
    file.truncate(data.rfind(b"\n") + 1)
    file.seek(0, os.SEEK_END)
    return file
