"""``krucible shrink``: the smallest run that still fails as a simulated run did, and its story."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer
from rich.status import Status

from harness.errors import UsageError
from harness.shrink.moves import Candidate
from harness.shrink.search import SECONDS, TRIES, Budget, Failure, HaltedError, Shrunk, Step, shrink
from harness.store.folder import RunDir, Store, words_of
from harness.verdict import EXIT_INVALID, EXIT_UNKNOWN, Valid
from krucible import options
from krucible.arguments import DEFAULT_STORE, StoreDir
from krucible.console import Json, complain, err, out, print_json
from krucible.meant import Meant, meant
from krucible.program import typed
from krucible.quantities import duration, whole
from krucible.stores import at_hand, opened

JOBS_MAX = 256
BUDGET_MAX_S = 86_400.0
TRIES_MAX = 1_000_000


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        name="shrink",
        help="Find the smallest simulation that still fails as a stored run did: fewest faults, "
        "then fewest ops, then fewest nodes, then the shortest time. Instead of a run, shrink a "
        "schedule (a .jsonl file, one fault a line), with the spec.json beside it or with the "
        "options below, or a seed with these options (--seed, and no RUN). The result is stored as "
        "a run, and its story is told in words. Ctrl-C keeps the smallest failure found so far. "
        "Exits 1 when the failure was reproduced and shrunk, 2 when it was not reproduced.",
        short_help="Find the smallest simulation that still fails as a run did.",
        epilog="Example: krucible shrink latest --jobs 2",
    )(shrink_command)


@options.pins
def shrink_command(  # noqa: PLR0913 - one parameter per option
    *,
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN|SCHEDULE",
            help="A stored run: its id, its folder or latest; or a schedule, or its folder.",
            show_default=False,
        ),
    ] = None,
    invariant: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Invariant to preserve (default: the first one broken)."),
    ] = None,
    budget: Annotated[
        float, duration("Time to search.", least_s=0, most_s=BUDGET_MAX_S, default_s=SECONDS)
    ] = SECONDS,
    tries: Annotated[int, whole("Most simulations to try.", least=1, most=TRIES_MAX)] = TRIES,
    jobs: Annotated[
        int | None, whole("Parallel tries (default: one per CPU).", least=1, most=JOBS_MAX)
    ] = None,
    seed: options.ScheduleSeed = None,
    given: dict[str, Any],
    store: StoreDir = DEFAULT_STORE,
    json: Json = False,
) -> int:
    """Shrink, save and tell; the exit code is the shrunk run's."""
    where = opened(store)
    failing = _failing(run, given, seed, where)
    start = Candidate(failing.spec, failing.faults)
    wanted = invariant or failing.first_broken
    jobs = jobs or os.cpu_count() or 1
    search = _search(start, wanted, Budget(budget, tries), jobs, loud=not json)
    if not isinstance(search.found, Shrunk):
        return _not_reproduced(failing, wanted, search, json=json)
    told = {
        **_report(failing, start, search.found, where),
        "broken": search.broken,
        "elapsed_s": round(search.elapsed_s, 3),
    }
    print_json(told) if json else _show(told)
    return EXIT_INVALID


# --------------------------------------------------------------------------- what fails


def _failing(text: str | None, pinned: Mapping[str, Any], seed: int | None, store: Store) -> Meant:
    """The run, seed or schedule that is meant; raises UsageError for what cannot be shrunk."""
    found = meant(None if text is None else at_hand(text), pinned, seed, store, "shrink")
    if not found.simulated:
        raise UsageError(
            f"{found.name}: was not simulated (it ran on {found.spec.env}), and only simulations "
            "can be shrunk; look for the same failure with `krucible sim`"
        )
    results = found.results
    if results is not None and (results.get("system") != Valid.INVALID or not found.broken):
        raise UsageError(f"{found.name}: no invariant was broken, so there is nothing to shrink")
    faults = sorted(found.faults, key=lambda fault: (fault.at_ms, fault.id))
    return replace(found, faults=tuple(faults))


# --------------------------------------------------------------------------- search and report


@dataclass(frozen=True, slots=True)
class _Search:
    """The result of a search, the seconds it took, and why tries of it broke."""

    found: Shrunk | Failure | None
    elapsed_s: float
    broken: list[str]


def _search(
    start: Candidate, invariant: str | None, budget: Budget, jobs: int, *, loud: bool
) -> _Search:
    from harness.shrink.tries import Pool  # noqa: PLC0415 - it brings the node: not for --help

    began_s = time.monotonic()
    with (
        Pool(jobs) as pool,
        _interruptible(pool.halt) as halt,
        _watched(began_s + budget.seconds, loud=loud) as tell,
    ):
        try:
            found = shrink(
                start,
                pool,
                budget=budget,
                now_s=time.monotonic,
                invariant=invariant,
                tell=tell,
                halt=halt,
            )
        except HaltedError:  # nothing was found yet
            raise KeyboardInterrupt from None
        return _Search(found, time.monotonic() - began_s, pool.broken)


@contextmanager
def _interruptible(give_up: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """Tell whether Ctrl-C was pressed, so that what was found until then is kept; twice leaves.

    ``give_up`` is called then, and may raise.
    """
    pressed = False

    def press(*_: object) -> None:
        nonlocal pressed
        pressed = True
        signal.signal(signal.SIGINT, before)
        err().print(
            "stopping; the smallest failure so far is kept (Ctrl-C again: leave without it)"
        )
        give_up()

    before = signal.signal(signal.SIGINT, press)
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _watched(end_s: float, *, loud: bool) -> Iterator[Callable[[Step], None]]:
    """Show every try on a terminal, elsewhere a line for each that is smaller."""
    console = err()
    if not loud:
        yield lambda _: None
    elif console.is_terminal:
        with Status("simulating the failure", console=console) as status:
            yield lambda step: status.update(progress(step, end_s - time.monotonic()))
    else:
        yield (
            lambda step: (
                console.print(f"{step.doing}: {_size(step)}", markup=False) if step.better else None
            )
        )


def progress(step: Step, left_s: float) -> str:
    """Tell how far the search is, on one line."""
    return f"{step.doing}: {_size(step)}; try {step.tries}, {max(0.0, left_s):.0f} s left"


def _size(step: Step) -> str:
    spec, faults = step.best.spec, len(step.best.faults)
    return (
        f"{faults} faults, {step.failure.ops} ops, {spec.voters + spec.observers} nodes, "
        f"{spec.time_limit_s:g} s"
    )


def _not_reproduced(failing: Meant, wanted: str | None, search: _Search, *, json: bool) -> int:
    """Say that there is no failure to shrink."""
    broke = sorted(search.found.invariants) if isinstance(search.found, Failure) else []
    told = {
        "run": failing.name,
        "reproduced": False,
        "invariant": wanted,
        "invariants": broke,
        "broken": search.broken,
    }
    if json:
        print_json(told)
    elif search.broken:
        complain(f"{failing.name}: not reproduced: the simulation broke: {search.broken[0]}")
    elif failing.results is None:
        complain(f"{failing.name}: {_what(broke, wanted)}: there is nothing to shrink")
    else:
        what = _what(broke, wanted)
        complain(f"{failing.name}: not reproduced: simulated again, {what}; was the code changed?")
    return EXIT_UNKNOWN


def _what(broke: list[str], wanted: str | None) -> str:
    """Tell what a simulation broke instead of what it should have broken."""
    what = f"it broke {', '.join(broke)}" if broke else "it broke nothing"
    return what if wanted is None else f"{what} instead of {wanted}"


def _report(failing: Meant, start: Candidate, found: Shrunk, store: Store) -> dict[str, Any]:
    """Run the outcome once more, save it, and say all about it as one JSON object."""
    from harness.shrink.tries import final  # noqa: PLC0415 - as above

    end = found.candidate
    was, now = start.spec, end.spec
    kept: dict[str, Sequence[float]] = {
        "faults": [len(end.faults), len(start.faults)],
        "ops": [found.failure.ops, found.original.ops],
        "nodes": [now.voters + now.observers, was.voters + was.observers],
        "seconds": [now.time_limit_s, was.time_limit_s],
    }
    saved = final(end, found.invariant, store, failing.of, kept)
    return {
        "run": failing.name,
        "reproduced": True,
        "invariant": found.invariant,
        "verdict": str(saved.run.verdict),
        "kept": kept,
        "spec": saved.run.data.spec.to_json(),
        "schedule": [fault.to_json() for fault in end.faults],
        "anomaly": saved.anomaly.to_json(),
        "story": saved.story,
        "trace_sha256": saved.run.trace_sha256,
        "tries": found.tries,
        "spared": found.spared,
        "exhausted": found.exhausted,
        "interrupted": found.halted,
        "store": RunDir(saved.path).told,
    }


def _show(told: Mapping[str, Any]) -> None:
    """The outcome for people."""
    kept = told["kept"]
    console = out()
    console.print(f"{told['invariant']} is still broken with", style="bold red")
    counts = [f"{kept[what][0]} of {kept[what][1]} {what}" for what in ("faults", "ops", "nodes")]
    now_s, was_s = kept["seconds"]
    console.print(f"  {', '.join(counts)}, {now_s:g} s of {was_s:g} s")
    for line in told["story"]:
        console.print(f"  {line}", markup=False)
    ended = "the budget" if told["exhausted"] else "Ctrl-C" if told["interrupted"] else None
    more = "" if ended is None else f"; stopped by {ended}: a smaller failure may exist"
    console.print(f"  {told['tries']} tries in {told['elapsed_s']:.1f} s{more}")
    if told["broken"]:
        console.print(f"  {len(told['broken'])} tries broke: {told['broken'][0]}", markup=False)
    console.print(f"  report:    {told['store']}/report.html", markup=False)
    words = words_of(told["store"])
    console.print(f"  reproduce: {typed().line('repro', *words)}", markup=False)
