"""The runs of an analysis, as executors see them: in a folder, or in object storage.

Both sides are sent to executors, which list the runs of their share, and have the files of one run
after the other at hand.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol
from zlib import crc32

import pyarrow as pa  # type: ignore[import-untyped]

from harness.errors import UsageError
from harness.store.remote.address import Address
from harness.store.remote.objects import Objects
from harness.store.remote.runs import RemoteRuns
from pipeline import listing
from pipeline.names import RunName
from pipeline.rows import rows
from pipeline.schemas import LISTING

LITTLE_RUNS: Final = 200


class Source(Protocol):
    """Where the runs lie."""

    def check(self) -> None:
        """Raise UsageError when there is no such store."""

    def is_little(self, since_ns: int) -> bool:
        """Tell whether it seems that little is new since then, by the file system's clock."""

    def shares(self) -> list[tuple[str, int, int]]:
        """(family, share, shares) such that each has a few hundred runs at most."""

    def runs_of(self, family: str, share: int, of: int) -> Iterator[dict[str, Any]]:
        """Rows of LISTING for the runs of a family that fall to a share."""

    def at_hand(self, run: str) -> AbstractContextManager[Path]:
        """Have the files of a run in a folder meanwhile."""


@dataclass(frozen=True, slots=True)
class Folder:
    """Runs in a folder that every executor sees under the same name, from ``/``."""

    store: Path

    def check(self) -> None:
        """See ``Source``."""
        if not self.store.is_dir():
            raise UsageError(
                f"{self.store}: no such folder; name one with runs, as run --store does"
            )

    def is_little(self, since_ns: int) -> bool:
        """See ``Source``."""
        return listing.is_little(self.store, since_ns)

    def shares(self) -> list[tuple[str, int, int]]:
        """See ``Source``."""
        return listing.shares(self.store)

    def runs_of(self, family: str, share: int, of: int) -> Iterator[dict[str, Any]]:
        """See ``Source``."""
        return listing.runs_of(self.store, family, share, of)

    def at_hand(self, run: str) -> AbstractContextManager[Path]:
        """Give the folder itself."""
        return nullcontext(self.store / run)


@dataclass(frozen=True, slots=True)
class Bucket:
    """Runs in object storage; executors fetch them, by the credentials that they find."""

    address: Address

    def check(self) -> None:
        """See ``Source``."""
        Objects(self.address)

    def is_little(self, since_ns: int) -> bool:  # noqa: ARG002 - objects tell no other time
        """Tell whether there are few runs, new or not."""
        return len(self._runs().entries()) < LITTLE_RUNS

    def shares(self) -> list[tuple[str, int, int]]:
        """See ``Source``."""
        counts = Counter(run.partition("/")[0] for run in self._runs().entries())
        found = []
        for family, count in sorted(counts.items()):
            of = listing.shares_of(count)
            found += [(family, share, of) for share in range(of)]
        return found

    def runs_of(self, family: str, share: int, of: int) -> Iterator[dict[str, Any]]:
        """See ``Source``."""
        remote = self._runs()
        for run, entry in sorted(remote.entries(family).items()):
            if crc32(run.partition("/")[2].encode()) % of != share:
                continue
            manifest = remote.manifest(run)
            if manifest is None:
                continue  # it went while we looked
            judged = {n: mark for n, mark in sorted(manifest.files.items()) if _is_judged_by(n)}
            if "spec.json" not in judged:
                continue
            seen = hashlib.blake2b(digest_size=16)
            for name, mark in judged.items():
                seen.update(f"{name} {mark.size} {mark.sha256}\n".encode())
            yield RunName.of(run)._asdict() | {
                "size_bytes": sum(mark.size for mark in judged.values()),
                "fingerprint": seen.hexdigest(),
                "newest_s": entry.changed.timestamp(),
                "judged": "results.json" in judged,
            }

    @contextmanager
    def at_hand(self, run: str) -> Iterator[Path]:
        """Fetch what the run is judged by into a folder that is gone afterwards."""
        remote = self._runs()
        with tempfile.TemporaryDirectory(prefix="krucible-run-") as folder:
            path = Path(folder) / run
            path.mkdir(parents=True)
            manifest = remote.manifest(run)
            if manifest is not None:
                remote.fetch(run, path, tuple(filter(_is_judged_by, manifest.files)))
            yield path

    def _runs(self) -> RemoteRuns:
        return RemoteRuns(Objects(self.address))


def _is_judged_by(name: str) -> bool:
    folder, _, rest = name.partition("/")
    return folder in listing.JUDGED_FOLDERS if rest else name in listing.JUDGED_FILES


def listed(
    source: Source, of: Sequence[tuple[str, int, int]]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Tell what a task does: numbers of ``Source.shares`` in, rows of LISTING out."""

    def work(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield rows(LISTING, list(source.runs_of(*of[number])))

    return work
