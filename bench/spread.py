"""Measure simulations on a Spark cluster beside processes of this machine, and lose a worker.

    python bench/spread.py [--seeds 1000] [--turns 2] [--workers 2] [--cores 2] [--lost 1000]

The cluster is a real one, standalone, on this machine: so many workers with so many processors. In
each turn `krucible sim` simulates the same seeds with as many processes (`--jobs`) and on the
cluster (`--master`); a time is that of the whole command, with the start of the executors. Seeds
are short (one second, one voter), so that sending them and their results weighs more than it does
with those that users simulate.
At the end both simulate `--lost` seeds once, and halfway on the cluster one worker is killed with
SIGKILL, together with all that runs for it. What each of them has counted must be the same: nothing
is lost, nothing is done twice. Wall time needs a machine at rest.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench.support.figures import paired_ratio, say, table
from harness.processes.procfs import PROC, processes
from tests.support.spark.cluster import standalone_cluster

HEAD = ("on", "seeds", "s", "seeds/s")
SHORT = (
    "--time-limit 1s --rate 40 --voters 1 --observers 0 --workload register --nemesis none "
    "--set metadata.max.idle.interval.ms=5000"
)
Row = tuple[str, str, str, str]
COUNTED = ("seeds", "verdicts", "invariants", "broken", "reached")


def main() -> None:
    """Measure in turns, kill a worker, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=2, help="0: only with a worker lost")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--cores", type=int, default=2, help="of each worker")
    parser.add_argument("--lost", type=int, default=1000, help="seeds when a worker is lost")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="krucible-bench-") as folder,
        standalone_cluster(Path(folder), options.workers, options.cores) as master,
    ):
        measure(Path(folder), master, options)


def measure(folder: Path, master: str, options: argparse.Namespace) -> None:
    """Measure on a cluster that is up."""
    jobs = ("--jobs", str(options.workers * options.cores))
    rows, took, same = list[Row](), dict[str, list[float]](), True

    def once(name: str, seeds: int, where: tuple[str, str]) -> tuple[dict[str, Any], float]:
        counted, seconds = simulate(folder, seeds, where)
        say(f"{name}: {seeds} seeds in {seconds:.0f} s")
        rows.append((name, str(seeds), f"{seconds:.0f}", f"{seeds / seconds:.2f}"))
        return counted, seconds

    for _ in range(options.turns):
        told = {}
        for name, where in (("processes", jobs), ("cluster", ("--master", master))):
            told[name], seconds = once(name, options.seeds, where)
            took.setdefault(name, []).append(seconds)
        same = same and told["processes"] == told["cluster"]
    whole, seconds = once("processes", options.lost, jobs)
    killer = threading.Timer(seconds / 2, end_worker, (folder / "worker-0",))
    killer.start()
    counted, lost_s = once("cluster, a worker lost", options.lost, ("--master", master))
    killer.join()
    same = same and counted == whole
    print(table(HEAD, rows))
    if options.turns:
        value, low, high = paired_ratio(took["cluster"], took["processes"])
        print(f"time on the cluster over that of processes: {value:.2f} ({low:.2f} to {high:.2f})")
    print(f"the same with a worker lost: {lost_s / seconds:.2f}")
    print(f"all of them have counted the same: {'yes' if same else 'NO'}")
    if not same:
        sys.exit(1)


def simulate(folder: Path, seeds: int, where: tuple[str, str]) -> tuple[dict[str, Any], float]:
    """Simulate seeds somewhere; gives what was counted, and the seconds that it took.

    Raises:
        RuntimeError: The command failed; says what it said.
    """
    argv = [sys.executable, "-m", "krucible", "sim", "--seeds", f"1..{seeds}", "--json"]
    argv += ["--store", str(folder / "store"), *SHORT.split(), *where]
    begun = time.monotonic()
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - begun
    if done.returncode not in (0, 1, 2):
        raise RuntimeError(f"{' '.join(argv)} failed: {done.stderr[-2000:]}")
    told = json.loads(done.stdout)
    counted = {key: told[key] for key in COUNTED}
    return {**counted, "failing": sorted(each["seed"] for each in told["failing"])}, seconds


def end_worker(work: Path) -> None:
    """Kill the worker of a folder, its executors and their Pythons, all at once."""
    for pid in list(processes()):
        with suppress(OSError):
            words = (PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace")
            if str(work) in words or (PROC / str(pid) / "cwd").readlink().is_relative_to(work):
                os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
