"""``krucible differ``: the same simulated run with two systems, and what they make of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from harness.errors import UsageError
from harness.registry import systems as registered
from harness.sessions.plan import Plan
from harness.sessions.swarm import DEFAULT_SYSTEM
from harness.spec import RunSpec
from harness.store.folder import Store
from harness.verdict import EXIT_INVALID, EXIT_VALID, Valid
from krucible import completion, options
from krucible.arguments import DEFAULT_STORE, KAFKA_HOME, KAFKA_VERSION, SEED_MAX, StoreDir
from krucible.commands.sim import seeds_of
from krucible.completion import named
from krucible.console import Json, err, out, print_json
from krucible.quantities import whole
from krucible.stores import opened

if TYPE_CHECKING:
    from harness.sessions.simulated import SimRun

OTHER: Final = "kafka"


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        name="differ",
        help="Simulate the same seeds with two systems: the same options, faults and ops. Compare "
        "the verdicts, the invariants that were broken, and the meaning of the committed logs: "
        "registers, topics, brokers, producer ids, voters. A difference in meaning is explained "
        "where ops ended otherwise or were under way at the same time. Runs that differ for no "
        "such reason are stored. Exits 1 when a seed differs, else 0.",
        short_help="Compare two systems in the same simulated runs.",
        epilog="Example: krucible differ --seeds 1..50",
    )(differ)


@options.pins
def differ(
    *,
    seed: Annotated[
        int | None, whole("Seed to simulate (default: 1).", least=0, most=SEED_MAX)
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="A..B", help="Seeds A to B, both included.")
    ] = None,
    against: Annotated[str, named("System to compare with.", completion.SYSTEMS)] = OTHER,
    given: dict[str, Any],
    store: StoreDir = DEFAULT_STORE,
    json: Json = False,
) -> int:
    """Compare seed by seed; the exit code says whether any differs."""
    systems = given.pop("system", DEFAULT_SYSTEM), against
    if systems[0] == systems[1]:
        raise UsageError(f"--against {against}: that is the system itself; name another one")
    if "mutant" in given:
        raise UsageError("--mutant: only one of two systems would have it; leave it out")
    pinned = options.to_the_end({**given, "system": against}, go_on=True)
    wanted = seeds_of(seed, seeds)
    options.plan_of_seed(wanted[0], pinned)  # tells of bad options at once
    where = opened(store)
    found = []
    for each in wanted:
        compared = _compared(each, systems, pinned, where)
        found.append(compared)
        if json:
            print_json(asdict(compared))
        elif compared.differs or len(wanted) == 1:
            _show(compared, systems)
        elif not len(found) % 10:
            err().print(f"{len(found)} of {len(wanted)} seeds")
    if not json and len(wanted) > 1:
        _show_all(found)
    return EXIT_INVALID if any(each.differs for each in found) else EXIT_VALID


@dataclass(slots=True)
class Compared:
    """One seed with both systems; what is told of both is first of the one, then of the other."""

    seed: int
    skipped: str | None = None
    workload: str = ""
    verdicts: tuple[str, ...] = ()
    broken: tuple[list[str], ...] = ()
    known: tuple[dict[str, int], ...] = ()
    recovered: tuple[bool | None, ...] = ()
    ok: tuple[int, ...] = ()  # ops
    explained: list[str] = field(default_factory=list)
    unexplained: list[str] = field(default_factory=list)
    stores: list[str] = field(default_factory=list)

    @property
    def differs(self) -> bool:
        """Tell whether the systems part for no reason of the ops'."""
        return bool(self.unexplained) or len(set(map(str, self.broken))) > 1


def _compared(
    seed: int, both: tuple[str, str], pinned: Mapping[str, Any], store: Store
) -> Compared:
    from harness.sessions import simulated  # noqa: PLC0415 - it brings the node: not for --help

    try:
        drawn = options.plan_of_seed(seed, pinned)
        given, own = pinned.get("settings", {}), dict(_own(drawn.spec))
        usual = {name: value for name, value in own.items() if name not in given}
        of_both = _without(drawn.spec.settings, *own)
        second = replace(drawn.spec, settings={**drawn.spec.settings, **usual})
        plan = Plan.simulated(second, drawn.faults, asked_for=drawn.asked_for)
        spec = replace(drawn.spec, system=both[0], settings=of_both)
        first = Plan.simulated(spec, drawn.faults, asked_for=drawn.asked_for)
    except UsageError as error:
        return Compared(seed, skipped=str(error))
    runs = simulated.simulate(first), simulated.simulate(plan)
    found = Compared(
        seed,
        workload=spec.workload,
        verdicts=tuple(str(run.judgement.system) for run in runs),
        broken=tuple(_broken(run) for run in runs),
        known=tuple(dict(run.judgement.known) for run in runs),
        recovered=tuple(run.result.recovered for run in runs),
        ok=tuple(run.result.counts.get("ok", 0) for run in runs),
    )
    _compare_logs(found, runs, both)
    if found.differs:
        found.stores = [simulated.save(run, store).told for run in runs]
    return found


def _own(spec: RunSpec) -> Iterator[tuple[str, str]]:
    """The settings that a swarm draws for one system alone, each with its usual value."""
    for name, values in registered.traits(spec.system).of(spec).ranges(spec.settings).items():
        yield name, values[0]


def _without(settings: Mapping[str, str], *own: str) -> dict[str, str]:
    """The settings without those that the other system has not: its own, and which Kafka it is."""
    names = KAFKA_VERSION, KAFKA_HOME
    return {
        name: value
        for name, value in settings.items()
        if not name.startswith(names) and name not in own
    }


def _broken(run: SimRun) -> list[str]:
    return sorted({anomaly.invariant for anomaly in run.judgement.anomalies})


def _compare_logs(found: Compared, runs: tuple[SimRun, SimRun], systems: tuple[str, str]) -> None:
    """Compare what two runs ended with, where both are whole."""
    from checkers.committed.meaning import differences, meaning_of  # noqa: PLC0415 - as above
    from checkers.watches.invariants import watched  # noqa: PLC0415 - as above

    if any(str(Valid.VALID) != verdict for verdict in found.verdicts):
        return
    ends = [(run.data, meaning_of(run.data, watched(run.data).world.commits)) for run in runs]
    for each in differences(ends[0], ends[1], systems):
        if each.why is None:
            found.unexplained.append(each.what)
        else:
            found.explained.append(f"{each.what}: {each.why}")


def _show(found: Compared, systems: tuple[str, str]) -> None:
    console = out()
    if found.skipped is not None:
        console.print(f"seed {found.seed}: not compared: {found.skipped}", markup=False)
        return
    word = "DIFFERS" if found.differs else "alike"
    console.print(f"seed {found.seed} ({found.workload}): {word}", markup=False)
    for place, system in enumerate(systems):
        broken = ", ".join(found.broken[place]) or "nothing"
        console.print(
            f"  {system}: {found.verdicts[place]}, broke {broken}; {found.ok[place]} ops ok",
            markup=False,
        )
    for line in found.unexplained:
        console.print(f"  {line}", markup=False)
    for line in found.explained:
        console.print(f"  {line}", markup=False, style="dim")
    for path in found.stores:
        console.print(f"  report: {path}/report.html", markup=False)


def _show_all(found: list[Compared]) -> None:
    compared = [each for each in found if each.skipped is None]
    differing = [each for each in compared if each.differs]
    unlike = [each for each in compared if each.explained]
    invariants: list[str] = []
    for place in range(2):
        counts = Counter(name for each in compared for name in each.broken[place])
        invariants.append(", ".join(f"{name} {n}" for name, n in counts.most_common()) or "nothing")
    console = out()
    console.print(
        f"{len(found)} seeds, {len(compared)} compared: {len(differing)} "
        f"differ; {len(unlike)} ended otherwise because ops did"
    )
    console.print(f"broken: {invariants[0]}; by the other: {invariants[1]}", markup=False)
    if differing:
        told = ", ".join(str(each.seed) for each in differing)
        console.print(f"seeds that differ: {told}", markup=False)
