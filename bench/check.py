"""Judging histories: our checker's time and memory, side by side with Porcupine's where Go is.

    python bench/check.py [--corpora FOLDER] [--rounds 5] [--peer-limit 60] [--only WORD]

Both sides are timed from operations in memory to the verdict: ours from columns, Porcupine's (Go,
built from bench/porcupine) from its own slice of operations. Each large history is judged in a
process of its own, ours and Porcupine's in turns; times are medians. A peer that passes its limit
of time, or of memory (12 GiB), has given up. Prints a table, then a JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from math import inf
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from bench.support.disk import workspace
from bench.support.figures import say, table
from bench.support.histories import registers, write
from checkers.linearizability.calls import calls_of, event_places
from checkers.linearizable import Columns, decide
from harness.history.formats import read_history
from harness.registry import models

ROOT = Path(__file__).resolve().parents[1]
PEER = ROOT / "bench" / "porcupine"
PEER_MEMORY_BYTES = 12 << 30
SMALL_REPEATS = 21


@dataclass(frozen=True, slots=True)
class Case:
    """A history to make, the verdict that is known, and the limits that are promised."""

    name: str
    make: dict[str, Any]
    valid: bool
    seconds_max: float = inf
    rss_mb_max: float = inf
    ratio_max: float = inf


FEW = {"n": 10_000, "in_flight": 10, "values": 5}
CASES = (
    Case("1 M unique, 100 keys", {"n": 1_000_000, "in_flight": 10, "keys": 100}, True, ratio_max=2),
    Case("1 M unique, one key", {"n": 1_000_000, "in_flight": 30}, True, 2, 1000),
    Case("1 M unique, stale", {"n": 1_000_000, "in_flight": 30, "stale": True}, False, 2, 1000),
    Case("100 k of 5 values", {**FEW, "n": 100_000}, True, 4, 500),
    Case("10 k of 5 values, stale", {**FEW, "stale": True}, False),
    Case("10 k, 1 % unknown, stale", {**FEW, "unknown": 0.01, "stale": True}, False, 1),
    Case("the same, unique", {"n": 10_000, "in_flight": 10, "unknown": 0.01, "stale": True}, False),
    Case("10 k, 30 in flight, stale", {**FEW, "in_flight": 30, "stale": True}, False, 60, 2000),
    Case("10 k of 5 values with cas", {**FEW, "cas": 0.3}, True),
    Case("the same, stale", {**FEW, "cas": 0.3, "stale": True}, False),
    Case("10 k unique with cas", {"n": 10_000, "in_flight": 10, "cas": 0.3}, True),
    Case("100 k, 100 keys, cas", {**FEW, "n": 100_000, "keys": 100, "cas": 0.3}, True),
    Case("1 k, 1 % unknown", {**FEW, "n": 1_000, "unknown": 0.01}, True),
    Case("growth: 10 k unique", {"n": 10_000, "in_flight": 10}, True),
    Case("growth: 100 k unique", {"n": 100_000, "in_flight": 10}, True),
    Case("growth: 1 M unique", {"n": 1_000_000, "in_flight": 10}, True),
    Case("growth: 1 M of 5 values", {**FEW, "n": 1_000_000}, True),
)


def build(folder: Path) -> Path | None:
    """Porcupine's judge; None without a Go toolchain that can build it."""
    binary = folder / "porcupine"
    path = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/local/go/bin"}
    try:
        command = ["go", "build", "-o", str(binary), "."]
        subprocess.run(command, cwd=PEER, env=path, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        say(f"no Porcupine: {error}")
        return None
    return binary


def peer(binary: Path, files: list[Path], *, repeat: int, limit_s: float) -> list[dict[str, Any]]:
    """Ask Porcupine for its verdict on each file; "unknown" for those it did not get through."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (PEER_MEMORY_BYTES, PEER_MEMORY_BYTES))

    done = subprocess.run(
        [binary, "-timeout", f"{limit_s}s", "-repeat", str(repeat), *files],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=limited,
    )
    told = [json.loads(line) for line in done.stdout.splitlines()]
    return told + [{"verdict": "unknown", "seconds": inf, "rss_mb": inf}] * (len(files) - len(told))


def ours(make: dict[str, Any]) -> dict[str, Any]:
    """Our verdict on a made history, in a process of its own."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(_ours, (make,))


def _ours(make: dict[str, Any]) -> dict[str, Any]:
    columns = registers(**make)
    wall, cpu = time.perf_counter(), time.process_time()
    decision = decide(columns)
    return {
        "verdict": str(decision.valid),
        "seconds": time.perf_counter() - wall,
        "cpu_seconds": time.process_time() - cpu,
        "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def corpus(folder: Path) -> dict[str, tuple[str, Columns, bool]]:
    """Each public history as (model, columns, whether it is linearizable)."""
    found = {}
    verdicts = json.loads((folder / "verdicts.json").read_text())
    for name, told in verdicts.items():
        loaded = read_history(folder / name)
        model = models.get(told["model"])()
        places, _ = event_places(loaded.history, loaded.conventions)
        calls = calls_of(loaded.history, model, loaded.conventions, places=places)
        rows = sorted(
            (
                (c.begin, c.action.f, c.action.value, c.action.seen, c.end, key)
                for key, of_key in calls.by_key.items()
                for c in of_key
            ),
            key=lambda row: row[0],
        )
        begin, f, value, seen, end, keys = (list(column) for column in zip(*rows, strict=True))
        ends = [inf if e is None else e for e in end]
        several = keys if len(calls.by_key) > 1 else None
        found[name] = (told["model"], Columns(f, value, seen, begin, ends, several), told["valid"])
    return found


def bench_corpus(folder: Path, binary: Path | None, scratch: Path, rounds: int) -> dict[str, Any]:
    """All public histories, each judged many times."""
    files = corpus(folder)
    rows: list[dict[str, Any]] = []
    paths = [scratch / f"{at}.tsv" for at in range(len(files))]
    for path, (model, columns, _) in zip(paths, files.values(), strict=True):
        strings = model == "kv-append"
        write(
            columns,
            path,
            model="strings" if strings else "register",
            initial="" if strings else "None",
        )
    mine: dict[str, list[float]] = {name: [] for name in files}
    theirs: dict[str, list[float]] = {name: [] for name in files}
    for _ in range(rounds):
        for name, (model, columns, valid) in files.items():
            took = []
            decision = decide(columns, model)
            for _ in range(SMALL_REPEATS):
                began = time.perf_counter()
                decide(columns, model)
                took.append(time.perf_counter() - began)
            assert (str(decision.valid) == "valid") is valid, f"{name}: {decision}"
            mine[name].append(statistics.median(took))
        if binary:
            told = peer(binary, paths, repeat=SMALL_REPEATS, limit_s=60)
            for name, one in zip(files, told, strict=True):
                theirs[name].append(one["seconds"])
    for name in files:
        us, them = min(mine[name]), min(theirs[name], default=None)
        rows.append({"file": Path(name).name, "seconds": us, "peer_seconds": them})
    result: dict[str, Any] = {"files": rows, "seconds": sum(row["seconds"] for row in rows)}
    if binary:
        result["peer_seconds"] = sum(row["peer_seconds"] for row in rows)
        ratios = [(row["seconds"] / row["peer_seconds"], row["file"]) for row in rows]
        result["ratio"] = result["seconds"] / result["peer_seconds"]
        result["median_ratio"] = statistics.median(value for value, _ in ratios)
        result["kv_ratios"] = {name: value for value, name in ratios if name.endswith(".txt")}
        result["worst"] = sorted(ratios, reverse=True)[:5]
    return result


def bench_case(
    case: Case, binary: Path | None, scratch: Path, arguments: argparse.Namespace
) -> dict[str, Any]:
    """One made history, in turns."""
    mine: list[dict[str, Any]] = []
    theirs: list[dict[str, Any]] = []
    path = scratch / "case.tsv"
    if binary:
        write(registers(**case.make), path)
    for _ in range(min(arguments.rounds, 3)):
        mine.append(ours(case.make))
        if binary and (not theirs or theirs[-1]["verdict"] != "unknown"):
            theirs += peer(binary, [path], repeat=1, limit_s=arguments.peer_limit)
    best = min(mine, key=lambda one: one["seconds"])
    assert (best["verdict"] == "valid") is case.valid, f"{case}: {best}"
    row = {"case": case.name, **best, "cpu_seconds": min(one["cpu_seconds"] for one in mine)}
    row["rss_mb"] = max(one["rss_mb"] for one in mine)
    if theirs:
        them = min(theirs, key=lambda one: one["seconds"])
        row |= {"peer": them["verdict"], "peer_seconds": them["seconds"]}
        row["peer_rss_mb"] = them["rss_mb"]
        if them["verdict"] != "unknown":
            row["ratio"] = best["seconds"] / them["seconds"]
    row["kept"] = (
        row["seconds"] <= case.seconds_max
        and row["rss_mb"] <= case.rss_mb_max
        and row.get("ratio", 0.0) <= case.ratio_max
    )
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--corpora", type=Path, help="where verdicts.json is; none, none judged")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peer-limit", type=float, default=60.0, help="seconds (default 60)")
    parser.add_argument("--only", default="", help="cases with this in their name")
    arguments = parser.parse_args()
    report: dict[str, Any] = {}
    with workspace(Path(tempfile.gettempdir())) as scratch:
        binary = build(scratch)
        if arguments.corpora:
            report["corpus"] = bench_corpus(arguments.corpora, binary, scratch, arguments.rounds)
        report["cases"] = []
        for case in CASES:
            if arguments.only in case.name:
                report["cases"].append(bench_case(case, binary, scratch, arguments))
                say(json.dumps(report["cases"][-1]))
    if report["cases"]:
        head = ("case", "verdict", "s", "MB", "peer", "peer s", "peer MB", "ratio", "kept")
        say(table(head, [_cells(row) for row in report["cases"]]))
    json.dump(report, sys.stdout, indent=1)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    def number(name: str) -> str:
        return f"{row[name]:.3g}" if name in row else "-"

    return (
        row["case"],
        row["verdict"],
        number("seconds"),
        str(row["rss_mb"]),
        row.get("peer", "-"),
        number("peer_seconds"),
        number("peer_rss_mb"),
        number("ratio"),
        "yes" if row["kept"] else "NO",
    )


if __name__ == "__main__":
    main()
