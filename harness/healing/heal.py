"""Healing: what dead harnesses left on this host is undone, whatever it is.

The journals of dead runs say what was installed; functions that undo a kind of thing register by
``undoes``. As a second net some kinds are found by marks of their own, without any journal: see
``sweeps``. And what keeps others from working, though its harness lives, can be taken away: see
``clears``. These functions live in modules ``heal`` below ``harness/envs``, found by that name.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from harness.errors import EnvError
from harness.healing.journal import (
    RUN_VARIABLE,
    STATE_VARIABLE,
    Entry,
    harness_alive,
    harness_of,
    is_here,
    read_journal,
    state_folder,
)
from harness.processes.procfs import (
    ProcessId,
    environment_of,
    identify,
    is_alive,
    processes,
    send_signal,
)
from harness.registry import environments

_GONE_TIMEOUT_S = 5.0
_TURN_TIMEOUT_S = 30.0  # of another heal of the same run


@dataclass(frozen=True, slots=True)
class Leftover:
    """A thing that a dead harness left behind, and what became of it.

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


class Clear(Protocol):
    """Removes what a run has made of one kind, by its own marks, though its harness lives."""

    def __call__(self, run: str, folder: Path) -> list[Leftover]:
        """Remove what the run with a journal in ``folder`` has made; what became of each."""
        ...


class Sweep(Protocol):
    """Finds what dead harnesses left of one kind, by its own marks and without any journal."""

    def __call__(self, folder: Path | None, only_run: str | None, *, heal: bool) -> list[Leftover]:
        """Tell what there is, of all runs or some (see ``heal_all``); with ``heal``, undo it."""
        ...


Undo = Callable[[str, Mapping[str, Any]], str]
_UNDO: dict[str, Undo] = {}
_SWEEPS: list[Sweep] = []
_CLEARS: list[Clear] = []


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


def clears(function: Clear) -> Clear:
    """Decorate a function that is asked to clear up after a harness that hangs."""
    _CLEARS.append(function)
    return function


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
        found += sweep_all(None, only_run, heal=True)
    return found + [_heal_marked(run, process) for run, process in _orphans(folder, only_run)]


def leftovers(folder: Path | None = None) -> list[Leftover]:
    """Tell what ``heal_all`` would undo; changes nothing."""
    found = [
        Leftover(header["run"], entry.kind, entry.what, "left", done=False)
        for path in _journals(folder)
        for header, entries in [read_journal(path)]
        if header is not None and is_here(header) and not harness_alive(header)
        for entry in entries
        if not entry.undone
    ]
    marked = [
        Leftover(run, "marked process", {"pid": p.pid, "start": p.start}, "left", done=False)
        for run, p in _orphans(folder, None)
    ]
    swept = sweep_all(None, None, heal=False) if folder is None else []
    known = {(item.run, item.what.get("name")) for item in found}
    return found + marked + [i for i in swept if (i.run, i.what.get("name")) not in known]


# --------------------------------------------------------------------------- healing


def _journals(folder: Path | None) -> list[Path]:
    folder = state_folder() if folder is None else folder
    return sorted(folder.glob("*.jsonl")) if folder.is_dir() else []


def _heal_journal(path: Path) -> list[Leftover]:
    with _alone(path):
        return _heal_alone(path)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Wait while another process heals this run: what it removes needs no second one."""
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
    if not is_here(header) or harness_alive(header):
        return []
    run = header["run"]
    healed = [_undo(run, entry) for entry in reversed(entries) if not entry.undone]
    if all(item.done for item in healed):
        path.unlink(missing_ok=True)
    return healed


def sweep_all(folder: Path | None, only_run: str | None, *, heal: bool) -> list[Leftover]:
    """Look for what dead harnesses left, by all marks that there are; with ``heal``, undo it."""
    _load_healers()
    found: list[Leftover] = []
    for sweep in _SWEEPS:
        try:
            found += sweep(folder, only_run, heal=heal)
        except EnvError as error:
            found.append(Leftover(only_run or "any", "unknown", {}, str(error), done=False))
    return found


def clear_run(run: str, folder: Path) -> list[Leftover]:
    """Remove what a run keeps from others, though its harness lives; what became of each.

    Raises:
        EnvError: It cannot be looked for.
    """
    _load_healers()
    return [leftover for clear in _CLEARS for leftover in clear(run, folder)]


def _load_healers() -> None:
    """Import what knows how to undo kinds that are not ours; idempotent."""
    environments.load_beside("heal")


def _undo(run: str, entry: Entry) -> Leftover:
    if entry.kind not in _UNDO:
        _load_healers()
    function = _UNDO.get(entry.kind)
    if function is None:
        return Leftover(
            run,
            entry.kind,
            entry.what,
            f"this krucible does not know how to undo {entry.kind!r}",
            done=False,
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
    # A watchdog that heals for its dead harness finds itself in the journal.
    return "it ends by itself" if process.pid == os.getpid() else _kill_process(process)


@undoes("cut")
def _uncut(run: str, what: Mapping[str, Any]) -> str:  # noqa: ARG001
    return "it went with its relay"


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
