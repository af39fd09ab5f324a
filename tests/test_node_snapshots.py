"""Snapshots of real processes: written, cleaned, fetched, read at a start, cut by kills."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from node_cluster import WAIT_S, NodeCluster, in_loop, node_cluster

from node.controller.controller import QuorumController
from node.metadata.features import METADATA_VERSION
from node.metadata.image import MetadataImage
from node.metadata.schemas import FeatureLevelRecord


def test_a_controller_sees_the_snapshot_that_its_image_has_become() -> None:
    """All of it: tables that were bound when the controller was made are not the image's now."""
    image = MetadataImage()
    controller = QuorumController(rng=Random(1), image=image)
    loaded = MetadataImage()
    loaded.apply(FeatureLevelRecord(name=METADATA_VERSION, feature_level=25), 4)
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
        assert no_leftovers(cluster)

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
