"""The heal journal: what is installed on this host right now, so that anybody can undo it.

Before a process is started, frozen or cut off, a line says so in the run's journal file, flushed
to disk; when it is undone, another line says that. A harness that is killed leaves its open lines
behind, and ``heal_all`` (``krucible heal``, and the start of every run) undoes them. As a second
net every process we start carries two marker variables, so that it can be found even when the
harness died between the fork and the journal's line.

One file per run in ``$KRUCIBLE_STATE``, else ``$XDG_STATE_HOME/krucible``, else
``~/.local/state/krucible``, JSON lines::

    {"run": "r1", "harness": {"pid": 7, "start": 99}, "place": "host/pid:[4026531836]", "boot": "…"}
    {"entry": 1, "kind": "process", "what": {"node": "n1"}}
    {"entry": 1, "what": {"pid": 8, "start": 101}}
    {"entry": 1, "undone": true}

Other kinds of things to undo (containers, firewall rules) register how: see ``undoes`` and
``sweeps``. They live in modules ``harness/envs/*_heal.py``, which are found by that name.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import platform
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from harness.errors import EnvError
from harness.processes.procfs import (
    ProcessId,
    environment_of,
    identify,
    is_alive,
    processes,
    send_signal,
)
from harness.registry import environments

RUN_VARIABLE = "KRUCIBLE_RUN"  # the run a process belongs to
HARNESS_VARIABLE = "KRUCIBLE_HARNESS"  # "<pid>.<start>" of the harness that started it
STATE_VARIABLE = "KRUCIBLE_STATE"  # where the journals are, for the relay that outlives us
_GONE_TIMEOUT_S = 5.0
_TURN_TIMEOUT_S = 30.0  # of another heal of the same run


@dataclass(slots=True)
class Entry:
    """One thing that was installed; ``what`` is JSON."""

    id: int
    kind: str
    what: dict[str, Any] = field(default_factory=dict)
    undone: bool = False


@dataclass(frozen=True, slots=True)
class Leftover:
    """Something a dead harness left behind, and what became of it.

    ``done`` is False when it is still there; ``action`` then says why.
    """

    run: str
    kind: str
    what: dict[str, Any]
    action: str
    done: bool

    def __str__(self) -> str:
        what = " ".join(f"{name}={value}" for name, value in self.what.items())
        return f"run {self.run}: {self.kind} {what}: {self.action}"

    def to_json(self) -> dict[str, Any]:
        """The leftover as a JSON object."""
        return asdict(self)


class Sweep(Protocol):
    """Finds what dead harnesses left of one kind, by its own marks and without any journal."""

    def __call__(self, folder: Path | None, only_run: str | None, *, heal: bool) -> list[Leftover]:
        """What there is, of all runs or some (see ``heal_all``); with ``heal``, undo it."""
        ...


Undo = Callable[[str, Mapping[str, Any]], str]
_UNDO: dict[str, Undo] = {}
_SWEEPS: list[Sweep] = []


def undoes(kind: str) -> Callable[[Undo], Undo]:
    """Decorate the function that undoes journal entries of a kind.

    It gets the run's id and the entry's ``what``, returns what it did in a few words, and must
    be idempotent. It raises EnvError when the thing is still there.
    """

    def add(function: Undo) -> Undo:
        _UNDO[kind] = function
        return function

    return add


def sweeps(function: Sweep) -> Sweep:
    """Decorate a function that is asked for leftovers when all of this host is looked at.

    It must be quick where its kind of thing is not there. It raises EnvError when it cannot look.
    """
    _SWEEPS.append(function)
    return function


class Journal:
    """The heal journal of one live run. Thread-safe; each call returns once it is on disk."""

    def __init__(self, path: Path, run: str) -> None:
        self.run = run
        self.path = path
        self._entries: dict[int, Entry] = {}
        self._lock = threading.Lock()
        self._file = path.open("ab", buffering=0)

    @classmethod
    def open(cls, run: str, *, folder: Path | None = None) -> Journal:
        """Begin the journal of a run; ``run`` must be unique on this host.

        Raises:
            EnvError: The folder cannot be written, or a run of that id has a journal already.
        """
        folder = state_folder() if folder is None else folder
        path = folder / f"{run}.jsonl"
        draft = folder / f".{run}.{os.getpid()}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            draft.write_text(json.dumps(_header(run)) + "\n")
            os.link(draft, path)  # whole or not at all: nobody ever sees it without its owner
            draft.unlink()
        except FileExistsError:
            draft.unlink(missing_ok=True)
            raise EnvError(
                f"run {run!r} has a heal journal already ({path}): choose another run id, "
                f"or `krucible heal` if that run is dead"
            ) from None
        except OSError as error:
            raise EnvError(
                f"cannot write the heal journal {path}: {error}; set KRUCIBLE_STATE to a folder "
                f"that can be written"
            ) from error
        return cls(path, run)

    def environ(self) -> dict[str, str]:
        """The marker variables that every process of this run must carry."""
        me = _self()
        return {
            RUN_VARIABLE: self.run,
            HARNESS_VARIABLE: f"{me.pid}.{me.start}",
            STATE_VARIABLE: str(self.path.parent),
        }

    def owner(self) -> dict[str, str]:
        """Whose things of this run are, to mark those that have no environment; all strings."""
        me = _self()
        return {
            "run": self.run,
            "harness": f"{me.pid}.{me.start}",
            "place": _place(),
            "boot": _boot(),
            "state": str(self.path.parent.resolve()),
        }

    def record(self, kind: str, **what: Any) -> int:
        """Say that something is about to be installed; returns the entry's id."""
        with self._lock:
            entry = Entry(len(self._entries) + 1, kind, what)
            self._entries[entry.id] = entry
            self._write({"entry": entry.id, "kind": kind, "what": what})
            return entry.id

    async def announce(self, kind: str, **what: Any) -> int:
        """``record`` off the event loop; when cancelled meanwhile the entry is undone again.

        The caller that is cancelled here has installed nothing yet, and never learns the id.
        """
        recording = asyncio.ensure_future(asyncio.to_thread(self.record, kind, **what))
        try:
            return await asyncio.shield(recording)
        except asyncio.CancelledError:
            await asyncio.to_thread(self.undone, await recording)
            raise

    def update(self, entry: int, **what: Any) -> None:
        """Add what is known only now, such as a pid."""
        with self._lock:
            self._entries[entry].what.update(what)
            self._write({"entry": entry, "what": what})

    def undone(self, entry: int) -> None:
        """Say that it is undone; idempotent."""
        with self._lock:
            if not self._entries[entry].undone:
                self._entries[entry].undone = True
                self._write({"entry": entry, "undone": True})

    def open_entries(self) -> tuple[Entry, ...]:
        """What is installed at present."""
        with self._lock:
            return tuple(e for e in self._entries.values() if not e.undone)

    def close(self) -> None:
        """Close the journal; its file goes when nothing is left to undo. Idempotent."""
        if self._file.closed:
            return
        self._file.close()
        if not self.open_entries():
            self.path.unlink(missing_ok=True)

    def _write(self, line: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(line).encode() + b"\n")
        os.fsync(self._file.fileno())


def state_folder() -> Path:
    """Where the journals of this user's runs are."""
    if chosen := os.environ.get(STATE_VARIABLE):
        return Path(chosen)
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(base).expanduser() / "krucible"


def heal_all(folder: Path | None = None, *, only_run: str | None = None) -> list[Leftover]:
    """Undo what dead harnesses left behind; returns what was found and what was done.

    Never touches a run whose harness lives, nor a process without our marker. Idempotent; of two
    at the same time one waits for the other.

    Args:
        folder: Heal only runs whose journals are there; None: the default folder's, and
            everything that is marked as ours on this host wherever its journal was.
        only_run: Heal only this run.
    """
    found: list[Leftover] = []
    for path in _journals(folder):
        if only_run is None or path.stem == only_run:
            found += _heal_journal(path)
    if folder is None:
        found += _sweep(only_run, heal=True)
    return found + [_heal_marked(run, process) for run, process in _orphans(folder, only_run)]


def leftovers(folder: Path | None = None) -> list[Leftover]:
    """What ``heal_all`` would undo; changes nothing."""
    found = [
        Leftover(header["run"], entry.kind, entry.what, "left", done=False)
        for path in _journals(folder)
        for header, entries in [read_journal(path)]
        if header is not None and _is_here(header) and not _harness_alive(header)
        for entry in entries
        if not entry.undone
    ]
    marked = [
        Leftover(run, "marked process", {"pid": p.pid, "start": p.start}, "left", done=False)
        for run, p in _orphans(folder, None)
    ]
    swept = _sweep(None, heal=False) if folder is None else []
    known = {(item.run, item.what.get("name")) for item in found}
    return found + marked + [i for i in swept if (i.run, i.what.get("name")) not in known]


def read_journal(path: Path) -> tuple[dict[str, Any] | None, list[Entry]]:
    """A journal's header (None when unreadable) and its entries; a torn last line is dropped."""
    try:
        lines = path.read_bytes().split(b"\n")[:-1]  # what has no newline at its end was torn
        header = json.loads(lines[0])
        ProcessId(**header["harness"])
        str(header["run"])
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None, []
    entries: dict[int, Entry] = {}
    for raw in lines[1:]:
        try:
            line = json.loads(raw)
            entry = entries.setdefault(line["entry"], Entry(line["entry"], line.get("kind", "?")))
            entry.what.update(line.get("what", {}))
            entry.undone = entry.undone or bool(line.get("undone"))
        except (ValueError, KeyError, TypeError, AttributeError):
            continue  # one unreadable line must not keep the others from being healed
    return header, list(entries.values())


# --------------------------------------------------------------------------- healing


def _journals(folder: Path | None) -> list[Path]:
    folder = state_folder() if folder is None else folder
    return sorted(folder.glob("*.jsonl")) if folder.is_dir() else []


def _heal_journal(path: Path) -> list[Leftover]:
    with _alone(path):
        return _heal_alone(path)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """While somebody else heals this run, wait: what they remove needs no second hand."""
    try:
        file = path.open("rb")
    except OSError:
        yield  # gone already, or unreadable, which is told later
        return
    with file:  # closing it lets go of the lock, and so does the death of its holder
        deadline = time.monotonic() + _TURN_TIMEOUT_S
        while time.monotonic() < deadline:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.02)
        yield


def _heal_alone(path: Path) -> list[Leftover]:
    header, entries = read_journal(path)
    if header is None:
        if not path.exists():  # another heal was faster
            return []
        return [
            Leftover(path.stem, "journal", {"path": str(path)}, "unreadable: delete it", done=False)
        ]
    if not _is_here(header) or _harness_alive(header):
        return []
    run = header["run"]
    healed = [_undo(run, entry) for entry in reversed(entries) if not entry.undone]
    if all(item.done for item in healed):
        path.unlink(missing_ok=True)
    return healed


def _sweep(only_run: str | None, *, heal: bool) -> list[Leftover]:
    _load_healers()
    found: list[Leftover] = []
    for sweep in _SWEEPS:
        try:
            found += sweep(None, only_run, heal=heal)
        except EnvError as error:
            found.append(Leftover(only_run or "any", "unknown", {}, str(error), done=False))
    return found


def _load_healers() -> None:
    """Import what knows how to undo kinds that are not ours; idempotent."""
    environments.load_beside("heal")


def _undo(run: str, entry: Entry) -> Leftover:
    if entry.kind not in _UNDO:
        _load_healers()
    function = _UNDO.get(entry.kind)
    if function is None:
        return Leftover(
            run, entry.kind, entry.what, f"nobody here knows how to undo {entry.kind!r}", done=False
        )
    try:
        return Leftover(run, entry.kind, entry.what, function(run, entry.what), done=True)
    except EnvError as error:
        return Leftover(run, entry.kind, entry.what, str(error), done=False)


@undoes("pause")
def _thaw(run: str, what: Mapping[str, Any]) -> str:
    process = _ours(run, what)
    if process is None:
        return "already gone"
    return "thawed" if send_signal(process, signal.SIGCONT) else "already gone"


@undoes("process")
def _kill(run: str, what: Mapping[str, Any]) -> str:
    process = _ours(run, what)
    if process is None:
        return "already gone"
    # A relay that heals for its dead harness finds itself in the journal.
    return "ends by itself" if process.pid == os.getpid() else _kill_process(process)


@undoes("cut")
def _uncut(run: str, what: Mapping[str, Any]) -> str:  # noqa: ARG001
    return "gone with its relay"


def _ours(run: str, what: Mapping[str, Any]) -> ProcessId | None:
    """The process of an entry if it still is the one we started, by start time and by marker."""
    if "pid" not in what or "start" not in what:
        return None  # never started, or the harness died before it knew: the marker finds it
    process = ProcessId(int(what["pid"]), int(what["start"]))
    if not is_alive(process) or environment_of(process.pid).get(RUN_VARIABLE) != run:
        return None
    return process


def _heal_marked(run: str, process: ProcessId) -> Leftover:
    what = {"pid": process.pid, "start": process.start}
    try:
        return Leftover(run, "marked process", what, _kill_process(process), done=True)
    except EnvError as error:
        return Leftover(run, "marked process", what, str(error), done=False)


def _orphans(folder: Path | None, only_run: str | None) -> Iterator[tuple[str, ProcessId]]:
    """Processes that carry our marker and whose harness is dead."""
    for pid in list(processes()):
        process = identify(pid)
        variables = environment_of(pid)
        run = variables.get(RUN_VARIABLE)
        if process is None or run is None or only_run not in (None, run):
            continue
        home = Path(variables.get(STATE_VARIABLE, ""))
        if folder is not None and home.resolve() != folder.resolve():
            continue
        harness = harness_of(variables)
        orphaned = harness is not None and not is_alive(harness)
        if orphaned and is_alive(process) and pid != os.getpid():
            yield run, process


def _kill_process(process: ProcessId) -> str:
    frozen = send_signal(process, signal.SIGCONT)
    if not frozen or not send_signal(process, signal.SIGKILL):
        return "already gone"
    deadline = time.monotonic() + _GONE_TIMEOUT_S
    while is_alive(process):
        if time.monotonic() > deadline:
            raise EnvError(f"{process} did not die of SIGKILL within {_GONE_TIMEOUT_S:g} s")
        time.sleep(0.005)
    return "killed"


def harness_of(variables: Mapping[str, str]) -> ProcessId | None:
    """The harness that started a process with these variables; None when they do not say."""
    pid, _, start = variables.get(HARNESS_VARIABLE, "").partition(".")
    return ProcessId(int(pid), int(start)) if pid.isdigit() and start.isdigit() else None


def is_orphaned(owner: Mapping[str, str]) -> bool:
    """Whether a thing with such marks (see ``Journal.owner``) is of this host, its harness dead."""
    harness = harness_of({HARNESS_VARIABLE: owner.get("harness", "")})
    if harness is None or not _is_here(owner):
        return False
    return owner.get("boot") != _boot() or not is_alive(harness)


def _header(run: str) -> dict[str, Any]:
    return {"run": run, "harness": asdict(_self()), "place": _place(), "boot": _boot()}


def _self() -> ProcessId:
    me = identify(os.getpid())
    if me is None:
        raise EnvError("cannot read /proc/self/stat: krucible needs Linux with /proc mounted")
    return me


def _is_here(header: Mapping[str, Any]) -> bool:
    """Whether the run belongs to this host and pid namespace (a home folder may be shared)."""
    return bool(header.get("place") == _place())


def _harness_alive(header: Mapping[str, Any]) -> bool:
    return bool(header.get("boot") == _boot()) and is_alive(ProcessId(**header["harness"]))


def _place() -> str:
    return f"{platform.node()}/{Path('/proc/self/ns/pid').readlink()}"


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
