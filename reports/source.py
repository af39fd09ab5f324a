"""A run as the report reads it: in memory, or in the store, line by line.

Of a stored run nothing that grows with its length is held: ops and events are read from their
files each time that they are gone through. What is damaged was told when the run was judged, and
is passed over here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, overload

import msgspec

from harness.contracts.evidence import LogBatch
from harness.contracts.nemesis import Fault
from harness.errors import HistoryFormatError
from harness.faults import schedule
from harness.history.ops import Op, op_from_json
from harness.spec import RunSpec
from harness.store.folder import RunDir
from harness.store.reading import load_spec
from reports.cluster import TOLD, Event
from reports.op_table import AnyOp, OpLine

_TYPE = re.compile(rb'"t":"(\w+)"')
_ARRIVAL = re.compile(rb'^\{"rx_ns":(\d+),')
_KINDS = frozenset(kind.encode() for kind in TOLD)
# Of these only the last before one of the others matters to a track.
_LATEST = frozenset({b"append"})
# Events of which there are few, however long the run.
_RARE = _KINDS - {b"append", b"hwm"} | {b"qs", b"vote", b"disk", b"voters", b"claim", b"torn"}
EXCERPT_FROM_BYTES = 16_000_000  # of one node: some 60,000 events, in ten times the memory
AROUND_NS = 30_000_000_000


class Run(Protocol):
    """What the report asks of a run; ``harness.protocols.RunData`` has it all."""

    @property
    def spec(self) -> RunSpec:
        """The run's options."""

    @property
    def history(self) -> Iterable[AnyOp]:
        """All ops."""

    @property
    def events(self) -> Mapping[str, Iterable[dict[str, Any]]]:
        """Protocol events by node, in order of arrival."""

    @property
    def logs(self) -> Mapping[str, Sequence[LogBatch]]:
        """Replicated logs by node."""

    @property
    def output(self) -> Mapping[str, Sequence[str]]:
        """What the processes printed, by node."""

    @property
    def faults(self) -> Sequence[Fault]:
        """The schedule."""

    @property
    def voters(self) -> Sequence[str]:
        """Names of voters."""

    @property
    def observers(self) -> Sequence[str]:
        """Names of observers."""


@dataclass(frozen=True, slots=True)
class OpsFile:
    """A history on disk."""

    path: Path

    def __iter__(self) -> Iterator[AnyOp]:
        quick = msgspec.json.Decoder(OpLine)
        index = 0
        for number, line in enumerate(_whole_lines(self.path), start=1):
            if not line.strip():
                continue
            op: AnyOp
            try:
                op = quick.decode(line)
                op.index = index
            except (msgspec.DecodeError, UnicodeDecodeError):
                op = self._slowly(line, number, index)
            yield op
            index += 1

    def _slowly(self, line: bytes, number: int, index: int) -> Op:
        """As the harness reads it, which takes more and says what is wrong."""
        try:
            fields = msgspec.json.decode(line)
            if not isinstance(fields, dict):
                raise ValueError(f"want an object, found {type(fields).__name__}")  # noqa: TRY301
            return op_from_json(fields, index=index)
        except (ValueError, msgspec.DecodeError) as error:
            raise HistoryFormatError(f"{self.path}:{number}: not an op: {error}") from error


@dataclass(frozen=True, slots=True)
class EventsFile:
    """The events of one node on disk.

    ``telling`` goes through those alone that a track is made of, and of every other one only the
    last before each of these, whose arrival matters.
    """

    path: Path

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return _objects(_whole_lines(self.path))

    def size(self) -> int:
        """In bytes."""
        return self.path.stat().st_size

    def telling(self) -> Iterator[dict[str, Any]]:
        """The events that matter to ``cluster.track``."""
        return _objects(_telling(_whole_lines(self.path)))


@dataclass(frozen=True, slots=True)
class LogFile(Sequence[LogBatch]):
    """The replicated log of one node on disk; the whole of it is read each time."""

    path: Path

    def _all(self) -> tuple[LogBatch, ...]:
        batches = []
        for fields in _objects(_whole_lines(self.path)):
            try:
                batches.append(_batch(fields))
            except (KeyError, TypeError):
                continue
        return tuple(batches)

    def __iter__(self) -> Iterator[LogBatch]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    @overload
    def __getitem__(self, item: int) -> LogBatch: ...
    @overload
    def __getitem__(self, item: slice) -> Sequence[LogBatch]: ...
    def __getitem__(self, item: int | slice) -> LogBatch | Sequence[LogBatch]:
        return self._all()[item]


def _batch(fields: Mapping[str, Any]) -> LogBatch:
    return LogBatch(
        base=fields["base"],
        last=fields["last"],
        epoch=fields["epoch"],
        crc=fields["crc"],
        control=fields["control"],
        records=tuple(fields["records"]),
    )


@dataclass(frozen=True, slots=True)
class StoredFiles:
    """A run in the store; see ``Run``."""

    spec: RunSpec
    history: OpsFile
    events: Mapping[str, EventsFile | Excerpt]
    logs: Mapping[str, LogFile]
    output: Mapping[str, Sequence[str]]
    faults: Sequence[Fault]
    voters: Sequence[str]
    observers: Sequence[str]


def open_run(path: Path) -> StoredFiles:
    """The run in this folder; raises UsageError when it has no readable ``spec.json``."""
    run = RunDir(path)
    spec = load_spec(run.spec)
    nodes = tuple(f"n{i + 1}" for i in range(spec.voters + spec.observers))
    return StoredFiles(
        spec=spec,
        history=OpsFile(run.history),
        events={name: EventsFile(file) for name, file in _by_node(run.events_dir, ".jsonl")},
        logs={name: LogFile(file) for name, file in _by_node(run.records_dir, ".jsonl")},
        output={name: _text_lines(file) for name, file in _by_node(run.logs_dir, ".log")},
        faults=tuple(schedule.load(run.schedule)) if run.schedule.is_file() else (),
        voters=nodes[: spec.voters],
        observers=nodes[spec.voters :],
    )


def read_results(path: Path) -> dict[str, Any] | None:
    """The results of the run in this folder; None when it was not judged."""
    try:
        results = msgspec.json.decode(RunDir(path).results.read_bytes())
    except (FileNotFoundError, msgspec.DecodeError):
        return None
    return results if isinstance(results, dict) else None


def _by_node(folder: Path, suffix: str) -> Iterator[tuple[str, Path]]:
    """The file of each node, n2 before n10."""
    for path in sorted(folder.glob(f"*{suffix}"), key=lambda p: (len(p.name), p.name)):
        yield path.name.removesuffix(suffix), path


def _text_lines(path: Path) -> tuple[str, ...]:
    return tuple(path.read_text(encoding="utf-8", errors="replace").splitlines())


def telling(events: Iterable[Event]) -> Iterable[Event]:
    """The events of a node that matter to ``cluster.track``, and maybe more."""
    return events.telling() if isinstance(events, EventsFile) else events


def _telling(lines: Iterable[bytes]) -> Iterator[bytes]:
    held: dict[bool, bytes] = {}  # the last event that tells of the log, the last that tells less
    for line in lines:
        found = _TYPE.search(line)
        kind = found[1] if found else b""
        if found and (kind not in _KINDS or kind in _LATEST):
            latest = kind in _LATEST
            held.pop(latest, None)  # in again at the end: in order of arrival
            held[latest] = line
            continue
        if kind != b"hwm":
            yield from held.values()
            held.clear()
        yield line
    yield from held.values()


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The rare events of a node, and of all others those that arrived in one of the windows."""

    path: Path
    windows: Sequence[tuple[int, int]]  # from, to: ns

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return _objects(line for line in _whole_lines(self.path) if self._has(line))

    def _has(self, line: bytes) -> bool:
        found, arrival = _TYPE.search(line), _ARRIVAL.match(line)
        if found is None or arrival is None or found[1] in _RARE:
            return True
        at = int(arrival[1])
        return any(first <= at <= last for first, last in self.windows)


def around(run: Run, windows: Iterable[tuple[int, int]]) -> Run:
    """The run with the events of long traces that lie in or near these windows of time.

    Pictures hold the events that they are drawn from; those of a long run would fill the memory.
    """
    if not isinstance(run, StoredFiles):
        return run
    wide = [(first - AROUND_NS, last + AROUND_NS) for first, last in windows]
    events = {
        name: Excerpt(file.path, wide) if file.size() > EXCERPT_FROM_BYTES else file
        for name, file in run.events.items()
        if isinstance(file, EventsFile)
    }
    return replace(run, events=events)


def _whole_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file that have their newline; a torn last one was never written."""
    try:
        with path.open("rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    yield line
    except FileNotFoundError:
        return


def _objects(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    decoder = msgspec.json.Decoder()
    for line in lines:
        if not line.strip():
            continue
        try:
            value = decoder.decode(line)
        except msgspec.DecodeError:
            continue
        if isinstance(value, dict):
            yield value
