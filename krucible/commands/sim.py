"""``krucible sim``: the same runs in virtual time, from seeds, by the thousand."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import count as numbers
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from harness.batch import trial
from harness.batch.trial import Result, Trial
from harness.errors import UsageError
from harness.explore.growth import first_shown, kinds, of_last_tenth
from harness.processes.crew import Crew, Job, Local, Said
from harness.sessions.crash_points import CrashPoint, points, spread
from harness.sessions.reached import never_reached
from harness.store.folder import words_of
from harness.verdict import EXIT_HARNESS, EXIT_INVALID, EXIT_VALID, Valid
from krucible import options
from krucible.anomalies import lines
from krucible.arguments import DEFAULT_STORE, SEED_MAX, StoreDir
from krucible.console import STYLE, Json, err, out, print_json
from krucible.crews import Jobs, Master, crew
from krucible.program import typed
from krucible.quantities import whole
from krucible.stores import opened

if TYPE_CHECKING:
    from harness.sessions.plan import Plan

TRIED_PER_PLACE = 2  # trials of the first jobs on a cluster
AWAY_CPU_S, AWAY_PER_PLACE = 30.0, 4  # of a later one, about; so many a processor at least
CPU_S_MIN = 0.001  # of a trial that was not even played
SEEDS_MAX = 10_000_000
CRASH_POINTS_MAX = 1_000_000
SHOWN_MAX = 20  # failing seeds in full
LINES_AT_S = (5.0, 15.0, 30.0)  # the first lines of progress; after them one a minute
LINE_EVERY_S = 60.0
_RANGE = re.compile(r"(\d+)(?:\.\.(\d+))?")
_SAME = {
    None: "",
    True: " (the same bytes again)",
    False: " (NOT DETERMINISTIC: other bytes the second time)",
}


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        name="sim",
        help="Simulate runs: the same nodes, workloads, faults and checkers on a virtual clock, "
        "network and disk. The same seed gives the same bytes. Options that are not given are "
        "drawn from the seed: sizes, workload, faults, settings. A failing seed is stored as a "
        "run, with its schedule. A seed in which the harness fails is stored, too, and the other "
        "seeds go on. --crash-points has the power fail between any two disk changes of a seed. "
        "Exits 1 when a seed was invalid, else 255 when the harness failed in one, "
        "else with the worst exit code of a seed.",
        short_help="Simulate runs in virtual time, from seeds.",
        epilog="Example: krucible sim --seeds 1..100 --jobs 2",
    )(sim)


@options.pins
def sim(  # noqa: PLR0913 - one parameter per option
    *,
    seed: Annotated[
        int | None, whole("Seed to simulate (default: 1).", least=0, most=SEED_MAX)
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="A..B", help="Seeds A to B, both included.")
    ] = None,
    jobs: Jobs = None,
    master: Master = None,
    twice: Annotated[
        bool, typer.Option(help="Simulate every seed twice and compare the traces.")
    ] = False,
    save: Annotated[bool, typer.Option(help="Store every run, not only failing ones.")] = False,
    stop: Annotated[bool, typer.Option(help="Stop at the first seed that is not valid.")] = False,
    crash_points: Annotated[
        int | None,
        whole(
            "Simulate the seed, count the changes of each node's disk, and simulate it again so "
            "often, each time with a power failure before another change; evenly among all.",
            least=1,
            most=CRASH_POINTS_MAX,
        ),
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the results to a Parquet file, a row for each seed: verdict, invariants, "
            "what it reached, what it cost.",
            show_default=False,
        ),
    ] = None,
    go_on: options.GoOn = False,
    given: dict[str, Any],
    store: StoreDir = DEFAULT_STORE,
    json: Json = False,
) -> int:
    """Simulate one seed or many; the exit code is the worst one's."""
    pinned = options.to_the_end(given, go_on=go_on)
    wanted = seeds_of(seed, seeds)
    plan = options.plan_of_seed(wanted[0], pinned)  # tells of bad options at once
    where = opened(store)
    trials = [Trial(seed, pinned, twice, save, where) for seed in wanted]
    census: _Census | None = None
    if crash_points is not None:
        if seeds is not None:
            raise UsageError("--crash-points goes with one seed: give --seed N, not --seeds")
        census = _Census.of(plan, crash_points)
        trials += [replace(trials[0], crash=point) for point in census.chosen]
    batch = _Batch(trials)
    write = None if table is None else _writer()
    began_s = time.monotonic()
    try:
        with crew(jobs, master, where, trial.way_to_fail) as players:
            batch.run(players, stop=stop, loud=not json)
    finally:  # also when it is interrupted: what was found is not to be lost
        batch.results.sort(key=lambda result: result["seed"])
        if write is not None and table is not None:
            write(batch.results, table)
        if census is not None:
            figures = {**batch.figures(time.monotonic() - began_s), **census.figures(batch.results)}
            print_json(figures) if json else _show_crashes(figures, batch.failing)
        elif seeds is None:
            for result in batch.results:
                print_json(result) if json else show_simulation(result)
        elif batch.results:
            figures = batch.figures(time.monotonic() - began_s)
            print_json(figures) if json else _show_many(figures, batch.failing)
    return batch.exit_code


def _writer() -> Callable[[Sequence[Result], Path], None]:
    """Get what writes a table of histories; raises UsageError where its library is missing."""
    try:
        from pipeline.histories import write  # noqa: PLC0415 - an extra brings Parquet
    except ModuleNotFoundError as error:
        raise UsageError(
            f"--table needs {error.name}: install krucible with its extra [spark]"
        ) from error
    return write


def seeds_of(seed: int | None, seeds: str | None) -> range:
    """The seeds that are meant; raises UsageError."""
    if seeds is None:
        one = 1 if seed is None else seed
        return range(one, one + 1)
    if seed is not None:
        raise UsageError("--seed and --seeds: want one of them, not both")
    match = _RANGE.fullmatch(seeds.strip())
    if match is None:
        raise UsageError(f"--seeds {seeds!r}: want A..B, as in 1..100")
    first, last = int(match[1]), int(match[2] or match[1])
    if last < first or last > SEED_MAX or last - first >= SEEDS_MAX:
        raise UsageError(f"--seeds {seeds!r}: want A <= B <= {SEED_MAX}, at most {SEEDS_MAX} seeds")
    return range(first, last + 1)


class _Batch:
    """Many simulations."""

    def __init__(self, trials: Sequence[Trial]) -> None:
        self._trials = list(trials)
        self.results: list[Result] = []
        self._shown: dict[str, int] = {}  # features, each with the first seed that showed it

    def run(self, crew: Crew, *, stop: bool, loud: bool) -> None:
        """Have the trials done; with ``stop`` only until a seed is not valid.

        ``loud`` tells of the first seeds that are not valid as soon as they are known, and how far
        it is: by a bar on a terminal, elsewhere by lines, of which most come early.
        """
        console = err()
        loud = loud and len(self._trials) > 1
        if loud and not console.is_terminal:
            console.print(f"simulating {len(self._trials)} seeds, {crew.places} at a time")
        due = _moments(time.monotonic())
        next_line_s = next(due)
        with Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not loud or not console.is_terminal,
        ) as progress:
            task = progress.add_task("seeds", total=len(self._trials))
            bad = 0
            for result in self._done(crew):
                self._take(result)
                if trial.fails(result):
                    bad += 1
                    if loud and bad <= SHOWN_MAX:
                        console.print(_line(result), markup=False)
                told = f"seeds, {bad} not valid" if bad else "seeds"
                progress.update(task, advance=1, description=told)
                if loud and not console.is_terminal and time.monotonic() >= next_line_s:
                    console.print(f"{len(self.results)} of {len(self._trials)} {told}")
                    next_line_s = next(moment for moment in due if moment > time.monotonic())
                if stop and bad:
                    return

    def _done(self, crew: Crew) -> Iterator[Result]:
        """The results as they come; a process that dies costs the seed it was at, no other."""
        trials = self._trials
        if isinstance(crew, Local):
            parts = _parts(trials, crew.places)
            yield from trial.each(trials) if len(parts) == 1 else self._work_off(parts, crew)
            return
        few = crew.places * TRIED_PER_PLACE  # which tell how long a trial takes
        yield from self._work_off(_parts(trials[:few], crew.places), crew)
        if rest := trials[few:]:
            most = max(1, len(rest) // (AWAY_PER_PLACE * crew.places))
            cost_s = max(median(result["cpu_s"] for result in self.results), CPU_S_MIN)
            size = min(most, max(1, round(AWAY_CPU_S / cost_s)))
            yield from self._work_off(_parts(rest, -(-len(rest) // size)), crew)

    def _work_off(self, parts: list[deque[Trial]], crew: Crew) -> Iterator[Result]:
        while parts:
            left: dict[Job, deque[Trial]] = {}
            for part in parts:
                work = partial(trial.each, tuple(part))
                left[Job(f"seeds from {part[0].seed}", work, ahead=trial.import_ahead)] = part
            with closing(crew.work_off(list(left))) as told:
                for each in told:
                    if isinstance(each, Said):
                        left[each.job].popleft()
                        yield each.value
                    elif each.broken is not None and left[each.job]:
                        yield left[each.job].popleft().died(each.broken)
            parts = [part for part in parts if part]

    def _take(self, result: Result) -> None:
        """Keep a result; its features, which are many, only as those of the batch."""
        for name in result.pop("features"):
            self._shown[name] = min(result["seed"], self._shown.get(name, result["seed"]))
        self.results.append(result)

    @property
    def failing(self) -> list[dict[str, Any]]:
        """The results that are not valid, or not the same twice."""
        return [result for result in self.results if trial.fails(result)]

    @property
    def exit_code(self) -> int:
        """The worst of all seeds; bytes that differ are a broken harness."""
        codes = [result["exit_code"] for result in self.results]
        if EXIT_INVALID in codes:
            return EXIT_INVALID
        if any(result["same_bytes"] is False for result in self.results):
            return EXIT_HARNESS
        return max(codes, default=EXIT_VALID)

    def figures(self, elapsed_s: float) -> dict[str, Any]:
        """Tell what the batch came to, as a JSON object."""
        figures = trial.added_up(self.results)
        known = first_shown(self._shown, [result["seed"] for result in self.results])
        simulated_s = figures["simulated_s"]
        return {
            **figures,
            "features": len(self._shown),
            "features_by_kind": kinds(self._shown),
            "features_of_last_tenth": of_last_tenth(known),
            "elapsed_s": round(elapsed_s, 3),
            "times_real_time": round(simulated_s / elapsed_s, 1) if elapsed_s else None,
        }


def _parts(trials: Sequence[Trial], count: int) -> list[deque[Trial]]:
    """Share trials out, so many parts of one length, more or less; none is empty."""
    return [deque(trials[n::count]) for n in range(min(count, len(trials)))]


@dataclass(frozen=True, slots=True)
class _Census:
    """The disk changes of a seed by node, and the crash points that are tried of all there are."""

    changes: Mapping[str, int]
    total: int
    chosen: Sequence[CrashPoint]

    @classmethod
    def of(cls, plan: Plan, most: int) -> _Census:
        """Simulate a plan and count."""
        from harness.sessions import simulated  # noqa: PLC0415 - it brings the node

        counting = replace(simulated.OPTIONS, count_changes=True)
        changes = simulated.simulate(plan, counting).result.changes
        every = points(changes)
        return cls(changes, len(every), spread(every, most))

    def figures(self, results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Tell what came of the crash points, as fields of a JSON object."""
        crashed = [result for result in results if "crash" in result]
        return {
            "changes": dict(self.changes),
            "crash_points": self.total,
            "tried": len(crashed),
            "struck": sum(result.get("struck", False) for result in crashed),
            "crashes_failing": [r["crash"] for r in crashed if trial.fails(r)],
        }


def _moments(began_s: float) -> Iterator[float]:
    """The moments at which lines of progress are due."""
    yield from (began_s + after_s for after_s in LINES_AT_S)
    for number in numbers(1):
        yield began_s + number * LINE_EVERY_S


def _line(result: Mapping[str, Any]) -> str:
    """Tell what is wrong with a seed, and how to see it again."""
    names = ", ".join(sorted({a["invariant"] for a in result["anomalies"]})) or "; ".join(
        [*result["harness_reasons"], *result["coverage_reasons"], *result["system_reasons"]]
    )
    if result["same_bytes"] is False:
        names = "; ".join(filter(None, ("not the same bytes twice", names)))
    seed, verdict, store = (result[name] for name in ("name", "verdict", "store"))
    if trial.is_broken(result) and verdict != Valid.INVALID:
        verdict = "the harness broke"
    again = "" if store is None else f"  {_again(store)}"
    return f"seed {seed}: {verdict} ({names}){again}"


def _again(store: str, *more: str) -> str:
    """The command that replays a stored simulation."""
    return typed().line("repro", *words_of(store), *more)


def show_simulation(result: Mapping[str, Any]) -> None:
    """One simulation for people: verdict, anomalies, where the report is."""
    console = out()
    console.print(result["verdict"].upper(), style=STYLE[Valid(result["verdict"])])
    for line in lines(result["anomalies"]):
        console.print(f"  {line}", markup=False)
    stopped = result["stopped"]
    if stopped is not None:
        console.print(
            f"  stopped at {stopped['time_ns'] / 1e9:.6f} s: {stopped['node']} seq "
            f"{stopped['seq']} broke {stopped['invariant']}"
        )
    for axis in ("system", "coverage", "harness"):
        for reason in result[f"{axis}_reasons"]:
            console.print(f"  {axis}: {reason}", markup=False)
    for finding, count in result.get("known", {}).items():
        console.print(f"  known: {finding}: {count}", markup=False)
    console.print(
        f"  seed {result['seed']}: {result['events']} events in {result['simulated_s']:.1f} "
        f"simulated seconds, sha256 {result['trace_sha256']}{_SAME[result['same_bytes']]}"
    )
    if result["store"] is not None:
        console.print(f"  report:    {result['store']}/report.html", markup=False)
        console.print(f"  reproduce: {_again(result['store'])}", markup=False)
        if stopped is not None:
            console.print(f"  to the end: {_again(result['store'], '--go-on')}", markup=False)


def _show_crashes(figures: dict[str, Any], failing: Sequence[dict[str, Any]]) -> None:
    console = out()
    for result in failing[:SHOWN_MAX]:
        console.print(_line(result), markup=False)
    if len(failing) > SHOWN_MAX:
        console.print(f"and {len(failing) - SHOWN_MAX} more")
    changes, tried, total = figures["changes"], figures["tried"], figures["crash_points"]
    per_node = ", ".join(f"{node} {count}" for node, count in changes.items())
    console.print(
        f"{tried} of {total} crash points: {len(figures['crashes_failing'])} not valid; "
        f"{sum(changes.values())} disk changes ({per_node}), each with nothing, and with a part, "
        "of what was not fsynced",
        markup=False,
    )
    if figures["struck"] < tried:
        console.print(
            f"{tried - figures['struck']} did not strike: another fault had the node, or the "
            "simulation ended before"
        )


def _show_many(figures: dict[str, Any], failing: Sequence[dict[str, Any]]) -> None:
    console = out()
    for result in failing[:SHOWN_MAX]:
        console.print(_line(result), markup=False)
    if len(failing) > SHOWN_MAX:
        console.print(f"and {len(failing) - SHOWN_MAX} more")
    verdicts = ", ".join(f"{n} {verdict}" for verdict, n in sorted(figures["verdicts"].items()))
    console.print(
        f"{figures['seeds']} seeds: {verdicts}; {figures['simulated_s']:.0f} simulated seconds in "
        f"{figures['elapsed_s']:.1f} s ({figures['times_real_time']} times real time)"
    )
    late = figures["features_of_last_tenth"]
    told = "" if late is None else f", {late} of them first in the last tenth of the seeds"
    console.print(f"{figures['features']} features{told}")
    for finding, seen in figures["known"].items():
        seeds = f"in {seen['seeds']} of the seeds, first in seed {seen['first']}"
        console.print(f"known: {finding}: {seen['times']}, {seeds}", markup=False)
    for line in never_reached(figures):
        console.print(line, markup=False)
    if figures["broken"]:
        console.print(f"THE HARNESS FAILED in seeds {figures['broken']}", style="bold red")
    if figures["not_same_bytes"]:
        console.print(
            f"NOT DETERMINISTIC: other bytes the second time in seeds {figures['not_same_bytes']}",
            style="bold red",
        )
