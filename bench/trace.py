"""Measure the cost of the event trace: committed writes with and without it, by turns.

    python bench/trace.py [--rounds 10] [--seconds 4] [--clients 64] [--dir D] [--profile FOLDER]

Nodes are three real processes on loopback with fsync on and no linger. Each round measures both
arms on new clusters, in an order that changes from round to round, and compares the CPU time that
all nodes use per write, which hardly depends on who else uses the host, and the writes per second,
which do. The cost is the median over the rounds, with quartiles and extremes.

The same cost is worked out a second way, without any second cluster: how many events the nodes
wrote per write, times the CPU time of one event, times of the batches that were written at once,
measured in this process through the real ``TraceWriter`` with the very events of the run. The
untraced arm works out the events too, but writes nothing down; what it takes to make them is in
neither figure.
``--profile`` runs the nodes under cProfile and leaves one file per node in FOLDER. Takes about
2.5 minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from bench.support.disk import add_dir, workspace
from bench.support.figures import say, table
from bench.support.quorum import Quorum, format_node
from bench.support.writers import Measured, Writers
from node.trace import TraceWriter

WARM_UP_S = 1.5
TRACED, UNTRACED = "traced", "untraced"
ARMS = (TRACED, UNTRACED)
SETTINGS = {"controller.quorum.append.linger.ms": "0"}
COMMON = ("ts", "seq", "node", "dir", "inc", "ep", "t")
SAMPLE = 50_000  # events that are written again
FLUSH_EVERY_NS = 200_000  # events further apart than this were not written at once
LIMIT = 0.10


async def load(quorum: Quorum, clients: int, seconds: float) -> tuple[Measured, int]:
    """Write for some seconds; also how many writes there were with those before."""
    async with Writers(quorum).running(clients) as writers:
        measured = await writers.measure(WARM_UP_S, seconds)
    return measured, writers.written


def events_of(folder: Path) -> list[dict[str, Any]]:
    """All lines that the nodes have written."""
    return [
        msgspec.json.decode(line)
        for path in sorted(folder.glob("*.jsonl"))
        for line in path.read_bytes().splitlines()
    ]


def event_cpu_us(folder: Path, events: list[dict[str, Any]]) -> float:
    """CPU time of an event, when these are written again as they were, in us."""
    sample = [
        (event["ts"], event["t"], event["ep"], {k: event[k] for k in event if k not in COMMON})
        for event in events[:SAMPLE]
    ]
    writer = TraceWriter(
        folder / "again",
        node=1,
        directory_id="0" * 32,
        incarnation=time.time_ns(),
        clock_ns=time.monotonic_ns,
    )
    before_ns = 0
    began = time.thread_time()
    for at_ns, type_, epoch, fields in sample:
        if at_ns - before_ns > FLUSH_EVERY_NS:
            writer.flush()
        before_ns = at_ns
        writer.emit(type_, epoch, fields)
    writer.close()
    return (time.thread_time() - began) / len(sample) * 1e6


def measure(arguments: argparse.Namespace, folder: Path, arm: str) -> dict[str, Any]:
    """One arm of a round, on a new cluster."""
    folder.mkdir()
    settings = dict(SETTINGS)
    if arm == TRACED:
        settings["krucible.trace.file"] = str(folder / "n{node}.jsonl")
    quorum = Quorum.of(folder, arguments.voters, settings, arguments.profile)
    try:
        for node_id in quorum.ports:
            format_node(folder, node_id)
            quorum.start(node_id)
        measured, writes = asyncio.run(load(quorum, arguments.clients, arguments.seconds))
    finally:
        quorum.stop()
    figures: dict[str, Any] = {
        "writes_per_s": measured.writes_per_s,
        "cpu_us_per_write": measured.cpu_us_per_write,
    }
    if arm == TRACED:
        events = events_of(folder)
        types = Counter(event["t"] for event in events)
        figures["events"] = {t: round(n / writes, 3) for t, n in types.most_common()}
        figures["events_per_write"] = len(events) / writes
        figures["event_cpu_us"] = event_cpu_us(folder, events)
    return figures


def spread(values: list[float]) -> dict[str, float]:
    """Median, quartiles and extremes."""
    low, _, high = (
        statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    )
    named = {
        "median": statistics.median(values),
        "quarter": low,
        "three_quarters": high,
        "min": min(values),
        "max": max(values),
    }
    return {name: round(value, 4) for name, value in named.items()}


def told(rounds: list[dict[str, dict[str, Any]]]) -> dict[str, Any]:
    """Print the tables; returns them for machines."""

    def medians(key: str) -> dict[str, float]:
        return {arm: statistics.median(each[arm][key] for each in rounds) for arm in ARMS}

    traced = [each[TRACED] for each in rounds]
    figures: dict[str, Any] = {
        "cpu_us_per_write": medians("cpu_us_per_write"),
        "writes_per_s": medians("writes_per_s"),
        "cost": {
            "cpu_per_write": spread(
                [
                    each[TRACED]["cpu_us_per_write"] / each[UNTRACED]["cpu_us_per_write"] - 1
                    for each in rounds
                ]
            ),
            "cpu_per_write_by_events": spread(
                [
                    each[TRACED]["events_per_write"]
                    * each[TRACED]["event_cpu_us"]
                    / each[UNTRACED]["cpu_us_per_write"]
                    for each in rounds
                ]
            ),
            "writes_per_s": spread(
                [
                    1 - each[TRACED]["writes_per_s"] / each[UNTRACED]["writes_per_s"]
                    for each in rounds
                ]
            ),
        },
        "events_per_write": statistics.median(each["events_per_write"] for each in traced),
        "event_cpu_us": statistics.median(each["event_cpu_us"] for each in traced),
        "events": traced[-1]["events"],
    }
    rows = [(key, *(f"{figures[key][arm]:.1f}" for arm in ARMS)) for key in list(figures)[:2]]
    print(table(("medians", *ARMS), rows), end="\n\n")
    names = ("median", "quarter", "three_quarters", "min", "max")
    costs = [
        (key, *(f"{100 * cost[name]:+.1f} %" for name in names))
        for key, cost in figures["cost"].items()
    ]
    print(table(("cost of the trace", *names), costs), end="\n\n")
    print(
        f"{figures['events_per_write']:.2f} events a write, {figures['event_cpu_us']:.2f} us of "
        f"CPU time each; the cost is to be below {LIMIT:.0%}\n"
    )
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--voters", type=int, default=3)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--profile", type=lambda text: Path(text).resolve())
    add_dir(parser)
    arguments = parser.parse_args()
    if arguments.profile is not None:
        arguments.profile.mkdir(parents=True, exist_ok=True)
    rounds = []
    with workspace(arguments.dir) as folder:
        for turn in range(arguments.rounds):
            order = ARMS if turn % 2 == 0 else ARMS[::-1]
            found = {arm: measure(arguments, folder / f"{turn}-{arm}", arm) for arm in order}
            rounds.append(found)
            cpu = {arm: round(each["cpu_us_per_write"]) for arm, each in found.items()}
            say(f"round {turn + 1}: us of CPU per write: {cpu}")
    print(json.dumps({"bench": "trace", **told(rounds)}))


if __name__ == "__main__":
    main()
