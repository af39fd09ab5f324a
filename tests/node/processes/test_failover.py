"""A new active controller has all it needs already: nothing is read or applied a second time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.live.cluster import eventually
from tests.support.nodes.cluster import WAIT_S, ClusterNode, in_loop, node_cluster
from tests.support.nodes.verdict import assert_sound

pytestmark = pytest.mark.slow

TOPICS, PARTITIONS = 12, 50
RECORDS = TOPICS * (PARTITIONS + 1)
TAIL = 40  # what may be under way when a leader dies: NoOp records, and that of the new epoch


@in_loop
async def test_a_failover_reloads_nothing(tmp_path: Path) -> None:
    async with node_cluster(tmp_path, 3, broker_session_timeout_ms="9000") as cluster:
        cluster.format_initial()
        broker = cluster.add_broker(10)
        await cluster.start()
        await eventually(lambda: bool(broker.kinds("fence")), "the broker is unfenced", WAIT_S)
        for number in range(TOPICS):
            await cluster.create(f"topic-{number}", partitions=PARTITIONS)
        old = await cluster.leader()
        end = old.kinds("apply")[-1]["off"]
        assert end > RECORDS
        for node in cluster.nodes.values():
            await cluster.applied(node, end)
        await old.kill()
        new = await cluster.leader(set(cluster.controllers) - {old.id})
        await cluster.create("after", through=broker)

        (elected,) = [e for e in new.kinds("elected") if e["ep"] > old.kinds("elected")[-1]["ep"]]
        claim = new.kinds("claim")[-1]
        known = [e["off"] for e in new.kinds("apply") if e["seq"] < elected["seq"]][-1]
        assert known >= end, "a standby has applied what is committed"
        assert claim["applied"] > elected["es"]
        assert claim["applied"] - known <= TAIL
        assert not [e for e in new.kinds("snap") if e["seq"] > elected["seq"]]
        for node in (new, broker):
            assert applied_once(node) > RECORDS
        # the broker goes on too: it is not fenced, registers once and takes deltas from then on
        assert [e["kind"] for e in broker.kinds("image")].count("full") == 1
        assert len([e for e in broker.kinds("reg") if e["err"] == 0]) == 1
        assert [e["fenced"] for e in broker.kinds("fence")] == [False]
        assert cluster.assert_same_images() > 0
        assert_sound(cluster, "S11", "S20", "S21", "C3", "C10")


def applied_once(node: ClusterNode) -> int:
    """Check that slices follow on each other since the start; how far they go."""
    assert len(node.kinds("start")) == 1
    end = 0
    for event in node.kinds("apply"):
        assert slice_begin(event) == end, event
        end = event["off"]
    return end


def slice_begin(event: dict[str, Any]) -> int:
    """The first offset of an ``apply``."""
    return int(event["off"] - event["n"])
