"""Measure how fast Kafka's own classes are simulated, and what they leave in the JVM.

    python bench/kafka_simulation.py [--workload register] [--seeds 1..20] [--seconds 60]

Raft clients alone (``register``), or whole controllers (``producer-ids``). Three voters, no
faults, 20 client ops per simulated second, all invariants online. Times are CPU times of this
process with all threads of its JVM, after three seeds that only warm it up; for 37 seeds or more
the JVM compiles with its slow compiler, too. "heap" is what Java's heap holds after a collection,
when the first and when the last seed is done. Take a
machine at rest. Prints a table on stdout and one JSON object as the last line.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time

from bench.support.figures import table
from harness.processes.outlook import expect
from harness.sessions.plan import Plan
from harness.sessions.simulated import SimRun, simulate
from harness.spec import RunSpec
from harness.systems.kafka.simulated.bridge import bridge

VOTERS, RATE_HZ, CLIENTS, WARM = 3, 20.0, 5, 3
HEAD = ("seed", "simulated s", "CPU s", "simulated s per CPU s", "events", "verdict")


def run(workload: str, seed: int, seconds: float) -> tuple[SimRun, float]:
    """Simulate a seed; the run, and its CPU time in seconds."""
    spec = RunSpec(
        seed=seed,
        system="kafka",
        workload=workload,
        nemeses=("none",),
        voters=VOTERS,
        observers=0,
        time_limit_s=seconds,
        rate_hz=RATE_HZ,
        concurrency=CLIENTS,
    )
    plan = Plan.simulated(spec)
    began_s = time.process_time()
    return simulate(plan), time.process_time() - began_s


def heap_mb() -> float:
    """Give what Java's heap holds, in MB, once both collectors have run."""
    gc.collect()
    runtime = bridge().JClass("java.lang.Runtime").getRuntime()
    bridge().JClass("java.lang.System").gc()
    return (int(runtime.totalMemory()) - int(runtime.freeMemory())) / 1e6


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workload", default="register")
    parser.add_argument("--seeds", default="1..20")
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    first, last = map(int, options.seeds.split(".."))
    expect(last - first + 1 + WARM)
    for seed in range(1_000, 1_000 + WARM):
        run(options.workload, seed, options.seconds)
    rows, speeds, heaps = [], [], []
    for seed in range(first, last + 1):
        done, cpu_s = run(options.workload, seed, options.seconds)
        simulated_s = done.simulated_ns / 1e9
        speeds.append(simulated_s / cpu_s)
        if seed in (first, last):
            heaps.append(heap_mb())
        row = (seed, f"{simulated_s:.1f}", f"{cpu_s:.2f}", f"{speeds[-1]:.1f}")
        rows.append((*row, done.events, str(done.verdict)))
    print(table(HEAD, rows))
    figures = {
        "workload": options.workload,
        "seeds": options.seeds,
        "simulated_s_per_cpu_s": round(statistics.median(speeds), 1),
        "heap_mb": [round(each, 1) for each in heaps],
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
