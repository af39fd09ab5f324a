"""``krucible zoo``: seeded bugs must be caught, and a healthy node must not."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from typing import Annotated, Any

import typer

from harness.cli.console import Json, err, out, print_json, print_table
from harness.cli.sim import JOBS_MAX
from harness.errors import UsageError
from harness.registry import mutant_names, systems, unknown
from harness.verdict import EXIT_INVALID, EXIT_UNKNOWN, EXIT_VALID

ARMS = ("directed", "exploratory", "control")
CONTROL_MAX = 10_000_000


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        name="zoo",
        help="Simulate every seeded bug: in its own scenario (directed), and in the swarm that "
        "does not know it (exploratory); and the swarm without any (control). Exits 0 when all "
        "were caught for the right reason and nothing else was, 1 when the healthy node was "
        "found at fault, 2 when a bug got away.",
        short_help="See that seeded bugs are caught, and nothing else.",
        epilog="Example: krucible zoo --arm directed",
    )(zoo)


def zoo(
    only: Annotated[
        list[str] | None, typer.Option(help="This bug; repeatable. All when not given.")
    ] = None,
    arm: Annotated[
        list[str] | None, typer.Option(help="directed, exploratory or control; repeatable.")
    ] = None,
    budget: Annotated[
        float, typer.Option(min=1, help="Seconds to look for each bug in the swarm.")
    ] = 60.0,
    control_seeds: Annotated[
        int, typer.Option(min=0, max=CONTROL_MAX, help="Seeds of the healthy node.")
    ] = 50,
    jobs: Annotated[
        int | None, typer.Option(min=1, max=JOBS_MAX, help="At a time; one per processor.")
    ] = None,
    json: Json = False,
) -> int:
    """Run the arms; the exit code says whether the zoo is as it should be."""
    names = mutant_names(systems.get("kraft"))
    for name in only or ():
        if name not in names:
            raise UsageError(unknown("mutant", name, names))
    arms = tuple(arm or ARMS)
    for each in arms:
        if each not in ARMS:
            raise UsageError(unknown("arm", each, list(ARMS)))
    zoo_module = importlib.import_module("harness.zoo")  # it brings the node: not for --help
    work = list(_work(zoo_module, arms, only or (), budget, control_seeds))
    hunts: list[dict[str, Any]] = []
    alarms: list[dict[str, Any]] = []
    seeds = 0
    for result in _results(work, jobs or os.cpu_count() or 1):
        if result["arm"] == "control":
            seeds += 1
            alarms += [result] if result["verdict"] != "valid" else []
            continue
        hunts.append(result)
        if not json:
            err().print(_line(result), markup=False)
    hunts.sort(key=lambda hunt: (hunt["arm"], hunt["mutant"]))
    alarms.sort(key=lambda alarm: alarm["seed"])
    figures = {
        "hunts": hunts,
        "control": {"seeds": seeds, "alarms": alarms},
        "got_away": [f"{h['mutant']} ({h['arm']})" for h in hunts if not h["caught"]],
    }
    print_json(figures) if json else _show(figures)
    if any(alarm["verdict"] == "invalid" for alarm in alarms):
        return EXIT_INVALID
    return EXIT_UNKNOWN if figures["got_away"] or alarms else EXIT_VALID


@dataclass(frozen=True, slots=True)
class _Control:
    """One seed of the control arm."""

    zoo: str
    seed: int

    def __call__(self) -> dict[str, Any]:
        run = importlib.import_module(self.zoo).control(self.seed)
        summary = run.summary()
        return {
            "arm": "control",
            "seed": self.seed,
            "verdict": summary["verdict"],
            "anomalies": [f"{a['invariant']}: {a['message']}" for a in summary["anomalies"][:5]],
            "reasons": [*summary["system_reasons"], *summary["harness_reasons"]],
        }


@dataclass(frozen=True, slots=True)
class _Hunt:
    """One bug in one arm."""

    hunt: Callable[[], Any]

    def __call__(self) -> dict[str, Any]:
        result: dict[str, Any] = self.hunt().to_json()
        return result


Work = Callable[[], dict[str, Any]]


def _work(
    zoo_module: Any, arms: Sequence[str], only: Sequence[str], budget_s: float, seeds: int
) -> Iterator[Work]:
    for bug in zoo_module.bugs(only):
        if "directed" in arms:
            yield _Hunt(partial(zoo_module.directed, bug))
        if "exploratory" in arms:
            yield _Hunt(partial(zoo_module.exploratory, bug, budget_s))
    if "control" in arms:
        for seed in range(1, seeds + 1):
            yield _Control(zoo_module.__name__, seed)


def _results(work: Sequence[Work], jobs: int) -> Iterator[dict[str, Any]]:
    if jobs == 1:
        yield from (each() for each in work)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("fork")) as pool:
        try:
            for future in as_completed([pool.submit(each) for each in work]):
                yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _line(hunt: dict[str, Any]) -> str:
    """What became of one bug."""
    if hunt["caught"]:
        how = f"caught by {', '.join(hunt['caught_by'])} with seed {hunt['seed']}"
    else:
        wrong = ", ".join(hunt["wrong"])
        how = "NOT CAUGHT" + (f" (but {wrong}, which it does not break)" if wrong else "")
    return (
        f"{hunt['mutant']}, {hunt['arm']}: {how}, {hunt['tried']} seeds, {hunt['elapsed_s']:.1f} s"
    )


def _show(figures: dict[str, Any]) -> None:
    rows = [
        (
            hunt["mutant"],
            hunt["arm"],
            ", ".join(hunt["caught_by"]) or "NOT CAUGHT",
            str(hunt["tried"]),
            f"{hunt['elapsed_s']:.1f} s",
        )
        for hunt in figures["hunts"]
    ]
    if rows:
        print_table(("mutant", "arm", "caught by", "seeds", "time"), rows)
    console = out()
    for name in ARMS[:2]:
        of_arm = [hunt for hunt in figures["hunts"] if hunt["arm"] == name]
        if of_arm:
            caught = sum(hunt["caught"] for hunt in of_arm)
            console.print(f"{name}: {caught} of {len(of_arm)} caught")
    control = figures["control"]
    if control["seeds"]:
        alarms = control["alarms"]
        console.print(f"control: {len(alarms)} alarms in {control['seeds']} seeds")
        for alarm in alarms:
            why = "; ".join([*alarm["anomalies"], *alarm["reasons"]])
            console.print(f"  seed {alarm['seed']}: {alarm['verdict']}: {why}", markup=False)
