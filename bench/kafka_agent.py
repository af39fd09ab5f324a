"""The cost of the agent in Apache Kafka's controllers: commits per second with it and without.

    python bench/kafka_agent.py [--version V] [--clients 1,16] [--rounds 40] [--seconds 1] [--dir D]

Two clusters of three controllers run side by side, one with the agent: JVMs on loopback as for
production (full compiler, G1) with fsync on, and ``controller.quorum.append.linger.ms=0``, so that
no commit waits for others. Each client sets a default of all brokers again and again, over a
connection of its own, and waits for the answer. Once both are warm they are loaded by turns, for a
second each; who is not is idle. "cost" is what the agent takes of the commits per second, with the
90 % interval that resampling the turns gives it. Takes about 4 minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from pathlib import Path
from statistics import fmean
from typing import Any

from bench.support.clients import connect, first_commit, set_config
from bench.support.disk import add_dir, workspace
from bench.support.figures import paired_ratio, percentile, say, table
from bench.support.quorum import Quorum, cpu_s, format_node, log_dir
from harness.systems.kafka.agent import AgentOptions, agent_jar
from harness.systems.kafka.distribution import KafkaDist, fetch
from harness.systems.kafka.releases import DEFAULT
from node.log.layout import partition_dir

REQUEST_TIMEOUT_S = 30.0
SETTINGS = {"controller.quorum.append.linger.ms": "0"}
Found = dict[tuple[bool, int], list[dict[str, float]]]
HEAD = ("clients", "commits/s without", "with", "cost", "p50 ms", "with", "CPU us/commit", "with")


def cluster(folder: Path, dist: KafkaDist, agent: Path | None) -> Quorum:
    """Three controllers, formatted and started."""
    folder.mkdir()
    quorum = Quorum.of(folder, 3, SETTINGS)
    quorum.kafka = dist
    for node_id in quorum.ports:
        format_node(folder, node_id)
        if agent is not None:
            (place := folder / f"agent{node_id}").mkdir()
            log = partition_dir(log_dir(folder, node_id))
            options = AgentOptions(folder / f"n{node_id}.jsonl", log, "controller", {})
            quorum.agents[node_id] = options.option(agent, place)
        quorum.start(node_id)
    return quorum


async def load(quorum: Quorum, leader: int, clients: int, seconds: float) -> dict[str, float]:
    """Have so many clients write for some seconds."""
    latencies_ms: list[float] = []
    nodes = list(quorum.processes.values())
    cpu, began_s = sum(map(cpu_s, nodes)), time.perf_counter()

    async def write(number: int) -> None:
        connection = await connect(quorum.ports[leader])
        value = 0
        try:
            while (asked_s := time.perf_counter()) < began_s + seconds:
                value += 1
                request = set_config("log.retention.ms", str(1_000_000 * (number + 1) + value))
                await connection.request(request, REQUEST_TIMEOUT_S)
                latencies_ms.append((time.perf_counter() - asked_s) * 1e3)
        finally:
            connection.close()

    async with asyncio.TaskGroup() as tasks:
        for number in range(clients):
            tasks.create_task(write(number))
    return {
        "commits_per_s": len(latencies_ms) / (time.perf_counter() - began_s),
        "p50_ms": percentile(latencies_ms, 50),
        "cpu_us": (sum(map(cpu_s, nodes)) - cpu) / len(latencies_ms) * 1e6,
    }


async def compare(quorums: dict[bool, Quorum], clients: list[int], options: Any) -> Found:
    """Load both clusters by turns, many times, once they are warm."""
    leaders = {has: await first_commit(each, each.ports, 0) for has, each in quorums.items()}
    for has, quorum in quorums.items():
        await load(quorum, leaders[has], max(clients), options.warm_up)
    found: Found = {(has, number): [] for has in quorums for number in clients}
    for turn in range(options.rounds):
        for number in clients:
            for has in (False, True) if turn % 2 == 0 else (True, False):
                each = await load(quorums[has], leaders[has], number, options.seconds)
                found[has, number].append(each)
                agent = "with" if has else "without"
                say(f"{agent} agent, {number} clients: {each['commits_per_s']:.0f}/s")
    return found


def figures(clients: int, without: list[dict[str, float]], with_: list[dict[str, float]]) -> Any:
    """Sum up the rounds of one number of clients."""
    rates = [[each["commits_per_s"] for each in rounds] for rounds in (with_, without)]
    kept, low, high = paired_ratio(*rates)
    means = {
        name: [round(fmean(each[name] for each in rounds), 1) for rounds in (without, with_)]
        for name in ("commits_per_s", "p50_ms", "cpu_us")
    }
    cost = [round((1 - each) * 100, 1) for each in (kept, high, low)]
    return {"clients": clients, "cost_percent": cost, **means}


def row(found: dict[str, Any]) -> tuple[object, ...]:
    """Show one number of clients."""
    cost, low, high = found["cost_percent"]
    return (
        found["clients"],
        *found["commits_per_s"],
        f"{cost} % ({low} to {high})",
        *found["p50_ms"],
        *found["cpu_us"],
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", default=DEFAULT, help="of Kafka (default: %(default)s)")
    parser.add_argument("--clients", default="1,16", help="comma separated")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each turn")
    parser.add_argument("--warm-up", type=float, default=20.0, help="s, of each cluster")
    add_dir(parser)
    arguments = parser.parse_args()
    clients = [int(text) for text in arguments.clients.split(",")]
    dist = fetch(arguments.version)
    jar = agent_jar(dist)
    with workspace(arguments.dir) as folder:
        quorums = {
            has: cluster(folder / f"agent-{has}", dist, jar if has else None)
            for has in (False, True)
        }
        try:
            found = asyncio.run(compare(quorums, clients, arguments))
        finally:
            for quorum in quorums.values():
                quorum.stop()
    all_ = [figures(number, found[False, number], found[True, number]) for number in clients]
    print(table(HEAD, [row(each) for each in all_]))
    print(json.dumps({"bench": "kafka_agent", "kafka": arguments.version, "figures": all_}))


if __name__ == "__main__":
    main()
