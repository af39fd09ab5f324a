"""The watchdog of a run on this host: heals when its harness dies, and nobody else does.

A process of its own. The harness writes a line to its stdin every second, ``bye`` at the end. When
stdin closes without one the harness is dead: its run is healed. With a limit, a harness whose lines
stop for so long hangs: what it keeps from others is removed (see ``clears``), and it finds its
nodes gone should it ever wake up.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from harness.errors import EnvError
from harness.healing.heal import clear_run, heal_all, sweep_all
from harness.healing.journal import RUN_VARIABLE, Journal, harness_of, state_folder
from harness.processes.procfs import identify, is_alive
from harness.processes.python import module_argv

BEAT_S: Final = 1.0
HANG_VARIABLE: Final = "KRUCIBLE_HANG_S"  # after how many seconds without a sign a harness hangs
LOG: Final = "watchdog.log"
_DEATH_S = 5.0
_STOP_TIMEOUT_S = 3.0
_ROUNDS = 3  # a node may have been in mid-start, and an Engine may still finish what it was asked
_ROUND_S = 0.7
_BEAT, _BYE = b"beat\n", b"bye\n"


class Watchdog:
    """The harness's side: starts it, tells it that all is well, says goodbye."""

    def __init__(self, journal: Journal, log: Path, *, hang_s: float | None = None) -> None:
        """Start nothing yet; a harness without a sign for ``hang_s`` hangs, for None it never does.

        ``KRUCIBLE_HANG_S`` stands above ``hang_s``.
        """
        self._journal = journal
        self._log = log
        self._hang_s = None if hang_s is None else silence_s(hang_s)
        self._process: asyncio.subprocess.Process | None = None
        self._entry: int | None = None
        self._beats: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """Give the pid of the watchdog's process; None when there is none."""
        return None if self._process is None else self._process.pid

    async def start(self, environ: Mapping[str, str]) -> None:
        """Start it; ``environ`` carries the journal's markers."""
        self._entry = await self._journal.announce("process", node="watchdog")
        limit = () if self._hang_s is None else (str(self._hang_s),)
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *module_argv(__name__, *limit),
                stdin=asyncio.subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=dict(environ),
                start_new_session=True,  # Ctrl-C must reach the harness only
            )
        who = identify(self._process.pid)
        if who is not None:
            await asyncio.to_thread(self._journal.update, self._entry, pid=who.pid, start=who.start)
        self._beats = asyncio.create_task(self._beat(self._process))

    async def stop(self) -> None:
        """Dismiss it. Idempotent.

        Raises:
            EnvError: It ended by itself before: what it removed, the run has lacked.
        """
        process, self._process = self._process, None
        ended = None if process is None else process.returncode
        beats, self._beats = self._beats, None
        if beats is not None:
            beats.cancel()
            await asyncio.wait({beats})
        if process is not None and process.stdin is not None:
            with contextlib.suppress(OSError):  # it may be dead already
                process.stdin.write(_BYE)
            process.stdin.close()
            try:
                await asyncio.wait_for(process.wait(), _STOP_TIMEOUT_S)
            except TimeoutError:
                process.kill()
                await process.wait()
        entry, self._entry = self._entry, None
        if entry is not None:
            await asyncio.to_thread(self._journal.undone, entry)
        if ended is not None:
            hint = "" if self._hang_s is None else self._hint(self._hang_s)
            raise EnvError(
                f"the watchdog ended before the run did, with exit code {ended}{hint}; "
                f"its log is {self._log}"
            )

    @staticmethod
    def _hint(hang_s: float) -> str:
        return f": a watchdog heals, and ends, when its harness hangs for {hang_s:g} s"

    async def _beat(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None  # noqa: S101 - it was started with a pipe
        while process.returncode is None:
            with contextlib.suppress(OSError):  # a dead watchdog is no reason to end a run
                process.stdin.write(_BEAT)
                await process.stdin.drain()
            await asyncio.sleep(BEAT_S)


def silence_s(usual_s: float) -> float:
    """Give how long a harness may be silent: what the variable says, or else the usual time."""
    return float(os.environ.get(HANG_VARIABLE, usual_s))


# --------------------------------------------------------------------------- the process


def watch(timeout_s: float | None) -> str:
    """Listen on stdin until there is something to say: ``bye``, ``dead`` or ``hangs``."""
    fd, heard = sys.stdin.fileno(), b""
    while True:
        ready, _, _ = select.select([fd], [], [], timeout_s)
        if not ready:
            return "hangs"
        data = os.read(fd, 4096)
        if not data:
            return "bye" if heard.endswith(_BYE) else "dead"
        heard = (heard + data)[-len(_BYE) :]


def heal_for_dead() -> None:
    """Heal the run, as soon as its harness is really gone; a harness that lives only let go."""
    harness, run = harness_of(os.environ), os.environ.get(RUN_VARIABLE, "")
    deadline = time.monotonic() + _DEATH_S
    while harness is not None and is_alive(harness):
        if time.monotonic() > deadline:
            return
        time.sleep(0.02)
    folder = state_folder()
    for number in range(_ROUNDS):
        if number:
            time.sleep(_ROUND_S)
        try:
            found = heal_all(folder, only_run=run) + sweep_all(folder, run, heal=True)
        except EnvError as error:
            _say(f"the harness died, and healing failed: {error}")
            continue
        for leftover in found:
            _say(f"the harness died: {leftover.to_json()}")


def clear_for_hanging() -> None:
    """Remove what the run keeps from others, though its harness lives."""
    for leftover in clear_run(os.environ.get(RUN_VARIABLE, ""), state_folder()):
        _say(f"the harness hangs: {leftover.to_json()}")


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - into the run's watchdog.log


def main() -> int:
    """Watch one harness to its end; the argument says after how many seconds it hangs."""
    outcome = watch(float(sys.argv[1]) if len(sys.argv) > 1 else None)
    if outcome == "hangs":
        clear_for_hanging()
    elif outcome == "dead":
        heal_for_dead()
    return 0


if __name__ == "__main__":
    sys.exit(main())
