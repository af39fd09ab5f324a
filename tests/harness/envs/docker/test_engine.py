"""Checks that our client reads all output of a command in a container, in whatever packets."""

from __future__ import annotations

import contextlib
import json
import socketserver
import struct
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from harness.envs.docker.engine import Engine, EngineError


class _Handler(BaseHTTPRequestHandler):
    """Answers as the Docker Engine does, without running the command."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def address_string(self) -> str:
        """Name a client, who has no address."""
        return "client"

    def do_GET(self) -> None:
        """Say a version, and how the command ended."""
        self._json({"ExitCode": 3} if "/exec/" in self.path else {"Version": "0"})

    def do_POST(self) -> None:
        """Make a command, or start it: header and output leave in one packet."""
        self.rfile.read(int(self.headers["Content-Length"]))
        if not self.path.endswith("/start"):
            self._json({"Id": "e1"})
            return
        server = self.server
        assert isinstance(server, _Server)
        self.connection.sendall(server.answer)
        self.close_connection = True

    def _json(self, what: object) -> None:
        body = json.dumps(what).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    answer = b""


def frame(stream: int, data: bytes) -> bytes:
    """Wrap a piece of output as the Engine does: number of the stream, length, bytes."""
    return struct.pack(">BxxxL", stream, len(data)) + data


def started(frames: bytes, status: str = "200 OK") -> bytes:
    """Make the Engine's whole answer to the start of a command: header, then frames."""
    return f"HTTP/1.1 {status}\r\nContent-Type: x\r\n\r\n".encode() + frames


@contextlib.contextmanager
def engine_that_answers(folder: Path, answer: bytes) -> Iterator[Engine]:
    """Serve at a socket in the folder, as long as the block runs."""
    with _Server(str(folder / "engine.sock"), _Handler) as server:
        server.answer = answer
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            with contextlib.closing(Engine.connect(f"unix://{folder}/engine.sock")) as engine:
                yield engine
        finally:
            server.shutdown()


def test_output_that_comes_in_one_packet_with_the_header_is_not_lost(tmp_path: Path) -> None:
    frames = frame(1, b"12") + frame(2, b"!") + frame(1, b"34\n")
    with engine_that_answers(tmp_path, started(frames)) as engine:
        assert engine.execute("any", ["x"]) == (3, "12!34\n")


def test_a_command_may_say_nothing(tmp_path: Path) -> None:
    with engine_that_answers(tmp_path, started(b"")) as engine:
        assert engine.execute("any", ["x"]) == (3, "")


def test_output_that_ends_in_the_middle_is_an_error(tmp_path: Path) -> None:
    with (
        engine_that_answers(tmp_path, started(frame(1, b"1234\n")[:-2])) as engine,
        pytest.raises(EngineError, match=r"run x in container any.*ended in the middle"),
    ):
        engine.execute("any", ["x"])


def test_a_command_that_cannot_be_started_is_an_error(tmp_path: Path) -> None:
    refusal = started(b'{"message":"container is paused"}', "409 Conflict")
    with (
        engine_that_answers(tmp_path, refusal) as engine,
        pytest.raises(EngineError, match="cannot run x in container any"),
    ):
        engine.execute("any", ["x"])
