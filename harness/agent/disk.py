"""Puts a file system of ours under a node on an ssh host: a server process and its mount.

The server mounts it in a namespace of its own, which the node enters as it starts (``mounts``). So
it is gone as soon as both are. Each process of the node has another one.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from harness.agent import mounts
from harness.agent.firewall import Refused
from harness.agent.processes import Process

_MOUNT_TIMEOUT_S = 10.0
_POLL_S = 0.005
_LOG_CHARS_MAX = 500


class Disk:
    """The file system under one process of the node: begins with its server, ends with both."""

    def __init__(
        self, argv: list[str], *, source: str, cwd: str, log: str, environ: dict[str, str]
    ) -> None:
        """Start its server, in the main thread; raises OSError. Not mounted before ``wait``.

        Args:
            argv: The server's command line.
            source: Names the mount in the kernel's lists.
            cwd: Its folder.
            log: Gets what it prints.
            environ: Its variables.
        """
        self._log = Path(log)
        self._server = Process(argv, cwd=cwd, log=log, environ=environ)
        self._source = source
        self._task = 0  # the thread in whose namespace it is mounted
        self._was_cut = False

    def wait(self) -> None:
        """Wait until it is mounted.

        Raises:
            Refused: It does not come up; says what its server says.
        """
        deadline = time.monotonic() + _MOUNT_TIMEOUT_S
        while (task := mounts.holder(self._server.pid, self._source)) is None:
            if self.has_ended or time.monotonic() > deadline:
                how = self._server.end or f"its server did not mount it in {_MOUNT_TIMEOUT_S:g} s"
                raise Refused(f"cannot mount a file system: {how}{self._said()}")
            time.sleep(_POLL_S)
        self._task = task

    def enter(self) -> None:
        """Called in a child: let it see the mount, and nobody else does; raises OSError."""
        mounts.enter(self._server.pid, self._task)

    @property
    def has_ended(self) -> bool:
        """Tell whether its server has ended."""
        return self._server.state()["pid"] is None

    def hold(self, *, held: bool) -> None:
        """While held, nothing is written below; who uses it must stand still."""
        self._server.signal(signal.SIGSTOP if held else signal.SIGCONT)

    def cut(self) -> None:
        """Kill its server: nothing more is written below, what is under way is lost."""
        self._was_cut = True
        self._kill()

    def end(self, power_lost: int) -> str | None:
        """End it; what was written is below.

        Args:
            power_lost: The exit code of a server that was told to lose the power.

        Returns:
            Why it had ended before, when nothing that is meant to had ended it.
        """
        broke = self.has_ended and not self._was_cut and self._server.code != power_lost
        why = f"{self._server.end}{self._said()}" if broke else None
        self._kill()
        return why

    def _kill(self) -> None:
        if not self.has_ended:
            with contextlib.suppress(Refused, ProcessLookupError):  # it ends just now
                self._server.signal(signal.SIGKILL)

    def _said(self) -> str:
        text = self._log.read_text(errors="replace").strip() if self._log.exists() else ""
        return f"; it said: {text[-_LOG_CHARS_MAX:]}" if text else ""


def kill_off(process: Process, disk: Disk | None) -> None:
    """Kill the node and cut its disk: it stands still first, lest it sees its disk go."""
    if disk is not None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGSTOP)  # in an fsync it stops once that is cut off
        disk.cut()
    process.signal(signal.SIGKILL)
