"""HotSpot's attach protocol, as jcmd speaks it: ask a JVM of this host; no JDK is needed for it.

A JVM begins to listen when it gets SIGQUIT and finds a file ``.attach_pid<pid>`` where it runs. It
then takes one request for each connection to ``/tmp/.java_pid<pid>``: version, operation and three
arguments, each ended by NUL. It answers with a line that holds a code, 0 for success, and with
text until it hangs up. Source: ``attachListener_linux.cpp`` of JDK 17. In a container both files
are the container's own, named after the pid that the JVM has there.
"""

from __future__ import annotations

import asyncio
import os
import signal
import stat
from pathlib import Path
from typing import Final

from harness.agent.java import handles_quit, request_of
from harness.errors import EnvError
from harness.processes.procfs import PROC, ProcessId, send_signal

TEMPORARY: Final = Path("/tmp")  # noqa: S108 - HotSpot's choice, whatever TMPDIR says
ANSWER_BYTES_MAX: Final = 64 << 10
_POLL_S: Final = 0.005


class AttachError(EnvError):
    """A JVM was not asked, or did not answer; says which JVM, and why."""


def socket_of(pid: int) -> Path:
    """Give the socket that a JVM listens on once told to; it stays when the JVM is killed."""
    return TEMPORARY / f".java_pid{pid}"


def pid_within(pid: int) -> int:
    """The pid that a process has in its own pid namespace; raises OSError: it is gone."""
    lines = (PROC / str(pid) / "status").read_text().splitlines()
    found = next((line.split()[-1] for line in lines if line.startswith("NSpid:")), str(pid))
    return int(found)


def trigger_in(folder: Path, pid: int) -> Path:
    """The file that has a JVM listen when it gets SIGQUIT, in the folder that it runs in."""
    return folder / f".attach_pid{pid}"


def is_up(pid: int) -> bool:
    """Tell whether the JVM handles SIGQUIT already; before that, the signal would kill it."""
    try:
        return handles_quit(pid)
    except OSError:
        return False


async def ask(jvm: ProcessId, command: str, *, timeout_s: float) -> str:
    """Ask the JVM a command of jcmd's, such as ``VM.uptime -date``.

    Raises:
        AttachError: It does not listen, not answer in time, too much, or that it cannot.
    """
    try:
        async with asyncio.timeout(timeout_s):
            within = pid_within(jvm.pid)
            path = socket_of(within)
            if within != jvm.pid:
                path = PROC / str(jvm.pid) / "root" / path.relative_to("/")
            if not _listens(path):
                await _wake(jvm, trigger_in(PROC / str(jvm.pid) / "cwd", within), path)
            answer = await _exchange(path, command)
    except TimeoutError:
        raise AttachError(f"the JVM {jvm} does not answer within {timeout_s:g} s") from None
    except OSError as error:
        raise AttachError(f"the JVM {jvm} cannot be asked: {error}") from error
    code, _, text = answer.partition("\n")
    if code != "0":
        raise AttachError(f"the JVM {jvm} refuses {command!r}: {answer.strip()[:200]!r}")
    return text


# --------------------------------------------------------------------------- inside


def _listens(path: Path) -> bool:
    """Tell whether the JVM listens; raises AttachError when the socket is not of a JVM of ours."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.geteuid():
        raise AttachError(f"{path} belongs to no JVM of this user: remove it if nobody needs it")
    return True


async def _wake(jvm: ProcessId, trigger: Path, path: Path) -> None:
    """Have it listen at a path, by a trigger; raises AttachError, OSError."""
    if not is_up(jvm.pid):
        raise AttachError(f"the JVM {jvm} is still starting")
    trigger.touch(mode=0o600)
    try:
        if not send_signal(jvm, signal.SIGQUIT):
            raise AttachError(f"the JVM {jvm} is gone")
        while not _listens(path):  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(_POLL_S)
    finally:
        trigger.unlink(missing_ok=True)


async def _exchange(path: Path, command: str) -> str:
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        writer.write(request_of(command))
        await writer.drain()
        answer = bytearray()
        while data := await reader.read(ANSWER_BYTES_MAX):
            answer += data
            if len(answer) > ANSWER_BYTES_MAX:
                raise AttachError(f"the JVM at {path} answered more than {ANSWER_BYTES_MAX} bytes")
    finally:
        writer.close()
    return answer.decode(errors="replace")
