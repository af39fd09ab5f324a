"""The command line opens stores here: their runs get a report, which the harness cannot draw.

A store is a folder, or ``s3://BUCKET/PREFIX``. The latter has a folder of this machine for the time
of a command (``harness.store.remote``): what is new there is stored at the command's end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import UsageError
from harness.store.folder import RunDir, Store
from harness.store.home import home_of
from harness.store.remote.address import SCHEME, Address, is_remote
from krucible.console import complain
from krucible.program import typed

if TYPE_CHECKING:
    from harness.store.remote.mirror import Mirror


@dataclass(slots=True)
class _Open:
    """The stores in object storage that this command has opened."""

    stack: ExitStack
    mirrors: dict[Address, Mirror] = field(default_factory=dict)


_open: ContextVar[_Open | None] = ContextVar("_open", default=None)


@contextmanager
def closing() -> Iterator[None]:
    """Close at the end what ``opened`` has opened meanwhile; raises HarnessError."""
    with ExitStack() as stack:
        before = _open.set(_Open(stack))
        try:
            yield
        finally:
            _open.reset(before)


def opened(where: str | Path) -> Store:
    """Open a store whose new runs, and those found in it, can write their report.

    Raises:
        UsageError: One in object storage is not there, or access to it is denied.
        EnvError: Its server cannot be reached.
    """
    if is_remote(str(where)):
        mirror = mirror_of(str(where))
        return Store(mirror.root, render=_render, home=mirror)
    root = Path(where)
    if home_of(root) is not None:
        _join(root)
    return Store(root, render=_render)


def mirror_of(where: str) -> Mirror:
    """Open a store in object storage, or give the one that this command has opened; as ``opened``.

    What killed harnesses of this machine left for that store is stored first.
    """
    from harness.store.remote import mirror as mirrors  # noqa: PLC0415 - not for --help

    here = _open.get()
    if here is None:
        raise RuntimeError(f"{where}: opened outside of a command, so that nobody would close it")
    address = Address.parse(where)
    if address not in here.mirrors:
        mirror = mirrors.opened(address)
        here.stack.callback(mirror.close)
        here.mirrors[address] = mirror
        for leftover in mirrors.store_left(address):
            if not leftover.done:
                complain(str(leftover))
    return here.mirrors[address]


def of_run(text: str) -> tuple[Mirror, Path] | None:
    """The store and the folder of a run by its address, ``s3://...``; None for anything else.

    The run is not fetched yet.
    """
    if not is_remote(text):
        return None
    parts = Address.parse(text).parent()
    if parts is None:
        return None
    address, name = parts
    mirror = mirror_of(str(address))
    run = mirror.root / name
    return (mirror, run) if run in mirror.runs() else None


def at_hand(text: str) -> str:
    """The folder of a run that is named by its address, with all its files; other texts as is.

    Raises:
        UsageError: There is no such run.
    """
    found = of_run(text)
    if found is None:
        if is_remote(text):
            raise UsageError(
                f"{text}: there is no such run; want {SCHEME}BUCKET/PREFIX/FAMILY/RUN, or an id "
                f"and --store {SCHEME}BUCKET/PREFIX"
            )
        return text
    mirror, run = found
    mirror.fetch(run)
    return str(run)


def run_at(path: Path) -> RunDir:
    """Name the run in a folder, wherever that is; it can write its report."""
    return RunDir(path.resolve(), _render)


def _join(root: Path) -> None:
    """Hold the copy of a store that another process of ours has made, until the command ends."""
    from harness.store.remote.copies import joined  # noqa: PLC0415 - not for --help

    here, lock = _open.get(), joined(root)
    if here is not None and lock is not None:
        here.stack.enter_context(lock)


def _render(path: Path) -> str:
    from reports.run_report import render_stored  # noqa: PLC0415 - all pictures: not for --help

    return render_stored(path, typed())
