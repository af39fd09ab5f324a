"""``krucible repro``: replay the recorded schedule of a run with the same op seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from harness import session
from harness.cli.console import EXIT_INTERRUPTED, Json, complain, err, out, print_json
from harness.cli.run import DEFAULT_STORE, StoreDir, execute, show
from harness.cli.sim import show_simulation
from harness.errors import HarnessError, UsageError
from harness.spec import SIM
from harness.store import Store
from harness.stored import StoredRun, load_run
from harness.verdict import EXIT_INVALID, EXIT_VALID

TIMES_MAX = 1_000


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        name="repro",
        help="Run again what a run of the store did: same spec, same schedule, same ops. A replay "
        "that breaks one of the invariants the run broke (any, when it broke none) reproduces "
        "it. Exits 1 when a replay was invalid, else with the worst exit code of a replay.",
        short_help="Run again what a run of the store did.",
        epilog="Example: krucible repro latest --times 5",
    )(repro)


def repro(
    run: Annotated[str, typer.Argument(help="A run's folder, its seed, or latest.")],
    times: Annotated[int, typer.Option(min=1, max=TIMES_MAX, help="How often.")] = 1,
    store: StoreDir = DEFAULT_STORE,
    json: Json = False,
) -> int:
    """Replay, and print how many replays failed as the run did."""
    where = Store(store)
    stored = load_run(where.resolve(run).path)
    wanted = broken(stored.results or {})
    codes: list[int] = []
    stores: list[str] = []
    found: Counter[str] = Counter()
    reproduced = 0
    for number in range(1, times + 1):
        if times > 1:
            err().print(f"replay {number} of {times}")
        again = _simulate if stored.data.spec.env == SIM else _replay
        replay = again(stored, where, loud=not json)
        if replay.code == EXIT_INTERRUPTED:
            return replay.code
        codes.append(replay.code)
        stores.append(str(replay.path))
        found.update(replay.broken)
        if replay.code == EXIT_INVALID:
            reproduced += not wanted or bool(wanted & replay.broken)
    if json:
        print_json(
            {
                "run": str(stored.path),
                "reproduced": reproduced,
                "times": times,
                "exit_codes": codes,
                "invariants": dict(sorted(found.items())),
                "stores": stores,
            }
        )
    else:
        broke = ", ".join(f"{name} in {n}" for name, n in sorted(found.items()))
        out().print(f"{reproduced}/{times} reproduced" + (f" (broke {broke})" if broke else ""))
    return EXIT_INVALID if EXIT_INVALID in codes else max(codes, default=EXIT_VALID)


def broken(results: Mapping[str, Any]) -> frozenset[str]:
    """The invariants that results name as broken."""
    return frozenset(str(anomaly["invariant"]) for anomaly in results.get("anomalies", ()))


@dataclass(frozen=True, slots=True)
class _Replay:
    """How a replay ended."""

    path: Path
    code: int
    broken: frozenset[str] = frozenset()


def _replay(stored: StoredRun, store: Store, *, loud: bool) -> _Replay:
    """One replay; a harness that breaks in it is told and does not end the others."""
    prepared = session.prepare(stored.data.spec, store, faults=stored.data.faults)
    path = prepared.run_dir.path
    try:
        code = execute(prepared)
    except UsageError:
        raise
    except HarnessError as error:
        complain(str(error))
        return _Replay(path, error.exit_code)
    if loud and prepared.judgement is not None:
        show(prepared)
    return _Replay(path, code, broken(prepared.summary()) if code == EXIT_INVALID else frozenset())


def _simulate(stored: StoredRun, store: Store, *, loud: bool) -> _Replay:
    """One replay of a simulation: the same bytes."""
    from harness.simulate import SimPlan, save, simulate  # noqa: PLC0415 - it loads the node

    run = simulate(SimPlan.of(stored.data.spec, stored.data.faults))
    path, summary = save(run, store).path, run.summary()
    if loud:
        then = (stored.results or {}).get("trace_sha256")
        same = None if then is None else then == run.trace_sha256
        show_simulation({**summary, "store": str(path), "same_bytes": same})
    return _Replay(path, run.judgement.exit_code, broken(summary))
