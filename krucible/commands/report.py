"""``krucible report``: render the HTML report of a stored run again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.errors import UsageError
from harness.sessions import live as session
from harness.store.folder import RunDir
from harness.store.reading import load_results
from harness.store.remote.address import is_remote
from krucible.arguments import DEFAULT_STORE, StoreDir
from krucible.console import Json, out, print_json
from krucible.program import typed
from krucible.stores import at_hand, mirror_of, of_run, opened, run_at

_OF_STORES = ("*/*/spec.json", "nights/*/summary.json")  # a green night may have stored no run


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        name="report",
        help="Write the HTML report of a run, which is judged first if it was not yet; or the "
        "fleet report of a store, with all its runs on one page. Exits 0 when the report was "
        "written, whatever the verdicts.",
        short_help="Write the HTML report of a run, or of a whole store.",
        epilog="Example: krucible report latest",
    )(report)


def report(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN|STORE", help="A stored run: its id, its folder or latest; or a store."
        ),
    ] = "latest",
    store: StoreDir = DEFAULT_STORE,
    json: Json = False,
) -> int:
    """Exit 0 when the report was written, whatever the run's verdict."""
    page = _page(run, store)
    if json:
        print_json({"report": page})
    else:
        out().print(page, markup=False)
    return 0


def _page(run: str, store: str) -> str:
    """Write the page, and name it."""
    if not is_remote(run):
        page = _fleet(Path(run))
        if page is not None:
            return str(page)
        return _run(opened(store).resolve(run))
    if of_run(run) is not None:
        return _run(run_at(Path(at_hand(run))))
    mirror = mirror_of(run)
    mirror.refresh()
    page = _fleet(mirror.root)
    if page is None:
        raise UsageError(f"{run}: there is no run in it, nor a night; `krucible run` makes one")
    return f"{mirror.address}/{page.name}"


def _fleet(folder: Path) -> Path | None:
    """The fleet report of a folder of runs or nights; None for any other."""
    if (folder / "spec.json").is_file() or not any(map(any, map(folder.glob, _OF_STORES))):
        return None
    from reports.fleet import page as fleet  # noqa: PLC0415 - it brings all pictures: not for --help

    return fleet.write_fleet(folder, program=typed())


def _run(run_dir: RunDir) -> str:
    """Write the report of one run, and name it."""
    if load_results(run_dir) is None:
        session.judge_run(run_dir)  # and report
    else:
        run_dir.write_report()
    return f"{run_dir.told}/{run_dir.report.name}"
