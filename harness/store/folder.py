"""The store: one folder per run, written so that a kill at any moment leaves it readable.

::

    store/<system>-<workload>/<start>-<seed>/
        spec.json  schedule.jsonl  history.jsonl  results.json  report.html
        events/<node>.jsonl     protocol events, stamped on arrival
        events/collecting       until when none is missing; gone once all are here
        logs/<node>.log         what the node's process printed
        records/<node>.jsonl    the node's replicated log at the end, one batch a line
        snapshots/<node>.jsonl  its snapshots at the end, one a line: what its log may lack
    store/latest -> the run that was begun last

Whole files are written beside their place and renamed into it. Nothing is deleted here (the
rotation of a night with a `store-limit` drops valid runs: `harness.nightly.rotation`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from harness.contracts.evidence import LogBatch, LogSnapshot
from harness.contracts.nemesis import Fault
from harness.errors import UsageError
from harness.faults import schedule
from harness.spec import RunSpec

Render = Callable[[Path], str]  # a judged run's folder to its report, HTML

SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
NEW_RUN_TRIES = 100  # runs of one seed begun within so many milliseconds get names of their own


@dataclass(frozen=True, slots=True)
class RunDir:
    """The folder of one run, and where everything in it is.

    ``render`` draws its report, where whoever opened it handed that in.
    """

    path: Path
    render: Render | None = field(default=None, compare=False, repr=False)

    @property
    def spec(self) -> Path:
        """The run's options."""
        return self.path / "spec.json"

    @property
    def schedule(self) -> Path:
        """The faults that were asked for."""
        return self.path / "schedule.jsonl"

    @property
    def history(self) -> Path:
        """All ops, as they happened."""
        return self.path / "history.jsonl"

    @property
    def results(self) -> Path:
        """The verdict and what led to it."""
        return self.path / "results.json"

    @property
    def report(self) -> Path:
        """The page for people."""
        return self.path / "report.html"

    @property
    def events_dir(self) -> Path:
        """Protocol events, a file per node."""
        return self.path / "events"

    @property
    def logs_dir(self) -> Path:
        """Process output, a file per node."""
        return self.path / "logs"

    @property
    def records_dir(self) -> Path:
        """Replicated logs, a file per node."""
        return self.path / "records"

    @property
    def snapshots_dir(self) -> Path:
        """Snapshots of replicated logs, a file per node."""
        return self.path / "snapshots"

    def events(self, node: str) -> Path:
        """The node's protocol events."""
        return self.events_dir / f"{safe_name(node)}.jsonl"

    def log(self, node: str) -> Path:
        """The node's process output."""
        return self.logs_dir / f"{safe_name(node)}.log"

    def records(self, node: str) -> Path:
        """The node's replicated log."""
        return self.records_dir / f"{safe_name(node)}.jsonl"

    def snapshots(self, node: str) -> Path:
        """The node's snapshots."""
        return self.snapshots_dir / f"{safe_name(node)}.jsonl"

    def write_schedule(self, faults: Iterable[Fault]) -> None:
        """Save the schedule."""
        schedule.save(self.schedule, faults)

    def write_results(self, results: Mapping[str, Any]) -> None:
        """Save the results."""
        write_json(self.results, results)

    def write_report(self) -> None:
        """Render the report of the judged run and save it; nothing, where nobody can render."""
        if self.render is not None:
            write_whole(self.report, self.render(self.path).encode())

    def write_records(self, node: str, batches: Iterable[LogBatch]) -> None:
        """Save a node's replicated log."""
        lines = [msgspec.json.encode(batch.to_json()) + b"\n" for batch in batches]
        write_whole(self.records(node), b"".join(lines))

    def write_snapshots(self, node: str, snapshots: Iterable[LogSnapshot]) -> None:
        """Save a node's snapshots, oldest first."""
        self.snapshots_dir.mkdir(exist_ok=True)
        lines = [msgspec.json.encode(snapshot.to_json()) + b"\n" for snapshot in snapshots]
        write_whole(self.snapshots(node), b"".join(lines))


class Store:
    """A folder of runs; ``render`` draws their reports, without it they have none."""

    def __init__(
        self,
        root: Path,
        *,
        now: Callable[[], datetime] | None = None,
        render: Render | None = None,
    ) -> None:
        self.root = root
        self._render = render
        self._now = now or (lambda: datetime.now(UTC))

    def new_run(self, spec: RunSpec) -> RunDir:
        """Make a folder for a run that begins now, save its spec and point ``latest`` at it.

        Raises:
            UsageError: A system or workload name that makes no file name, or a folder that
                cannot be written.
        """
        family = self.root / f"{safe_name(spec.system)}-{safe_name(spec.workload)}"
        try:
            family.mkdir(parents=True, exist_ok=True)
            run = self._run(self._fresh(family, spec.seed))
            for folder in (run.events_dir, run.logs_dir, run.records_dir):
                folder.mkdir()
            write_json(run.spec, spec.to_json())
            self._point_latest(run.path)
        except OSError as error:
            raise UsageError(
                f"{self.root}: cannot store a run: {error}; choose a writable --store"
            ) from error
        return run

    def _run(self, path: Path) -> RunDir:
        return RunDir(path, self._render)

    def _fresh(self, family: Path, seed: int) -> Path:
        start = self._now().strftime("%Y%m%dT%H%M%S.%f")[:-3] + "Z"
        for number in range(NEW_RUN_TRIES):
            path = family / (f"{start}-{seed}" if number == 0 else f"{start}.{number}-{seed}")
            try:
                path.mkdir()
            except FileExistsError:
                continue
            return path
        raise UsageError(f"{family}: {NEW_RUN_TRIES} runs of seed {seed} began at {start}")

    def _point_latest(self, path: Path) -> None:
        link = self.root / f".latest.{os.getpid()}.{path.name}"
        link.symlink_to(path.relative_to(self.root), target_is_directory=True)
        os.replace(link, self.root / "latest")  # noqa: PTH105 - rename over, atomically

    def runs(self) -> list[RunDir]:
        """All runs, the one begun first at the head."""
        found = [p.parent for p in self.root.glob("*/*/spec.json") if p.parent.parent != self.root]
        inside = [p for p in found if p.parent.name != "latest"]
        return [self._run(p) for p in sorted(inside, key=lambda p: (p.name, p.parent.name))]

    def resolve(self, text: str) -> RunDir:
        """The run that ``text`` means: its folder or a file in it, ``latest``, its name, its seed.

        A seed that was run more than once means its last run.

        Raises:
            UsageError: When there is none; says what was looked for, and where.
        """
        if text == "latest":
            latest = self.root / "latest"
            if (latest / "spec.json").is_file():
                return self._run(latest.resolve())
            raise UsageError(f"{latest}: there is no run yet; `krucible run` makes one")
        for path in (Path(text), Path(text).parent, self.root / text):
            if (path / "spec.json").is_file():
                return self._run(path.resolve())
        named = [run for run in self.runs() if text in (run.path.name, _seed_of(run.path))]
        if named:
            return named[-1]
        seeds = sorted({_seed_of(run.path) for run in self.runs()})
        there = f"seeds there: {', '.join(seeds[-10:])}" if seeds else "the store has no runs"
        raise UsageError(
            f"no run is called {text!r}: it is no run folder, and no name or seed in "
            f"{self.root} ({there})"
        )


def safe_name(name: str) -> str:
    """The name, when it can be part of a path.

    Raises:
        UsageError: When it holds anything but letters, digits, ``.``, ``_`` and ``-``.
    """
    if not SAFE_NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be part of a file name: use letters, digits, '.', '_' and '-', "
            "beginning with a letter or digit, at most 100"
        )
    return name


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file, indented and with sorted keys; it appears whole or not at all."""
    encoded = msgspec.json.encode(value, order="sorted")
    write_whole(path, msgspec.json.format(encoded, indent=2) + b"\n")


def write_whole(path: Path, data: bytes) -> None:
    """Write a file beside its place and rename it there: it appears whole or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with draft.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)  # noqa: PTH105 - rename over, atomically


def _seed_of(path: Path) -> str:
    """The seed in a run folder's name (``<start>-<seed>``; a seed may be negative)."""
    return path.name.partition("-")[2]
