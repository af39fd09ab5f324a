"""A child process that only we reap, so that its pid and its group stay ours until we say so."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.errors import EnvError
from harness.processes.procfs import ENDED, GONE, ProcessId, identify, state_of


class Child:
    """A process in a session of its own, with its output appended to a file.

    Reaped by a pidfd in the event loop: as long as it is not, the kernel gives neither its pid
    nor its group to anybody else, so that signals to them cannot hit a stranger.
    """

    def __init__(
        self, argv: Sequence[str], *, cwd: Path, log: Path, environ: Mapping[str, str]
    ) -> None:
        """Start it; raises OSError when the program cannot be executed. Needs a running loop."""
        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env=dict(environ),
                start_new_session=True,
            )
        self._loop = asyncio.get_running_loop()
        self._pidfd = os.pidfd_open(self._popen.pid)
        self.ended: asyncio.Future[int] = self._loop.create_future()
        who = identify(self._popen.pid)
        if who is None:
            raise EnvError("cannot read /proc: the local environment needs Linux with /proc")
        self.id: ProcessId = who
        self._loop.add_reader(self._pidfd, self._reap)

    @property
    def state(self) -> str:
        """Give the process's state letter in /proc, or ``gone`` with its end known.

        A process that has ended stays a zombie until the event loop reaps it; this reaps it, too.
        """
        if not self.ended.done() and (letter := state_of(self.id.pid)) not in ENDED:
            return letter
        self._reap()
        return GONE

    def signal(self, number: int) -> None:
        """Signal it and its children; nothing happens when it has ended."""
        if not self.ended.done():
            os.killpg(self.id.pid, number)

    def describe_end(self) -> str:
        """Tell how it ended; empty while it has not."""
        if not self.ended.done():
            return ""
        code = self.ended.result()
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return f"{self.id} ended: {how}"

    def _reap(self) -> None:
        if self.ended.done():
            return
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        # What it started itself must not outlive it: it would keep the node's port.
        os.killpg(self.id.pid, signal.SIGKILL)
        self.ended.set_result(self._popen.wait())
