"""A store in a browser, for one reader on this machine: the fleet page, reports, and raw files.

It reads and never writes, listens on loopback only, answers only requests that are addressed to
loopback (a page elsewhere could have its name point here), and sends nothing that does not lie in
the store: no hidden files, no way out through ``..`` or a link.
"""

from __future__ import annotations

import html
import logging
import shutil
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Final
from urllib.parse import quote, unquote, urlsplit

from harness.errors import HarnessError, UsageError
from harness.processes.command import KRUCIBLE, Program

LOOPBACK: Final = "127.0.0.1"
IDLE_S: Final = 30.0  # a connection may say nothing for so long
_HOSTS: Final = frozenset({"127.0.0.1", "localhost"})
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".xml": "text/xml; charset=utf-8",
    **dict.fromkeys(
        (".json", ".jsonl", ".log", ".txt", ".toml", ".edn"), "text/plain; charset=utf-8"
    ),
}
_log = logging.getLogger(__name__)

Page = Callable[[], bytes]
Bring = Callable[[str], object]  # has the file at a path in the folder; may raise HarnessError


class StoreServer(ThreadingHTTPServer):
    """Serves a store; ``front`` makes its first page when it is asked for.

    ``program`` is the command line as a person types it. Where the folder is a copy of a store
    elsewhere, ``bring`` is told of each path that is asked for, before it is looked at.
    """

    daemon_threads = True

    def __init__(
        self,
        root: Path,
        port: int,
        front: Page,
        program: Program = KRUCIBLE,
        bring: Bring | None = None,
    ) -> None:
        if not root.is_dir():
            raise UsageError(f"{root}: there is no such store; `krucible run` makes one")
        try:
            super().__init__(
                (LOOPBACK, port), partial(_Handler, root.resolve(), front, program, bring)
            )
        except OSError as error:
            raise UsageError(
                f"cannot listen on {LOOPBACK}:{port}: {error}; choose another --port (0: any)"
            ) from error

    @property
    def url(self) -> str:
        """Tell where it is to be found."""
        return f"http://{LOOPBACK}:{self.server_port}/"


def inside(root: Path, path: str) -> Path | None:
    """Find the file of a URL below ``root``; None when it is hidden, outside or not there."""
    parts = [part for part in unquote(path).split("/") if part]
    if any(part.startswith(".") or "\\" in part or "\0" in part for part in parts):
        return None
    try:
        found = root.joinpath(*parts).resolve(strict=True)
    except (OSError, RuntimeError):
        return None
    return found if found.is_relative_to(root) else None


class _Handler(BaseHTTPRequestHandler):
    timeout = IDLE_S
    server_version = "krucible"
    sys_version = ""

    def __init__(
        self, root: Path, front: Page, program: Program, bring: Bring | None, *more: object
    ) -> None:
        self._root = root
        self._bring = bring
        self._program = program
        self._front = front
        super().__init__(*more)  # type: ignore[arg-type]  # request, address, server

    def do_GET(self) -> None:
        """Answer with a page or a file."""
        self._answer(body=True)

    def do_HEAD(self) -> None:
        """Answer as for GET, without the content."""
        self._answer(body=False)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log a request at debug level only: a reader does not want to see each one."""
        _log.debug(format, *args)

    def _answer(self, *, body: bool) -> None:
        host = (self.headers.get("Host") or "").rsplit(":", 1)[0]
        if host not in _HOSTS:
            self._text(HTTPStatus.FORBIDDEN, "This page is for this machine only.\n")
            return
        path = urlsplit(self.path).path
        try:
            if path == "/":
                self._bytes(self._front(), "text/html; charset=utf-8", body=body)
                return
            if self._bring is not None:
                self._bring(unquote(path))
        except HarnessError as error:  # the store lies elsewhere, and cannot be read now
            self._text(HTTPStatus.BAD_GATEWAY, f"{error}\n")
            return
        found = inside(self._root, path)
        if found is None:
            self._missing(path)
        elif found.is_dir():
            self._folder(found, path, body=body)
        else:
            self._file(found, path, body=body)

    def _file(self, found: Path, path: str, *, body: bool) -> None:
        try:
            with found.open("rb") as file:
                self._stream(file, found, body=body)
        except OSError:
            self._missing(path)  # it went while we looked

    def _stream(self, file: IO[bytes], found: Path, *, body: bool) -> None:
        size = file.seek(0, 2)
        file.seek(0)
        kind = _TYPES.get(found.suffix, "application/octet-stream")
        self._head(HTTPStatus.OK, kind, size)
        if body:
            shutil.copyfileobj(file, self.wfile)

    def _folder(self, found: Path, path: str, *, body: bool) -> None:
        try:
            names = sorted(
                entry.name + "/" * entry.is_dir()
                for entry in found.iterdir()
                if not entry.name.startswith(".")
            )
        except OSError:
            self._missing(path)
            return
        base = "/" + "/".join(quote(part) for part in unquote(path).split("/") if part)
        rows = "".join(
            f'<li><a href="{base}/{quote(name)}">{html.escape(name)}</a></li>\n' for name in names
        )
        title = html.escape(unquote(path))
        page = (
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            f"<title>{title}</title></head><body><h1>{title}</h1>\n"
            f'<p><a href="/">all runs</a></p>\n<ul>\n{rows}</ul></body></html>\n'
        )
        self._bytes(page.encode(), "text/html; charset=utf-8", body=body)

    def _missing(self, path: str) -> None:
        hint = ""
        if path.endswith("/report.html"):
            run = self._root / unquote(path).strip("/").removesuffix("/report.html")
            made = self._program.line("report", run)
            hint = f"The run was not judged; this judges it and writes its report: {made}\n"
        self._text(HTTPStatus.NOT_FOUND, f"There is no such file in the store.\n{hint}")

    def _text(self, status: HTTPStatus, text: str) -> None:
        content = text.encode("utf-8", "replace")
        self._head(status, "text/plain; charset=utf-8", len(content))
        if self.command != "HEAD":
            self.wfile.write(content)

    def _bytes(self, content: bytes, kind: str, *, body: bool) -> None:
        self._head(HTTPStatus.OK, kind, len(content))
        if body:
            self.wfile.write(content)

    def _head(self, status: HTTPStatus, kind: str, size: int) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(size))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
