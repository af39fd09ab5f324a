"""Measure how little the shrinker leaves of failures of the fault soup, and how long it takes.

    python bench/shrink.py [--bugs 20] [--only NAME ...] [--out FILE.jsonl]
    python bench/shrink.py --drawn [--bugs 10] [--only NAME ...] [--jobs 2] [--budget 100]
    python bench/shrink.py RUN ... [--jobs 2] [--budget 100] [--out FILE.jsonl]

For one seeded bug after the other, seeds of the swarm with all nemeses are simulated for 60 s each
until one with at least 20 faults breaks an invariant that the bug is said to break, after at least
two of them have taken hold: bugs that show by themselves are no test of a shrinker. That failure is
shrunk by one process with the default budget; what comes out is replayed 100 times by four
processes with hash seeds of their own, and must break the same invariant in the same bytes every
time. The budget, and the goal of two minutes, are of CPU time: a busy machine changes nothing.
"hit" are the faults of the original that took hold before the invariant was broken. Prints a
table and one JSON line; ``--out`` gets a line a bug as soon as it is done, and bugs that are there
already are not done again. Bugs that no seed brings out in time are left out, and named.

With ``--drawn`` nothing but the bug is given: a seed's faults are those that the swarm draws, whole
schedules of at least 10 faults, and the first seed counts whose violation comes after the begin of
half of them, or at the end. Bugs mostly need several faults then.

With folders of stored runs those are shrunk instead: failures that were found without a seeded bug
mostly need several faults. A run that does not fail any more is named as not found. With more than
one job the budget is of the clock on the wall, for the tries are in other processes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from bench.support.figures import say, table
from harness.errors import HarnessError
from harness.faults import schedule
from harness.registry import unknown
from harness.sessions.plan import Plan
from harness.sessions.simulated import SimRun, simulate
from harness.sessions.swarm import draw
from harness.sessions.zoo import Bug, bugs
from harness.shrink.moves import Candidate
from harness.shrink.search import SECONDS, Budget, Shrunk, shrink
from harness.shrink.tries import EXACT, Pool, failure_of
from harness.spec import RunSpec
from harness.store.folder import RunDir
from harness.store.reading import load_spec

SIMULATED_S = 60.0
FAULTS_MIN = 20
HIT_MIN = 2
SEARCH_S = 20.0  # of CPU for one bug, until a seed brings it out
EASY_MAX = 4  # seeds that bring it out before enough faults, until it is given up
DRAWN_MIN = 10  # faults of a seed of which nothing is given
DRAWN_SEARCH_S = 100.0
REPLAYS = 100
HASH_SEEDS = ("0", "1", "4711", "random")
KEPT_GOAL = 0.1
KEPT_GOAL_SEVERAL = 0.2
TIME_GOAL_S = 120.0
HEAD = (
    *("mutant", "invariant", "seed", "faults", "hit", "kept", "ops", "nodes", "seconds"),
    *("tries", "wall s", "cpu s", "replays"),
)


@dataclass(frozen=True, slots=True)
class Found:
    """A failure of the soup."""

    bug: str
    invariant: str
    spec: RunSpec
    faults: tuple[Any, ...]
    hit: int  # faults that took hold until it was broken
    seeds: int  # that were tried


@dataclass(frozen=True, slots=True)
class Row:
    """One bug: what was found, what was left of it. Pairs are (left, original)."""

    mutant: str
    invariant: str
    seed: int
    faults: tuple[int, int]
    hit: int
    ops: tuple[int, int]
    nodes: tuple[int, int]
    seconds: tuple[float, float]
    tries: int
    wall_s: float
    cpu_s: float
    exhausted: bool
    replays: int  # that failed in the same way

    @property
    def kept(self) -> float:
        """The share of faults that is left."""
        return self.faults[0] / self.faults[1]


def find(bug: Bug) -> Found | None:
    """The first seed of the soup that brings the bug out; None when the time is up."""
    began_s = time.process_time()
    pinned = {
        "mutant": bug.name,
        "nemeses": ("all",),
        "time_limit_s": SIMULATED_S,
        "stop_at": tuple(sorted(bug.breaks)),
    }
    seed = easy = 0
    while easy < EASY_MAX and time.process_time() - began_s < SEARCH_S:
        seed += 1
        plan = Plan.simulated(draw(seed, pinned))
        if len(plan.faults) < FAULTS_MIN:
            continue
        found = look(bug, plan, seed)
        if found is not None and found.hit >= HIT_MIN:
            return found
        easy += found is not None
    return None


def find_drawn(bug: Bug) -> Found | None:
    """The first seed of the swarm, nothing given, that brings the bug out after enough faults."""
    began_s = time.process_time()
    pinned = {"mutant": bug.name, "stop_at": tuple(sorted(bug.breaks))}
    for seed in count(1):
        if time.process_time() - began_s >= DRAWN_SEARCH_S:
            return None
        plan = Plan.simulated(draw(seed, pinned), asked_for=False)
        if len(plan.faults) < DRAWN_MIN:
            continue
        found = look(bug, plan, seed)
        if found is not None and 2 * found.hit >= len(found.faults):
            return found
    raise AssertionError("seeds do not end")


def look(bug: Bug, plan: Plan, seed: int) -> Found | None:
    """Simulate one seed of a bug; return the failure that it brings out, or None."""
    try:
        run = simulate(plan)
    except HarnessError:  # the bug keeps the cluster from coming up
        return None
    failure = failure_of(run)
    if failure is None:
        return None
    name = next((name for name, _ in failure.found if name in bug.breaks), None)
    if name is None:
        return None
    hit = hits(run, failure.at_s(name))
    return Found(bug.name, name, plan.spec, tuple(run.data.faults), hit, seed)  # late ones, too


def hits(run: SimRun, at_s: float | None) -> int:
    """Count the faults that took hold in time."""
    end_ns = run.simulated_ns
    if at_s is not None:
        end_ns = run.result.phases_ns.get("main", 0) + int(at_s * 1e9)
    return sum(
        report.injection.outcome == "installed" and report.injected_ns <= end_ns
        for report in run.result.faults
    )


def stored(folder: Path) -> Found | None:
    """The failure of a stored run, by the first invariant that it breaks; None when it is gone."""
    run_dir = RunDir(folder)
    spec, faults = load_spec(run_dir.spec), schedule.load(run_dir.schedule)
    run = simulate(Plan.simulated(spec, sorted(faults, key=lambda f: (f.at_ms, f.id))), EXACT)
    failure = failure_of(run)
    if failure is None:
        return None
    name, at_s = failure.found[0]
    return Found(folder.name, name, spec, tuple(run.data.faults), hits(run, at_s), 1)


def measure(found: Found, jobs: int = 1, budget_s: float = SECONDS) -> Row:
    """Shrink a failure, by default in this process, and replay the outcome in others."""
    start = Candidate(found.spec, found.faults)
    wall_s, cpu_s = time.monotonic(), cpu()
    with Pool(jobs) as pool:
        shrunk = shrink(
            start,
            pool,
            budget=Budget(budget_s),
            now_s=time.process_time if jobs == 1 else time.monotonic,
            invariant=found.invariant,
        )
        spent_s = time.monotonic() - wall_s
    wall_s, cpu_s = spent_s, cpu() - cpu_s
    if not isinstance(shrunk, Shrunk):
        raise HarnessError(f"{found.bug}: seed {found.spec.seed} did not fail again")
    end, was, now = shrunk.candidate, start.spec, shrunk.candidate.spec
    return Row(
        found.bug,
        found.invariant,
        was.seed,
        (len(end.faults), len(start.faults)),
        found.hit,
        (shrunk.failure.ops, shrunk.original.ops),
        (now.voters + now.observers, was.voters + was.observers),
        (now.time_limit_s, was.time_limit_s),
        shrunk.tries,
        round(wall_s, 1),
        round(cpu_s, 1),
        shrunk.exhausted,
        replays(end, found.invariant),
    )


def cpu() -> float:
    """Seconds of CPU of this process and of those that it has seen the end of."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def replays(candidate: Candidate, invariant: str) -> int:
    """Count the replays, by several processes, that broke the invariant in the same bytes."""
    faults = [fault.to_json() for fault in candidate.faults]
    asked = json.dumps({"spec": candidate.spec.to_json(), "faults": faults})
    found: list[list[Any]] = []
    for hash_seed in HASH_SEEDS:
        done = subprocess.run(
            [sys.executable, __file__, "--replay", str(REPLAYS // len(HASH_SEEDS))],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            input=asked,
            capture_output=True,
            text=True,
            check=True,
        )
        found += json.loads(done.stdout)
    return sum(invariant in broken and sha256 == found[0][0] for sha256, broken in found)


def replay(times: int) -> list[list[Any]]:
    """Simulate what standard input asks for: bytes and broken invariants, time after time."""
    asked = json.load(sys.stdin)
    spec = RunSpec.from_json(asked["spec"])
    plan = Plan.simulated(spec, [schedule.fault_from_json(fault) for fault in asked["faults"]])
    runs = (simulate(plan) for _ in range(times))
    return [[run.trace_sha256, [a.invariant for a in run.judgement.anomalies]] for run in runs]


def rows(
    wanted: int,
    only: Sequence[str],
    out: Path | None,
    look_for: Callable[[Bug], Found | None],
    shrunk: Callable[[Found], Row],
) -> Iterator[Row | str]:
    """A row a bug, until there are so many; the name of a bug that was not found."""
    done = 0
    for bug in bugs(only):
        if done >= wanted:
            return
        one = once(bug.name, out, partial(look_for, bug), shrunk)
        done += isinstance(one, Row)
        yield one


def stored_rows(
    folders: Sequence[Path], shrunk: Callable[[Found], Row], out: Path | None
) -> Iterator[Row | str]:
    """A row a stored run; the name of one that does not fail any more."""
    for folder in folders:
        yield once(folder.name, out, partial(stored, folder), shrunk)


def once(
    name: str,
    out: Path | None,
    look_for: Callable[[], Found | None],
    shrunk: Callable[[Found], Row],
) -> Row | str:
    """The row of a failure, measured now or before; its name when there is none."""
    done: dict[str, Any] = {}
    if out is not None and out.exists():
        done = {line["mutant"]: line for line in map(json.loads, out.read_text().splitlines())}
    if name not in done:
        found = look_for()
        done[name] = {"mutant": name} if found is None else asdict(shrunk(found))
        if out is not None:
            with out.open("a") as file:
                file.write(json.dumps(done[name]) + "\n")
    return Row(**done[name]) if len(done[name]) > 1 else name


def cells(row: Row) -> tuple[object, ...]:
    """A line of the table."""
    return (
        *(row.mutant, row.invariant, row.seed, row.faults[1], row.hit),
        f"{row.faults[0]} ({row.kept:.0%})",
        f"{row.ops[0]}/{row.ops[1]}",
        f"{row.nodes[0]}/{row.nodes[1]}",
        f"{row.seconds[0]:g}/{row.seconds[1]:g}",
        f"{row.tries}{'+' if row.exhausted else ''}",
        *(row.wall_s, row.cpu_s, f"{row.replays}/{REPLAYS}"),
    )


def figures(found: Sequence[Row], missed: Sequence[str], goal: float) -> dict[str, Any]:
    """Give all figures as one JSON object."""
    kept = statistics.median(row.kept for row in found)
    slowest_s = max(min(row.cpu_s, row.wall_s) for row in found)
    return {
        "failures": len(found),
        "kept_median": round(kept, 4),
        "kept_of_hit_median": round(
            statistics.median(row.faults[0] / max(1, row.hit) for row in found), 4
        ),
        "tries_median": statistics.median(row.tries for row in found),
        "wall_s_median": statistics.median(row.wall_s for row in found),
        "wall_s_max": max(row.wall_s for row in found),
        "cpu_s_median": statistics.median(row.cpu_s for row in found),
        "cpu_s_max": max(row.cpu_s for row in found),
        "exhausted": [row.mutant for row in found if row.exhausted],
        "replays_least": min(row.replays for row in found),
        "goals_met": kept <= goal
        and slowest_s < TIME_GOAL_S
        and all(row.replays == REPLAYS for row in found),
        "not_found": list(missed),
        "rows": [asdict(row) for row in found],
    }


def main() -> int:
    """Shrink the failures of so many bugs, or of stored runs; exits 1 when a goal is not met."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("runs", nargs="*", type=Path, help="folders of stored runs, not bugs")
    parser.add_argument("--drawn", action="store_true", help="whole schedules of the swarm")
    parser.add_argument("--jobs", type=int, default=1, help="tries at a time, drawn or stored")
    parser.add_argument("--budget", type=float, default=SECONDS, help="seconds, drawn or stored")
    parser.add_argument("--bugs", type=int, default=20)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--replay", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.replay:
        print(json.dumps(replay(arguments.replay)))
        return 0
    for name in set(arguments.only) - {bug.name for bug in bugs()}:
        parser.error(unknown("mutant", name, [bug.name for bug in bugs()]))
    found: list[Row] = []
    missed: list[str] = []
    given, out = arguments.runs, arguments.out
    several, wanted = bool(given or arguments.drawn), (arguments.bugs, arguments.only, out)
    shrunk = partial(measure, jobs=arguments.jobs, budget_s=arguments.budget)
    if given:
        measured = stored_rows(given, shrunk, out)
    elif arguments.drawn:
        measured = rows(*wanted, find_drawn, shrunk)
    else:
        measured = rows(*wanted, find, measure)
    for one in measured:
        if isinstance(one, str):
            say(f"{one}: not found")
            missed.append(one)
        else:
            say("  ".join(map(str, cells(one))))
            found.append(one)
    if not found:
        return 1
    print(table(HEAD, [cells(row) for row in found]))
    told = figures(found, missed, KEPT_GOAL_SEVERAL if several else KEPT_GOAL)
    print(json.dumps(told))
    return 0 if told["goals_met"] else 1


if __name__ == "__main__":
    sys.exit(main())
