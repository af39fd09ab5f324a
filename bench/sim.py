"""Measure how much faster than real time a simulation runs, and how many seeds an hour it does.

    python bench/sim.py [--seeds 1..10] [--seconds 30] [--long 120] [--jobs 2] [--profile]

Three voters and two observers, all nemeses of the default soup, 20 client ops per simulated
second. All times are CPU time of this process, after one seed that only warms it up. "run" is
nodes, harness, network and trace; "checkers" is what judges the run afterwards. A simulation goes
on after its time limit, until all is healed and settled: that time counts as simulated, too.
Growth compares the CPU per simulated second of long runs with that of short ones. Throughput is
what ``--jobs`` processes really finished, by the wall clock: it needs a machine at rest. Takes
about a minute.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import logging
import platform
import pstats
import statistics
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from typing import Any
from unittest.mock import patch

from bench.support.figures import percentile, say, table
from harness.run.judge import Judgement, judge_here
from harness.sessions.plan import Plan
from harness.sessions.simulated import simulate
from harness.spec import RunSpec

VOTERS, OBSERVERS, RATE_HZ, CLIENTS = 3, 2, 20, 5
PROFILE_ROWS = 30
HEAD = ("seed", "simulated s", "run ms/s", "x real time", "checkers ms/s", "events/s", "ops/s")


@dataclass(frozen=True, slots=True)
class Measured:
    """One seed: what was simulated, and the CPU time that it took."""

    seed: int
    simulated_s: float
    run_s: float
    checkers_s: float
    events: int
    ops: int
    verdict: str

    @property
    def cpu_s(self) -> float:
        """Give the CPU time of run and checkers together."""
        return self.run_s + self.checkers_s


def plan_of(seed: int, seconds: float) -> Plan:
    """The run that the goal is about."""
    return Plan.simulated(
        RunSpec(
            seed=seed,
            nemeses=("all",),
            time_limit_s=seconds,
            rate_hz=RATE_HZ,
            concurrency=CLIENTS,
            voters=VOTERS,
            observers=OBSERVERS,
        )
    )


def measure(seed: int, seconds: float) -> Measured:
    """Simulate one seed and judge it."""
    judging: list[float] = []

    def timed(*args: Any, **options: Any) -> Judgement:
        began = time.process_time()
        judgement = judge_here(*args, **options)
        judging.append(time.process_time() - began)
        return judgement

    began = time.process_time()
    with patch("harness.sessions.simulated.judge_here", timed):
        run = simulate(plan_of(seed, seconds))
    cpu_s = time.process_time() - began
    return Measured(
        seed,
        run.simulated_ns / 1e9,
        cpu_s - sum(judging),
        sum(judging),
        run.events,
        sum(count for kind, count in run.result.counts.items() if kind != "invoke"),
        str(run.verdict),
    )


def per_second(measured: Sequence[Measured]) -> dict[str, float]:
    """The figures of some seeds, per simulated second; "x" are times real time."""
    simulated_s = sum(each.simulated_s for each in measured)
    run_s = sum(each.run_s for each in measured)
    cpu_s = sum(each.cpu_s for each in measured)
    return {
        "run_ms": round(run_s / simulated_s * 1e3, 2),
        "run_x": round(simulated_s / run_s, 1),
        "checkers_ms": round((cpu_s - run_s) / simulated_s * 1e3, 2),
        "all_x": round(simulated_s / cpu_s, 1),
        "cpu_s_per_seed": round(cpu_s / len(measured), 3),
        "cpu_s_per_seed_p90": round(percentile([each.cpu_s for each in measured], 90), 3),
        "events": round(sum(each.events for each in measured) / simulated_s),
        "ops": round(sum(each.ops for each in measured) / simulated_s, 1),
    }


def throughput(seeds: Sequence[int], seconds: float, jobs: int) -> float:
    """Seeds an hour, by the wall clock, in so many processes that are warm already."""
    with ProcessPoolExecutor(jobs, mp_context=get_context("forkserver"), initializer=quiet) as pool:
        list(pool.map(measure, [0] * jobs * 2, [1.0] * jobs * 2))
        began = time.perf_counter()
        list(pool.map(measure, seeds, [seconds] * len(seeds)))
        return len(seeds) / (time.perf_counter() - began) * 3600


def quiet() -> None:
    """Switch off what the nodes print."""
    logging.disable(logging.CRITICAL)


def profiled(seed: int, seconds: float) -> None:
    """Print where the time of one seed goes."""
    profile = cProfile.Profile()
    profile.runcall(measure, seed, seconds)
    pstats.Stats(profile, stream=sys.stderr).sort_stats("tottime").print_stats(PROFILE_ROWS)


def row(each: Measured) -> tuple[object, ...]:
    """One line of the table."""
    return (
        each.seed,
        f"{each.simulated_s:.1f}",
        f"{each.run_s / each.simulated_s * 1e3:.1f}",
        f"{each.simulated_s / each.run_s:.0f}",
        f"{each.checkers_s / each.simulated_s * 1e3:.1f}",
        f"{each.events / each.simulated_s:.0f}",
        f"{each.ops / each.simulated_s:.1f}",
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", default="1..10", help="first and last (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--long", type=float, default=120.0, help="0 leaves out the growth")
    parser.add_argument("--jobs", type=int, default=2, help="0 leaves out the throughput")
    parser.add_argument("--profile", action="store_true", help="also print where the time goes")
    arguments = parser.parse_args()
    first, last = map(int, arguments.seeds.split(".."))
    seeds = range(first, last + 1)
    quiet()
    measure(0, 1.0)
    short = []
    for seed in seeds:
        short.append(measure(seed, arguments.seconds))
        say(f"seed {seed}: {short[-1].simulated_s / short[-1].run_s:.0f} x, {short[-1].verdict}")
    figures: dict[str, object] = {"bench": "sim", "seconds": arguments.seconds, **per_second(short)}
    if arguments.long:
        long = [measure(seed, arguments.long) for seed in seeds[: max(1, len(seeds) // 3)]]
        same = short[: len(long)]
        figures["growth"] = round(
            statistics.fmean(each.cpu_s / each.simulated_s for each in long)
            / statistics.fmean(each.cpu_s / each.simulated_s for each in same),
            2,
        )
        figures["long_s"] = arguments.long
    if arguments.jobs:
        figures["jobs"] = arguments.jobs
        figures["seeds_per_hour"] = round(throughput(seeds, arguments.seconds, arguments.jobs))
    if arguments.profile:
        profiled(first, arguments.seconds)
    print(table(HEAD, [row(each) for each in short]))
    figures |= {"python": platform.python_version(), "runs": [asdict(each) for each in short]}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
