"""A socket in front of the Docker Engine, so that a test can take the Engine away from one run."""

from __future__ import annotations

import contextlib
import select
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from harness.envs.docker.engine import engine_host

_CHUNK_BYTES = 65536


class Proxy:
    """Forwards every connection to the real Engine while it is up."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.host = f"unix://{path}"
        self._target = engine_host().removeprefix("unix://")
        self._listener: socket.socket | None = None
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()

    def up(self) -> None:
        """Answer, from now on."""
        self.path.unlink(missing_ok=True)
        listener = self._listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.path))
        listener.listen(64)
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def down(self) -> None:
        """Be gone: no new connections, and the open ones break."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        self.path.unlink(missing_ok=True)
        with self._lock:
            for sock in self._open:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            far.connect(self._target)
            with self._lock:
                self._open = {s for s in self._open if s.fileno() >= 0} | {near, far}
            threading.Thread(target=self._carry, args=(near, far), daemon=True).start()

    def _carry(self, near: socket.socket, far: socket.socket) -> None:
        """Copy both ways until one end is done, then close both."""
        other = {near: far, far: near}
        with near, far, contextlib.suppress(OSError):
            while True:
                for source in select.select([near, far], [], [])[0]:
                    data = source.recv(_CHUNK_BYTES)
                    if not data:
                        return
                    other[source].sendall(data)


@contextlib.contextmanager
def proxy() -> Iterator[Proxy]:
    """A proxy that is up."""
    folder = Path(tempfile.mkdtemp(prefix="kr"))  # the path of a socket must be short
    made = Proxy(folder / "engine.sock")
    made.up()
    try:
        yield made
    finally:
        made.down()
        shutil.rmtree(folder)
