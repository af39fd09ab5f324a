"""``krucible report``: render the HTML report of a stored run again."""

from __future__ import annotations

from typing import Annotated

import typer

from harness import session
from harness.cli.console import Json, out, print_json
from harness.cli.run import DEFAULT_STORE, StoreDir
from harness.store import Store
from harness.stored import load_run


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        name="report",
        help="Write the HTML report of a run; judges the run first when that was not done. "
        "Exits 0 when it was written, whatever the run's verdict.",
        short_help="Write the HTML report of a run.",
        epilog="Example: krucible report latest",
    )(report)


def report(
    run: Annotated[str, typer.Argument(help="A run's folder, its seed, or latest.")] = "latest",
    store: StoreDir = DEFAULT_STORE,
    json: Json = False,
) -> int:
    """Exit 0 when the report was written, whatever the run's verdict."""
    run_dir = Store(store).resolve(run)
    if load_run(run_dir.path).results is None:
        session.judge_run(run_dir)  # and report
    else:
        session.write_report(run_dir)
    if json:
        print_json({"report": str(run_dir.report)})
    else:
        out().print(str(run_dir.report), markup=False)
    return 0
