"""Which runs a store has, found by the executors: nothing of it is collected.

The driver knows the families (``<system>-<workload>``) and how many runs they have; each task
takes the runs whose names fall to its share.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

from pipeline.names import RunName

RUNS_PER_SHARE = 500
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


def is_little(store: Path) -> bool:
    """Whether all runs together are so small that it does not pay to compile much for them.

    Looks at no more than ``FILES_LOOKED_AT_MAX`` files.
    """
    size_bytes = 0
    files = (f for family in families(store) for f in (store / family).glob("*/events/*.jsonl"))
    for looked_at, file in enumerate(files):
        try:
            size_bytes += file.stat().st_size
        except FileNotFoundError:
            continue
        if size_bytes > LITTLE_BYTES or looked_at >= FILES_LOOKED_AT_MAX:
            return False
    return True


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
    for file in sorted(_files(path)):
        try:
            stat = file.stat()
        except FileNotFoundError:
            continue  # renamed meanwhile: the next analysis sees it
        size_bytes += stat.st_size
        newest_ns = max(newest_ns, stat.st_mtime_ns)
        seen.update(f"{file.relative_to(path)} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return {
        "size_bytes": size_bytes,
        "fingerprint": seen.hexdigest(),
        "newest_s": newest_ns / 1e9,
        "judged": (path / "results.json").is_file(),
    }


def _files(path: Path) -> Iterator[Path]:
    yield from (path / name for name in JUDGED_FILES)
    for folder in JUDGED_FOLDERS:
        try:
            with os.scandir(path / folder) as entries:
                yield from (path / folder / e.name for e in entries if not e.name.startswith("."))
        except (FileNotFoundError, NotADirectoryError):
            continue
