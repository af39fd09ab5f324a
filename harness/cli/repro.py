"""``krucible repro``: replay the recorded schedule of a run with the same op seed."""

from __future__ import annotations

from typing import Annotated

import typer

from harness import session
from harness.cli.console import Json, err, out, print_json
from harness.cli.run import DEFAULT_STORE, StoreDir, run_once
from harness.store import Store
from harness.stored import load_run
from harness.verdict import EXIT_INVALID, EXIT_VALID

TIMES_MAX = 1_000


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        name="repro",
        help="Run again what a run of the store did: same spec, same schedule, same ops.",
        epilog="Example: krucible repro latest --times 5",
    )(repro)


def repro(
    run: Annotated[str, typer.Argument(help="A run's folder, its seed, or latest.")],
    times: Annotated[int, typer.Option(min=1, max=TIMES_MAX, help="How often.")] = 1,
    store: StoreDir = DEFAULT_STORE,
    json: Json = False,
) -> int:
    """Exit 1 when it failed again at least once, 0 when never, else the worst code met."""
    where = Store(store)
    stored = load_run(where.resolve(run).path)
    codes: list[int] = []
    for number in range(1, times + 1):
        if times > 1:
            err().print(f"replay {number} of {times}")
        prepared = session.prepare(stored.data.spec, where, faults=stored.data.faults)
        codes.append(run_once(prepared, json=False) if not json else _quiet(prepared))
    reproduced = codes.count(EXIT_INVALID)
    if json:
        print_json({"reproduced": reproduced, "times": times, "exit_codes": codes})
    else:
        out().print(f"{reproduced}/{times} reproduced")
    others = [code for code in codes if code not in (EXIT_VALID, EXIT_INVALID)]
    return EXIT_INVALID if reproduced else max(others, default=EXIT_VALID)


def _quiet(prepared: session.Session) -> int:
    session.execute(prepared)
    return prepared.exit_code
