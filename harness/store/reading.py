"""The one reader of stored runs, also of those that were cut short.

Files are read line by line. ``open_run`` holds nothing that grows with the run's length: ops and
events are read from their files each time that they are gone through, and what is damaged is
passed over. ``load_run`` reads all of a run into memory, and says what is missing or damaged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, overload

import msgspec

from harness.contracts.checker import RunData
from harness.contracts.evidence import LogBatch, LogSnapshot
from harness.contracts.nemesis import Fault
from harness.errors import HarnessError, UsageError
from harness.faults import schedule
from harness.history.events import COLLECTING, before, collected_until
from harness.history.ops import History, Op, stream_jsonl
from harness.spec import RunSpec
from harness.store.folder import RunDir

T = TypeVar("T")
Event = dict[str, Any]
Tell = Callable[[str], object]  # is told of what is missing or damaged, a sentence each
_object = msgspec.json.Decoder(dict[str, Any]).decode


def _pass_over(_: object) -> None:
    """Say nothing of what is damaged."""


# --------------------------------------------------------------------------- file by file


def objects(lines: Iterable[bytes], bad: Callable[[int], object] = _pass_over) -> Iterator[Event]:
    """The JSON objects among some lines; ``bad`` is told the number of each line that is none."""
    for number, line in enumerate(lines, start=1):
        try:
            value = _object(line)
        except msgspec.DecodeError:
            if line.strip():
                bad(number)
            continue
        yield value


@dataclass(frozen=True, slots=True)
class OpsFile:
    """A history on disk; without the file there are no ops.

    Raises, while it is gone through:
        HistoryFormatError: A line that is no op, before a torn last one.
    """

    path: Path

    def __iter__(self) -> Iterator[Op]:
        return stream_jsonl(self.path) if self.path.is_file() else iter(())


@dataclass(frozen=True, slots=True)
class EventsFile:
    """The events of one node on disk, in order of arrival."""

    path: Path

    def __iter__(self) -> Iterator[Event]:
        return objects(self.lines())

    def lines(self) -> Iterator[bytes]:
        """The lines as they are, also those that are no events, and a torn last one."""
        with self.path.open("rb") as file:
            yield from file

    def size(self) -> int:
        """Bytes of the file."""
        return self.path.stat().st_size


@dataclass(frozen=True, slots=True)
class LogFile(Sequence[LogBatch]):
    """The replicated log of one node on disk; the whole of it is read each time."""

    path: Path

    def _all(self) -> tuple[LogBatch, ...]:
        return tuple(_batches(self.path, _pass_over))

    def __iter__(self) -> Iterator[LogBatch]:
        return _batches(self.path, _pass_over)

    def __len__(self) -> int:
        return len(self._all())

    @overload
    def __getitem__(self, item: int) -> LogBatch: ...
    @overload
    def __getitem__(self, item: slice) -> Sequence[LogBatch]: ...
    def __getitem__(self, item: int | slice) -> LogBatch | Sequence[LogBatch]:
        return self._all()[item]


@dataclass(frozen=True, slots=True)
class StoredFiles:
    """A run in the store, file by file."""

    spec: RunSpec
    history: Iterable[Op]
    events: Mapping[str, Iterable[Event]]
    logs: Mapping[str, Sequence[LogBatch]]
    output: Mapping[str, Sequence[str]]
    faults: Sequence[Fault]
    voters: Sequence[str]
    observers: Sequence[str]


def open_run(path: Path) -> StoredFiles:
    """Open the run in a folder.

    Raises:
        UsageError: It has no readable ``spec.json``, or a line of its schedule is no fault.
    """
    run = RunDir(path)
    spec = load_spec(run.spec)
    voters, observers = spec.voter_names, spec.observer_names
    return StoredFiles(
        spec=spec,
        history=OpsFile(run.history),
        events=_per_node(run.events_dir, ".jsonl", EventsFile),
        logs=_per_node(run.records_dir, ".jsonl", LogFile),
        output=_per_node(run.logs_dir, ".log", _text_lines),
        faults=load_faults(run),
        voters=voters,
        observers=observers,
    )


def load_spec(path: Path) -> RunSpec:
    """Read the options of a run; raises UsageError for a file that has none."""
    try:
        fields = msgspec.json.decode(path.read_bytes())
        if not isinstance(fields, dict):
            raise ValueError("want an object")  # noqa: TRY301 - reported below with its place
        return RunSpec.from_json(fields)
    except (OSError, ValueError, TypeError, KeyError, msgspec.DecodeError) as error:
        raise UsageError(f"{path}: not the spec of a run: {error}") from error


def load_faults(run: RunDir) -> tuple[Fault, ...]:
    """Read the schedule of a run; without the file there are no faults. Raises UsageError."""
    return tuple(schedule.load(run.schedule)) if run.schedule.is_file() else ()


def load_results(run: RunDir, tell: Tell = _pass_over) -> dict[str, Any] | None:
    """Read the results of a run; None when it was not judged, or they are damaged."""
    try:
        results = msgspec.json.decode(run.results.read_bytes())
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        tell(f"results.json: not JSON: {error}")
        return None
    if not isinstance(results, dict):
        tell("results.json: no object")
        return None
    return results


def _per_node(folder: Path, suffix: str, read: Callable[[Path], T]) -> dict[str, T]:
    """Tell what ``read`` makes of each node's file, n2 before n10."""
    files = sorted(folder.glob(f"*{suffix}"), key=lambda p: (len(p.name), p.name))
    return {p.name.removesuffix(suffix): read(p) for p in files}


def _text_lines(path: Path) -> tuple[str, ...]:
    return tuple(path.read_text(encoding="utf-8", errors="replace").splitlines())


def _batches(
    path: Path, tell: Tell, bad: Callable[[int], object] = _pass_over
) -> Iterator[LogBatch]:
    with path.open("rb") as lines:
        for fields in objects(lines, bad):
            try:
                yield LogBatch(
                    base=fields["base"],
                    last=fields["last"],
                    epoch=fields["epoch"],
                    crc=fields["crc"],
                    control=fields["control"],
                    records=tuple(fields["records"]),
                )
            except (KeyError, TypeError) as error:
                tell(f"records/{path.name}: not a batch: {error!r} in {fields}")


def _snapshots(path: Path, tell: Tell, bad: Callable[[int], object]) -> Iterator[LogSnapshot]:
    with path.open("rb") as lines:
        for fields in objects(lines, bad):
            try:
                end, epoch, error = fields["end"], fields["epoch"], fields["error"]
                yield LogSnapshot(end, epoch, tuple(fields["records"]), error)
            except (KeyError, TypeError) as problem:
                tell(f"snapshots/{path.name}: not a snapshot: {problem!r}")


# --------------------------------------------------------------------------- a run in memory


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run as it lies in the store."""

    path: Path
    data: RunData
    results: dict[str, Any] | None = None  # None: it was not judged
    warnings: tuple[str, ...] = field(default=())  # what was missing or damaged, a sentence each
    lines_bad: int = 0  # lines that are cut off, or not what they should be


def load_run(path: Path, *, skip_bad: bool = False) -> StoredRun:
    """Read everything a run left behind.

    Missing files and damaged lines are skipped and named in ``warnings``.

    Args:
        path: The run's folder.
        skip_bad: Whether lines of the history and the schedule that cannot be read are skipped,
            too, and told in a warning: what is judged then is not all that was done.

    Raises:
        UsageError: Without a readable ``spec.json`` it is no run; a line of the schedule is no
            fault, or two faults have one id.
        HistoryFormatError: A history with a line that is no op before its end.
    """
    return _Loading(RunDir(path), skip_bad).load()


class _Loading:
    """A run being read, and what was found missing or damaged so far."""

    def __init__(self, run: RunDir, skip_bad: bool) -> None:
        self._run = run
        self._skip = self._note_skipped if skip_bad else None
        self._skipped: list[HarnessError] = []
        self._warnings: list[str] = []
        self._lines_bad = 0

    def load(self) -> StoredRun:
        """Read the whole run."""
        run, tell = self._run, self._warnings.append
        spec = load_spec(run.spec)
        voters, observers = spec.voter_names, spec.observer_names
        data = RunData(
            spec=spec,
            history=self._history(),
            events=self._events(),
            logs=_per_node(
                run.records_dir, ".jsonl", lambda p: self._whole(p, partial(_batches, p, tell))
            ),
            snapshots=_per_node(
                run.snapshots_dir, ".jsonl", lambda p: self._whole(p, partial(_snapshots, p, tell))
            ),
            output=_per_node(run.logs_dir, ".log", _text_lines),
            faults=self._faults(),
            voters=voters,
            observers=observers,
        )
        results = load_results(run, tell)
        if self._skipped:
            tell(f"lines that could not be read were left out: {self._skipped[0]}")
        return StoredRun(run.path, data, results, tuple(self._warnings), self._lines_bad)

    def _note_skipped(self, error: HarnessError) -> None:
        self._skipped.append(error)
        self._lines_bad += 1

    def _history(self) -> History:
        path = self._run.history
        if not path.is_file():
            self._warnings.append("history.jsonl is missing: the run ended before its first op")
            return History(())
        if _torn(path):
            self._warnings.append("history.jsonl: its last line is torn and was left out")
            self._lines_bad += 1
        return History(stream_jsonl(path, self._skip))

    def _faults(self) -> tuple[Fault, ...]:
        path = self._run.schedule
        if not path.is_file():
            self._warnings.append("schedule.jsonl is missing")
            return ()
        return tuple(schedule.load(path, self._skip))

    def _events(self) -> dict[str, tuple[Event, ...]]:
        """Each node's events; when the harness died, only those before which nothing is missing.

        An event may be here without what led to it on another node: to judge by it would be to
        find that node's silence a violation.
        """
        folder = self._run.events_dir
        files = _per_node(folder, ".jsonl", EventsFile)
        events = {
            name: self._whole(f.path, partial(objects, f.lines())) for name, f in files.items()
        }
        try:
            until_ns = collected_until(folder)
        except ValueError:
            self._warnings.append(f"events/{COLLECTING} holds no time: no event was judged")
            until_ns = 0
        if until_ns is None:
            return events
        whole = {name: tuple(map(dict, before(of, until_ns))) for name, of in events.items()}
        if left := sum(map(len, events.values())) - sum(map(len, whole.values())):
            self._warnings.append(
                f"events: the harness died while it collected them; the last {left} were left out,"
                " as what led to them on other nodes may be missing"
            )
        return whole

    def _whole(
        self, path: Path, read: Callable[[Callable[[int], object]], Iterable[T]]
    ) -> tuple[T, ...]:
        """All that ``read`` finds in a file; lines that are no objects are told in a warning."""
        bad: list[int] = []
        found = tuple(read(bad.append))
        if bad:
            place = f"{path.parent.name}/{path.name}"
            self._warnings.append(
                f"{place}: {len(bad)} lines are no JSON objects, the first is {bad[0]}"
            )
            self._lines_bad += len(bad)
        return found


def _torn(path: Path) -> bool:
    """Tell whether a file's last line lacks its newline."""
    with path.open("rb") as file:
        if file.seek(0, 2) == 0:
            return False
        file.seek(-1, 2)
        return file.read(1) != b"\n"
