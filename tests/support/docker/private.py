"""A Docker Engine of a test's own that can really be killed, beside the one of this host.

It lives in a network and a mount namespace of its own, so that neither its firewall rules nor its
networks nor its mounts are anybody else's; whoever wants to reach its containers goes there, too.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.envs.docker.engine import Engine, EngineError
from harness.envs.docker.image import ensure
from harness.processes.procfs import processes

_UP_S = 20.0
_POLL_S = 0.02
_MEMORY = "mount -t tmpfs -o size=1g krucible"  # where its images lie; gone with its namespace


class PrivateEngine:
    """Its daemon, up or down; what it has made stays meanwhile."""

    def __init__(self, folder: Path, holder: int) -> None:
        self.folder, self._holder = folder, holder
        self.host = f"unix://{folder}/s.sock"
        self.daemon: subprocess.Popen[bytes] | None = None

    def enter(self, *namespaces: str) -> list[str]:
        """The beginning of a command that runs where its containers can be reached."""
        return ["nsenter", f"--target={self._holder}", *(namespaces or ("--net",))]

    def up(self) -> None:
        """Start the daemon and wait until it answers; raises EngineError with what it said."""
        argv = ["dockerd", f"--data-root={self.folder}/data", f"--exec-root={self.folder}/exec"]
        argv += [f"--host={self.host}", f"--pidfile={self.folder}/pid", "--bridge=none"]
        with (self.folder / "log").open("ab") as log:
            self.daemon = subprocess.Popen(
                [*self.enter("--net", "--mount"), *argv],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline = time.monotonic() + _UP_S
        while True:
            try:
                Engine.connect(self.host).close()
            except EngineError as error:
                if self.daemon.poll() is not None or time.monotonic() > deadline:
                    raise EngineError(f"{error}: {self._said()}") from error
                time.sleep(_POLL_S)
            else:
                return

    def kill(self) -> None:
        """SIGKILL to the daemon, in the middle of whatever it does; containers run on."""
        assert self.daemon is not None
        self.daemon.kill()
        self.daemon.wait()

    def load(self, image: str) -> None:
        """Copy an image of this host's Engine."""
        with subprocess.Popen(["docker", "save", image], stdout=subprocess.PIPE) as saved:
            load = ["docker", f"--host={self.host}", "load"]
            subprocess.run(load, stdin=saved.stdout, check=True, capture_output=True)

    def end(self) -> None:
        """End the daemon, and all that was started through it."""
        if self.daemon is not None:
            self.daemon.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.daemon.wait(_UP_S)
            self.daemon.kill()
            self.daemon.wait()
        for pid in self._shims():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _shims(self) -> list[int]:
        """Processes between the daemon and its containers; they outlive it."""
        ours = f"{self.folder}/exec".encode()
        found = []
        for pid in processes():
            with contextlib.suppress(OSError):
                if ours in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(pid)
        return found

    def _said(self) -> str:
        lines = (self.folder / "log").read_text(errors="replace").splitlines()
        return lines[-1] if lines else "it said nothing"


@contextlib.contextmanager
def private_engine() -> Iterator[tuple[PrivateEngine, str]]:
    """An Engine that is up, and the nodes' image in it; skips where that cannot be had."""
    for tool in ("dockerd", "docker", "unshare", "nsenter"):
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool} here: apt-get install docker.io util-linux")
    if os.geteuid() != 0:
        pytest.skip("an Engine of our own wants root")
    with contextlib.closing(Engine.connect()) as ours:
        image = ensure(ours)
    folder = Path(tempfile.mkdtemp(prefix="kr-dockerd-"))  # short: sockets have short paths
    (folder / "data").mkdir()
    hold = f"ip link set lo up && {_MEMORY} {folder}/data && exec sleep 600"
    holder = subprocess.Popen(
        ["unshare", "--net", "--mount", "sh", "-c", hold], stdin=subprocess.DEVNULL
    )
    engine = PrivateEngine(folder, holder.pid)
    try:
        try:
            _await_namespaces(holder)
            engine.up()
            engine.load(image)
        except (EngineError, subprocess.CalledProcessError) as error:
            pytest.skip(f"no second Engine can be had here: {error}")
        yield engine, image
    finally:
        engine.end()
        holder.kill()
        holder.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _await_namespaces(holder: subprocess.Popen[bytes]) -> None:
    """Wait until it has become the sleep that it ends as, in namespaces of its own."""
    deadline = time.monotonic() + _UP_S
    while b"sleep" not in Path(f"/proc/{holder.pid}/cmdline").read_bytes().split(b"\0")[:1]:
        if holder.poll() is not None or time.monotonic() > deadline:
            raise EngineError("no namespaces can be made (unshare --net --mount)")
        time.sleep(_POLL_S)
