"""Committed writes per second through real voters with fsync on, and what they cost.

    python bench/commit.py [--voters 3] [--clients 64] [--seconds 10] [--set key=value]

Nodes are real processes on loopback, connected directly (no relay). Each client does one write at
a time over its own connection; only acknowledged writes count. The fsync latency of the same
folder, measured in the same run, is the limit to compare with.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

from harness.envs.local import Local
from harness.journal import Journal
from harness.protocols import Address
from harness.registry import systems
from harness.spec import RunSpec
from harness.store import RunDir, Store

FSYNC_SAMPLES = 200
WARM_UP_S = 2.0


class Direct(Local):
    """Local processes without relays between them."""

    def address(self, node: str) -> Address:
        """The node itself."""
        return self.bind_address(node)

    def client_source(self) -> str | None:
        """Any."""
        return None


def fsync_us(folder: Path) -> float:
    """Median latency of an append and fdatasync, in microseconds."""
    samples = []
    with (folder / "fsync").open("wb", buffering=0) as file:
        for _ in range(FSYNC_SAMPLES):
            file.write(b"x" * 256)
            started = time.perf_counter()
            os.fdatasync(file.fileno())
            samples.append((time.perf_counter() - started) * 1e6)
    return statistics.median(samples)


async def measure(
    arguments: argparse.Namespace, run_dir: RunDir, spec: RunSpec
) -> dict[str, float]:
    journal = Journal.open(run_dir.path.name, folder=run_dir.path)
    environment = Direct(run_dir.path, journal)
    system = systems.get("kraft")(spec, environment, run_dir)
    latencies: list[float] = []
    counting = asyncio.Event()
    stop = asyncio.Event()

    async def client(number: int) -> None:
        client = await system.register_client().open(system.voters[0])
        value = 0
        while not stop.is_set():
            value += 1
            started = time.perf_counter()
            await client.write(f"b{number}", value)
            if counting.is_set() and not stop.is_set():
                latencies.append((time.perf_counter() - started) * 1e3)
        await client.close()

    await environment.setup(system.nodes)
    try:
        await system.setup()
        tasks = [asyncio.create_task(client(n)) for n in range(arguments.clients)]
        await asyncio.sleep(WARM_UP_S)
        counting.set()
        started = time.perf_counter()
        await asyncio.sleep(arguments.seconds)
        stop.set()
        elapsed_s = time.perf_counter() - started
        await asyncio.gather(*tasks)
    finally:
        await system.teardown()
        await environment.teardown()
        journal.close()
    latencies.sort()
    return {
        "writes_per_s": len(latencies) / elapsed_s,
        "latency_ms_p50": latencies[len(latencies) // 2],
        "latency_ms_p99": latencies[len(latencies) * 99 // 100],
        "fsync_us_p50": fsync_us(run_dir.path),
        "writes": len(latencies),
        "seconds": elapsed_s,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--voters", type=int, default=3)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    arguments = parser.parse_args()
    spec = RunSpec(
        seed=1,
        voters=arguments.voters,
        observers=0,
        settings=dict(pair.split("=", 1) for pair in arguments.set),
    )
    with tempfile.TemporaryDirectory(prefix="krucible-bench-", dir=".") as folder:
        run_dir = Store(Path(folder)).new_run(spec)
        print(json.dumps(asyncio.run(measure(arguments, run_dir, spec)), indent=2))


if __name__ == "__main__":
    main()
