"""A node's process that somebody else started: found, signalled, and started in its owner's way.

A target is JSON with exactly one of ``pid``, ``pid_file``, ``unit`` (of systemd), ``container`` (of
the Docker Engine on this host), and beside ``pid_file`` perhaps ``start``, the command that starts
it again and writes the file anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.agent.firewall import Refused

_DOCKER_SOCKET = "/var/run/docker.sock"
_UNIX = "unix://"
_API = "/v1.40"
_TIMEOUT_S = 30
_START_S = 20.0  # until what was started has a process
_DONE, _NO_CHANGE, _NOT_FOUND = 300, 304, 404
_OURS = "KRUCIBLE_"  # what variables begin with by which we know our own processes
_SYSTEMCTL = "systemctl"
_AWAY = '"$@" &'


def look(target: Mapping[str, Any]) -> dict[str, Any]:
    """Tell what the kernel and the Engine say of it: pid, start, state and detail.

    ``state`` is a letter of /proc, ``T`` also for a frozen container, or ``gone``.
    """
    if "container" in target:
        return _look_at_container(str(target["container"]))
    pid = _pid(target)
    found = None if pid is None else _stat(pid)
    if pid is None or found is None or found[0] in "ZX":
        return {"pid": None, "start": None, "state": "gone", "detail": f"{_told(target)}: gone"}
    letter, start = found
    return {
        "pid": pid,
        "start": start,
        "state": letter,
        "detail": f"pid {pid} (start {start}), {_told(target)}",
    }


def pause(target: Mapping[str, Any]) -> None:
    """Have it stand still; raises Refused."""
    if "container" in target:
        _engine("POST", f"/containers/{target['container']}/pause")
    else:
        _signal(target, signal.SIGSTOP)


def resume(target: Mapping[str, Any], who: Mapping[str, Any] | None = None) -> bool:
    """Let it go on; whether it stood still. Idempotent.

    ``who`` is what ``look`` said of the process that was paused: another one is left alone.
    """
    now = look(target)
    if "container" in target:
        if now["state"] == "T":
            _engine("POST", f"/containers/{target['container']}/unpause", fine=(_NOT_FOUND, 409))
        return bool(now["state"] == "T")
    if who is not None:  # a pid file may have been lost meanwhile
        found = _stat(int(who["pid"]))
        if found is None or found[1] != who["start"]:
            return False
        _send(int(who["pid"]), int(who["start"]), signal.SIGCONT)
        return found[0] == "T"
    if now["pid"] is None:
        return False
    _signal(target, signal.SIGCONT)
    return bool(now["state"] == "T")


def end(target: Mapping[str, Any], number: int) -> None:
    """Signal it, to end; raises Refused. An Engine does not start again what it was told to end."""
    if "container" in target:
        _engine("POST", f"/containers/{target['container']}/kill?signal={number}")
    else:
        _signal(target, number)


def start(target: Mapping[str, Any]) -> bool:
    """Start it in its owner's way, unless it runs; whether it did not. Raises Refused.

    Returns when it has a process. Of two at the same time one waits for the other.
    """
    with _alone(target):
        if look(target)["pid"] is not None:
            return False
        if "container" in target:
            _engine("POST", f"/containers/{target['container']}/start", fine=(_NO_CHANGE,))
        elif "unit" in target:
            _start_unit(str(target["unit"]))
        elif target.get("start"):
            _start([str(word) for word in target["start"]])
        else:
            raise Refused(f"nothing says how {_told(target)} is started")
        await_state(target, wanted="there", timeout_s=_START_S)
        return True


@contextlib.contextmanager
def _alone(target: Mapping[str, Any]) -> Iterator[None]:
    """Wait while another one starts the same; a name that is gone with whoever holds it."""
    digest = hashlib.sha256(_told(target).encode()).hexdigest()[:32]
    deadline = time.monotonic() + 2 * _START_S
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as lock:
        while True:
            try:
                lock.bind(f"\0krucible-start-{digest}")
                break
            except OSError as error:
                if time.monotonic() > deadline:
                    raise Refused(
                        f"somebody else starts {_told(target)}, and does not end"
                    ) from error
                time.sleep(0.02)
        yield


# ---- processes


def _pid(target: Mapping[str, Any]) -> int | None:
    if "pid" in target:
        return int(target["pid"])
    if "pid_file" in target:
        try:
            return int(Path(str(target["pid_file"])).read_text().split()[0])
        except (OSError, ValueError, IndexError):
            return None
    said = _run([_SYSTEMCTL, "show", "--property=MainPID", "--value", str(target["unit"])])
    return int(said) if said.isdecimal() and int(said) else None


def _start(argv: list[str]) -> None:
    """Start a command that outlives us and is nobody's child, with nothing of ours around it."""
    if shutil.which(argv[0]) is None:
        raise Refused(f"cannot start {' '.join(argv)}: there is no program {argv[0]}")
    environ = {k: v for k, v in os.environ.items() if not k.startswith(_OURS)}
    subprocess.run(
        ["/bin/sh", "-c", _AWAY, "sh", *argv],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environ,
        cwd="/",
        start_new_session=True,
        timeout=_TIMEOUT_S,
        check=True,
    )


def _start_unit(unit: str) -> None:
    """Start it, also when systemd has seen it start too often: our faults may be why."""
    try:
        _run([_SYSTEMCTL, "start", unit])
    except Refused:
        _run([_SYSTEMCTL, "reset-failed", unit])
        _run([_SYSTEMCTL, "start", unit])


def _signal(target: Mapping[str, Any], number: int) -> None:
    now = look(target)
    if now["pid"] is None:
        raise Refused(f"it does not run: {now['detail']}")
    _send(now["pid"], now["start"], number)


def _send(pid: int, begun: int, number: int) -> None:
    """Signal this very process: its pidfd pins it before its start time is compared."""
    with contextlib.suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        try:
            found = _stat(pid)
            if found is not None and found[1] == begun:
                signal.pidfd_send_signal(handle, number)
        except PermissionError as error:
            raise Refused(f"pid {pid} cannot be signalled: {error.strerror}") from error
        finally:
            os.close(handle)


def _other(now: Mapping[str, Any], who: Mapping[str, Any]) -> bool:
    return (now["pid"], now["start"]) != (who["pid"], who["start"])


def _stat(pid: int) -> tuple[str, int] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return fields[0], int(fields[19])


def _run(argv: list[str]) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except OSError as error:
        raise Refused(f"cannot run {argv[0]}: {error.strerror}") from error
    if done.returncode:
        raise Refused(f"{' '.join(argv)} failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout.strip()


def _told(target: Mapping[str, Any]) -> str:
    way = next(name for name in ("pid", "pid_file", "unit", "container") if name in target)
    return f"{way.replace('_', ' ')} {target[way]}"


# ---- containers


class _Unix(http.client.HTTPConnection):
    """HTTP to the Engine's socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(_TIMEOUT_S)
        self.sock.connect(self._path)


def _engine(method: str, path: str, fine: tuple[int, ...] = ()) -> dict[str, Any]:
    """Ask the Engine of this host; raises Refused when it says no, or there is none."""
    host = os.environ.get("DOCKER_HOST", "")
    place = host.removeprefix(_UNIX) if host.startswith(_UNIX) else _DOCKER_SOCKET
    connection = _Unix(place)
    try:
        connection.request(method, f"{_API}{path}")
        answer = connection.getresponse()
        body = answer.read()
    except OSError as error:
        raise Refused(f"no Docker Engine answers at {place}: {error.strerror or error}") from error
    finally:
        connection.close()
    said = json.loads(body) if body.strip() else {}
    if answer.status >= _DONE and answer.status not in fine:
        raise Refused(f"the Docker Engine refuses {path}: {said.get('message', answer.status)}")
    return dict(said)


def _look_at_container(name: str) -> dict[str, Any]:
    found = _engine("GET", f"/containers/{name}/json", fine=(_NOT_FOUND,))
    if "State" not in found:
        raise Refused(f"the Docker Engine knows no container {name}")
    state = found["State"]
    pid = int(state["Pid"] or 0)
    stat = _stat(pid) if pid else None
    if stat is None:
        detail = f"container {name}: {state['Status']}, exit code {state['ExitCode']}"
        return {"pid": None, "start": None, "state": "gone", "detail": detail}
    letter, begun = stat
    return {
        "pid": pid,
        "start": begun,
        "state": "T" if state["Paused"] else letter,
        "detail": f"pid {pid} (start {begun}), container {name}",
    }


def await_state(
    target: Mapping[str, Any],
    *,
    wanted: str,
    timeout_s: float,
    who: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Wait until it is stopped, running, gone or there; what was seen. Raises Refused.

    ``who`` is what ``look`` said of a process: once its owner has started another, it is gone.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        now = look(target)
        is_so = {
            "stopped": now["state"] in ("T", "gone"),
            "running": now["state"] != "T",
            "gone": now["state"] == "gone" or (who is not None and _other(now, who)),
            "there": now["state"] != "gone",
        }[wanted]
        if is_so:
            return now
        if time.monotonic() > deadline:
            raise Refused(f"it is not {wanted} after {timeout_s:g} s: {now['detail']}")
        time.sleep(0.005)
