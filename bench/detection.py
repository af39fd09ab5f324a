"""Measure how often seeded bugs are caught and the healthy node passes, at equal settings.

    python bench/detection.py [--seeds 10] [--healthy 20] [--time-limit 30]

Each row is a number of real runs of ``krucible run`` with seeds 1, 2, 3, ... A bug counts as caught
when the run exits 1 within 60 s and an invariant that the bug is said to break is among the
anomalies. Prints one line a run, then a JSON object: k of N, a 95 % interval (Wilson), seconds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from harness.nightly.proportion import wilson

CAUGHT_WITHIN_S = 60.0


def run_once(seed: int, mutant: str | None, arguments: argparse.Namespace, store: Path) -> Any:
    """(exit code, seconds, invariants found) of one run."""
    command = [
        *(sys.executable, "-m", "krucible", "run", "--json"),
        *("--seed", str(seed), "--nemesis", "all", "--store", str(store)),
        *("--time-limit", str(arguments.time_limit), "--rate", str(arguments.rate)),
        *(() if mutant is None else ("--mutant", mutant)),
    ]
    started = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    elapsed_s = time.monotonic() - started
    summary = json.loads(done.stdout) if done.stdout.strip() else {"anomalies": []}
    return done.returncode, elapsed_s, sorted({a["invariant"] for a in summary["anomalies"]})


def arm(
    name: str | None, breaks: set[str], runs: int, arguments: argparse.Namespace, store: Path
) -> dict[str, Any]:
    """All runs of one row."""
    hits, seconds, codes = 0, [], []
    for seed in range(arguments.first_seed, arguments.first_seed + runs):
        code, elapsed_s, found = run_once(seed, name, arguments, store)
        if name is None:
            hit = code == 0
        else:
            hit = code == 1 and elapsed_s <= CAUGHT_WITHIN_S and bool(breaks & set(found))
        hits += hit
        seconds.append(elapsed_s)
        codes.append(code)
        label = name or "healthy"
        mark = "as it should" if hit else "NOT as it should"
        print(f"{label} seed {seed}: exit {code}, {elapsed_s:.1f} s, {found}: {mark}", flush=True)
    return {
        "hits": hits,
        "runs": runs,
        "interval_95": [round(end, 3) for end in wilson(hits, runs)],
        "exit_codes": codes,
        "seconds_max": round(max(seconds), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--healthy", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--time-limit", type=float, default=30.0)
    parser.add_argument("--rate", type=float, default=150.0)
    parser.add_argument("--keep", type=Path, help="store the runs here instead of dropping them")
    arguments = parser.parse_args()
    listed = subprocess.run(
        [
            sys.executable,
            "-m",
            "krucible",
            "list",
            "mutants",
            "--json",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="krucible-bench-", dir=".") as folder:
        store = arguments.keep or Path(folder)
        if arguments.seeds:
            for mutant in json.loads(listed.stdout):
                breaks = {name.strip() for name in mutant["breaks"].split(",")}
                name = mutant["name"]
                results[name] = arm(name, breaks, arguments.seeds, arguments, store)
        if arguments.healthy:
            results["healthy"] = arm(None, set(), arguments.healthy, arguments, store)
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
