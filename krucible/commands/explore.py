"""``krucible explore``: simulations made of what earlier ones showed, to find what nobody knows."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import Progress, TextColumn, TimeElapsedColumn

from harness.errors import UsageError
from harness.explore.growth import kinds, of_last_tenth
from harness.sessions.reached import never_reached, told_of
from harness.store.folder import words_of
from harness.verdict import EXIT_HARNESS, EXIT_INVALID, EXIT_UNKNOWN, EXIT_VALID, Valid
from krucible import options
from krucible.arguments import DEFAULT_STORE, SEED_MAX, StoreDir
from krucible.console import EXIT_INTERRUPTED, Json, err, out, print_json
from krucible.crews import Jobs, Master, crew
from krucible.program import typed
from krucible.quantities import duration, whole
from krucible.stores import opened

if TYPE_CHECKING:
    from harness.explore.distil import Shown
    from harness.explore.play import Exploration, Played
    from harness.shrink.moves import Candidate

BUDGET_MAX_S = 86_400.0
LINE_EVERY_S = 60.0  # of progress, where there is no terminal
NO_CORPUS = "none"


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        name="explore",
        help="Search for failures by simulations that build on each other. What a run shows is "
        "summed up (events that follow each other, requests between roles, states of the quorum, "
        "near misses, invariants whose premise came true). The search begins with a corpus of runs "
        "that together show most for their cost. A run that shows something new is kept, "
        "and changed: faults are moved onto rare moments, aimed at others, prolonged, taken from "
        "other runs. Three of ten runs are fresh seeds of the swarm. Failing runs are stored, a "
        "few of each way to fail. The same seed makes the same runs. Exits 1 when a run was "
        "invalid, else 255 when the harness failed in one, else 2 when one was unknown.",
        short_help="Search for failures by simulations that build on each other.",
        epilog="Example: krucible explore --budget 10m --jobs 2",
    )(explore)


@options.pins
def explore(  # noqa: PLR0913 - one parameter per option
    *,
    seed: Annotated[int, whole("Seed of the search.", least=0, most=SEED_MAX)] = 1,
    budget: Annotated[
        float,
        duration(
            "Time for the search; the runs under way then are finished.",
            least_s=0.1,
            most_s=BUDGET_MAX_S,
            default_s=600,
        ),
    ] = 600.0,
    runs: Annotated[
        int | None,
        whole("End after so many runs, if the time lasts.", least=1, most=10_000_000),
    ] = None,
    corpus: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|none",
            help="Begin with the runs of a file that --save-corpus wrote, as far as they have what "
            "the other options ask for; none: begin with fresh seeds. Default: the corpus that "
            "comes with krucible, which is for its own node.",
            show_default=False,
        ),
    ] = None,
    save_corpus: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="At the end write the valid runs that together show most for their cost, in the "
            "order to play them, for --corpus.",
            show_default=False,
        ),
    ] = None,
    jobs: Jobs = None,
    master: Master = None,
    given: dict[str, Any],
    store: StoreDir = DEFAULT_STORE,
    json: Json = False,
) -> int:
    """Search until the time is up; the exit code says what was found."""
    from harness.explore.play import Exploration  # noqa: PLC0415 - it brings the node

    options.plan_of_seed(seed, given)  # tells of bad options at once
    starting = _starting(corpus, given)
    pool = None if save_corpus is None else _pool(save_corpus)
    where = opened(store)
    with crew(jobs, master, where, lambda played: played.way or None) as players:
        exploration = Exploration(
            seed, lambda n: options.plan_of_seed(n, given), where, players, starting, pool
        )
        began_s = time.monotonic()
        interrupted = False
        try:
            _follow(exploration, began_s + budget, runs, loud=not json)
        except KeyboardInterrupt:
            interrupted = True
    figures = {**figures_of(exploration, time.monotonic() - began_s), "interrupted": interrupted}
    figures["starting_runs"] = len(starting)
    unsaved: UsageError | None = None
    if save_corpus is not None and pool is not None:
        try:
            figures["saved_runs"] = _save(save_corpus, pool)
        except UsageError as error:
            unsaved = error
    print_json(figures) if json else _show(figures)
    if unsaved is not None:
        raise unsaved  # the figures are told first
    return EXIT_INTERRUPTED if interrupted else _exit_code(exploration.failures)


def _starting(corpus: str | None, given: Mapping[str, Any]) -> list[Candidate]:
    """Give the runs that the search begins with."""
    from harness.explore import starting  # noqa: PLC0415 - it brings all nemeses

    if corpus == NO_CORPUS:
        return []
    path = starting.OURS if corpus is None else Path(corpus)
    return starting.fitting(starting.load(path), given)


def _pool(path: Path) -> list[Shown]:
    """Give the place for what runs show; raises UsageError if no corpus could be written of it."""
    if not path.parent.is_dir():
        raise UsageError(f"--save-corpus {path}: there is no folder {path.parent}; make it first")
    return []


def _save(path: Path, pool: Sequence[Shown]) -> int:
    """Distil a corpus and write it; gives the number of its runs."""
    from harness.explore.distil import CORPUS_COST, distilled  # noqa: PLC0415 - as ``starting``
    from harness.explore.starting import save  # noqa: PLC0415

    chosen = distilled(pool, CORPUS_COST)
    save(path, (run.candidate for run in chosen))
    return len(chosen)


def _follow(exploration: Exploration, until_s: float, runs: int | None, *, loud: bool) -> None:
    """Play until the time is up, and tell of failures as they come."""
    console = err()
    next_line_s = time.monotonic() + LINE_EVERY_S
    with (
        Progress(
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=console,
            disable=not loud or not console.is_terminal,
        ) as progress,
        closing(exploration.rounds()) as rounds,
    ):
        task = progress.add_task("explore", total=None)
        for done in rounds:
            if loud:
                for each in done:
                    if each.way and exploration.failures[each.way][0] is each:
                        console.print(_failure(each), markup=False)
                told = _progress(exploration)
                progress.update(task, description=told)
                if not console.is_terminal and time.monotonic() >= next_line_s:
                    console.print(told)
                    next_line_s = time.monotonic() + LINE_EVERY_S
            if time.monotonic() >= until_s or (runs is not None and exploration.played >= runs):
                return


def _progress(exploration: Exploration) -> str:
    corpus = exploration.search.corpus
    return (
        f"{exploration.played} runs, {len(corpus.counts)} features, {len(corpus.entries)} runs "
        f"kept; ways to fail: {len(exploration.failures)}"
    )


def figures_of(exploration: Exploration, elapsed_s: float) -> dict[str, Any]:
    """Tell what a search came to, as a JSON object."""
    reach = exploration.reach
    corpus = exploration.search.corpus
    return {
        "runs": exploration.played,
        "unplayable": exploration.unplayable,
        "undecided": dict(exploration.undecided),
        "features": len(corpus.counts),
        "features_by_kind": kinds(corpus.counts),
        "features_of_last_tenth": of_last_tenth(exploration.growth),
        "kept": len(corpus.entries),
        "failures": [
            {"way": way, "runs": len(found), **_first(found)}
            for way, found in exploration.failures.items()
        ],
        **told_of(reach),
        "simulated_s": round(exploration.simulated_s, 3),
        "cpu_s": round(exploration.cpu_s, 3),
        "elapsed_s": round(elapsed_s, 3),
    }


def _first(found: Sequence[Played]) -> dict[str, Any]:
    first = next((each for each in found if each.store), found[0])
    return {
        "run": first.step.number,
        "fresh": first.step.fresh,
        "message": first.message,
        "store": first.store,
    }


def _failure(played: Played) -> str:
    again = "" if played.store is None else f"  {_again(played.store)}"
    return f"run {played.step.number}: {played.way}: {played.message}{again}"


def _again(store: str) -> str:
    """The command that replays a stored run."""
    return typed().line("repro", *words_of(store))


def _exit_code(failures: Mapping[str, Sequence[Played]]) -> int:
    played = [each for found in failures.values() for each in found]
    if any(each.verdict is Valid.INVALID for each in played):
        return EXIT_INVALID
    if any(each.harness_broke for each in played):
        return EXIT_HARNESS
    return EXIT_UNKNOWN if played else EXIT_VALID


def _show(figures: Mapping[str, Any]) -> None:
    console = out()
    for each in figures["failures"]:
        times = f" (and {each['runs'] - 1} more like it)" if each["runs"] > 1 else ""
        again = "" if each["store"] is None else f"  {_again(each['store'])}"
        console.print(f"{each['way']}: {each['message']}{times}{again}", markup=False)
    console.print(
        f"{figures['runs']} runs, {figures['simulated_s']:.0f} simulated seconds in "
        f"{figures['elapsed_s']:.1f} s; ways to fail: {len(figures['failures'])}"
    )
    kinds = ", ".join(f"{count} {kind}" for kind, count in figures["features_by_kind"].items())
    late = figures["features_of_last_tenth"]
    told = "" if late is None else f", {late} of them in the last tenth of the runs"
    console.print(f"{figures['features']} features ({kinds}){told}; {figures['kept']} runs kept")
    for line in never_reached(figures):
        console.print(line, markup=False)
    if (saved := figures.get("saved_runs")) is not None:
        console.print(f"{saved} runs saved, to begin with: --corpus")
    for reason, times in figures["undecided"].items():
        console.print(f"{times} changed or shortened runs were not judged: {reason}", markup=False)
    if figures["unplayable"]:
        console.print(f"{figures['unplayable']} changed runs could not be played")
