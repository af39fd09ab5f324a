"""Whole nodes on the virtual loop: they elect, commit, die, come back; the same seed, the same."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import Any

import pytest
from kio.static.primitive import i8

from node.driver.process import EXIT_FATAL
from node.sim.host import EXIT_KILLED, EXIT_UNSTARTABLE
from node.sim.network import VirtualNetwork
from node.sim.process_state import PPM
from node.wire.api import ApiKey
from node.wire.payloads import api_schema
from node.wire.structs import build
from tests.support.simulated.cluster import DATA, SimCluster, endpoint

MS, S = 10**6, 10**9


def soup(seed: int) -> SimCluster:
    """Deaths, power cuts, partitions and pauses for 20 s."""
    cluster = SimCluster(seed, 3, 2, metadata_max_idle_interval_ms="100")

    async def main() -> None:
        cluster.start()
        leader = await cluster.until_led()
        cluster.hosts[leader].lose_power()
        other = await cluster.until_led(leader)
        cluster.start(leader)
        await asyncio.sleep(2)
        cluster.cut(other)
        third = await cluster.until_led(other)
        cluster.heal()
        process = cluster.hosts[third].process
        assert process is not None
        process.stop()
        await cluster.until_led(third)
        process.resume()
        cluster.hosts[4].kill()
        cluster.start(4)
        await asyncio.sleep(5)

    cluster.run(main)
    return cluster


def test_the_same_seed_gives_the_same_bytes() -> None:
    one, two, other = soup(1), soup(1), soup(2)
    assert one.lines == two.lines
    assert one.loop.calls == two.loop.calls
    assert one.lines != other.lines


def test_what_is_committed_survives_and_there_is_one_leader_per_epoch() -> None:
    cluster = soup(3)
    elected = [(e["ep"], e["node"]) for e in cluster.kinds("elected")]
    assert len({epoch for epoch, _ in elected}) == len(elected) >= 4
    applied: dict[int, str] = {}
    for event in cluster.kinds("apply"):
        assert applied.setdefault(event["off"], event["st"]) == event["st"]
    last = {n: cluster.kinds("apply", node=n)[-1] for n in cluster.hosts}
    assert len({e["st"] for e in last.values()}) <= 2, "all have applied the same, give or take one"
    assert min(e["off"] for e in last.values()) > 80


def test_a_node_that_is_told_to_stop_leaves_in_good_order() -> None:
    cluster = SimCluster(1)

    async def main() -> None:
        cluster.start()
        leader = await cluster.until_led()
        before_ns = cluster.loop.now_ns
        cluster.hosts[leader].stop()
        await cluster.until_led(leader)
        assert cluster.loop.now_ns - before_ns < 500 * MS, "it has told who is to follow"
        await cluster.until(lambda: cluster.hosts[leader].exit_code == 0, "it has ended")
        assert cluster.kinds("stop", node=leader)

    cluster.run(main)


def test_a_killed_process_leaves_what_it_wrote_and_a_power_failure_only_what_was_fsynced() -> None:
    cluster = SimCluster(1, 1, krucible_fsync="false")

    async def main() -> tuple[int, int]:
        host = cluster.hosts[1]
        cluster.start()
        await cluster.until_led()
        await asyncio.sleep(2)
        host.kill()
        assert host.exit_code == EXIT_KILLED
        cluster.start()
        await cluster.until(lambda: len(cluster.kinds("start")) == 2, "it is back")
        kept: int = cluster.kinds("start")[1]["leo"]
        host.lose_power(torn=False)
        cluster.start()
        await asyncio.sleep(1)
        return kept, host.exit_code or 0

    assert cluster.run(main)[0] > 3


def test_a_disk_that_fails_stops_the_node() -> None:
    cluster = SimCluster(1)

    async def main() -> None:
        cluster.start()
        leader = await cluster.until_led()

        def full(operation: str, path: Path) -> None:
            if operation == "append":
                raise OSError(errno.ENOSPC, "no space left on device", str(path))

        cluster.hosts[leader].disk.fault = full
        await cluster.until(
            lambda: cluster.hosts[leader].exit_code == EXIT_FATAL, "the node has stopped"
        )
        assert cluster.hosts[leader].process is None
        await cluster.until_led(leader)

    cluster.run(main)


def test_a_node_without_identity_does_not_start() -> None:
    cluster = SimCluster(1, 1)

    async def main() -> int | None:
        host = cluster.hosts[1]
        host.disk.unlink(DATA / "meta.properties")
        cluster.start()
        await asyncio.sleep(1)
        with_code = host.exit_code
        assert host.process is None
        return with_code

    assert cluster.run(main) == EXIT_UNSTARTABLE


def test_one_process_at_a_time() -> None:
    cluster = SimCluster(1, 1)

    async def main() -> None:
        cluster.start()
        with pytest.raises(ValueError, match="runs already"):
            cluster.start()
        cluster.hosts[1].stop()
        await cluster.until(lambda: cluster.hosts[1].exit_code is not None, "it has ended")
        cluster.hosts[1].stop()
        cluster.hosts[1].kill()
        assert cluster.hosts[1].exit_code == 0

    cluster.run(main)


def test_a_slow_fsync_holds_the_node_up() -> None:
    cluster = SimCluster(1, 1)

    async def main() -> None:
        cluster.hosts[1].trouble.fsync_ns = 50 * MS
        cluster.start()
        await cluster.until_led()
        assert cluster.loop.now_ns >= 100 * MS

    cluster.run(main)


def test_a_client_outside_is_answered_by_the_nodes_own_handlers() -> None:
    cluster = SimCluster(1, 3, 1)

    async def main() -> int:
        cluster.start()
        leader = await cluster.until_led()
        client = VirtualNetwork(cluster.fabric, "10.0.0.99")
        connection = await client.connect(endpoint(leader))
        schema = api_schema(ApiKey.DESCRIBE_CLUSTER, 1)
        question = build(
            schema.request, include_cluster_authorized_operations=False, endpoint_type=i8(2)
        )
        answer: Any = await connection.request(question, 1.0)
        assert answer.controller_id == leader
        return len(answer.brokers)

    assert cluster.run(main) == 3


def test_a_follower_with_a_fast_clock_is_impatient_and_deposes_nobody() -> None:
    """Its fetch times out before a long poll ends; pre-votes keep the leader (KIP-996)."""
    cluster = SimCluster(1)

    async def main() -> None:
        cluster.start()
        leader = await cluster.until_led()
        await asyncio.sleep(1)
        epoch = cluster.kinds("claim")[-1]["ep"]
        follower = leader % 3 + 1
        process = cluster.hosts[follower].process
        assert process is not None
        process.set_rate(20 * PPM)
        await cluster.until(lambda: cluster.kinds("votereq", node=follower)[-5:], "it asks")
        await asyncio.sleep(2)
        assert all(e["pre"] for e in cluster.kinds("votereq") if e["ep"] > epoch)
        assert cluster.kinds("claim")[-1]["ep"] == epoch

    cluster.run(main)
