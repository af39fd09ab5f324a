"""Reading a stored run back, also one that was cut short: what is damaged is said, not lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from harness.contracts.checker import RunData
from harness.contracts.evidence import LogBatch, LogSnapshot
from harness.contracts.nemesis import Fault
from harness.errors import UsageError
from harness.faults import schedule
from harness.history.events import COLLECTING, before, collected_until
from harness.history.ops import History, read_jsonl
from harness.spec import RunSpec
from harness.store.folder import RunDir

T = TypeVar("T")
_OBJECTS = msgspec.json.Decoder(dict[str, Any])


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run as it lies in the store."""

    path: Path
    data: RunData
    results: dict[str, Any] | None = None  # None: it was not judged
    warnings: tuple[str, ...] = field(default=())  # what was missing or damaged, a sentence each


def load_run(path: Path) -> StoredRun:
    """Read everything a run left behind.

    Missing files and damaged lines are skipped and named in ``warnings``.

    Raises:
        UsageError: Without a readable ``spec.json`` it is no run.
        HistoryFormatError: A history with a line that is no op before its end.
    """
    run = RunDir(path)
    warnings: list[str] = []
    spec = load_spec(run.spec)
    nodes = tuple(f"n{i + 1}" for i in range(spec.voters + spec.observers))
    data = RunData(
        spec=spec,
        history=_history(run, warnings),
        events=_events(run, warnings),
        logs=_per_node(run.records_dir, ".jsonl", lambda p: _batches(p, warnings)),
        snapshots=_per_node(run.snapshots_dir, ".jsonl", lambda p: _snapshots(p, warnings)),
        output=_per_node(run.logs_dir, ".log", _text_lines),
        faults=_faults(run, warnings),
        voters=nodes[: spec.voters],
        observers=nodes[spec.voters :],
    )
    return StoredRun(run.path, data, _results(run, warnings), tuple(warnings))


def load_spec(path: Path) -> RunSpec:
    """Read the options of a run; raises UsageError for a file that has none."""
    try:
        fields = msgspec.json.decode(path.read_bytes())
        if not isinstance(fields, dict):
            raise ValueError("want an object")  # noqa: TRY301 - reported below with its place
        return RunSpec.from_json(fields)
    except (OSError, ValueError, TypeError, KeyError, msgspec.DecodeError) as error:
        raise UsageError(f"{path}: not the spec of a run: {error}") from error


def _history(run: RunDir, warnings: list[str]) -> History:
    if not run.history.is_file():
        warnings.append("history.jsonl is missing: the run ended before its first op")
        return History(())
    if _torn(run.history):
        warnings.append("history.jsonl: its last line is torn and was left out")
    return read_jsonl(run.history)


def _faults(run: RunDir, warnings: list[str]) -> tuple[Fault, ...]:
    if not run.schedule.is_file():
        warnings.append("schedule.jsonl is missing")
        return ()
    return tuple(schedule.load(run.schedule))


def _results(run: RunDir, warnings: list[str]) -> dict[str, Any] | None:
    if not run.results.is_file():
        return None
    try:
        results = msgspec.json.decode(run.results.read_bytes())
    except msgspec.DecodeError as error:
        warnings.append(f"results.json: not JSON: {error}")
        return None
    return results if isinstance(results, dict) else None


def _events(run: RunDir, warnings: list[str]) -> dict[str, tuple[dict[str, Any], ...]]:
    """Each node's events; of a run whose harness died only those before which nothing is missing.

    An event may be here without what led to it on another node: to judge by it would be to find
    that node's silence a violation.
    """
    events = _per_node(run.events_dir, ".jsonl", lambda p: _objects(p, warnings))
    try:
        until_ns = collected_until(run.events_dir)
    except ValueError:
        warnings.append(f"events/{COLLECTING} holds no time: no event was judged")
        until_ns = 0
    if until_ns is None:
        return events
    whole = {name: tuple(map(dict, before(of, until_ns))) for name, of in events.items()}
    if left := sum(map(len, events.values())) - sum(map(len, whole.values())):
        warnings.append(
            f"events: the harness died while it collected them; the last {left} were left out, as"
            " what led to them on other nodes may be missing"
        )
    return whole


def _per_node(
    folder: Path, suffix: str, read: Callable[[Path], tuple[T, ...]]
) -> dict[str, tuple[T, ...]]:
    """What ``read`` makes of each node's file, n2 before n10."""
    files = sorted(folder.glob(f"*{suffix}"), key=lambda p: (len(p.name), p.name))
    return {p.name.removesuffix(suffix): read(p) for p in files}


def _objects(path: Path, warnings: list[str]) -> tuple[dict[str, Any], ...]:
    """The JSON objects of a file, one a line; others are counted in a warning."""
    data = path.read_bytes()
    try:
        every = tuple(_OBJECTS.decode_lines(data))
    except msgspec.DecodeError:
        every = ()
    if every and len(every) == data.count(b"\n"):
        return every  # nothing is wrong with it; otherwise line by line
    decoder = msgspec.json.Decoder()
    objects: list[dict[str, Any]] = []
    bad: list[int] = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line:
            continue
        try:
            value = decoder.decode(line)
        except msgspec.DecodeError:
            value = None
        if isinstance(value, dict):
            objects.append(value)
        else:
            bad.append(number)
    if bad:
        place = f"{path.parent.name}/{path.name}"
        warnings.append(f"{place}: {len(bad)} lines are no JSON objects, the first is {bad[0]}")
    return tuple(objects)


def _batches(path: Path, warnings: list[str]) -> tuple[LogBatch, ...]:
    batches: list[LogBatch] = []
    for fields in _objects(path, warnings):
        try:
            batches.append(
                LogBatch(
                    base=fields["base"],
                    last=fields["last"],
                    epoch=fields["epoch"],
                    crc=fields["crc"],
                    control=fields["control"],
                    records=tuple(fields["records"]),
                )
            )
        except (KeyError, TypeError) as error:
            warnings.append(f"records/{path.name}: not a batch: {error!r} in {fields}")
    return tuple(batches)


def _snapshots(path: Path, warnings: list[str]) -> tuple[LogSnapshot, ...]:
    snapshots: list[LogSnapshot] = []
    for fields in _objects(path, warnings):
        try:
            end, epoch, error = fields["end"], fields["epoch"], fields["error"]
            snapshots.append(LogSnapshot(end, epoch, tuple(fields["records"]), error))
        except (KeyError, TypeError) as error:
            warnings.append(f"snapshots/{path.name}: not a snapshot: {error!r}")
    return tuple(snapshots)


def _text_lines(path: Path) -> tuple[str, ...]:
    return tuple(path.read_text(encoding="utf-8", errors="replace").splitlines())


def _torn(path: Path) -> bool:
    """Whether a file's last line lacks its newline."""
    with path.open("rb") as file:
        if file.seek(0, 2) == 0:
            return False
        file.seek(-1, 2)
        return file.read(1) != b"\n"
