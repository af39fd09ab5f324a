"""``krucible serve``: look at a store in a browser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Annotated

import typer

from harness.store.remote.address import is_remote
from harness.store.server import StoreServer
from krucible.arguments import DEFAULT_STORE
from krucible.console import Json, err, out, print_json
from krucible.program import typed
from krucible.quantities import whole
from krucible.stores import mirror_of

PORT = 8470
PORT_MAX = 65_535


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        name="serve",
        help="Serve a store to a browser: all runs on one page, with links to their reports and "
        "files. The server listens on loopback only and changes nothing. Ctrl-C stops it.",
        short_help="Show a store in a browser.",
        epilog="Example: krucible serve store --port 8470",
    )(serve)


def serve(
    store: Annotated[
        str,
        typer.Argument(metavar="STORE", help="Store of runs: a folder, or s3://BUCKET/PREFIX."),
    ] = DEFAULT_STORE,
    port: Annotated[
        int, whole("Port on loopback; 0: any free port.", least=0, most=PORT_MAX)
    ] = PORT,
    json: Json = False,
) -> int:
    """Serve until Ctrl-C; exits 0 then."""
    if is_remote(store):
        mirror = mirror_of(store)
        root, bring, front = mirror.root, mirror.bring, _Front(mirror.root, mirror.refresh)
    else:
        root, bring, front = Path(store), None, _Front(Path(store))
    with StoreServer(root, port, front.page, typed(), bring) as server:
        if json:
            print_json({"url": server.url})
        else:
            out().print(server.url)
            err().print("press Ctrl-C to stop")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return 0
    return 0


class _Front:
    """The fleet page, made again when a run has come, gone or been judged."""

    def __init__(self, store: Path, refresh: Callable[[], object] = lambda: None) -> None:
        self._store = store
        self._refresh = refresh
        self._seen: object = None
        self._page = b""
        self._making = Lock()  # several requests at a time

    def page(self) -> bytes:
        """The page of now."""
        with self._making:
            self._refresh()
            seen = self._look()
            if seen != self._seen:
                from reports.fleet.model import read_fleet  # noqa: PLC0415 - likewise
                from reports.fleet.page import render_fleet  # noqa: PLC0415 - not for --help

                self._page = render_fleet(read_fleet(self._store), program=typed()).encode()
                self._seen = seen
            return self._page

    def _look(self) -> dict[str, int]:
        """Tell when each run, and each result and summary, was last written."""
        found: dict[str, int] = {}
        for pattern in ("*/*", "*/*/results.json", "nights/*/summary.json"):
            for path in self._store.glob(pattern):
                try:
                    found[str(path)] = path.stat().st_mtime_ns
                except OSError:
                    continue  # it went while we looked
        return found
