"""The heal journal: what is installed on this host right now, so that anybody can undo it.

Before a process is started, frozen or cut off, a line says so in the run's journal file, flushed
to disk; when it is undone, another line says that. A harness that is killed leaves its open lines
behind, and ``heal_all`` (``krucible heal``, the start of every run, a run's watchdog) undoes them;
see ``harness.healing.heal``. As a second net every process we start carries two marker variables,
so that it can be found even when the harness died between the fork and the journal's line.

One file per run in ``$KRUCIBLE_STATE``, else ``$XDG_STATE_HOME/krucible``, else
``~/.local/state/krucible``, JSON lines::

    {"run": "r1", "harness": {"pid": 7, "start": 99}, "place": "host/pid:[4026531836]", "boot": "…"}
    {"entry": 1, "kind": "process", "what": {"node": "n1"}}
    {"entry": 1, "what": {"pid": 8, "start": 101}}
    {"entry": 1, "undone": true}
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import EnvError
from harness.processes.procfs import (
    ProcessId,
    identify,
    is_alive,
)

RUN_VARIABLE = "KRUCIBLE_RUN"  # the run a process belongs to
HARNESS_VARIABLE = "KRUCIBLE_HARNESS"  # "<pid>.<start>" of the harness that started it
STATE_VARIABLE = "KRUCIBLE_STATE"  # where the journals are, for the watchdog that outlives us
_GONE_TIMEOUT_S = 5.0
_TURN_TIMEOUT_S = 30.0  # of another heal of the same run


@dataclass(slots=True)
class Entry:
    """One thing that was installed; ``what`` is JSON."""

    id: int
    kind: str
    what: dict[str, Any] = field(default_factory=dict)
    undone: bool = False


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
        """Give the marks that name this run and its harness as a thing's owner; all are strings."""
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
        """Tell what is installed at present."""
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
    """Tell where the journals of this user's runs are."""
    if chosen := os.environ.get(STATE_VARIABLE):
        return Path(chosen)
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(base).expanduser() / "krucible"


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


def harness_of(variables: Mapping[str, str]) -> ProcessId | None:
    """The harness that started a process with these variables; None when they do not say."""
    pid, _, start = variables.get(HARNESS_VARIABLE, "").partition(".")
    return ProcessId(int(pid), int(start)) if pid.isdigit() and start.isdigit() else None


def is_orphaned(owner: Mapping[str, str]) -> bool:
    """Tell whether a thing with such marks was made on this host by a harness that is dead."""
    harness = harness_of({HARNESS_VARIABLE: owner.get("harness", "")})
    if harness is None or not is_here(owner):
        return False
    return owner.get("boot") != _boot() or not is_alive(harness)


def _header(run: str) -> dict[str, Any]:
    return {"run": run, "harness": asdict(_self()), "place": _place(), "boot": _boot()}


def _self() -> ProcessId:
    me = identify(os.getpid())
    if me is None:
        raise EnvError("cannot read /proc/self/stat: krucible needs Linux with /proc mounted")
    return me


def is_here(header: Mapping[str, Any]) -> bool:
    """Tell whether the run belongs to this host and pid namespace (a home folder may be shared)."""
    return bool(header.get("place") == _place())


def harness_alive(header: Mapping[str, Any]) -> bool:
    """Tell whether the harness of a journal with this header lives."""
    return bool(header.get("boot") == _boot()) and is_alive(ProcessId(**header["harness"]))


def _place() -> str:
    return f"{platform.node()}/{Path('/proc/self/ns/pid').readlink()}"


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
