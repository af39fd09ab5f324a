"""Whether `krucible analyze` says of each run what the checkers of single runs said of it.

    python bench/analyze_verdicts.py [--runs 1000] [--seed 0] [--keep FOLDER]

A mixed store is simulated, side by side in processes: every other run is healthy, a draw of the
swarm cut short; the others take all seeded bugs in turn, each in its own scenario and with one of
its seeds, first stopped at what it breaks and the next time around run to the end. All of it is
analysed, and each run's verdict, broken invariants and word of every checker are compared with its
``results.json``. Ends with 1 and the runs that differ when there are any. With ``--keep`` a store
is kept in that folder, and one that is there already is analysed as it is.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F  # noqa: N812 - its usual name

from bench.support.figures import say
from harness.sessions.plan import Plan
from harness.sessions.simulated import save, simulate
from harness.sessions.swarm import draw
from harness.sessions.zoo import bugs, plan_of
from harness.store.folder import Store
from pipeline.analysis import TABLES_FOLDER, Options, analyse
from pipeline.layout import Layout
from pipeline.spark import spark_session
from pipeline.summary import newest

TIME_LIMIT_S = 5.0  # of healthy runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="of the first healthy run")
    parser.add_argument("--keep", type=Path, help="a folder for the store")
    parser.add_argument("--master", default="local[*]")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="krucible-verdicts-") as folder:
        store = options.keep or Path(folder)
        if not Store(store).runs():
            make(store, options.runs, options.seed)
        sys.exit(compare(store, options.master))


def make(store: Path, count: int, seed: int) -> None:
    """Simulate so many runs."""
    began = time.monotonic()
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        told = Counter(pool.map(partial(simulated, store, seed), range(count)))
    rows = ", ".join(f"{count} {what}" for what, count in sorted(told.items()))
    say(f"{count} runs simulated in {time.monotonic() - began:.0f} s: {rows}")


def simulated(store: Path, seed: int, number: int) -> str:
    """Simulate one of the runs; gives what it is and what it came to."""
    if number % 2 == 0:
        spec = draw(seed + number, {"time_limit_s": TIME_LIMIT_S})
        plan, what = Plan.simulated(spec, asked_for=False), "healthy"
    else:
        plan, what = mutant_plan(number // 2), "mutant"
    run = simulate(plan)
    save(run, Store(store))
    return f"{what} {run.judgement.system}"


def mutant_plan(number: int) -> Plan:
    """All bugs in turn, each time around with the next of their seeds."""
    known = [bug for bug in bugs() if bug.scenario is not None]
    around, place = divmod(number, len(known))
    bug = known[place]
    assert bug.scenario is not None
    seeds = bug.scenario["seeds"]
    stop_at = None if around % 2 else tuple(sorted(bug.breaks))
    return plan_of(bug.scenario, seeds[around // 2 % len(seeds)], bug.name, stop_at)


def compare(store: Path, master: str) -> int:
    """Analyse the store and tell of each run that differs; gives the exit code."""
    out = store / TABLES_FOLDER
    began = time.monotonic()
    with spark_session(master=master) as spark:
        told = analyse(spark, Options(store, out))
        verdicts = newest(spark, Layout(out), "verdicts")
        wrong = verdicts.where("not coalesce(agrees, false) or size(details) > 0")
        names = newest(spark, Layout(out), "runs").select("run", "mutant", "problem")
        rows: list[Any] = wrong.join(names, "run").orderBy(F.col("run")).collect()
    say(
        f"{told['runs']} runs analysed in {time.monotonic() - began:.0f} s: {told['invalid']}"
        f" invalid, {told['disagreements']} verdicts differ,"
        f" {told['agree_but_for_details']} agree but for details,"
        f" {told['not_compared']} not compared"
    )
    for row in rows:
        why = [*row.differences, *row.details, *filter(None, [row.problem])] or ["not compared"]
        say(f"{row.run} ({row.mutant or 'healthy'}): {'; '.join(why)}")
    return 1 if rows else 0


if __name__ == "__main__":
    main()
