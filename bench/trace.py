"""What the event trace costs: committed writes with it and without, by turns, on the same host.

    python bench/trace.py [--voters 3] [--clients 64] [--seconds 5] [--rounds 3] [--profile FOLDER]

Nodes are real processes on loopback with fsync on. Next to writes per second, which also depend on
the disk and on whoever else uses the host, stands the CPU time of all nodes per write, which hardly
does. ``--profile`` runs the nodes under cProfile and leaves one file per node and kind in FOLDER.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from harness.protocols import Address, Outcome
from harness.systems.kafka_client import KafkaClient
from harness.systems.kafka_route import Cluster
from node.log.disk import FileDisk
from node.log.meta_properties import format_directory, random_id

HOST = "127.77.210.1"
WARM_UP_S = 1.5
START_TIMEOUT_S = 30.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def start(
    folder: Path, node_id: int, ports: dict[int, int], trace: bool, profile: Path | None
) -> subprocess.Popen[bytes]:
    """Format and start one voter."""
    settings = {
        "node.id": str(node_id),
        "process.roles": "controller",
        "controller.quorum.voters": ",".join(f"{i}@{HOST}:{p}" for i, p in ports.items()),
        "listeners": f"CONTROLLER://{HOST}:{ports[node_id]}",
        "log.dirs": str(folder / f"n{node_id}"),
        "controller.quorum.append.linger.ms": "0",
        "krucible.brokers": ",".join(map(str, ports)),
    }
    if trace:
        settings["krucible.trace.file"] = str(folder / f"n{node_id}.jsonl")
    format_directory(
        FileDisk(),
        folder / f"n{node_id}",
        cluster_id="bench",
        node_id=node_id,
        directory_id=random_id(Random(node_id)),
    )
    config = folder / f"n{node_id}.properties"
    config.write_text("".join(f"{k}={v}\n" for k, v in settings.items()))
    profiler = (
        [] if profile is None else ["-m", "cProfile", "-o", str(profile / f"n{node_id}-{trace}")]
    )
    with (folder / f"n{node_id}.log").open("wb") as output:
        return subprocess.Popen(
            [sys.executable, *profiler, "-m", "node", "run", "--config", str(config)],
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def cpu_s(process: subprocess.Popen[bytes]) -> float:
    """CPU time that a process has used."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


async def load(
    cluster: Cluster, nodes: list[subprocess.Popen[bytes]], clients: int, seconds: float
) -> dict[str, float]:
    """Write through ``clients`` connections; give writes per second and CPU per write."""
    written = 0
    stop = asyncio.Event()

    async def client(number: int) -> None:
        nonlocal written
        client = await KafkaClient(cluster).open("n1")
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

    tasks = [asyncio.create_task(client(n)) for n in range(clients)]
    while written < clients:  # noqa: ASYNC110 - a count, not an event
        await asyncio.sleep(0.05)
    await asyncio.sleep(WARM_UP_S)
    before, cpu_before, began = written, sum(map(cpu_s, nodes)), time.perf_counter()
    await asyncio.sleep(seconds)
    count, cpu, elapsed_s = (
        written - before,
        sum(map(cpu_s, nodes)) - cpu_before,
        time.perf_counter(),
    )
    stop.set()
    await asyncio.gather(*tasks)
    return {"writes_per_s": count / (elapsed_s - began), "cpu_us_per_write": cpu / count * 1e6}


def measure(arguments: argparse.Namespace, trace: bool) -> dict[str, float]:
    """One round on a new cluster."""
    with tempfile.TemporaryDirectory(prefix="krucible-bench-", dir=".") as name:
        folder = Path(name).resolve()
        ports = {i: free_port() for i in range(1, arguments.voters + 1)}
        nodes = [start(folder, i, ports, trace, arguments.profile) for i in ports]
        cluster = Cluster(
            {f"n{i}": Address(HOST, p) for i, p in ports.items()}, {i: f"n{i}" for i in ports}, None
        )
        try:
            return asyncio.run(load(cluster, nodes, arguments.clients, arguments.seconds))
        finally:
            for node in nodes:
                node.send_signal(signal.SIGTERM)
            for node in nodes:
                node.wait(timeout=20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--voters", type=int, default=3)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--profile", type=lambda text: Path(text).resolve())
    arguments = parser.parse_args()
    if arguments.profile is not None:
        arguments.profile.mkdir(parents=True, exist_ok=True)
    rounds: dict[bool, list[dict[str, float]]] = {True: [], False: []}
    for _ in range(arguments.rounds):
        for trace in (True, False):
            rounds[trace].append(measure(arguments, trace))
    figures = {
        name: {
            key: statistics.median(r[key] for r in rounds[trace])
            for key in ("writes_per_s", "cpu_us_per_write")
        }
        for name, trace in (("traced", True), ("untraced", False))
    }
    traced, untraced = (figures[n]["cpu_us_per_write"] for n in ("traced", "untraced"))
    print(json.dumps(figures | {"trace_cpu_percent": (traced / untraced - 1) * 100}, indent=2))


if __name__ == "__main__":
    main()
