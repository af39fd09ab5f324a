"""``krucible run``: one real run, ending in a verdict and a report."""

from __future__ import annotations

import secrets
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from harness.envs.attached.plugin import allowed_nemeses
from harness.errors import UsageError
from harness.faults.choice import NONE
from harness.registry import systems, workloads
from harness.run.judge import Judgement
from harness.sessions import live as session
from harness.spec import FAIR, STEADY, RunSpec
from harness.store.remote.address import is_remote
from harness.telemetry import opening as telemetry
from harness.telemetry.listeners import together
from harness.verdict import EXIT_ABORTED, EXIT_UNKNOWN, EXIT_VALID, Valid
from krucible import completion
from krucible.anomalies import lines
from krucible.arguments import (
    CONCURRENCY_MAX,
    DEFAULT_STORE,
    NEMESIS_HELP,
    OBSERVERS_MAX,
    PACE_HELP,
    RATE_MAX_HZ,
    SEED_MAX,
    SETTLE_MAX_S,
    TIME_LIMIT_MAX_S,
    VOTERS_MAX,
    WEATHER_HELP,
    Attach,
    HostsFile,
    KafkaHome,
    KafkaVersion,
    MetricsAt,
    StoreDir,
    check_hosts,
    check_mutant,
    look_at,
    made_by,
    of_kafka,
    parse_nemeses,
    parse_settings,
)
from krucible.completion import named
from krucible.console import EXIT_INTERRUPTED, STYLE, Json, err, out, print_json
from krucible.live import LiveStatus
from krucible.program import typed
from krucible.quantities import duration, number, whole
from krucible.stores import opened

if TYPE_CHECKING:
    from harness.telemetry.metrics import RunMetrics

SEED_DRAWN_MAX = 2**31  # what we draw is short enough to type


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        name="run",
        help="Run a workload under faults against a real cluster, judge the run and write its "
        "report. Exits 0 valid, 1 invalid, 2 unknown, 3 aborted by a guard (of --attach), "
        "254 bad arguments, 255 the harness failed.",
        short_help="Run a workload under faults against a real cluster, and judge it.",
        epilog="Example: krucible run --nemesis kill,partition --time-limit 60 --seed 7",
    )(run)


def run(  # noqa: PLR0913, PLR0917 - one parameter per option
    system: Annotated[str, named("System under test.", completion.SYSTEMS)] = "kraft",
    env: Annotated[
        str, named("Environment that its nodes run in.", completion.ENVIRONMENTS)
    ] = "local",
    voters: Annotated[int, whole("Controllers.", least=1, most=VOTERS_MAX)] = 3,
    observers: Annotated[int, whole("Brokers.", least=0, most=OBSERVERS_MAX)] = 2,
    workload: Annotated[str, named("Workload of the clients.", completion.WORKLOADS)] = "register",
    nemesis: Annotated[
        str | None,
        named(
            f"{NEMESIS_HELP} Default: all, or none for a system without processes.",
            completion.faults,
            "NAMES",
        ),
    ] = None,
    time_limit: Annotated[
        float,
        duration("Length of the main phase.", least_s=1, most_s=TIME_LIMIT_MAX_S, default_s=30),
    ] = 30.0,
    rate: Annotated[
        float | None,
        number(
            "Ops per second; 0: as fast as possible (default: 100, or 15 where brokers come and "
            "go).",
            least=0,
            most=RATE_MAX_HZ,
        ),
    ] = None,
    concurrency: Annotated[int, whole("Client processes.", least=1, most=CONCURRENCY_MAX)] = 10,
    pace: Annotated[str, named(PACE_HELP, completion.paces)] = STEADY,
    weather: Annotated[str, named(WEATHER_HELP, completion.weathers)] = FAIR,
    settle: Annotated[
        float,
        duration(
            "Time of peace at the end: all is healed, nothing is asked, and the cluster must keep "
            "its leader and commit.",
            least_s=0,
            most_s=SETTLE_MAX_S,
        ),
    ] = 0.0,
    seed: Annotated[
        int | None,
        whole("Seed of ops and faults (default: random).", least=0, most=SEED_MAX),
    ] = None,
    mutant: Annotated[str | None, named("Seeded bug to switch on.", completion.mutants)] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Setting of the system; repeatable."),
    ] = None,
    kafka_version: KafkaVersion = None,
    kafka_home: KafkaHome = None,
    hosts: HostsFile = None,
    attach: Attach = None,
    metrics: MetricsAt = None,
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
        rate_hz=workloads.traits(workload).rate_hz if rate is None else rate,
        concurrency=concurrency,
        pace=pace,
        weather=weather,
        settle_s=settle,
        mutant=mutant,
        settings=of_kafka(parse_settings(setting or []), kafka_version, kafka_home),
    )
    if attach is not None:
        spec = on_foreign(spec, attach, chosen=nemesis is not None)
    check_mutant(spec)
    check_hosts(spec, hosts)
    with telemetry.run_metrics(metrics, _say) as counts:
        prepared = session.prepare(spec, opened(store), origin=made_by("run", spec))
        code = execute(prepared, counts)
    if prepared.judgement is not None:
        if json:
            print_json(prepared.summary())
        else:
            show(prepared)
    return code


def on_foreign(spec: RunSpec, attach: Path, *, chosen: bool) -> RunSpec:
    """The options of a run on the cluster of an attach file.

    Args:
        spec: The options as they were given.
        attach: The file.
        chosen: Whether ``--nemesis`` was given; else all that the file allows.

    Raises:
        UsageError: Options that say what the cluster is, or something in the file is wrong.
        EnvError: The cluster does not answer.
    """
    from harness.systems.attached.planning import attached  # noqa: PLC0415 - only for such runs

    usual = RunSpec(spec.seed)
    for option in ("system", "env", "voters", "observers", "mutant"):
        if getattr(spec, option) != getattr(usual, option):
            raise UsageError(f"--{option}: --attach FILE says what the cluster is; leave it out")
    file, found = look_at(attach)
    if not chosen:
        spec = replace(spec, nemeses=tuple(allowed_nemeses(file)) or (NONE,))
    return attached(spec, file, found)


def _say(text: str) -> None:
    err().print(text, markup=False)


def execute(prepared: session.Session, metrics: RunMetrics | None = None) -> int:
    """Execute a prepared session under live status; returns its exit code.

    A first Ctrl-C ends the run in good order, and what it did is judged; then it exits 130 unless
    it is invalid. A second one leaves at once and says where to find what was recorded.
    """
    spec, name = prepared.spec, prepared.run_dir.told
    words = name if is_remote(name) else Path(name).absolute()
    title = (
        f"krucible {spec.system}/{spec.workload} on {spec.env}, seed {spec.seed}, "
        f"{len(prepared.faults)} faults planned"
    )
    console = err()
    console.print(f"{title} -> {name}", markup=False)
    for note in prepared.plan.notes:
        console.print(f"note: {note}", markup=False)
    live = LiveStatus(console, title, roles=prepared.live_roles, time_limit_s=spec.time_limit_s)
    try:
        with telemetry.spans_of(spec, prepared.run_dir.path.name, _say) as spans, live:
            session.execute(prepared, progress=together(live, metrics, spans))
            for each in (metrics, spans):
                if each is not None and prepared.judgement is not None:
                    each.judged(session.verdict(prepared.judgement).value)
    except KeyboardInterrupt:
        again = typed().line("check", words)
        console.print(f"stopped; judge what was recorded: {again}", markup=False)
        return EXIT_INTERRUPTED
    code = prepared.exit_code
    short = prepared.interrupted and code in (EXIT_VALID, EXIT_UNKNOWN, EXIT_ABORTED)
    return EXIT_INTERRUPTED if short else code


def show(done: session.Session) -> None:
    """The end of a run for people: verdict, anomalies, figures, where the report is."""
    judgement = done.judgement
    assert judgement is not None, "judged before shown"  # noqa: S101
    console = out()
    console.print(verdict_line(judgement))
    for line in lines(anomaly.to_json() for anomaly in judgement.anomalies):
        console.print(f"  {line}", markup=False)
    for axis, reasons in judgement.reasons.items():
        for reason in reasons:
            console.print(f"  {axis}: {reason}", markup=False)
    for finding, count in judgement.known.items():
        console.print(f"  known: {finding}: {count}", markup=False)
    for checker, why in done.undecided.items():
        console.print(f"  undecided: {checker}: {why}", markup=False)
    if done.aborted is not None:
        console.print(f"  ABORTED: {done.aborted}", markup=False)
    if done.result is not None:
        counts = ", ".join(f"{n} {type_}" for type_, n in sorted(done.result.counts.items()))
        installed = sum(r.injection.outcome == "installed" for r in done.result.faults)
        console.print(f"  ops: {counts}; faults: {installed} of {len(done.faults)} installed")
    console.print(f"  report:    {done.run_dir.told}/{done.run_dir.report.name}", markup=False)
    again = typed().line("repro", *done.run_dir.words)
    console.print(f"  reproduce: {again}", markup=False)


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
