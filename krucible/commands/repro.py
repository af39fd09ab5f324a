"""``krucible repro``: again what a run, a seed or a schedule did, once or many times."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Protocol

import typer

from harness.envs.attached.plugin import NAME as ATTACHED
from harness.errors import HarnessError, UsageError
from harness.nightly.proportion import wilson
from harness.processes.command import Answer
from harness.registry import environments
from harness.sessions import live as session
from harness.sessions.plan import Plan
from harness.store.folder import RunDir, Store, write_json
from harness.store.origin import Origin
from harness.verdict import EXIT_HARNESS, EXIT_INVALID, EXIT_VALID
from krucible import options
from krucible.arguments import (
    DEFAULT_STORE,
    Attach,
    HostsFile,
    StoreDir,
    check_hosts,
    look_at,
    made_by,
)
from krucible.commands.run import execute, show
from krucible.commands.sim import show_simulation
from krucible.console import EXIT_INTERRUPTED, Json, complain, err, out, print_json
from krucible.meant import Meant, meant
from krucible.program import program
from krucible.quantities import whole
from krucible.stores import at_hand, opened

TIMES_MAX = 1_000
JOBS_MAX = 64
CPUS_PER_RUN = 4  # of five nodes and their clients; with fewer they wait for one another


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        name="repro",
        help="Replay a stored run: same spec, same schedule, same ops. Or play a schedule (a "
        ".jsonl file, one fault a line) with the spec.json beside it; without a spec.json, "
        "simulate it with the options below. Or simulate a seed with these options (--seed, and "
        "no RUN). A replay reproduces the run when it breaks an invariant that the run broke, or "
        "any, when the run broke none. --kafka-version has a run of Apache Kafka replayed on "
        "another release. Simulated replays give the same bytes; live replays are "
        "counted, with a 95 % interval (Wilson), and go side by side where the CPUs allow it (see "
        "--jobs). A replay is stored as a run with an id of its own. Exits 1 when a replay was "
        "invalid, 255 when simulated replays differ, else with the worst exit code of a replay.",
        short_help="Replay a stored run, a schedule or a seed.",
        epilog="Example: krucible repro latest --times 5",
    )(repro)


@options.pins
def repro(  # noqa: PLR0913 - one parameter per option
    *,
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN|SCHEDULE",
            help="A stored run: its id, its folder or latest; or a schedule, or its folder.",
            show_default=False,
        ),
    ] = None,
    times: Annotated[int, whole("Number of replays.", least=1, most=TIMES_MAX)] = 1,
    jobs: Annotated[
        int | None,
        whole(
            f"Parallel live replays (default: one for every {CPUS_PER_RUN} CPUs).",
            "--jobs",
            "-j",
            least=1,
            most=JOBS_MAX,
        ),
    ] = None,
    seed: options.ScheduleSeed = None,
    given: dict[str, Any],
    go_on: options.GoOn = False,
    hosts: HostsFile = None,
    attach: Attach = None,
    store: StoreDir = DEFAULT_STORE,
    json: Json = False,
) -> int:
    """Replay, and print how many replays failed as the run did."""
    pinned = options.to_the_end(given, go_on=go_on)
    where = opened(store)
    again = meant(None if run is None else at_hand(run), pinned, seed, where, "repro")
    if again.spec.env == ATTACHED or attach is not None:
        again = _on_foreign(again, attach)
    replays: list[Replay] = []
    for replay in _way(again, times, jobs, hosts)(again, times, where, loud=not json):
        if replay.code == EXIT_INTERRUPTED:
            return replay.code
        replays.append(replay)
    told = report(again, replays)
    print_json(told) if json else _show(told)
    codes = told["exit_codes"]
    if EXIT_INVALID in codes:
        return EXIT_INVALID
    return EXIT_HARNESS if told["same_bytes"] is False else max(codes, default=EXIT_VALID)


@dataclass(frozen=True, slots=True)
class Replay:
    """The end of a replay."""

    run: str | None  # its name; None: the same bytes are stored already
    code: int
    broken: frozenset[str] = frozenset()
    trace_sha256: str | None = None  # of a simulation


def broken(results: Mapping[str, Any]) -> frozenset[str]:
    """The invariants that results name as broken."""
    return frozenset(str(anomaly["invariant"]) for anomaly in results.get("anomalies", ()))


# --------------------------------------------------------------------------- replays


class Replays(Protocol):
    """A way to replay a run so often, told as the replays end."""

    def __call__(self, again: Meant, times: int, store: Store, *, loud: bool) -> Iterator[Replay]:
        """Replay."""


def _on_foreign(again: Meant, attach: Path | None) -> Meant:
    """The run on a foreign cluster, which has to be named again; raises UsageError, EnvError."""
    from harness.systems.attached import planning  # noqa: PLC0415 - only for such runs

    if again.spec.env != ATTACHED:
        raise UsageError(f"--attach: {again.name} was no run on a foreign cluster; leave it out")
    if attach is None:
        raise UsageError(
            f"{again.name} was a run on a cluster that somebody else started: name it again, "
            "with --attach FILE"
        )
    return replace(again, spec=planning.again(again.spec, *look_at(attach)))


def _way(again: Meant, times: int, jobs: int | None, hosts: Path | None) -> Replays:
    """Tell how it is to be replayed; raises UsageError."""
    if again.simulated:
        if jobs is not None:
            raise UsageError(
                "--jobs is for live replays: simulated replays are all the same; leave it out"
            )
        return _simulated
    check_hosts(again.spec, hosts or (None if again.hosts is None else Path(again.hosts)))
    if environments.traits(again.spec.env).one_run_at_a_time:
        if (jobs or 1) > 1:
            raise UsageError(
                f"--jobs {jobs}: --env {again.spec.env} has room for one run at a time"
            )
        return _live
    at_a_time = min(times, jobs or max(1, (os.cpu_count() or 1) // CPUS_PER_RUN))
    return _live if at_a_time == 1 else partial(_side_by_side, at_a_time)


def _live(again: Meant, times: int, store: Store, *, loud: bool) -> Iterator[Replay]:
    """Replays with real processes; a harness that breaks in one does not end the others."""
    for number in range(1, times + 1):
        if times > 1:
            err().print(f"replay {number} of {times}")
        prepared = session.prepare(
            again.spec, store, faults=again.faults, origin=made_by("repro", again.spec, again.of)
        )
        name = prepared.run_dir.told
        try:
            code = execute(prepared)
        except UsageError:
            raise
        except HarnessError as error:
            complain(str(error))
            yield Replay(name, error.exit_code)
            continue
        if loud and prepared.judgement is not None:
            show(prepared)
        found = broken(prepared.summary()) if code == EXIT_INVALID else frozenset[str]()
        yield Replay(name, code, found)


def _side_by_side(
    at_a_time: int, again: Meant, times: int, store: Store, *, loud: bool
) -> Iterator[Replay]:
    """Replay several at a time: each in a process of its own, as this command would do it."""
    with TemporaryDirectory(prefix="krucible-repro-") as folder:
        copy = RunDir(Path(folder))
        write_json(copy.spec, again.spec.to_json())
        copy.write_schedule(again.faults)
        copy.write_origin(made_by("repro", again.spec, again.of))
        arguments = ["repro", folder, "--jobs", "1", "--store", str(store.root)]
        answers = asyncio.run(_ask_all(arguments, times, at_a_time, loud=loud))
    for answer in answers:
        if answer.broken is not None:
            complain(answer.broken)
        stores = answer.value.get("stores") or [None]
        found = frozenset(map(str, answer.value.get("invariants", ())))
        yield Replay(stores[0], answer.code, found)


async def _ask_all(arguments: list[str], times: int, at_a_time: int, *, loud: bool) -> list[Answer]:
    """The answers in the order in which they were asked for; all end when one cannot be waited."""
    room = asyncio.Semaphore(at_a_time)

    run = program()

    async def one(number: int) -> Answer:
        async with room:
            if loud:
                err().print(f"replay {number} of {times} begins")
            answer = await run.ask(arguments)
        if loud:
            broke = ", ".join(answer.value.get("invariants", ())) or f"exit code {answer.code}"
            stored = "".join(answer.value.get("stores", ()))
            err().print(f"replay {number} of {times}: {broke} -> {stored}", markup=False)
        return answer

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(number)) for number in range(1, times + 1)]
    return [task.result() for task in tasks]


def _simulated(again: Meant, times: int, store: Store, *, loud: bool) -> Iterator[Replay]:
    """Simulations: one is stored, and each that is not the same bytes."""
    from harness.sessions import simulated  # noqa: PLC0415 - it brings the node: not for --help

    plan = Plan.simulated(again.spec, again.faults, asked_for=again.asked_for)
    seen: set[str] = set()
    for _ in range(times):
        run = simulated.simulate(plan)
        name, sha256, summary = None, run.trace_sha256, run.summary()
        if sha256 not in seen:
            seen.add(sha256)
            name = simulated.save(run, store, Origin("repro", again.of)).told
            if loud:
                same = True if again.trace_sha256 == sha256 else None  # else ``_show`` says it
                show_simulation({**summary, "store": name, "same_bytes": same})
        yield Replay(name, run.judgement.exit_code, broken(summary), sha256)


# --------------------------------------------------------------------------- what they came to


def report(again: Meant, replays: list[Replay]) -> dict[str, Any]:
    """Tell what the replays came to, as a JSON object."""
    wanted, found = again.broken, Counter[str]()
    for replay in replays:
        found.update(replay.broken)
    hits = sum(
        replay.code == EXIT_INVALID and (not wanted or bool(wanted & replay.broken))
        for replay in replays
    )
    judged = sum(replay.code != EXIT_HARNESS for replay in replays)
    traces = {replay.trace_sha256 for replay in replays}
    then = again.trace_sha256
    return {
        "run": again.name,
        "id": again.of,
        "reproduced": hits,
        "times": len(replays),
        "interval_95": None if again.simulated or not judged else wilson(hits, judged),
        "same_bytes": len(traces) == 1 if again.simulated else None,
        "same_as_before": traces == {then} if again.simulated and then is not None else None,
        "exit_codes": [replay.code for replay in replays],
        "invariants": dict(sorted(found.items())),
        "stores": [replay.run for replay in replays if replay.run is not None],
    }


def _show(told: Mapping[str, Any]) -> None:
    """Print the result for people, on one line."""
    notes = []
    if told["interval_95"] is not None and told["times"] > 1:
        low, high = told["interval_95"]
        notes.append(f"95 % interval {low:.0%} to {high:.0%}")
    if told["invariants"]:
        broke = ", ".join(f"{name} in {n}" for name, n in told["invariants"].items())
        notes.append(f"broke {broke}")
    if told["same_bytes"] and (told["times"] > 1 or told["same_as_before"]):
        notes.append("same bytes")
    if told["same_bytes"] is False:
        notes.append(
            "NOT DETERMINISTIC: the replays differ; compare with `krucible sim --seed N --twice`"
        )
    if told["same_as_before"] is False:
        notes.append("differs from the stored run: was the code changed since?")
    line = f"{told['reproduced']}/{told['times']} reproduced"
    out().print(f"{line} ({'; '.join(notes)})" if notes else line, markup=False)
