"""``krucible zoo``: seeded bugs must be caught, and a healthy node must not."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from harness.errors import UsageError
from harness.processes.crew import Crew, Ended, Job, Said
from harness.registry import mutant_names, released_bugs, unknown
from harness.verdict import EXIT_HARNESS, EXIT_INVALID, EXIT_UNKNOWN, EXIT_VALID
from krucible import completion
from krucible.arguments import DEFAULT_STORE, split
from krucible.completion import named
from krucible.console import EXIT_INTERRUPTED, err, out, print_json, print_table
from krucible.crews import Jobs, Master, crew
from krucible.program import program
from krucible.quantities import duration, whole
from krucible.stores import opened

if TYPE_CHECKING:
    from harness.sessions.released.chase import Chase
    from harness.sessions.zoo import Hunt

OF_SEEDED = ("directed", "exploratory")  # arms that hunt bugs
RELEASES = "releases"
LIVE_RELEASES = "live-releases"
OF_RELEASES = (RELEASES, LIVE_RELEASES)
USUAL = (*OF_SEEDED, "control")
ARMS = (*USUAL, *OF_RELEASES)
CONTROL_MAX = 10_000_000
SEEDS_PER_JOB = 10  # of the control arm
LATE_S = 600.0  # what a hunt may take beyond its budget, or a job that has none per seed
BUDGET_MAX_S = 86_400.0


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        name="zoo",
        help="Simulate every seeded bug, to prove that the checkers catch it: in its own scenario "
        "(directed), and in random simulations that know nothing of it (exploratory); and random "
        "simulations of the healthy node (control). Or find bugs of Apache Kafka's releases again, "
        "and see that they are gone where they are fixed (releases; as processes: live-releases). "
        "Exits 0 when every bug was "
        "caught by an invariant that it breaks and the healthy node, or the fixed release, had no "
        "alarm, 1 when it had one, 255 when the harness failed in a seed, 2 when a bug was not "
        "caught.",
        short_help="Prove that seeded bugs are caught, and that the healthy node has no alarm.",
        epilog="Example: krucible zoo --arm directed",
    )(zoo)


def zoo(  # noqa: PLR0913 - its options
    only: Annotated[
        list[str] | None,
        named("Bugs to hunt, separated by commas (default: all); repeatable.", completion.bugs),
    ] = None,
    arm: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ARM",
            help="directed, exploratory, control (default: these), releases, or live-releases; "
            "separated by commas; repeatable.",
        ),
    ] = None,
    budget: Annotated[
        float,
        duration(
            "Time to look for each bug in the swarm, or in a release.",
            least_s=0.1,
            most_s=BUDGET_MAX_S,
            default_s=60,
        ),
    ] = 60.0,
    control_seeds: Annotated[
        int, whole("Seeds of the healthy node.", least=0, most=CONTROL_MAX)
    ] = 50,
    jobs: Jobs = None,
    master: Master = None,
    store: Annotated[
        str,
        typer.Option(
            metavar="DIR|s3://BUCKET/PREFIX",
            help="Store of the runs of live-releases: a folder, or s3://BUCKET/PREFIX.",
        ),
    ] = DEFAULT_STORE,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print JSON for machines: a line for each bug as soon as it is done with, and at "
            "the end, or when interrupted, one line of all.",
        ),
    ] = False,
) -> int:
    """Run the arms; the exit code says whether the zoo is as it should be."""
    arms, wanted = split(arm) or USUAL, split(only)
    for each in arms:
        if each not in ARMS:
            raise UsageError(unknown("arm", each, list(ARMS)))
    names = _names(arms)
    for name in wanted:
        if name not in names:
            raise UsageError(
                unknown("bug" if set(arms) <= set(OF_RELEASES) else "mutant", name, names)
            )
    blanks = dict(_work(arms, wanted, budget, control_seeds, store))
    found = _Found(blanks, json=json)
    try:
        with crew(jobs, master) as hunters:
            found.follow(hunters)
    except KeyboardInterrupt:
        found.interrupted = True
    figures = found.figures()
    print_json(figures) if json else _show(figures)
    return found.exit_code


# --------------------------------------------------------------------------- what is to be done


def _names(arms: Sequence[str]) -> list[str]:
    """Name the bugs that some arms hunt."""
    seeded = mutant_names("kraft") if set(arms) - set(OF_RELEASES) else []
    released = [
        bug.name
        for _, bug in released_bugs()
        if (bug.is_hunted and RELEASES in arms) or (bug.is_hunted_live and LIVE_RELEASES in arms)
    ]
    return [*seeded, *released]


Result = dict[str, Any]  # of a bug in an arm, or of a seed of the control arm


def _work(
    arms: Sequence[str], only: Sequence[str], budget_s: float, seeds: int, store: str
) -> Iterator[tuple[Job, Result]]:
    """The jobs, each with what is to be said when nothing comes of it."""
    from harness.sessions import zoo as hunts  # noqa: PLC0415 - it brings the node: not for --help

    if RELEASES in arms:
        yield from _in_releases(only, budget_s)
    if LIVE_RELEASES in arms:
        yield from _in_live_releases(only, budget_s, store)
    for arm in OF_SEEDED:
        for bug in hunts.bugs(only) if arm in arms else ():
            if arm == "directed":
                hunt, limit_s = partial(hunts.directed, bug), LATE_S
            else:
                hunt, limit_s = partial(hunts.exploratory, bug, budget_s), budget_s + LATE_S
            blank = hunts.Hunt(bug.name, arm).to_json()
            yield Job(f"{bug.name}, {arm}", partial(_hunting, hunt), limit_s), blank
    if "control" in arms:
        for first in range(1, seeds + 1, SEEDS_PER_JOB):
            some = range(first, min(first + SEEDS_PER_JOB, seeds + 1))
            yield Job(f"control, from {first}", partial(_control, some)), _alarm_of(first)


def _in_releases(only: Sequence[str], budget_s: float) -> Iterator[tuple[Job, Result]]:
    from harness.sessions.released import chase, quarry, simulated  # noqa: PLC0415 - as above

    for each in quarry.quarries(only):
        if (reason := each.missing()) is not None:
            raise UsageError(reason)
        bug, hunt = each.bug, partial(chase.chase, each, budget_s, simulated.simulated)
        blank = chase.Chase(bug.name, bug.affected, str(bug.fixed)).to_json()
        yield Job(f"{bug.name}, {RELEASES}", partial(_hunting, hunt), budget_s + LATE_S), blank


def _in_live_releases(
    only: Sequence[str], budget_s: float, store: str
) -> Iterator[tuple[Job, Result]]:
    from harness.sessions.released import chase, live, quarry  # noqa: PLC0415 - as above

    root = opened(store).root.absolute()
    for each in quarry.quarries(only, live=True):
        bug, play = each.bug, live.player(program(), root)
        hunt = partial(chase.chase, each, budget_s, play, LIVE_RELEASES)
        blank = chase.Chase(bug.name, bug.affected, str(bug.fixed), LIVE_RELEASES).to_json()
        yield Job(f"{bug.name}, {LIVE_RELEASES}", partial(_hunting, hunt), budget_s + LATE_S), blank


def _hunting(hunt: Callable[[], Iterator[Hunt | Chase]]) -> Iterator[Result]:
    return (so_far.to_json() for so_far in hunt())


def _control(seeds: Sequence[int]) -> Iterator[Result]:
    from harness.sessions.zoo import control  # noqa: PLC0415 - as above

    for seed in seeds:
        summary = control(seed).summary()
        yield {
            **_alarm_of(seed),
            "verdict": summary["verdict"],
            "anomalies": [f"{a['invariant']}: {a['message']}" for a in summary["anomalies"][:5]],
            "reasons": [*summary["system_reasons"], *summary["harness_reasons"]],
            "broken": bool(summary["harness_reasons"]),
        }


def _alarm_of(seed: int) -> Result:
    nothing: Result = {"anomalies": [], "reasons": [], "broken": False}
    return {"arm": "control", "seed": seed, "verdict": "unknown", **nothing}


# --------------------------------------------------------------------------- what comes of it


class _Found:
    """The results of all jobs, as far as they are done."""

    def __init__(self, blanks: Mapping[Job, Result], *, json: bool) -> None:
        self.interrupted = False
        self._blanks = blanks
        self._json = json
        self._hunts: list[Result] = []
        self._alarms: list[Result] = []
        self._seeds = 0
        self._so_far: dict[Job, Result] = {}  # of hunts under way

    def follow(self, hunters: Crew) -> None:
        """Have the work done, and tell what is done as it comes."""
        with (
            Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                console=err(),
            ) as progress,
            closing(hunters.work_off(list(self._blanks))) as told,
        ):
            task = progress.add_task("zoo", total=len(self._blanks))
            for each in told:
                line = self._ended(each) if isinstance(each, Ended) else self._said(each)
                if line is not None and not self._json:
                    progress.console.print(line, markup=False)
                done = isinstance(each, Ended)
                progress.update(task, advance=done, description=self._doing())

    def _said(self, said: Said) -> str | None:
        if said.value["arm"] != "control":
            self._so_far[said.job] = said.value
            return None
        self._seeds += 1
        return None if said.value["verdict"] == "valid" else self._alarm(said.value)

    def _ended(self, ended: Ended) -> str | None:
        result = self._so_far.pop(ended.job, self._blanks[ended.job])
        if result["arm"] == "control":
            if ended.broken is None:
                return None
            return self._alarm({**result, "reasons": [ended.broken], "broken": True})
        if ended.broken is not None:
            result = {**result, "broken": {**result["broken"], ended.broken: 1}}
        self._hunts.append(result)
        self._print(result)
        return _line(result)

    def _alarm(self, alarm: Result) -> str:
        self._alarms.append(alarm)
        self._print(alarm)
        return _alarm_line(alarm)

    def _print(self, result: Result) -> None:
        if self._json:
            print_json(result)
            sys.stdout.flush()  # whatever ends us, this is done

    def _doing(self) -> str:
        caught = sum(hunt["caught"] for hunt in self._hunts)
        parts = [f"{caught} of {len(self._hunts)} caught"] if self._hunts else []
        parts += [f"{len(self._alarms)} alarms in {self._seeds} seeds"] if self._seeds else []
        under_way = [f"{hunt['mutant']}: {hunt['tried']} seeds" for hunt in self._so_far.values()]
        return "; ".join([*parts, *under_way]) or "zoo"

    def figures(self) -> Result:
        """Give all results; hunts that were cut short are as they were then."""
        hunts = [*self._hunts, *self._so_far.values()]
        hunts.sort(key=lambda hunt: (hunt["arm"], hunt["mutant"]))
        alarms = sorted(self._alarms, key=lambda alarm: int(alarm["seed"]))
        return {
            "hunts": hunts,
            "control": {"seeds": self._seeds, "alarms": alarms},
            "got_away": [f"{h['mutant']} ({h['arm']})" for h in hunts if not h["caught"]],
            "interrupted": self.interrupted,
        }

    @property
    def exit_code(self) -> int:
        """Tell whether the zoo is as it should be."""
        if self.interrupted:
            return EXIT_INTERRUPTED
        if any(alarm["verdict"] == "invalid" for alarm in self._alarms):
            return EXIT_INVALID
        hunts = [*self._hunts, *self._so_far.values()]
        if any(hunt.get("alarms") for hunt in hunts):  # of a release that has it fixed
            return EXIT_INVALID
        if any(hunt["broken"] for hunt in hunts) or any(a["broken"] for a in self._alarms):
            return EXIT_HARNESS
        got_away = not all(hunt["caught"] for hunt in self._hunts)
        return EXIT_UNKNOWN if got_away or self._alarms else EXIT_VALID


def _line(hunt: Result) -> str:
    """Tell what became of one bug."""
    if hunt["caught"]:
        how = f"caught by {', '.join(hunt['caught_by'])} with seed {hunt['seed']}"
    else:
        wrong = ", ".join(hunt["wrong"])
        how = "NOT CAUGHT" + (f" (but {wrong}, which it does not break)" if wrong else "")
    broken = "".join(f", BROKEN: {why} ({times})" for why, times in hunt["broken"].items())
    return (
        f"{hunt['mutant']}, {hunt['arm']}: {how}{_compared(hunt)}, {hunt['tried']} seeds, "
        f"{hunt['elapsed_s']:.1f} s{broken}"
    )


def _compared(hunt: Result) -> str:
    """Tell of both releases of a bug that was released."""
    if hunt["arm"] not in OF_RELEASES:
        return ""
    alarms = ", ".join(f"{name} ({times})" for name, times in hunt["alarms"].items())
    return f" in {hunt['affected']}, {hunt['fixed']} {'ALARMED: ' + alarms if alarms else 'green'}"


def _alarm_line(alarm: Result) -> str:
    why = "; ".join([*alarm["anomalies"], *alarm["reasons"]])
    return f"control, seed {alarm['seed']}: {alarm['verdict']}: {why}"


def _show(figures: Result) -> None:
    rows = [
        (
            hunt["mutant"],
            hunt["arm"],
            ", ".join(hunt["caught_by"]) or "NOT CAUGHT",
            str(hunt["tried"]),
            f"{hunt['elapsed_s']:.1f} s",
        )
        for hunt in figures["hunts"]
        if hunt["arm"] not in OF_RELEASES
    ]
    if rows:
        print_table(("mutant", "arm", "caught by", "seeds", "time"), rows)
    pairs = [
        (
            hunt["mutant"],
            hunt["affected"],
            ", ".join(hunt["caught_by"]) or "NOT CAUGHT",
            hunt["fixed"],
            ", ".join(hunt["alarms"]) or "green",
            str(hunt["tried"]),
            f"{hunt['elapsed_s']:.1f} s",
        )
        for hunt in figures["hunts"]
        if hunt["arm"] in OF_RELEASES
    ]
    if pairs:
        print_table(("bug", "release", "caught by", "fixed in", "there", "seeds", "time"), pairs)
    console = out()
    for name in (*OF_SEEDED, *OF_RELEASES):
        of_arm = [hunt for hunt in figures["hunts"] if hunt["arm"] == name]
        if of_arm:
            caught = sum(hunt["caught"] for hunt in of_arm)
            console.print(f"{name}: {caught} of {len(of_arm)} caught")
    control = figures["control"]
    if control["seeds"] or control["alarms"]:
        alarms = control["alarms"]
        console.print(f"control: {len(alarms)} alarms in {control['seeds']} seeds")
        for alarm in alarms:
            console.print(f"  {_alarm_line(alarm)}", markup=False)
