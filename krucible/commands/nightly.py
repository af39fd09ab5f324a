"""``krucible nightly``: simulations, live runs and canaries for a night, then one verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Self

import msgspec
import typer
from rich.status import Status

from harness import durations
from harness.errors import UsageError
from harness.nightly import ledger as ledgers
from harness.nightly import outcome
from harness.nightly import plan as plans
from harness.nightly.headline import colour
from harness.nightly.junit import to_xml
from harness.nightly.ledger import NO_FAILURE, Ledger, Line, Night, key_of, unit_of
from harness.nightly.markdown import to_markdown
from harness.nightly.plan import Plan
from harness.store.folder import Store, write_json, write_whole
from harness.store.home import home_of
from harness.store.remote.address import is_remote
from harness.telemetry.opening import night_metrics
from krucible.arguments import DEFAULT_STORE, SEED_MAX, MetricsAt, StoreDir
from krucible.console import EXIT_INTERRUPTED, Json, err, out, print_json, print_table
from krucible.crews import Master, crew
from krucible.program import program, typed
from krucible.quantities import duration, whole
from krucible.stores import opened

if TYPE_CHECKING:
    from harness.telemetry.metrics import NightMetrics

Tell = Callable[[Line], None]
FIRST_SEED_STEP = 1_000_000  # seeds of nights that are begun at different minutes lie apart
BUDGET_MAX_S = 30 * 86_400.0
SHOWN_MAX = 12  # ways to fail on the one screen
TOLD_OF_EACH = 3  # runs of each way to fail that have a line while the night goes on


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        name="nightly",
        help="Work through a plan until its budget of time is used up: simulated seeds, searches, "
        "live runs, and canaries, which are seeded bugs that must be caught. Failures are stored, "
        "run again and shrunk at once, and the night goes on. The same command continues a night "
        "that was interrupted or killed. Exits 1 when a run was invalid; 255 when the harness "
        "cannot be trusted (it failed, missed a canary, or was not deterministic); 2 when a run is "
        "in doubt or coverage is missing; else 0.",
        short_help="Run simulations, searches, live runs and canaries for a night.",
        epilog="Example: krucible nightly --plan night.toml --budget 8h",
    )(nightly)


def nightly(  # noqa: PLR0913 - one parameter per option
    plan: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Plan of the night, a TOML file; see docs/nightly.md (default: a built-in plan).",
        ),
    ] = None,
    budget: Annotated[
        float | None,
        duration("Time to work (default: the plan's budget).", least_s=1, most_s=BUDGET_MAX_S),
    ] = None,
    seed: Annotated[
        int | None,
        whole("First seed (default: drawn from the date).", least=0, most=SEED_MAX),
    ] = None,
    fresh: Annotated[
        bool, typer.Option(help="Begin a new night, even if the last one was interrupted.")
    ] = False,
    master: Master = None,
    metrics: MetricsAt = None,
    store: StoreDir = DEFAULT_STORE,
    json: Json = False,
) -> int:
    """Work the plan off; the exit code is the night's."""
    wanted = plans.DEFAULT if plan is None else plans.load(plan)
    if budget is not None:
        wanted = msgspec.structs.replace(wanted, budget=durations.told(budget))
    plans.check(wanted)
    # what is told of its runs holds in any folder
    where = opened(store if is_remote(store) else Path(store).absolute())
    where.home.fetch_nights()
    with _Screen(loud=not json) as screen, night_metrics(metrics, screen.say) as counts:
        book = _open(wanted, where.root, seed, fresh=fresh)
        screen.begins(book)
        try:
            _work(wanted, book, where, _tell(screen, counts), master)
        except KeyboardInterrupt:
            screen.say("interrupted; the same command continues this night")
            return EXIT_INTERRUPTED
        finally:
            book.close()
    code = outcome.exit_code(wanted, book.night)
    where.home.refresh()
    told = _write(wanted, book, code)
    print_json(told) if json else _show(told)
    return code


def _work(plan: Plan, book: Ledger, store: Store, tell: Tell, master: str | None) -> None:
    from harness.nightly.work import Worker  # noqa: PLC0415 - it brings the node: not for --help

    jobs = None if master is not None else plan.jobs
    with crew(jobs, master, store, _way, kept=plan.on_failure.kept) as players:
        Worker(plan, book, store, program(), tell, players).work()


def _tell(screen: _Screen, metrics: NightMetrics | None) -> Tell:
    """Tell the screen, and the metrics if there are any, of each line of the ledger."""
    if metrics is None:
        return screen.tell

    def tell(line: Line) -> None:
        metrics.on_line(line)
        screen.tell(line)

    return tell


def _way(told: Any) -> str | None:
    """Name how a run failed that was simulated elsewhere: a line of the ledger, or with one."""
    line = told if isinstance(told, Mapping) else told.line
    failed = line["verdict"] not in NO_FAILURE or line.get("same_bytes") is False
    return str(key_of(line)) if failed else None


def _open(plan: Plan, store: Path, seed: int | None, *, fresh: bool) -> Ledger:
    """The ledger of the night that is not over, or of a new one."""
    found = None if fresh else ledgers.unfinished(store, plan.fingerprint)
    now = datetime.now(UTC)
    if found is None:
        found = store / ledgers.FOLDER / f"{now:%Y%m%dT%H%M%S.%fZ}"
        try:
            found.mkdir(parents=True)
            write_json(found / "plan.json", msgspec.to_builtins(plan))
        except OSError as error:
            raise UsageError(
                f"{store}: cannot store a night: {error}; choose a writable --store"
            ) from error
    book = Ledger(found)
    minutes = int(now.timestamp()) // 60
    first = minutes * FIRST_SEED_STEP if seed is None else seed
    begun = book.night.begun
    book.add(
        {
            "t": "begin",
            "version": ledgers.VERSION,
            "plan": plan.fingerprint,
            "at": now.isoformat(timespec="seconds"),
            "first_seed": begun.get("first_seed", first),
        }
    )
    return book


def _write(plan: Plan, book: Ledger, code: int) -> dict[str, Any]:
    """Write what the night came to beside its ledger; from then on it is over."""
    folder = book.folder
    again = folder.parents[1], typed()
    told = {**outcome.summary(plan, book.night, *again, code=code), "folder": _told(folder)}
    write_whole(folder / "junit.xml", to_xml(outcome.suites(plan, book.night, *again)))
    write_whole(folder / "summary.md", to_markdown(told).encode())
    write_json(folder / "summary.json", told)
    from reports.fleet import page as fleet  # noqa: PLC0415 - it brings all pictures: not for --help

    page = fleet.write_fleet(folder.parents[1], folder / fleet.NAME, typed())
    return {**told, "report": f"{_told(folder)}/{page.name}"}


def _told(folder: Path) -> str:
    """The name of a night's folder, also where it is stored elsewhere."""
    home = home_of(folder.parents[1])
    return str(folder) if home is None else f"{home}/{ledgers.FOLDER}/{folder.name}"


# --------------------------------------------------------------------------- for people


class _Screen:
    """Progress: a status line on a terminal, and a line for everything that matters."""

    def __init__(self, *, loud: bool) -> None:
        self._console = err()
        self._loud = loud
        self._status: Status | None = None
        self._night: Night | None = None

    def __enter__(self) -> Self:
        if self._loud and self._console.is_terminal:
            self._status = Status("beginning", console=self._console)
            self._status.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def begins(self, book: Ledger) -> None:
        """A night begins or goes on."""
        night = self._night = book.night
        how = f"continues after {night.used_s:.0f} s" if night.resumed else "begins"
        self.say(f"night {how}: first seed {night.begun['first_seed']} -> {_told(book.folder)}")

    def say(self, text: str) -> None:
        """A line."""
        if self._loud:
            self._console.print(text, markup=False)

    def tell(self, line: Line) -> None:
        """Tell what a line of the ledger means to somebody who watches."""
        assert self._night is not None, "begun before told"  # noqa: S101
        text = _LINES.get(str(line["t"]), _nothing)(line)
        times = _times(self._night, line)
        if text and times <= TOLD_OF_EACH:
            self.say(text + ("; more like it are only counted" if times == TOLD_OF_EACH else ""))
        if self._status is not None:
            self._status.update(_status(self._night))
        elif line["t"] == "spent":
            self.say(_status(self._night))


def _times(night: Night, line: Line) -> int:
    """Count the runs of the night that failed like this one; 0 when the line is no failure."""
    if line["t"] not in ("seed", "live"):
        return 0
    failing = night.failing.get(key_of(line))
    return 0 if failing is None else failing.times


def _status(night: Night) -> str:
    failing = sum(each.times for each in night.failing.values())
    ways = len({each.signature for each in night.failing.values()})
    bad = f", {failing} not valid in {ways} way{'' if ways == 1 else 's'}" if failing else ""
    histories = f"{night.histories} {'history' if night.histories == 1 else 'histories'}"
    return f"{night.used_s:.0f} s of work, {histories}{bad}"


def _nothing(_: Line) -> str:
    return ""


def _judged(line: Line) -> str:
    if line["verdict"] in NO_FAILURE and line.get("same_bytes") is not False:
        return ""
    what = ", ".join(line["invariants"]) or line.get("message") or line.get("harness_error", "")
    same = " (NOT DETERMINISTIC)" if line.get("same_bytes") is False else ""
    run = f"{line['entry']} {unit_of(line['entry'])} {line['seed']}"
    return f"{run}: {line['verdict']}{same}: {what}"


def _canary(line: Line) -> str:
    how = f"caught by {', '.join(line['by'])}" if line["caught"] else f"NOT CAUGHT: {line['why']}"
    return f"canary {line['name']}: {how} in {line['elapsed_s']:.1f} s"


def _again(line: Line) -> str:
    return f"{line['entry']}: {line['reproduced']}/{line['times']} reproduced"


def _shrunk(line: Line) -> str:
    kept = line["kept"]
    how = "not shrunk" if kept is None else f"shrunk to {kept['faults'][0]} faults"
    return f"{line['entry']}: {how}{'' if line['store'] is None else ' -> ' + line['store']}"


def _skipped(line: Line) -> str:
    return f"{line['entry']}: not run: {line['reason']}"


def _note(line: Line) -> str:
    return str(line["text"])


def _broke(line: Line) -> str:
    return f"the harness broke: {line['reason']}"


_LINES = {
    "seed": _judged,
    "live": _judged,
    "canary": _canary,
    "again": _again,
    "shrunk": _shrunk,
    "broke": _broke,
    "skipped": _skipped,
    "note": _note,
}


def _show(told: Mapping[str, Any]) -> None:
    """The night on one screen."""
    rows = [
        (
            entry,
            str(each["runs"]),
            ", ".join(f"{n} {verdict}" for verdict, n in sorted(each["verdicts"].items())),
            f"{each['used_s']:.0f} s",
        )
        for entry, each in told["entries"].items()
    ]
    for entry, reason in told["skipped"].items():
        rows.append((entry, "0", f"not run: {reason}", "0 s"))
    if rows:
        print_table(("entry", "runs", "verdicts", "time"), rows)
    console = out()
    for name, canary in told["canaries"].items():
        console.print(_canary({**canary, "name": name}), markup=False)
        if not canary["caught"]:
            console.print(f"  {canary['command']}", markup=False)
    for failing in told["failing"][:SHOWN_MAX]:
        console.print(f"{failing['entry']}: {failing['verdict']}: {_what(failing)}", markup=False)
        for command in failing["commands"]:
            console.print(f"  {command}", markup=False)
        for run in [failing["shrunk"] or next(iter(failing["runs"]), None)]:
            if run is not None:
                console.print(f"  {run}/report.html", markup=False)
    if len(told["failing"]) > SHOWN_MAX:
        console.print(f"and {len(told['failing']) - SHOWN_MAX} more ways to fail")
    verdict = colour(told)
    headline = f"{verdict.upper()}: {told['headline']}"
    console.print(headline, style=f"bold {verdict}", markup=False)
    for line in (*told["reasons"], told["report"]):
        console.print(f"  {line}", markup=False)


def _what(failing: Mapping[str, Any]) -> str:
    names = ", ".join(failing["invariants"]) or failing["message"]
    again = failing["reproduced"]
    return f"{names} x{failing['times']}" + (f", again {again[0]}/{again[1]}" if again else "")
