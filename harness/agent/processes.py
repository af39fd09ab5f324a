"""A supervisor's processes: the node, the hands on its files, and all that carry its mark."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from harness.agent.firewall import Refused

MARK_VARIABLE = "KRUCIBLE_SSH_MARK"
_GONE_TIMEOUT_S = 5.0
_PR_SET_PDEATHSIG = 1


def with_us() -> None:
    """Called in a child: let it die with this process, even when that is killed."""
    libc: Any = ctypes.CDLL(None)
    libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))


class Process:
    """The node's process: a session of its own that dies with this one."""

    def __init__(
        self,
        argv: list[str],
        *,
        cwd: str,
        log: str,
        environ: dict[str, str],
        enter: Callable[[], None] | None = None,
    ) -> None:
        """Start it; raises OSError. ``enter`` is called in the child, just before the program."""

        def begin() -> None:
            with_us()
            if enter is not None:
                enter()

        with Path(log).open("ab") as output:
            self._popen = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env=environ,
                start_new_session=True,
                preexec_fn=begin,  # noqa: PLW1509 - one thread at that moment forks
            )
        self.pid = self._popen.pid
        self.end: str | None = None  # how it ended
        self.code: int | None = None  # with which exit code, or minus a signal

    def state(self) -> dict[str, Any]:
        """Tell what the kernel says: pid, state letter or ``gone``, detail."""
        letter = "gone"
        if self.end is None:
            with contextlib.suppress(OSError, ValueError):
                text = Path(f"/proc/{self.pid}/stat").read_text(errors="replace")
                fields = text[text.rindex(")") + 2 :].split()
                letter, start = fields[0], fields[19]
                if letter not in "ZX":
                    return {
                        "pid": self.pid,
                        "state": letter,
                        "detail": f"pid {self.pid} (start {start})",
                    }
            self.reap()
        if self.end is None:
            return {"pid": self.pid, "state": letter, "detail": f"pid {self.pid}"}
        return {"pid": None, "state": "gone", "detail": self.end}

    def reap(self) -> None:
        """Notice its end, and end what it has started."""
        if self.end is not None:
            return
        ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None:
            return
        with contextlib.suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)
        self.code = code = self._popen.wait()
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        self.end = f"pid {self.pid} ended: {how}"

    def signal(self, number: int) -> None:
        """Signal its group; SIGKILL, SIGSTOP and SIGCONT return once they took hold."""
        if self.end is not None:
            raise Refused(self.end)
        os.killpg(self.pid, number)
        deadline = time.monotonic() + _GONE_TIMEOUT_S
        while not _took_hold(number, self.state()["state"]):
            if time.monotonic() > deadline:
                raise Refused(
                    f"pid {self.pid} is in state {self.state()['state']} {_GONE_TIMEOUT_S:g} s "
                    f"after {signal.Signals(number).name}"
                )
            time.sleep(0.002)


class Hands:
    """The process of a module that works on the node's files; one order at a time."""

    def __init__(self, module: str, folder: str, environ: dict[str, str]) -> None:
        """Start it; raises OSError. In the main thread, with which it ends."""
        self._turn = threading.Lock()
        self._popen = subprocess.Popen(
            [sys.executable, "-P", "-m", module, folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environ,
            start_new_session=True,
            preexec_fn=with_us,  # noqa: PLW1509 - as above
        )

    def do(self, order: dict[str, Any]) -> dict[str, Any]:
        """Have it obey; returns ``answer``, or raises Refused with what it says against it."""
        process = self._popen
        assert process.stdin and process.stdout and process.stderr, "started with pipes"  # noqa: S101, PT018
        with self._turn:
            try:
                process.stdin.write(json.dumps(order).encode() + b"\n")
                process.stdin.flush()
                line = process.stdout.readline()
            except BrokenPipeError:
                line = b""
            if not line:
                said = process.stderr.read().decode(errors="replace").strip()
                raise Refused(f"the process that changes the node's files ended: {said[-1000:]}")
        answer = json.loads(line)
        if "error" in answer:
            raise Refused(answer["error"])
        return {"answer": answer["ok"]}


def _took_hold(number: int, state: str) -> bool:
    if number == signal.SIGKILL:
        return state == "gone"
    if number == signal.SIGSTOP:
        return state in ("T", "gone")
    return number != signal.SIGCONT or state != "T"


def kill_marked(mark: str) -> int:
    """Kill all processes that carry our mark; how many there were."""
    wanted, found = f"{MARK_VARIABLE}={mark}".encode(), 0
    deadline = time.monotonic() + _GONE_TIMEOUT_S
    while alive := list(_marked(wanted)):
        found = max(found, len(alive))
        for pid in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise Refused(f"processes {alive} did not die of SIGKILL")
        time.sleep(0.005)
    return found


def _marked(wanted: bytes) -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError, ValueError):
                stat = (entry / "stat").read_text(errors="replace")
                dead = stat[stat.rindex(")") + 2] in "ZX"
                if not dead and wanted in (entry / "environ").read_bytes().split(b"\0"):
                    yield int(entry.name)
