"""``docs/findings.md``: what refuses a part of a snapshot cannot be written.

A real controller. Should a newer Apache Kafka do better, this fails, and the page is to be changed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.fetch_snapshot.v0.request import (
    FetchSnapshotRequest,
    PartitionSnapshot,
    SnapshotId,
    TopicSnapshot,
)
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32, i64

from harness.kafka.quorum import QuorumView
from harness.kafka.route import Route, request
from harness.systems.kafka.distribution import KafkaDist
from harness.systems.kafka.releases import DEFAULT, KNOWN
from tests.support.live.brokers import CONTROLLER, with_brokers
from tests.support.live.scene import LiveScene, play

pytestmark = [pytest.mark.slow, pytest.mark.long]
SAYS = "Unexpected error handling request RequestHeader(apiKey=FETCH_SNAPSHOT"
LOG, OBSERVER, MAX_BYTES = "__cluster_metadata", 99, 1_000_000


def asks(epoch: int, end: int) -> FetchSnapshotRequest:
    """Ask a leader of an epoch for a snapshot of epoch 1 that ends at an offset."""
    part = PartitionSnapshot(
        partition=i32(0),
        current_leader_epoch=i32(epoch),
        snapshot_id=SnapshotId(end_offset=i64(end), epoch=i32(1)),
        position=i64(0),
    )
    return FetchSnapshotRequest(
        cluster_id=None,
        replica_id=BrokerId(OBSERVER),
        max_bytes=i32(MAX_BYTES),
        topics=(TopicSnapshot(name=TopicName(LOG), partitions=(part,)),),
    )


async def answer(scene: LiveScene, epoch: int, end: int) -> Any:
    """Ask the controller, and give its answer."""
    route = Route(scene.system.cluster(), CONTROLLER)
    try:
        return await request(await route.connect(CONTROLLER), asks(epoch, end))
    finally:
        route.close()


@pytest.mark.parametrize("release", [DEFAULT, KNOWN[-1]])
def test_who_asks_for_a_snapshot_in_vain_hears_of_an_unknown_error(
    kafka: KafkaDist, release: str, tmp_path: Path
) -> None:
    """KIP-630 has SNAPSHOT_NOT_FOUND for a snapshot that is not there, and KIP-595 an epoch's."""
    assert kafka.archive.is_file()

    async def main(scene: LiveScene) -> None:
        view = await scene.look(CONTROLLER)
        assert isinstance(view, QuorumView)
        for epoch, end in ((view.epoch, 10_000), (view.epoch - 1, 0), (view.epoch + 1, 0)):
            told = await answer(scene, epoch, end)
            assert told.error_code is ErrorCode.unknown_server_error
            assert told.topics == ()
        assert scene.printed(CONTROLLER).count(SAYS) == 3
        assert '"this.unalignedRecords" is null' in scene.printed(CONTROLLER)

    play(tmp_path, main, with_brokers(release, 0), frozenset())
