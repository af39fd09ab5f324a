"""Measure what the size of the metadata costs: failover, memory, restart, stalls.

    python bench/failover.py [--partitions 1000,1000000] [--rounds 20] [--dir D]
                             [--only failover,restart,stalls]

failover  The leader of three voters is killed with SIGKILL; the time until a client has the answer
          to a write (IncrementalAlterConfigs) that its successor has committed, at the default
          timers. A cluster of each size is up all the while and they take turns. The survivors'
          fetch timeouts expire together, and where both stand for election at once they split the
          votes and one more random timeout of 1 to 2 s passes: the times come in two heaps, so the
          ratio is that of the means, with its 90 % interval by resampling; more rounds make it
          narrower. The traces tell how the time is made up (``support/traces.py``).
memory    Resident memory of the nodes of those clusters; the difference makes it per partition.
restart   A quorum of one starts until it has committed a write: with nothing, with a snapshot of
          all partitions, and with the log that made them, which it replays from zero. In that log
          each partition was changed as often as --changed says.
stalls    Three voters of the largest size load a snapshot, write one, lose their leader, and one
          that has lost its disk fetches the leader's. How long a turn of an event loop takes at
          most: nobody is answered meanwhile. CPU time is what counts; wall time has the disk in it,
          and whoever else uses the host. No turn should come near the timeout of an election.

The nodes begin with a snapshot that is written straight into their directories
(``support/partitions.py``). A round takes about 20 s with a million partitions, all of it about 9
minutes. Progress is on stderr, the tables and a line of JSON on stdout.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import statistics
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from bench.support import partitions as content
from bench.support.clients import all_caught_up, first_commit
from bench.support.disk import add_dir, workspace
from bench.support.figures import ratio, say, table
from bench.support.quorum import Quorum, cpu_s, format_node, log_dir, rss_bytes
from bench.support.traces import Phases, Tail, longest_turn
from node.log.layout import partition_dir

VOTERS = 3
DEFAULT_SIZES = "1000,1000000"
SECTIONS = "failover,restart,stalls"
BETWEEN_SNAPSHOTS = "metadata.log.max.record.bytes.between.snapshots"
NO_SNAPSHOTS = {BETWEEN_SNAPSHOTS: str(1 << 40)}
SNAPSHOT_SOON = {BETWEEN_SNAPSHOTS: "8192"}
TRACE = {"krucible.trace.file": "{folder}/n{{node}}.jsonl"}
TURNS = {"krucible.turn.limit.ms": "20"}
PHASES = {
    "total": "kill to first write answered",
    "steady": "  without the election",
    "detection": "kill to standing for election",
    "election": "  to elected",
    "commit": "    to first commit",
    "write": "    to first write answered",
    "epochs": "epochs it took",
}


def quorum(folder: Path, voters: int, source: Path | None, settings: dict[str, str]) -> Quorum:
    """A quorum whose nodes begin with ``source``."""
    folder.mkdir()
    settings = {key: value.format(folder=folder) for key, value in settings.items()}
    made = Quorum.of(folder, voters, settings)
    for node_id in made.ports:
        format_node(folder, node_id)
        if source is not None:
            content.place(source, log_dir(folder, node_id))
    return made


def tails(each: Quorum) -> dict[int, Tail]:
    """The traces of all nodes."""
    return {node_id: Tail(each.folder / f"n{node_id}.jsonl") for node_id in each.ports}


# --------------------------------------------------------------------------- failover, memory


async def fail_over(each: Quorum, leader: int, traces: dict[int, Tail], value: int) -> Phases:
    """Kill the leader, and restart it when another one has committed a write."""
    for tail in traces.values():
        tail.take()
    killed_ns = time.monotonic_ns()
    each.kill(leader)
    successor = await first_commit(each, each.processes, value)
    answered_ns = time.monotonic_ns()
    events = [event for node_id in each.processes for event in traces[node_id].take()]
    each.start(leader)
    await all_caught_up(each, successor)
    return Phases.of(events, successor, killed_ns, answered_ns)


async def failover(folder: Path, snapshots: dict[int, Path], rounds: int) -> dict[str, Any]:
    """Kill the leader of each size in turn, ``rounds`` times."""
    quorums = {
        size: quorum(folder / f"failover-{size}", VOTERS, path, NO_SNAPSHOTS | TRACE)
        for size, path in snapshots.items()
    }
    found: dict[int, list[Phases]] = {size: [] for size in snapshots}
    memory: dict[int, float] = {}
    try:
        for size, each in quorums.items():
            for node_id in each.ports:
                each.start(node_id)
            leader = await first_commit(each, each.ports, 1000)
            await all_caught_up(each, leader)
            memory[size] = statistics.median(map(rss_bytes, each.processes.values()))
            say(f"{size} partitions: up, {memory[size] / 1e6:.0f} MB a node")
        traces = {size: tails(each) for size, each in quorums.items()}
        for turn in range(rounds):
            for size in snapshots if turn % 2 == 0 else reversed(snapshots):
                each = quorums[size]
                leader = await first_commit(each, each.ports, 1000 + turn)
                phases = await fail_over(each, leader, traces[size], 2000 + turn)
                found[size].append(phases)
                say(f"{size} partitions, round {turn + 1}: {phases}")
    finally:
        for each in quorums.values():
            each.stop()
    return {"failover": told(found), "memory": memory_told(memory)}


def told(found: dict[int, list[Phases]]) -> dict[str, Any]:
    """Print the table; returns it for machines."""
    small, large = min(found), max(found)
    head = ["seconds: mean, median (min..max)", *(f"{size:,} partitions" for size in found)]
    figures: dict[str, Any] = {str(size): {} for size in found}
    if large > small:
        head.append("ratio of means (90 % interval)")
        figures["ratios"] = {}
    rows = []
    for phase, name in PHASES.items():
        row = [name]
        values = {size: [float(getattr(each, phase)) for each in found[size]] for size in found}
        for size, each in values.items():
            row.append(
                f"{statistics.mean(each):.3f}, {statistics.median(each):.3f} "
                f"({min(each):.3f}..{max(each):.3f})"
            )
            figures[str(size)][phase] = [round(value, 4) for value in each]
        if large > small:
            of, low, high = ratio(values[large], values[small])
            row.append(f"{of:.2f} ({low:.2f}..{high:.2f})")
            figures["ratios"][phase] = [round(x, 3) for x in (of, low, high)]
        rows.append(row)
    print(table(head, rows), end="\n\n", flush=True)
    return figures


def memory_told(memory: dict[int, float]) -> dict[str, Any]:
    """Print resident memory by size; returns it for machines."""
    small, large = min(memory), max(memory)
    figures = {f"mb_{size}": round(each / 1e6, 1) for size, each in memory.items()}
    rows = [(f"{size:,} partitions", f"{each / 1e6:.1f} MB") for size, each in memory.items()]
    if large > small:
        figures["bytes_per_partition"] = round((memory[large] - memory[small]) / (large - small))
        rows.append(("each partition more", f"{figures['bytes_per_partition']} bytes"))
    print(table(("resident memory", "a node"), rows), end="\n\n", flush=True)
    return figures


# --------------------------------------------------------------------------- restart


async def restart(folder: Path, sources: dict[str, Path | None]) -> dict[str, Any]:
    """Start a quorum of one from each source until it has committed a write."""
    figures: dict[str, dict[str, float]] = {}
    for name, source in sources.items():
        each = quorum(folder / f"restart-{len(figures)}", 1, source, NO_SNAPSHOTS)
        try:
            began = time.perf_counter()
            process = each.start(1)
            await first_commit(each, [1], 1000)
            figures[name] = {
                "seconds": round(time.perf_counter() - began, 2),
                "cpu_s": round(cpu_s(process), 2),
                "file_mb": round(source.stat().st_size / 1e6, 1) if source else 0,
                "rss_mb": round(rss_bytes(process) / 1e6),
            }
        finally:
            each.stop()
        say(f"restart from {name}: {figures[name]}")
    rows = [(name, *each.values()) for name, each in figures.items()]
    head = ("restart from", "seconds", "CPU seconds", "file MB", "resident MB")
    print(table(head, rows), end="\n\n", flush=True)
    return {"restart": figures}


# --------------------------------------------------------------------------- stalls


class Stalls:
    """The longest turns of the loops of a quorum, by phase."""

    def __init__(self, each: Quorum) -> None:
        self.figures: dict[str, dict[str, float]] = {}
        self._traces = tails(each)
        self._began = time.perf_counter()

    def end(self, phase: str) -> None:
        """Count what the nodes told since the last call as ``phase``."""
        events = [event for tail in self._traces.values() for event in tail.take()]
        cpu_ms, wall_ms = longest_turn(events)
        self.figures[phase] = {
            "longest_cpu_ms": cpu_ms,
            "longest_wall_ms": wall_ms,
            "elections": sum(event["t"] == "elected" for event in events),
            "seconds": round(time.perf_counter() - self._began, 1),
        }
        say(f"{phase}: {self.figures[phase]}")
        self._began = time.perf_counter()


async def write_until(each: Quorum, leader: int, done: Callable[[], bool]) -> None:
    """One write after another."""
    value = 5000
    while not done():
        await first_commit(each, [leader], value := value + 1)


async def stalls(folder: Path, source: Path) -> dict[str, Any]:
    """Measure all that a node does with very many partitions, and what its loop says."""
    each = quorum(folder / "stalls", VOTERS, source, SNAPSHOT_SOON | TRACE | TURNS)
    name = source.name

    def written(nodes: Iterable[int]) -> bool:
        folders = [partition_dir(log_dir(each.folder, node_id)) for node_id in nodes]
        return all(any(p.name > name for p in at.glob("*.checkpoint")) for at in folders)

    watched = Stalls(each)
    try:
        for node_id in each.ports:
            each.start(node_id)
        leader = await first_commit(each, each.ports, 1000)
        await all_caught_up(each, leader)
        watched.end("load a snapshot")
        await write_until(each, leader, lambda: written(each.ports))
        await all_caught_up(each, leader)
        watched.end("write a snapshot")
        each.kill(leader)
        lost, leader = leader, await first_commit(each, each.processes, 2000)
        watched.end("become leader")
        shutil.rmtree(log_dir(each.folder, lost))
        format_node(each.folder, lost)
        each.start(lost)
        await all_caught_up(each, leader)
        if not written([lost]):
            raise SystemExit("the node without a disk has caught up without a snapshot")
        watched.end("fetch and serve one")
    finally:
        each.stop()
    rows = [(phase, *found.values()) for phase, found in watched.figures.items()]
    head = ("longest turn of a loop", "CPU ms", "wall ms", "elections", "seconds")
    print(table(head, rows), end="\n\n", flush=True)
    return {"stalls": watched.figures}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--partitions", default=DEFAULT_SIZES, help="comma separated")
    parser.add_argument("--rounds", type=int, default=20, help="of failover, for each size")
    parser.add_argument("--changed", type=int, default=1, help="changes of each partition in a log")
    parser.add_argument("--only", default=SECTIONS, help="some of %(default)s")
    add_dir(parser)
    arguments = parser.parse_args()
    sizes = sorted({int(size) for size in arguments.partitions.split(",")})
    only = set(arguments.only.split(","))
    if unknown := only - set(SECTIONS.split(",")):
        parser.error(f"--only: {', '.join(sorted(unknown))}: want some of {SECTIONS}")
    figures: dict[str, Any] = {"bench": "failover", "partitions": sizes}
    with workspace(arguments.dir) as folder:
        snapshots = {s: content.build_snapshot(folder / f"made-{s}", s) for s in sizes}
        largest = snapshots[sizes[-1]]
        say(f"built snapshots, the largest of {largest.stat().st_size / 1e6:.1f} MB")
        if "failover" in only:
            figures |= asyncio.run(failover(folder, snapshots, arguments.rounds))
        if "restart" in only:
            log = content.build_log(folder / "made-log", sizes[-1], changed=arguments.changed)
            sources = {"nothing": None, "a snapshot": largest, "the log": log}
            figures |= asyncio.run(restart(folder, sources))
        if "stalls" in only:
            figures |= asyncio.run(stalls(folder, largest))
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
