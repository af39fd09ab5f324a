"""What the event trace costs: committed writes with it and without, by turns, on the same host.

    python bench/trace.py [--voters 3] [--clients 64] [--seconds 4] [--rounds 5] [--profile FOLDER]

Nodes are real processes on loopback with fsync on. Each round measures both arms on new clusters,
in an order that changes from round to round, and gives two ratios, traced to untraced: of the CPU
time that all nodes use per write, which hardly depends on who else uses the host, and of writes per
second, which do. What counts is the median over the rounds, with its spread. ``--profile`` runs the
nodes under cProfile and leaves one file per node in FOLDER.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
from bench_quorum import Quorum, cpu_s, format_node

from harness.protocols import Outcome
from harness.systems.kafka_client import KafkaClient

WARM_UP_S = 1.5
START_TIMEOUT_S = 30.0
TRACED, UNTRACED = "traced", "untraced"
ARMS = (TRACED, UNTRACED)
SETTINGS = {"controller.quorum.append.linger.ms": "0"}


async def load(quorum: Quorum, clients: int, seconds: float) -> dict[str, float]:
    """Write through ``clients`` connections; give writes per second and CPU per write."""
    written = 0
    stop = asyncio.Event()

    async def client(number: int) -> None:
        nonlocal written
        client = await KafkaClient(quorum.cluster).open("n1")
        deadline_s = time.monotonic() + START_TIMEOUT_S
        value = 0
        while not stop.is_set():
            value += 1
            try:
                await client.write(f"b{number}", value)
            except Outcome:
                if time.monotonic() > deadline_s:
                    raise
                continue
            written += 1
        await client.close()

    nodes = quorum.processes.values()
    tasks = [asyncio.create_task(client(n)) for n in range(clients)]
    while written < clients:  # noqa: ASYNC110 - a count, not an event
        await asyncio.sleep(0.05)
    await asyncio.sleep(WARM_UP_S)
    before, cpu_before, began = written, sum(map(cpu_s, nodes)), time.perf_counter()
    await asyncio.sleep(seconds)
    elapsed_s = time.perf_counter() - began
    count, cpu = written - before, sum(map(cpu_s, nodes)) - cpu_before
    stop.set()
    await asyncio.gather(*tasks)
    return {
        "writes": written,
        "writes_per_s": count / elapsed_s,
        "cpu_us_per_write": cpu / count * 1e6,
    }


def events_per_write(folder: Path, writes: float) -> dict[str, float]:
    """How many lines of each type all nodes have traced, per write."""
    types: Counter[str] = Counter()
    for path in folder.glob("*.jsonl"):
        with path.open("rb") as lines:
            types.update(msgspec.json.decode(line)["t"] for line in lines)
    return {type_: round(n / writes, 3) for type_, n in types.most_common() if n > writes / 100}


def measure(arguments: argparse.Namespace, arm: str) -> dict[str, Any]:
    """One arm of a round, on a new cluster."""
    settings = dict(SETTINGS)
    with tempfile.TemporaryDirectory(prefix=f"krucible-bench-{arm}-", dir=".") as name:
        folder = Path(name).resolve()
        if arm == TRACED:
            settings["krucible.trace.file"] = str(folder / "n{node}.jsonl")
        quorum = Quorum.of(folder, arguments.voters, settings, arguments.profile)
        try:
            for node_id in quorum.ports:
                format_node(folder, node_id)
                quorum.start(node_id)
            figures: dict[str, Any] = asyncio.run(
                load(quorum, arguments.clients, arguments.seconds)
            )
        finally:
            quorum.stop()
        figures["events_per_write"] = events_per_write(folder, figures["writes"])
        return figures


def ratios(rounds: list[dict[str, dict[str, Any]]], key: str) -> dict[str, Any]:
    """Of one figure, traced to untraced: the median over the rounds, and the extremes."""
    found = [each[TRACED][key] / each[UNTRACED][key] for each in rounds]
    return {
        "median": round(statistics.median(found), 3),
        "min": round(min(found), 3),
        "max": round(max(found), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--voters", type=int, default=3)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--profile", type=lambda text: Path(text).resolve())
    arguments = parser.parse_args()
    if arguments.profile is not None:
        arguments.profile.mkdir(parents=True, exist_ok=True)
    rounds = []
    for turn in range(arguments.rounds):
        order = ARMS if turn % 2 == 0 else ARMS[::-1]
        rounds.append({arm: measure(arguments, arm) for arm in order})
    figures: dict[str, Any] = {
        arm: {
            key: round(statistics.median(each[arm][key] for each in rounds), 1)
            for key in ("writes_per_s", "cpu_us_per_write")
        }
        for arm in ARMS
    }
    figures["events_per_write"] = rounds[-1][TRACED]["events_per_write"]
    figures["cpu_per_write_ratio"] = ratios(rounds, "cpu_us_per_write")
    figures["writes_per_s_ratio"] = ratios(rounds, "writes_per_s")
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
