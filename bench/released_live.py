"""Bugs of Apache Kafka's releases, live: in how many runs each is caught, and gone when fixed.

    python bench/released_live.py [--tries 5] [--only NAME] [--store DIR]

Each try is a seed, from 1 on, and two runs of processes with it: of a release that has the bug and
of one that has it fixed, with the same options, so with the same ops and faults. It is caught when
the first run shows its sign: an anomaly of that invariant, or what is told of such releases by
name. The other is green when it is valid and does not show it. A run takes half a minute to one and
a half; all that is here, with five tries, about half an hour.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.support.figures import say, table

ALONE = "--workload producer-ids --observers 0"
TIMEOUT_S = 300
JUDGED = (0, 1, 2)  # exit codes: valid, invalid, unknown
HEAD = ("bug", "release", "caught", "fixed in", "green")


@dataclass(frozen=True, slots=True)
class Hunt:
    """A bug (harness/systems/kafka/bugs), the runs that show it, and its sign."""

    name: str
    affected: str
    fixed: str
    options: str
    sign: str  # an invariant, or the begin of what is told by name


HUNTS = (
    Hunt(
        "early-leader",
        "3.5.2",
        "3.6.2",
        f"{ALONE} --nemesis none --time-limit 5",
        "docs/kafka.md, a leader before 3.6 is told early",
    ),
    Hunt(
        "endless-leader",
        "3.6.2",
        "3.7.2",
        f"{ALONE} --nemesis partition-isolate-leader --pace long --time-limit 25",
        "docs/kafka.md, a cut-off leader before 3.7 leads on",
    ),
    Hunt(
        "follower-forgets-vote",
        "3.9.2",
        "4.0.2",
        f"{ALONE} --nemesis kill --time-limit 8",
        "docs/kafka.md, a follower before 4.0 forgets its vote",
    ),
    Hunt(
        "readmitted-replica",
        "3.4.1",
        "3.5.2",
        "--workload isr --observers 1 --nemesis none --time-limit 25",
        "C5",
    ),
    Hunt(
        "silent-process",
        "3.4.0",
        "3.4.1",
        f"{ALONE} --nemesis disk-io-error --pace long --time-limit 40",
        "L2",
    ),
)


def run(version: str, options: str, seed: int, store: Path) -> Mapping[str, Any]:
    """Run processes of a release; gives the results. Raises CalledProcessError of no verdict."""
    argv = [sys.executable, "-m", "krucible", "run", "--system", "kafka"]
    argv += ["--kafka-version", version, "--seed", str(seed), "--store", str(store)]
    done = subprocess.run(
        [*argv, *options.split()], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    if done.returncode not in JUDGED:
        raise subprocess.CalledProcessError(
            done.returncode, argv, done.stdout[-2000:], done.stderr[-2000:]
        )
    results: Mapping[str, Any] = json.loads((store / "latest" / "results.json").read_bytes())
    return results


def shows(results: Mapping[str, Any], sign: str) -> bool:
    """Tell whether results have a sign."""
    broken = {a["invariant"] for each in results["results"] for a in each["anomalies"]}
    return sign in broken or any(name.startswith(sign) for name in results.get("known", {}))


def story(results: Mapping[str, Any]) -> str:
    """Tell a verdict, and what it goes by."""
    found = [
        f"{a['invariant']}: {a['message']}" for r in results["results"] for a in r["anomalies"]
    ]
    why = [*results["system_reasons"], *results["harness_reasons"], *found[:3]]
    return f"{results['system']}; {'; '.join(why)}"


def main() -> None:
    """Hunt, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=5, help="seeds of each bug")
    parser.add_argument("--only", choices=[hunt.name for hunt in HUNTS])
    parser.add_argument("--store", type=Path, help="where the runs stay (default: nowhere)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="released-live-") as scratch:
        store = args.store or Path(scratch)
        rows = []
        for hunt in (each for each in HUNTS if args.only in (None, each.name)):
            caught = green = 0
            for seed in range(1, args.tries + 1):
                broken = run(hunt.affected, hunt.options, seed, store)
                fixed = run(hunt.fixed, hunt.options, seed, store)
                is_caught = shows(broken, hunt.sign)
                is_green = fixed["system"] == "valid" and not shows(fixed, hunt.sign)
                caught, green = caught + is_caught, green + is_green
                if not is_caught:
                    say(f"{hunt.affected}, seed {seed}, is not caught: {story(broken)}")
                if not is_green:
                    say(f"{hunt.fixed}, seed {seed}, is not green: {story(fixed)}")
                say(f"{hunt.name}: {caught} caught and {green} green of {seed}")
            of = f"of {args.tries}"
            row = (hunt.name, hunt.affected, f"{caught} {of}", hunt.fixed, f"{green} {of}")
            rows.append(row)
        print(table(HEAD, rows))


if __name__ == "__main__":
    main()
