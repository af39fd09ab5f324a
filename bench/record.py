"""Measure how many ops a second the kernel records to disk against the ``atom`` system.

    python bench/record.py [--seconds 5] [--concurrency 10] [--dir DIR] [--profile]

Prints people's lines on stderr and one JSON object on stdout.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import platform
import pstats
import resource
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any, cast

from harness.contracts.clients import RegisterClient
from harness.contracts.environment import Environment
from harness.contracts.nemesis import Cluster
from harness.contracts.system import System
from harness.contracts.workload import Workload
from harness.generators.generator import Draft, fn, mix
from harness.history.ops import Op, read_jsonl
from harness.run.runner import RunPlan, run
from harness.spec import RunSpec
from harness.systems.atom import AtomSystem

KEYS = 100


class RegisterOps:
    """Reads and writes through a register client."""

    def __init__(self, registers: RegisterClient) -> None:
        self._registers = registers

    async def open(self, node: str) -> RegisterOps:
        """A client of the node."""
        return RegisterOps(await self._registers.open(node))

    async def invoke(self, op: Op) -> Op:
        """Read or write."""
        assert op.key is not None
        if op.f == "read":
            return op.with_(type="ok", value=await self._registers.read(op.key))
        await self._registers.write(op.key, op.value)
        return op.with_(type="ok")

    async def close(self) -> None:
        """Release the client."""
        await self._registers.close()


def workload() -> Workload:
    def write(rng: Random, n: int) -> Draft:
        return Draft("write", n, f"k{rng.randrange(KEYS)}")

    def read(rng: Random, _: int) -> Draft:
        return Draft("read", key=f"k{rng.randrange(KEYS)}")

    def client(system: System) -> RegisterOps:
        return RegisterOps(cast("AtomSystem", system).register_client())

    return Workload(client, mix(fn(write), fn(read)), None, ())


async def record(folder: Path, seconds: float, concurrency: int) -> dict[str, Any]:
    spec = RunSpec(
        seed=1,
        system="atom",
        time_limit_s=seconds,
        rate_hz=0,  # as fast as it goes
        concurrency=concurrency,
        settings={"atom.latency-ms": "0"},
    )
    system = AtomSystem(spec, None, None)
    plan = RunPlan(spec, workload(), Cluster(system, cast("Environment", None)))
    history = folder / "history.jsonl"
    began, cpu = time.perf_counter(), time.process_time()
    result = await run(plan, history)
    wall_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu
    if result.crash_trace:
        raise SystemExit(result.crash_trace)
    completed = sum(result.counts[t] for t in ("ok", "fail", "info") if t in result.counts)
    on_disk = len(read_jsonl(history))
    assert on_disk == result.ops, f"{on_disk} lines on disk, {result.ops} recorded"
    return {
        "bench": "record",
        "ops": completed,
        "history_lines": on_disk,
        "history_bytes": history.stat().st_size,
        "wall_s": round(wall_s, 3),
        "cpu_s": round(cpu_s, 3),
        "ops_per_s": round(completed / wall_s),
        "ops_per_cpu_s": round(completed / cpu_s),
        "concurrency": concurrency,
        "max_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "python": platform.python_version(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--concurrency", type=int, default=10)
    parser.add_argument("--dir", type=Path, help="where to write (default: a temporary folder)")
    parser.add_argument("--profile", action="store_true", help="print where the time goes")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        profile = cProfile.Profile()
        if args.profile:
            profile.enable()
        figures = asyncio.run(record(Path(folder), args.seconds, args.concurrency))
        profile.disable()
    if args.profile:
        pstats.Stats(profile, stream=sys.stderr).sort_stats("tottime").print_stats(25)
    print(
        f"{figures['ops_per_s']:,} ops/s recorded to disk ({figures['ops_per_cpu_s']:,} per CPU "
        f"second; {figures['ops']:,} ops by {figures['concurrency']} processes in "
        f"{figures['wall_s']} s, {figures['history_bytes'] / 1e6:.0f} MB, "
        f"at most {figures['max_rss_mb']} MB of memory)",
        file=sys.stderr,
    )
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
