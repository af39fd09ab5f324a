"""The store: one folder per run, written so that a kill at any moment leaves it readable.

::

    store/<system>-<workload>/<start>-<seed>-<id>/
        spec.json  schedule.jsonl  history.jsonl  results.json  report.html
        run.json                the run's id, start and origin: the command, and the run it repeats
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

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from harness.contracts.evidence import LogBatch, LogSnapshot
from harness.contracts.nemesis import Fault
from harness.errors import UsageError
from harness.faults import schedule
from harness.spec import SIM, RunSpec
from harness.store.home import LATEST, Folder, Home, home_of
from harness.store.origin import Origin
from harness.store.provenance import provenance
from harness.store.remote.address import Address, is_remote

Render = Callable[[Path], str]  # a judged run's folder to its report, HTML

SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
NEW_RUN_TRIES = 100  # runs of one seed begun within so many milliseconds get names of their own
SHOWN_MAX = 10  # runs, or seeds, in an error text
ID_CHARS = 7
_elsewhere: ContextVar[Path | None] = ContextVar("_elsewhere", default=None)
_ID_FIRST = "abcdefghjkmnpqrstuvwxyz"  # a letter: no id is a seed
_ID_OTHER = _ID_FIRST + "23456789"
_NAME = re.compile(rf"[^-]+-(?P<seed>-?\d+)(?:-(?P<id>[{_ID_FIRST}][{_ID_OTHER}]+))?")


@dataclass(frozen=True, slots=True)
class RunDir:
    """The folder of one run, and where everything in it is.

    ``render`` draws its report, where whoever opened it handed that in.
    """

    path: Path
    render: Render | None = field(default=None, compare=False, repr=False)

    @property
    def id(self) -> str:
        """The run's own id, as its folder's name ends; of an older store the whole name."""
        match = _NAME.fullmatch(self.path.name)
        return self.path.name if match is None or match["id"] is None else match["id"]

    @property
    def seed(self) -> int | None:
        """The seed that its folder's name tells; None when it tells none."""
        match = _NAME.fullmatch(self.path.name)
        return None if match is None else int(match["seed"])

    @property
    def root(self) -> Path:
        """The folder of the store that the run lies in, from ``/``."""
        return self.path.absolute().parent.parent

    @property
    def store(self) -> str:
        """The name of its store: a folder from ``/``, or its address in a bucket."""
        return home_of(self.root) or str(self.root)

    @property
    def told(self) -> str:
        """The run's name for people and machines: its folder, or its address in a bucket."""
        home = home_of(self.root)
        return str(self.path) if home is None else f"{home}/{self.family}/{self.path.name}"

    @property
    def family(self) -> str:
        """The folder of the store that it lies in: SYSTEM-WORKLOAD."""
        return self.path.absolute().parent.name

    @property
    def words(self) -> tuple[str, ...]:
        """The arguments that name the run to ``krucible`` from any folder: RUN [--store DIR]."""
        path = self.path.absolute()
        home = home_of(self.root)
        if home is not None:
            return (self.id if self.id != path.name else self.told, "--store", home)
        if not (self.root / LATEST).is_symlink():  # the run was copied out of its store
            return (str(path),)
        return (self.id if self.id != path.name else str(path), "--store", str(self.root))

    @property
    def origin(self) -> Path:
        """The run's id, start and origin."""
        return self.path / "run.json"

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

    def write_origin(self, origin: Origin) -> None:
        """Save how the run came to be, with its id."""
        write_json(self.origin, {**origin.to_json(), "id": self.id})

    def read_origin(self) -> Origin:
        """Read how the run came to be; an empty origin for a run of an older store."""
        try:
            return Origin.from_json(msgspec.json.decode(self.origin.read_bytes()))
        except FileNotFoundError:
            return Origin("")
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{self.origin}: not the origin of a run: {error!r}") from error

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
    """A folder of runs; ``render`` draws their reports, without it they have none.

    One that is pickled comes back without ``render``, and in the folder of ``stores_in``: who works
    for it on another machine need not see its disk.
    """

    def __init__(
        self,
        root: Path,
        *,
        now: Callable[[], datetime] | None = None,
        render: Render | None = None,
        home: Home | None = None,
    ) -> None:
        self.root = root
        self.home: Home = home or Folder(root)
        self._render = render
        self._now = now or (lambda: datetime.now(UTC))

    def new_run(self, spec: RunSpec, origin: Origin | None = None) -> RunDir:
        """Make a folder for a run that begins now, save its spec and point ``latest`` at it.

        Args:
            spec: The run's options.
            origin: The command that makes it; ``run`` or ``sim`` when not given.

        Raises:
            UsageError: A system or workload name that makes no file name, or a folder that
                cannot be written.
        """
        family = self.root / f"{safe_name(spec.system)}-{safe_name(spec.workload)}"
        try:
            family.mkdir(parents=True, exist_ok=True)
            now = self._now()
            run = self._run(self._fresh(family, spec.seed, now))
            for folder in (run.events_dir, run.logs_dir, run.records_dir):
                folder.mkdir()
            origin = origin or Origin("sim" if spec.env == SIM else "run")
            begun, made = now.isoformat(timespec="milliseconds"), asdict(provenance())
            run.write_origin(replace(origin, begun=begun, **made))
            write_json(run.spec, spec.to_json())
            self._point_latest(run.path)
        except OSError as error:
            raise UsageError(
                f"{self.root}: cannot store a run: {error}; choose a writable --store"
            ) from error
        return run

    def adopt(self, made: Path) -> RunDir:
        """Take in a run that another store made, whose folder is moved; it gets a new id.

        It appears whole, with a report, and with this machine's version and commit: it was made by
        the code that was sent from here.

        Raises:
            UsageError: The folder holds no run, or the store cannot be written.
        """
        spec = RunSpec.from_json(_read(made / "spec.json"))
        origin = RunDir(made).read_origin()
        family = self.root / f"{safe_name(spec.system)}-{safe_name(spec.workload)}"
        try:
            family.mkdir(parents=True, exist_ok=True)
            begun = datetime.fromisoformat(origin.begun) if origin.begun else self._now()
            run = self._run(self._fresh(family, spec.seed, begun))
            home = provenance()
            made_by = replace(origin, version=home.version, commit=home.commit)
            write_json(made / "run.json", {**made_by.to_json(), "id": run.id})
            os.replace(made, run.path)  # noqa: PTH105 - over the empty folder, atomically
            run.write_report()
            self._point_latest(run.path)
        except OSError as error:
            raise UsageError(
                f"{self.root}: cannot store a run: {error}; choose a writable --store"
            ) from error
        return run

    def __reduce__(self) -> tuple[Callable[[Path], Store], tuple[Path]]:
        return _unpickled, (self.root,)

    def _run(self, path: Path) -> RunDir:
        return RunDir(path, self._render)

    def _fresh(self, family: Path, seed: int, now: datetime) -> Path:
        start = now.strftime("%Y%m%dT%H%M%S.%f")[:-3] + "Z"
        for number in range(NEW_RUN_TRIES):
            begun = start if number == 0 else f"{start}.{number}"
            id_ = _id_of(f"{family.name}/{begun}-{seed}")
            path = family / f"{begun}-{seed}-{id_}"
            if any(self.root.glob(f"*/*-{id_}")):
                continue
            try:
                path.mkdir()
            except FileExistsError:
                continue
            return path
        raise UsageError(f"{family}: {NEW_RUN_TRIES} runs of seed {seed} began at {start}")

    def _point_latest(self, path: Path) -> None:
        link = self.root / f".latest.{os.getpid()}.{path.name}"
        link.symlink_to(path.relative_to(self.root), target_is_directory=True)
        os.replace(link, self.root / LATEST)  # noqa: PTH105 - rename over, atomically

    def runs(self) -> list[RunDir]:
        """All runs, the one begun first at the head."""
        return [self._run(path) for path in self.home.runs()]

    def resolve(self, text: str) -> RunDir:
        """The run that ``text`` names: by folder or a file in it, ``latest``, id, name or seed.

        Raises:
            UsageError: No run is named so, or several runs have the seed; says what was looked
                for, and where.
        """
        if text == LATEST:
            latest = self.home.latest()
            if latest is not None:
                return self._fetched(self._run(latest))
            raise UsageError(f"{self.told}/{LATEST}: there is no run yet; `krucible run` makes one")
        given = Path(text)
        for path in (given, given.parent if given.is_file() else given, self.root / text):
            if (path / "spec.json").is_file():
                return self._run(path.resolve())
        runs = self.runs()
        found = [run for run in runs if text in (run.id, run.path.name, str(run.seed), run.told)]
        if len(found) == 1:
            return self._fetched(found[0])
        if found:
            raise UsageError(_several(text, found))
        raise UsageError(self._none(text, runs))

    @property
    def told(self) -> str:
        """The store's name for people and machines: its folder, or its address in a bucket."""
        return home_of(self.root) or str(self.root)

    def _fetched(self, run: RunDir) -> RunDir:
        self.home.fetch(run.path)
        return run

    def _none(self, text: str, runs: list[RunDir]) -> str:
        """Say that the store has no such run, and what it has."""
        where = f"no run in {home_of(self.root) or self.root.absolute()} has"
        if not re.fullmatch(r"-?\d+", text):
            return f"{where} the id or name {text!r}, and it is no run's folder"
        seeds = sorted({run.seed for run in runs if run.seed is not None})
        there = (
            f"it has {', '.join(map(str, seeds[-SHOWN_MAX:]))}" if seeds else "the store is empty"
        )
        return f"{where} the seed {text}: {there}"


def words_of(told: str) -> tuple[str, ...]:
    """``RunDir.words`` of a run by its name, ``RunDir.told``."""
    parts = Address.parse(told).parent() if is_remote(told) else None
    if parts is None:
        return RunDir(Path(told)).words
    run = RunDir(Path(parts[1]))
    return (run.id if run.id != run.path.name else told, "--store", str(parts[0]))


@contextmanager
def stores_in(folder: Path) -> Iterator[None]:
    """Have the stores that are unpickled meanwhile in a folder of this machine."""
    before = _elsewhere.set(folder)
    try:
        yield
    finally:
        _elsewhere.reset(before)


def _unpickled(root: Path) -> Store:
    return Store(_elsewhere.get() or root)


def _read(path: Path) -> dict[str, Any]:
    """Read a JSON object of a run; raises UsageError."""
    try:
        found: dict[str, Any] = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(f"{path}: cannot be read as a part of a run: {error}") from error
    return found


def _several(text: str, runs: list[RunDir]) -> str:
    """Say that a name is of several runs, and which they are, the last first."""
    told = [f"{run.id} ({_about(run)})" for run in reversed(runs[-SHOWN_MAX:])]
    if len(runs) > SHOWN_MAX:
        told.append(f"{len(runs) - SHOWN_MAX} older ones")
    return f"{len(runs)} runs have the seed {text}: want one of their ids: {', '.join(told)}"


def _about(run: RunDir) -> str:
    """Name what a run is of, and the command that made it."""
    return ", ".join(filter(None, (run.path.parent.name, str(run.read_origin()))))


def _id_of(name: str) -> str:
    """Draw an id from the digest of a run's family and folder."""
    number = int.from_bytes(hashlib.sha256(name.encode()).digest())
    number, first = divmod(number, len(_ID_FIRST))
    found = _ID_FIRST[first]
    for _ in range(ID_CHARS - 1):
        number, at = divmod(number, len(_ID_OTHER))
        found += _ID_OTHER[at]
    return found


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
