"""Finds the runs of a store on the executors: nothing of it is collected.

The driver knows the families (``<system>-<workload>``) and how many runs they have; each task
takes the runs whose names fall to its share.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from zlib import crc32

import pyarrow as pa  # type: ignore[import-untyped]

from pipeline.names import RunName
from pipeline.rows import rows
from pipeline.schemas import LISTING

RUNS_PER_SHARE = 2_000
SHARES_MAX = 2_000
LITTLE_BYTES = 256 << 20  # of events: 1.4 million
FILES_LOOKED_AT_MAX = 2_000
# What a run is judged by; a report may be rendered again and again.
JUDGED_FILES = ("spec.json", "schedule.jsonl", "history.jsonl", "results.json")
JUDGED_FOLDERS = ("events", "logs", "records", "snapshots")
LATEST = "latest"


def families(store: Path) -> list[str]:
    """The folders that may have runs."""
    with os.scandir(store) as entries:
        return sorted(
            e.name
            for e in entries
            if e.is_dir(follow_symlinks=False) and e.name != LATEST and not e.name.startswith(".")
        )


def shares(store: Path) -> list[tuple[str, int, int]]:
    """(family, share, shares) such that each has a few hundred runs at most."""
    found = []
    for family in families(store):
        with os.scandir(store / family) as entries:
            count = sum(1 for _ in entries)
        of = min(SHARES_MAX, count // RUNS_PER_SHARE + 1)
        found += [(family, share, of) for share in range(of)]
    return found


def is_little(store: Path, since_ns: int = 0) -> bool:
    """Tell whether the new runs are so small that compiling much for them does not pay.

    Looks at no more than ``FILES_LOOKED_AT_MAX`` files.

    Args:
        store: Folder of runs.
        since_ns: By the file system's clock; a run whose folder did not change since is not new.
    """
    size_bytes = 0
    for looked_at, size in enumerate(_event_sizes(store, since_ns)):
        size_bytes += size
        if size_bytes > LITTLE_BYTES or looked_at >= FILES_LOOKED_AT_MAX:
            return False
    return True


def _event_sizes(store: Path, since_ns: int) -> Iterator[int]:
    for family in families(store):
        with os.scandir(store / family) as runs:
            new = [run.path for run in runs if run.stat().st_ctime_ns >= since_ns]
        for run in new:
            with (
                suppress(FileNotFoundError, NotADirectoryError),
                os.scandir(f"{run}/events") as all_,
            ):
                yield from (file.stat().st_size for file in all_)


def listing(
    store: Path, of: Sequence[tuple[str, int, int]]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Tell what a task does: numbers of ``shares`` in, rows of LISTING out."""

    def work(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield rows(LISTING, list(runs_of(store, *of[number])))

    return work


def runs_of(store: Path, family: str, share: int, of: int) -> Iterator[dict[str, Any]]:
    """Rows of LISTING for the runs of a family that fall to a share."""
    with os.scandir(store / family) as entries:
        names = [e.name for e in entries if crc32(e.name.encode()) % of == share]
    for name in sorted(names):
        path = store / family / name
        if (path / "spec.json").is_file():
            yield RunName.of(f"{family}/{name}")._asdict() | _look(path)


def _look(path: Path) -> dict[str, Any]:
    """Sizes and times of what a run is judged by, in one fingerprint."""
    seen = hashlib.blake2b(digest_size=16)
    size_bytes, newest_ns = 0, 0
    found = dict(_files(str(path)))
    for name in sorted(found):
        stat = found[name]
        size_bytes += stat.st_size
        newest_ns = max(newest_ns, stat.st_mtime_ns)
        seen.update(f"{'/'.join(name)} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return {
        "size_bytes": size_bytes,
        "fingerprint": seen.hexdigest(),
        "newest_s": newest_ns / 1e9,
        "judged": ("results.json",) in found,
    }


def _files(path: str) -> Iterator[tuple[tuple[str, ...], os.stat_result]]:
    """List the files that a run is judged by; what is renamed meanwhile the next look sees."""
    for name in JUDGED_FILES:
        with suppress(FileNotFoundError):
            yield (name,), os.stat(f"{path}/{name}")  # noqa: PTH116 - of every file of a store
    for folder in JUDGED_FOLDERS:
        with (
            suppress(FileNotFoundError, NotADirectoryError),
            os.scandir(f"{path}/{folder}") as entries,
        ):
            for entry in entries:
                if not entry.name.startswith("."):
                    with suppress(FileNotFoundError):
                        yield (folder, entry.name), os.stat(entry.path)  # noqa: PTH116
