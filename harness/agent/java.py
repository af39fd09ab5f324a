"""Java on an ssh host: finds one, tells which files are there, and asks a running JVM.

A JVM is asked by HotSpot's attach protocol, as ``jcmd`` does it; see ``harness.envs.clocks``.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from harness.agent.firewall import Refused

_VERSION = re.compile(r'version "(\d+)')
_USUAL = Path("/usr/lib/jvm")
_ASK_S = 15.0
_START_S = 60.0  # a JVM that only says its version, on a machine that has much else to do
_CHUNK = 1 << 20
_ANSWER_BYTES_MAX = 64 << 10
_POLL_S = 0.005


def find_java(named: str | None, version_min: int) -> tuple[str, int]:
    """Find a ``java`` that is new enough, and its version.

    Args:
        named: The one that the hosts file names; None: the first that will do.
        version_min: Its major version, at least.

    Raises:
        Refused: There is none, or the one that is named will not do; says what was found.
    """
    seen = []
    for java in [named] if named else _candidates():
        version = java_version(java)
        if version is not None and version >= version_min:
            return java, version
        seen.append(f"{java} is {'no Java' if version is None else f'version {version}'}")
    raise Refused(
        f"no Java {version_min} or newer ({'; '.join(seen) or 'there is none'}): apt-get install "
        f"default-jre-headless, or name one as `java` in the hosts file"
    )


def _candidates() -> Iterator[str]:
    if home := os.environ.get("JAVA_HOME"):
        yield f"{home}/bin/java"
    if java := shutil.which("java"):
        yield os.path.realpath(java)
    yield from map(str, sorted(_USUAL.glob("*/bin/java"), reverse=True))


def java_version(java: str | Path) -> int | None:
    """The major version that a ``java`` says it has; None when it does not run."""
    try:
        said = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=_START_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return version_in(said.stderr + said.stdout)


def version_in(said: str) -> int | None:
    """Find the major version in what ``java -version`` said; None: it says none."""
    found = _VERSION.search(said)
    return int(found[1]) if found else None


def lacking(files: dict[str, str]) -> list[str]:
    """List the paths of files that are not here with that content (SHA-256, in hexadecimal)."""
    return [path for path, digest in files.items() if _digest(path) != digest]


def _digest(path: str) -> str | None:
    digest = hashlib.sha256()
    try:
        with Path(path).open("rb") as file:
            while data := file.read(_CHUNK):
                digest.update(data)
    except OSError:
        return None
    return digest.hexdigest()


def ask_jvm(pid: int, command: str, timeout_s: float) -> str:
    """Ask the JVM a command of jcmd's; returns its answer.

    Raises:
        Refused: It does not listen, not answer in time, too much, or that it cannot.
    """
    deadline = time.monotonic() + timeout_s
    path = Path("/tmp") / f".java_pid{pid}"  # noqa: S108 - HotSpot's choice
    if not path.exists():
        _wake(pid, path, deadline)
    try:
        answer = _exchange(path, command, deadline)
    except OSError as error:
        raise Refused(f"the JVM {pid} cannot be asked: {error}") from error
    code, _, text = answer.partition("\n")
    if code != "0":
        raise Refused(f"the JVM {pid} refuses {command!r}: {answer.strip()[:200]!r}")
    return text


def request_of(command: str) -> bytes:
    """Give the bytes that ask a JVM to do a command of jcmd's (version, operation, arguments)."""
    return b"".join(part.encode() + b"\0" for part in ("1", "jcmd", command, "", ""))


def handles_quit(pid: int) -> bool:
    """Tell whether a JVM handles SIGQUIT already: before that, the signal would kill it.

    Raises:
        OSError: The process is gone.
    """
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    caught = next((line.split()[1] for line in status if line.startswith("SigCgt:")), "0")
    return bool(int(caught, 16) >> (signal.SIGQUIT - 1) & 1)


def _wake(pid: int, path: Path, deadline: float) -> None:
    try:
        if not handles_quit(pid):
            raise Refused(f"the JVM {pid} is still starting")
        trigger = Path(f"/proc/{pid}/cwd/.attach_pid{pid}")
        trigger.touch(mode=0o600)
    except OSError as error:
        raise Refused(f"the JVM {pid} is gone: {error}") from error
    try:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGQUIT)
        while not path.exists():
            if time.monotonic() > deadline:
                raise Refused(f"the JVM {pid} does not listen in time")
            time.sleep(_POLL_S)
    finally:
        with contextlib.suppress(OSError):  # it may have ended, and its folder with it
            trigger.unlink(missing_ok=True)


def _exchange(path: Path, command: str, deadline: float) -> str:
    answer = bytearray()
    with socket.socket(socket.AF_UNIX) as jvm:
        jvm.settimeout(max(deadline - time.monotonic(), _POLL_S))
        jvm.connect(str(path))
        jvm.sendall(request_of(command))
        while data := jvm.recv(_ANSWER_BYTES_MAX):
            answer += data
            if len(answer) > _ANSWER_BYTES_MAX:
                raise Refused(f"the JVM at {path} answered too much")
    return answer.decode(errors="replace")
