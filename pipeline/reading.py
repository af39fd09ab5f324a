"""One run from its folder, whatever is damaged: bad lines are counted and said, never fatal."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from harness.errors import HarnessError
from harness.faults.schedule import fault_from_json
from harness.history.ops import op_from_json
from harness.store.reading import StoredRun, load_run


@dataclass(frozen=True, slots=True)
class Read:
    """What was read of a run; ``stored`` is None when it could not be, for ``problem``."""

    stored: StoredRun | None
    lines_bad: int = 0
    problem: str | None = None


def read_run(path: Path) -> Read:
    """Read a run. Lines that are no JSON objects, and torn ones, are left out and counted."""
    try:
        stored = load_run(path)
    except (HarnessError, OSError) as error:
        return _despite(path, error)
    return Read(stored, _bad_lines(path) if stored.warnings else 0)


def _despite(path: Path, error: Exception) -> Read:
    """Read a run without the lines of its history and schedule that nobody can read."""
    with tempfile.TemporaryDirectory(prefix="krucible-read-") as folder:
        copy = Path(folder)
        try:
            for entry in path.iterdir():
                if entry.suffix == ".jsonl":
                    _copy_whole_lines(entry, copy / entry.name)
                else:
                    (copy / entry.name).symlink_to(entry.resolve())
            stored = load_run(copy)
        except (HarnessError, OSError) as still:
            return Read(None, problem=str(still))
    warnings = (*stored.warnings, f"lines that could not be read were left out: {error}")
    return Read(replace(stored, path=path, warnings=warnings), _bad_lines(path))


def _copy_whole_lines(source: Path, target: Path) -> None:
    check = _check_of(source)
    with source.open("rb") as lines, target.open("wb") as out:
        out.writelines(line for line in lines if check(line))


def _bad_lines(path: Path) -> int:
    """How many lines of the run are cut off or not what they should be."""
    bad = 0
    for file in (*path.glob("*.jsonl"), *path.glob("*/*.jsonl")):
        check = _check_of(file)
        with file.open("rb") as lines:
            bad += sum(not check(line) for line in lines if line.strip())
    return bad


def _check_of(file: Path) -> Callable[[bytes], bool]:
    return {"history.jsonl": _is_op, "schedule.jsonl": _is_fault}.get(file.name, _is_object)


def _is_fault(line: bytes) -> bool:
    try:
        fault_from_json(msgspec.json.decode(line))
    except (ValueError, msgspec.DecodeError):
        return False
    return True


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(msgspec.json.decode(line), dict)
    except msgspec.DecodeError:
        return False


def _is_op(line: bytes) -> bool:
    if not line.endswith(b"\n"):
        return False
    try:
        fields = msgspec.json.decode(line)
        op_from_json(fields if isinstance(fields, dict) else {}, index=0)
    except (msgspec.DecodeError, ValueError):
        return False
    return True
