"""Commit latency and commits per second, next to what the disk allows.

    python bench/commit.py [--lingers 0,25] [--clients 1,16,64] [--rounds 3] [--seconds 4] [--dir D]

Three voters are real processes on loopback with fsync on, connected directly. Each client does one
write (IncrementalAlterConfigs) at a time over a connection of its own; only acknowledged writes
count. Before each cluster starts, the latency of an append and fdatasync in the same folder is
measured: a write takes one at the leader and one at a follower, at the same time, so one fsync is
the least that a commit can take, and one client can commit at most 1/fsync times a second. More
clients share an fsync (group commit), so their commits per second may be more than that. Rounds
take all settings by turns; figures are medians over the rounds. "linger" is
controller.quorum.append.linger.ms. Takes about 2.5 minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
from pathlib import Path
from typing import Any

from bench.support.disk import add_dir, fsync_us, workspace
from bench.support.figures import percentile, say, table
from bench.support.quorum import Quorum, format_node
from bench.support.writers import Measured, Writers

WARM_UP_S = 1.0
LINGER = "controller.quorum.append.linger.ms"
HEAD = (
    "linger, clients",
    "commits/s",
    "p50 ms",
    "p99 ms",
    "p50 / fsync",
    "(p50 - linger) / fsync",
    "commits per 1/fsync",
    "nodes' CPU us/write",
    "CPUs busy",
)


async def measure(quorum: Quorum, clients: list[int], seconds: float) -> dict[int, Measured]:
    """One cluster, all numbers of clients one after another."""
    found = {}
    for number in clients:
        async with Writers(quorum).running(number) as writers:
            found[number] = await writers.measure(WARM_UP_S, seconds)
    return found


def cluster(folder: Path, voters: int, settings: dict[str, str]) -> Quorum:
    """Formatted and started."""
    folder.mkdir()
    quorum = Quorum.of(folder, voters, settings)
    for node_id in quorum.ports:
        format_node(folder, node_id)
        quorum.start(node_id)
    return quorum


def figures(linger_ms: int, clients: int, rounds: list[Measured], fsync: float) -> dict[str, Any]:
    """The medians of one setting."""

    def median(values: list[float]) -> float:
        return statistics.median(values)

    p50 = median([percentile(each.latencies_ms, 50) for each in rounds])
    rate = median([each.writes_per_s for each in rounds])
    return {
        "linger_ms": linger_ms,
        "clients": clients,
        "commits_per_s": round(rate, 1),
        "p50_ms": round(p50, 2),
        "p99_ms": round(median([percentile(each.latencies_ms, 99) for each in rounds]), 2),
        "p50_per_fsync": round(p50 * 1e3 / fsync, 2),
        "p50_without_linger_per_fsync": round((p50 - linger_ms) * 1e3 / fsync, 2),
        "commits_per_fsync_time": round(rate * fsync / 1e6, 2),
        "nodes_cpu_us_per_write": round(median([each.cpu_us_per_write for each in rounds])),
        "cpus_busy": round(
            median([(each.nodes_cpu_s + each.clients_cpu_s) / each.seconds for each in rounds]), 2
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--voters", type=int, default=3)
    parser.add_argument("--lingers", default="0,25", help="ms, comma separated")
    parser.add_argument("--clients", default="1,16,64", help="comma separated")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each figure in each round")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    add_dir(parser)
    arguments = parser.parse_args()
    lingers = [int(text) for text in arguments.lingers.split(",")]
    clients = [int(text) for text in arguments.clients.split(",")]
    extra = dict(pair.split("=", 1) for pair in arguments.set)
    fsyncs: list[tuple[float, float]] = []
    found: dict[tuple[int, int], list[Measured]] = {(ms, n): [] for ms in lingers for n in clients}
    with workspace(arguments.dir) as folder:
        for turn in range(arguments.rounds):
            for linger_ms in lingers if turn % 2 == 0 else lingers[::-1]:
                fsyncs.append(fsync_us(folder))
                quorum = cluster(
                    folder / f"{turn}-{linger_ms}",
                    arguments.voters,
                    {**extra, LINGER: str(linger_ms)},
                )
                try:
                    measured = asyncio.run(measure(quorum, clients, arguments.seconds))
                finally:
                    quorum.stop()
                for number, each in measured.items():
                    found[linger_ms, number].append(each)
                    say(f"linger {linger_ms} ms, {number} clients: {each.writes_per_s:.0f}/s")
    fsync = statistics.median(p50 for p50, _ in fsyncs)
    rows = [figures(ms, n, rounds, fsync) for (ms, n), rounds in found.items()]
    print(
        f"append + fdatasync: p50 {fsync:.0f} us, p99 "
        f"{statistics.median(p99 for _, p99 in fsyncs):.0f} us "
        f"(p50 from {min(fsyncs)[0]:.0f} to {max(fsyncs)[0]:.0f} over the run)\n"
    )
    print(
        table(
            HEAD,
            [(f"{row['linger_ms']} ms, {row['clients']}", *list(row.values())[2:]) for row in rows],
        )
    )
    print(json.dumps({"bench": "commit", "fsync_us": round(fsync), "figures": rows}))


if __name__ == "__main__":
    main()
