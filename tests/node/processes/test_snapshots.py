"""Snapshots of real processes: written, cleaned, fetched, read at a start, cut by kills."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from node.controller.controller import QuorumController
from node.formatting import Quorum
from node.metadata.features import METADATA_VERSION
from node.metadata.fold import apply_record
from node.metadata.image import MetadataImage
from node.metadata.schemas import FeatureLevelRecord
from tests.support.live.cluster import eventually
from tests.support.nodes.cluster import (
    HOST,
    WAIT_S,
    ClusterNode,
    NodeCluster,
    in_loop,
    node_cluster,
)
from tests.support.nodes.fake_leader import FakeLeader


def test_a_controller_sees_the_snapshot_that_its_image_has_become() -> None:
    """All of it: tables that were bound when the controller was made are not the image's now."""
    image = MetadataImage()
    controller = QuorumController(rng=Random(1), image=image)
    loaded = MetadataImage()
    apply_record(loaded, FeatureLevelRecord(name=METADATA_VERSION, feature_level=25), 4)
    image.become(loaded)
    controller.claim(1, now_ms=0)
    assert controller._ctx.metadata_version == 25


SMALL = {
    "metadata_log_max_record_bytes_between_snapshots": "1500",
    "metadata_log_segment_bytes": "3000",
    "metadata_max_retention_bytes": "9000",
    "krucible_log_clean_interval_ms": "100",
}


@pytest.mark.slow
@in_loop
async def test_who_was_away_comes_back_through_a_snapshot(tmp_path: Path) -> None:
    """The log's prefix goes while a voter is down; the voter and a new broker fetch snapshots."""
    async with node_cluster(tmp_path, 3, **SMALL) as cluster:
        cluster.format_initial()
        broker = cluster.add_broker(10)
        await cluster.start()
        await cluster.create("first")
        leader = await cluster.leader()
        away = next(n for n in cluster.controllers.values() if n is not leader)
        await away.kill()
        end = away.kinds("append")[-1]["last"] + 1

        made = await grow(cluster, lambda: leader.log_start > end and broker.log_start > end)
        names = [n for n in leader.snapshots if int(n[:20]) > end]
        assert names, "the leader keeps snapshots that are newer than the voter that is away"
        late = cluster.add_broker(11)
        await cluster.start(away, late)

        end = leader.kinds("apply")[-1]["off"]
        for node in cluster.nodes.values():
            await cluster.applied(node, end)
        for node in (away, late):
            installed = [e["op"] for e in node.kinds("snap") if e["op"] == "install"]
            assert installed, f"node {node.id} has fetched a snapshot"
            assert "installed the snapshot" in node.log
        assert cluster.assert_same_images() > 1
        assert set(await late.topics()) >= made
        await eventually(lambda: no_leftovers(cluster), "nobody is writing a snapshot")

        # a restart reads the newest snapshot and what came after it, never the whole log
        assert await late.signal(signal.SIGTERM) == 0
        await late.start()
        await cluster.applied(late, end)
        catch_up = late.kinds("catchup")[-1]
        assert catch_up["from_snapshot"] > 0
        assert catch_up["from_log"] < catch_up["off"] / 2
        assert set(await late.topics()) >= made


async def grow(cluster: NodeCluster, enough: Callable[[], bool]) -> set[str]:
    """Create topics until it is enough; their names."""
    made: set[str] = set()
    async with asyncio.timeout(WAIT_S):
        while not enough():
            name = f"topic-{len(made)}"
            await cluster.create(name)
            made.add(name)
    return made


def no_leftovers(cluster: NodeCluster) -> bool:
    """Whether no half-made or half-deleted snapshot lies about."""
    return not [p for n in cluster.nodes.values() for p in n.leftovers]


BIG = 1000  # partitions of a topic: a snapshot takes several slices


@pytest.mark.slow
@in_loop
async def test_an_end_while_a_snapshot_is_written_loses_nothing(tmp_path: Path) -> None:
    """SIGKILL leaves a half snapshot, which the next start removes; SIGTERM leaves none."""
    settings = SMALL | {"metadata_log_segment_bytes": "100000", "krucible_brokers": "7"}
    async with node_cluster(tmp_path, 1, read_barrier="true", **settings) as cluster:
        (node,) = cluster.controllers.values()
        node.format(Quorum(standalone=True))
        made: set[str] = set()
        for ending in (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
            await node.start()
            await cluster.leader()
            await eventually(lambda: not node.leftovers, "what was half written is gone")
            writing = asyncio.create_task(create_big(cluster, made))
            try:
                if ending == signal.SIGKILL:
                    await stop_in_a_snapshot(node)
                else:
                    await eventually(lambda: bool(node.leftovers), "a snapshot is being written")
                code = await node.signal(ending)
            finally:
                writing.cancel()
            assert bool(node.leftovers) == (ending == signal.SIGKILL)
            assert code == (0 if ending == signal.SIGTERM else -signal.SIGKILL)
        await node.start()
        leader = await cluster.leader()
        await eventually(lambda: bool(node.kinds("claim")), "it is active")
        await eventually(lambda: not node.leftovers, "what was half written is gone")
        assert set(await leader.topics()) >= made
        assert made


async def stop_in_a_snapshot(node: ClusterNode) -> None:
    """SIGSTOP a node while a snapshot is half written, so that it stays so until SIGKILL."""
    process = node.process
    assert process is not None
    tasks = Path(f"/proc/{process.pid}/task")

    def is_stopped() -> bool:
        stats = [(task / "stat").read_text().rpartition(") ")[2] for task in tasks.iterdir()]
        return all(stat.startswith("T") for stat in stats)

    while True:
        await eventually(lambda: bool(node.leftovers), "a snapshot is being written")
        process.send_signal(signal.SIGSTOP)
        await eventually(is_stopped, "it is stopped")
        if node.leftovers:
            return
        process.send_signal(signal.SIGCONT)


async def create_big(cluster: NodeCluster, made: set[str]) -> None:
    """Create large topics until cancelled or the node is gone; what was acknowledged is added."""
    while True:
        name = f"topic-{len(made)}"
        await cluster.create(name, partitions=BIG)
        made.add(name)


@pytest.mark.slow
@in_loop
@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
async def test_an_end_while_a_snapshot_is_fetched(tmp_path: Path, ending: signal.Signals) -> None:
    """SIGTERM leaves nothing of it; what SIGKILL leaves is removed by the next start."""
    leader = FakeLeader(HOST)
    async with leader.serving() as endpoint, node_cluster(tmp_path, 1) as cluster:
        cluster.settings["controller.quorum.bootstrap.servers"] = str(endpoint)
        node = cluster.add_broker(10)
        for _ in range(2):
            leader.asked_for_more = 0
            node.spawn()
            await eventually(lambda: leader.asked_for_more > 0, "it asks for more", WAIT_S)
            assert len(node.leftovers) == 1  # the one of an earlier process is gone
            assert await node.signal(ending) == (0 if ending == signal.SIGTERM else -ending)
            assert len(node.leftovers) == (0 if ending == signal.SIGTERM else 1)
        assert not leader.rejected
        assert next(node.events)["t"] == "start"
        assert node.snapshots == []
