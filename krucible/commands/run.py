"""``krucible run``: one real run, ending in a verdict and a report."""

from __future__ import annotations

import os
import secrets
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from harness.contracts.abilities import Kill, Pause, Roles
from harness.envs.ssh.hosts import HOSTS_VARIABLE
from harness.errors import UsageError
from harness.faults.choice import ALL, NONE
from harness.faults.schedule import PACES, told
from harness.registry import environments, mutant_names, systems, unknown
from harness.run.judge import Judgement
from harness.sessions import live as session
from harness.spec import STEADY, RunSpec
from harness.verdict import EXIT_UNKNOWN, EXIT_VALID, Valid
from krucible.console import EXIT_INTERRUPTED, STYLE, Json, err, out, print_json
from krucible.live import LiveStatus
from krucible.stores import opened

SEED_DRAWN_MAX = 2**31  # what we draw is short enough to type
SEED_MAX = 2**63 - 1
VOTERS_MAX = 7
OBSERVERS_MAX = 20
CONCURRENCY_MAX = 1_000
RATE_MAX_HZ = 100_000.0
TIME_LIMIT_MAX_S = 86_400.0

NEMESIS_HELP = (
    "Faults: names or families by comma; all or none. Of all and of families as many kinds come as "
    "there is time for; what is named itself comes late if there is none, after the main phase."
)
PACE_HELP = f"How long faults last: {'; '.join(map(told, PACES))}."

StoreDir = Annotated[Path, typer.Option("--store", help="Folder of runs.")]
HostsFile = Annotated[
    Path | None,
    typer.Option(
        "--hosts", metavar="FILE", help="Hosts of --env ssh: [user@]host[:port] lines, or TOML."
    ),
]
DEFAULT_STORE = Path("store")


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        name="run",
        help="Run a workload under faults against a real cluster, judge it, write the report. "
        "Exits 0 valid, 1 invalid, 2 unknown, 254 bad arguments, 255 the harness broke.",
        short_help="Run a workload under faults against a real cluster, and judge it.",
        epilog="Example: krucible run --nemesis kill,partition --time-limit 60 --seed 7",
    )(run)


def run(  # noqa: PLR0913, PLR0917 - one parameter per option
    system: Annotated[str, typer.Option(help="System under test.")] = "kraft",
    env: Annotated[str, typer.Option(help="Where its nodes run.")] = "local",
    voters: Annotated[int, typer.Option(min=1, max=VOTERS_MAX, help="Controllers.")] = 3,
    observers: Annotated[int, typer.Option(min=0, max=OBSERVERS_MAX, help="Brokers.")] = 2,
    workload: Annotated[str, typer.Option(help="What the clients do.")] = "register",
    nemesis: Annotated[
        str | None,
        typer.Option(
            help=f"{NEMESIS_HELP} When not given: all, or none where the system has no processes "
            "to break."
        ),
    ] = None,
    time_limit: Annotated[
        float, typer.Option(min=1, max=TIME_LIMIT_MAX_S, help="Seconds of the main phase.")
    ] = 30.0,
    rate: Annotated[
        float, typer.Option(min=0, max=RATE_MAX_HZ, help="Ops per second; 0 = as fast as can be.")
    ] = 100.0,
    concurrency: Annotated[
        int, typer.Option(min=1, max=CONCURRENCY_MAX, help="Client processes.")
    ] = 10,
    pace: Annotated[str, typer.Option(help=PACE_HELP)] = STEADY,
    seed: Annotated[
        int | None,
        typer.Option(min=0, max=SEED_MAX, help="Decides ops and faults; drawn when not given."),
    ] = None,
    mutant: Annotated[str | None, typer.Option(help="Seeded bug to switch on.")] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Setting of the system; repeatable."),
    ] = None,
    hosts: HostsFile = None,
    store: StoreDir = DEFAULT_STORE,
    json: Json = False,
) -> int:
    """Run once; the exit code is the verdict's."""
    spec = RunSpec(
        seed=secrets.randbelow(SEED_DRAWN_MAX) if seed is None else seed,
        system=system,
        env=env,
        workload=workload,
        nemeses=parse_nemeses(nemesis, systems.get(system)),
        voters=voters,
        observers=observers,
        time_limit_s=time_limit,
        rate_hz=rate,
        concurrency=concurrency,
        pace=pace,
        mutant=mutant,
        settings=parse_settings(setting or []),
    )
    check_mutant(spec)
    check_hosts(spec, hosts)
    prepared = session.prepare(spec, opened(store))
    code = execute(prepared)
    if prepared.judgement is not None:
        if json:
            print_json(prepared.summary())
        else:
            show(prepared)
    return code


def execute(prepared: session.Session) -> int:
    """Execute a prepared session under live status; returns its exit code.

    A first Ctrl-C ends the run in good order, and what it did is judged; then it exits 130 unless
    it is invalid. A second one leaves at once and says where to find what was recorded.
    """
    spec, path = prepared.spec, prepared.run_dir.path
    title = (
        f"krucible {spec.system}/{spec.workload} on {spec.env}, seed {spec.seed}, "
        f"{len(prepared.faults)} faults planned"
    )
    console = err()
    console.print(f"{title} -> {path}", markup=False)
    live = LiveStatus(console, title, roles=prepared.live_roles, time_limit_s=spec.time_limit_s)
    try:
        with live:
            session.execute(prepared, progress=live)
    except KeyboardInterrupt:
        console.print(f"stopped; judge what was recorded: krucible check {path}", markup=False)
        return EXIT_INTERRUPTED
    code = prepared.exit_code
    short = prepared.interrupted and code in (EXIT_VALID, EXIT_UNKNOWN)
    return EXIT_INTERRUPTED if short else code


def show(done: session.Session) -> None:
    """The end of a run for people: verdict, anomalies, figures, where the report is."""
    judgement = done.judgement
    assert judgement is not None, "judged before shown"  # noqa: S101
    console = out()
    console.print(verdict_line(judgement))
    counts_of = Counter(anomaly.invariant for anomaly in judgement.anomalies)
    first_of = {a.invariant: a for a in reversed(judgement.anomalies)}
    for invariant, times in counts_of.items():
        more = f" (and {times - 1} more like it)" if times > 1 else ""
        console.print(f"  {invariant}: {first_of[invariant].message}{more}", markup=False)
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


def parse_nemeses(text: str | None, system: Any) -> tuple[str, ...]:
    """The names in ``--nemesis``; raises UsageError."""
    if text is None:
        breakable = any(issubclass(system, ability) for ability in (Kill, Pause, Roles))
        return (ALL if breakable else NONE,)
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise UsageError(f"--nemesis {text!r}: want names or families by comma, or all, or none")
    return names


def parse_settings(pairs: list[str]) -> dict[str, str]:
    """The pairs of ``--set``; raises UsageError."""
    settings: dict[str, str] = {}
    for pair in pairs:
        key, separator, value = (part.strip() for part in pair.partition("="))
        if not separator or not key:
            raise UsageError(f"--set {pair!r}: want KEY=VALUE")
        if key in settings:
            raise UsageError(f"--set {key}: given twice; leave one out")
        settings[key] = value
    return settings


def check_hosts(spec: RunSpec, hosts: Path | None) -> None:
    """Tell the environment its hosts file, and let it check it; raises UsageError."""
    environment = environments.get(spec.env)
    check = getattr(environment, "check_options", None)
    if hosts is not None:
        if check is None:
            raise UsageError(f"--hosts: the environment {spec.env!r} has none; want --env ssh")
        os.environ[HOSTS_VARIABLE] = str(hosts.absolute())
    if check is not None:
        check(spec)


def check_mutant(spec: RunSpec) -> None:
    """Raise UsageError for a mutant that the system does not have."""
    if spec.mutant is None:
        return
    names = mutant_names(systems.get(spec.system))
    if not names:
        raise UsageError(f"--mutant {spec.mutant!r}: system {spec.system!r} has no mutants")
    if spec.mutant not in names:
        raise UsageError(unknown("mutant", spec.mutant, names))
