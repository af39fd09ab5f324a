"""How the size of the metadata shows: failover, memory, restart, writing a snapshot.

    python bench/failover.py [--sizes 1000,1000000] [--rounds 5] [--only failover,restart,snapshot]

Failover: the leader of three voters is killed with SIGKILL; the time until a write
(IncrementalAlterConfigs) is acknowledged by its successor, at the default timers. A cluster of each
size is up all the while, and they take turns. The nodes begin with a snapshot written straight
into their directories (see ``bench_partitions``). Restart: a quorum of one begins with a snapshot,
or with all the same records in its log, until the first acknowledged write. Snapshot: one with a
snapshot is made to write the next one; another connection asks for an answer all the time.
Prints progress on stderr and one JSON object on stdout.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import bench_partitions as content
from bench_probe import Pinger, all_caught_up, first_commit
from bench_quorum import Quorum, cpu_s, format_node, log_dir, rss_bytes

from node.log.layout import partition_dir

VOTERS = 3
DEFAULT_SIZES = "1000,1000000"
NO_SNAPSHOTS = {"metadata.log.max.record.bytes.between.snapshots": str(1 << 40)}
SNAPSHOT_SOON = {"metadata.log.max.record.bytes.between.snapshots": "8192"}


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def quorum(folder: Path, voters: int, source: Path | None, settings: dict[str, str]) -> Quorum:
    """A quorum whose nodes begin with ``source``."""
    folder.mkdir()
    made = Quorum.of(folder, voters, settings)
    for node_id in made.ports:
        format_node(folder, node_id)
        if source is not None:
            content.place(source, log_dir(folder, node_id))
    return made


def spread(values: list[float]) -> dict[str, Any]:
    """Median, lowest and highest, and all of them."""
    return {
        "median": round(statistics.median(values), 3),
        "min": round(min(values), 3),
        "max": round(max(values), 3),
        "all": [round(value, 3) for value in values],
    }


async def failover(folder: Path, snapshots: dict[int, Path], rounds: int) -> dict[str, Any]:
    """Kill the leader of each size in turn, ``rounds`` times."""
    quorums = {
        size: quorum(folder / f"failover-{size}", VOTERS, path, NO_SNAPSHOTS)
        for size, path in snapshots.items()
    }
    seconds: dict[int, list[float]] = {size: [] for size in snapshots}
    memory: dict[int, float] = {}
    leaders: dict[int, int] = {}
    try:
        for size, each in quorums.items():
            for node_id in each.ports:
                each.start(node_id)
            leaders[size] = await first_commit(each, each.ports, 1000)
            await all_caught_up(each, leaders[size])
            memory[size] = statistics.median(map(rss_bytes, each.processes.values()))
            say(f"{size} partitions: up, {memory[size] / 1e6:.0f} MB a node")
        for turn in range(rounds):
            for size, each in quorums.items():
                killed = leaders[size]
                began = time.perf_counter()
                each.kill(killed)
                leaders[size] = await first_commit(each, each.processes, 2000 + turn)
                seconds[size].append(time.perf_counter() - began)
                say(f"{size} partitions: node {leaders[size]} after {seconds[size][-1]:.3f} s")
                each.start(killed)
                await all_caught_up(each, leaders[size])
    finally:
        for each in quorums.values():
            each.stop()
    small, large = min(snapshots), max(snapshots)
    figures: dict[str, Any] = {str(size): spread(seconds[size]) for size in snapshots}
    if large > small:
        figures["ratio_of_medians"] = round(
            statistics.median(seconds[large]) / statistics.median(seconds[small]), 3
        )
        figures["bytes_per_partition"] = round((memory[large] - memory[small]) / (large - small))
    return {"failover_s": figures, "rss_mb": {str(s): round(m / 1e6) for s, m in memory.items()}}


async def restart(folder: Path, sources: dict[str, Path | None]) -> dict[str, Any]:
    """Start a quorum of one from each source until it has committed a write."""
    figures = {}
    for name, source in sources.items():
        each = quorum(folder / f"restart-{name}", 1, source, NO_SNAPSHOTS)
        try:
            began = time.perf_counter()
            process = each.start(1)
            await first_commit(each, [1], 1000)
            elapsed_s, cpu = time.perf_counter() - began, cpu_s(process)
            figures[name] = {
                "seconds": round(elapsed_s, 2),
                "cpu_s": round(cpu, 2),
                "rss_mb": round(rss_bytes(process) / 1e6),
            }
        finally:
            each.stop()
        say(f"restart from {name}: {figures[name]}")
    return {"restart": figures}


async def write_snapshot(folder: Path, source: Path) -> dict[str, Any]:
    """Write until a new snapshot is due, and look on until it is in its place."""
    each = quorum(folder / "snapshot", 1, source, SNAPSHOT_SOON)
    names = partition_dir(log_dir(each.folder, 1))

    def snapshots() -> set[Path]:
        return {path for path in names.iterdir() if ".checkpoint" in path.name}

    before = snapshots()
    try:
        process = each.start(1)
        await first_commit(each, [1], 1000)
        pinger = Pinger(each.ports[1])
        value = 1000
        while snapshots() == before:
            await first_commit(each, [1], value := value + 1)
        began, cpu = time.perf_counter(), cpu_s(process)
        while not (made := set(names.glob("*.checkpoint")) - before):  # noqa: ASYNC110 - a file
            await asyncio.sleep(0.005)
        elapsed_s, cpu = time.perf_counter() - began, cpu_s(process) - cpu
        await asyncio.sleep(0.05)
        await pinger.stop()
        figures = {
            "seconds": round(elapsed_s, 2),
            "cpu_s": round(cpu, 2),
            "longest_stall_ms": round(pinger.longest_ms, 1),
            "snapshot_mb": round(made.pop().stat().st_size / 1e6, 1),
        }
    finally:
        each.stop()
    say(f"writing a snapshot: {figures}")
    return {"write_snapshot": figures}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default=DEFAULT_SIZES, help="partitions, comma separated")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="failover,restart,snapshot")
    arguments = parser.parse_args()
    sizes = sorted(int(size) for size in arguments.sizes.split(","))
    only = set(arguments.only.split(","))
    figures: dict[str, Any] = {"bench": "failover", "partitions": sizes}
    with tempfile.TemporaryDirectory(prefix="krucible-bench-", dir=".") as name:
        folder = Path(name).resolve()
        snapshots = {s: content.build_snapshot(folder / f"made-{s}", s) for s in sizes}
        say(f"built {', '.join(f'{p.stat().st_size / 1e6:.1f} MB' for p in snapshots.values())}")
        largest = snapshots[sizes[-1]]
        if "failover" in only:
            figures |= asyncio.run(failover(folder, snapshots, arguments.rounds))
        if "restart" in only:
            log = content.build_log(folder / "made-log", sizes[-1])
            sources = {"nothing": None, "snapshot": largest, "log": log}
            figures |= asyncio.run(restart(folder, sources))
        if "snapshot" in only:
            figures |= asyncio.run(write_snapshot(folder, largest))
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
