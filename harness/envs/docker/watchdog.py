"""The watchdog of a docker run: heals when its harness dies or hangs, and nobody else does.

Run as ``python -m harness.envs.docker.watchdog``. The harness writes a line to its stdin every
second, ``bye`` at the end. When stdin closes without one the harness is dead: its run is healed.
When the lines stop for a minute it hangs: what it made is removed, and it finds its nodes gone
should it ever wake up.
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
from typing import Any

from harness.envs.docker.engine import Engine, in_thread
from harness.envs.docker.heal import clear, owner_of, sweep
from harness.errors import EnvError
from harness.healing.journal import (
    RUN_VARIABLE,
    STATE_VARIABLE,
    Journal,
    harness_of,
    heal_all,
    state_folder,
)
from harness.processes.procfs import identify, is_alive

BEAT_S = 1.0
HANG_VARIABLE = "KRUCIBLE_HANG_S"
_HANG_S = 60.0
_DEATH_S = 5.0
_STOP_TIMEOUT_S = 3.0
_ROUNDS = 3  # the Engine may still finish what it was asked to before the harness died
_ROUND_S = 0.7
_BEAT, _BYE = b"beat\n", b"bye\n"


class Watchdog:
    """The harness's side: starts it, tells it that all is well, says goodbye."""

    def __init__(self, journal: Journal, log: Path) -> None:
        self._journal = journal
        self._log = log
        self._process: asyncio.subprocess.Process | None = None
        self._entry: int | None = None
        self._beats: asyncio.Task[None] | None = None

    async def start(self, environ: Mapping[str, str]) -> None:
        """Start it; ``environ`` carries the journal's markers."""
        self._entry = await self._journal.announce("process", node="watchdog")
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                __name__,
                stdin=asyncio.subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=dict(environ),
                start_new_session=True,  # Ctrl-C must reach the harness only
            )
        who = identify(self._process.pid)
        if who is not None:
            await in_thread(self._journal.update, self._entry, pid=who.pid, start=who.start)
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
            await in_thread(self._journal.undone, entry)
        if ended is not None:
            raise EnvError(
                f"the watchdog ended before the run did, with exit code {ended}: it removes all "
                f"containers of a harness that hangs for {hang_s():g} s; its log is {self._log}"
            )

    async def _beat(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None  # noqa: S101 - it was started with a pipe
        while process.returncode is None:
            with contextlib.suppress(OSError):  # a dead watchdog is no reason to end a run
                process.stdin.write(_BEAT)
                await process.stdin.drain()
            await asyncio.sleep(BEAT_S)


# --------------------------------------------------------------------------- the process


def hang_s() -> float:
    """After how many seconds without a sign a harness hangs."""
    return float(os.environ.get(HANG_VARIABLE, _HANG_S))


def watch(timeout_s: float) -> str:
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
            found = heal_all(folder, only_run=run) + sweep(folder, run, heal=True)
        except EnvError as error:
            _say(f"the harness died, and healing failed: {error}")
            continue
        for leftover in found:
            _say(f"the harness died: {leftover.to_json()}")


def clear_for_hanging() -> None:
    """Remove the run's containers and network, though its harness lives."""
    run, state = os.environ.get(RUN_VARIABLE, ""), os.environ.get(STATE_VARIABLE, "")

    def is_of_run(found: Mapping[str, Any]) -> bool:
        owner = owner_of(found)
        return owner["run"] == run and Path(owner["state"]).resolve() == Path(state).resolve()

    with contextlib.closing(Engine.connect()) as engine:
        for leftover in clear(engine, is_of_run):
            _say(f"the harness hangs: {leftover.to_json()}")


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - into the run's watchdog.log


def main() -> int:
    """Watch one harness to its end."""
    outcome = watch(hang_s())
    if outcome == "hangs":
        clear_for_hanging()
    elif outcome == "dead":
        heal_for_dead()
    return 0


if __name__ == "__main__":
    sys.exit(main())
