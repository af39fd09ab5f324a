"""Measure how long five nodes take to come up in containers, and to be gone again.

    python bench/docker_start.py [--nodes 5] [--times 3]

Prints a JSON line for each time: seconds until the network and its holders are there, until every
node follows a leader that has committed, and for the teardown. The image is built before.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from harness.envs.docker.engine import Engine
from harness.envs.docker.image import ensure
from harness.envs.docker.plugin import Docker
from harness.healing.journal import Journal
from harness.spec import RunSpec
from harness.store.folder import Store
from harness.systems.kraft.plugin import Kraft


async def once(folder: Path, nodes: int) -> dict[str, float]:
    spec = RunSpec(seed=1, env="docker", voters=3, observers=nodes - 3)
    run_dir = Store(folder).new_run(spec)
    journal = Journal.open(run_dir.path.name)
    environment = Docker(run_dir.path, journal)
    system = Kraft(spec, environment, run_dir)
    times = [time.monotonic()]
    try:
        await environment.setup(system.nodes)
        times.append(time.monotonic())
        await system.setup()
        times.append(time.monotonic())
        await system.teardown()
        times.append(time.monotonic())
    finally:
        await environment.teardown()
        journal.close()
    times.append(time.monotonic())
    steps = ("holders_s", "serving_s", "nodes_stopped_s", "all_gone_s")
    return {step: round(b - a, 2) for step, (a, b) in zip(steps, pairwise(times), strict=True)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--nodes", type=int, default=5, help="three voters, the rest observers")
    parser.add_argument("--times", type=int, default=3)
    arguments = parser.parse_args()
    nodes = arguments.nodes
    with contextlib.closing(Engine.connect()) as engine:
        ensure(engine)
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(arguments.times):
            load = round(os.getloadavg()[0], 1)
            took_s = asyncio.run(once(Path(folder), nodes))
            print(json.dumps({"nodes": nodes, **took_s, "load": load}))


if __name__ == "__main__":
    main()
