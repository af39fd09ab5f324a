"""``krucible run``: one real run, ending in a verdict and a report."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from harness import session
from harness.cli.console import STYLE, Json, err, out, print_json
from harness.cli.live import LiveStatus
from harness.errors import UsageError
from harness.judge import Judgement
from harness.registry import mutant_names, systems, unknown
from harness.spec import RunSpec
from harness.store import Store
from harness.verdict import Valid

SEED_MAX = 2**31
VOTERS_MAX = 7
OBSERVERS_MAX = 20
CONCURRENCY_MAX = 1_000
RATE_MAX_HZ = 100_000.0
TIME_LIMIT_MAX_S = 86_400.0
ANOMALIES_SHOWN = 10

StoreDir = Annotated[Path, typer.Option("--store", help="Folder of runs.")]
DEFAULT_STORE = Path("store")


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        name="run",
        help="Run a workload under faults against a real cluster, judge it, write the report.",
        epilog="Example: krucible run --nemesis kill,partition --time-limit 60 --seed 7",
    )(run)


def run(  # noqa: PLR0913 - one parameter per option
    system: Annotated[str, typer.Option(help="System under test.")] = "kraft",
    env: Annotated[str, typer.Option(help="Where its nodes run.")] = "local",
    voters: Annotated[int, typer.Option(min=1, max=VOTERS_MAX, help="Controllers.")] = 3,
    observers: Annotated[int, typer.Option(min=0, max=OBSERVERS_MAX, help="Brokers.")] = 2,
    workload: Annotated[str, typer.Option(help="What the clients do.")] = "register",
    nemesis: Annotated[
        str, typer.Option(help="Faults: names or families by comma; all or none.")
    ] = "all",
    time_limit: Annotated[
        float, typer.Option(min=1, max=TIME_LIMIT_MAX_S, help="Seconds of the main phase.")
    ] = 30.0,
    rate: Annotated[
        float, typer.Option(min=0, max=RATE_MAX_HZ, help="Ops per second; 0 = as fast as can be.")
    ] = 100.0,
    concurrency: Annotated[
        int, typer.Option(min=1, max=CONCURRENCY_MAX, help="Client processes.")
    ] = 10,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Decides ops and faults; drawn when not given.")
    ] = None,
    mutant: Annotated[str | None, typer.Option(help="Seeded bug to switch on.")] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="Node setting key=value; repeatable.")
    ] = None,
    store: StoreDir = DEFAULT_STORE,
    json: Json = False,
) -> int:
    """Run once; the exit code is the verdict's."""
    spec = RunSpec(
        seed=secrets.randbelow(SEED_MAX) if seed is None else seed,
        system=system,
        env=env,
        workload=workload,
        nemeses=tuple(name.strip() for name in nemesis.split(",") if name.strip()),
        voters=voters,
        observers=observers,
        time_limit_s=time_limit,
        rate_hz=rate,
        concurrency=concurrency,
        mutant=mutant,
        settings=_settings(setting or []),
    )
    _check_mutant(spec)
    return run_once(session.prepare(spec, Store(store)), json=json)


def run_once(prepared: session.Session, *, json: bool) -> int:
    """Execute a prepared session under live status and print how it ended."""
    spec = prepared.spec
    title = (
        f"krucible {spec.system}/{spec.workload} on {spec.env}, seed {spec.seed}, "
        f"{len(prepared.faults)} faults planned"
    )
    live = LiveStatus(err(), title, roles=prepared.live_roles, time_limit_s=spec.time_limit_s)
    err().print(f"{title} -> {prepared.run_dir.path}", markup=False)
    with live:
        session.execute(prepared, progress=live)
    if json:
        print_json(prepared.summary())
    else:
        show(prepared)
    return prepared.exit_code


def show(done: session.Session) -> None:
    """The end of a run for people: verdict, anomalies, figures, where the report is."""
    judgement = done.judgement
    assert judgement is not None, "judged before shown"  # noqa: S101
    console = out()
    console.print(verdict_line(judgement))
    for anomaly in judgement.anomalies[:ANOMALIES_SHOWN]:
        console.print(f"  {anomaly.invariant}: {anomaly.message}", markup=False)
    hidden = len(judgement.anomalies) - ANOMALIES_SHOWN
    if hidden > 0:
        console.print(f"  and {hidden} more in the report")
    for axis, reasons in judgement.reasons.items():
        for reason in reasons:
            console.print(f"  {axis}: {reason}", markup=False)
    if done.result is not None:
        counts = ", ".join(f"{n} {type_}" for type_, n in sorted(done.result.counts.items()))
        installed = sum(r.injection.outcome == "installed" for r in done.result.faults)
        console.print(f"  ops: {counts}; faults: {installed} of {len(done.faults)} installed")
    console.print(f"  report:    {done.run_dir.report}", markup=False)
    console.print(f"  reproduce: krucible repro {done.run_dir.path}", markup=False)


def verdict_line(judgement: Judgement) -> Text:
    """The verdict in its colour, with the axes that made it so."""
    verdict = session.verdict(judgement)
    text = Text(verdict.value.upper(), style=STYLE[verdict])
    if verdict is Valid.UNKNOWN:
        axes = {
            "system": judgement.system is not Valid.VALID,
            "coverage": judgement.coverage is not Valid.VALID,
            "harness": not judgement.harness_ok,
        }
        text.append(f" ({', '.join(axis for axis, doubt in axes.items() if doubt)})")
    return text


def _settings(pairs: list[str]) -> dict[str, str]:
    settings: dict[str, str] = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key:
            raise UsageError(f"--set {pair!r}: want key=value")
        settings[key.strip()] = value.strip()
    return settings


def _check_mutant(spec: RunSpec) -> None:
    if spec.mutant is None:
        return
    names = mutant_names(systems.get(spec.system))
    if spec.mutant not in names:
        raise UsageError(unknown("mutant", spec.mutant, names))
