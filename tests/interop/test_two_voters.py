"""Of two Kafka controllers the leader is removed: what `docs/kafka.md` says of it is what happens.

Should a newer Apache Kafka do better, this fails, and the page is to be changed.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from uuid import UUID

import pytest

from harness.contracts.abilities import Change
from harness.kafka import voters as kraft_voters
from harness.spec import RunSpec
from harness.systems.kafka.distribution import KafkaDist
from node.core.messages import RemoveVoterRequest
from node.core.types import ReplicaKey
from tests.support.live.scene import LiveScene, play

pytestmark = [pytest.mark.slow, pytest.mark.long]
SPEC = RunSpec(
    7,
    system="kafka",
    workload="producer-ids",
    voters=2,
    observers=0,
    settings={"krucible.quorum": "dynamic"},
)
CHECK_QUORUM_MS = 3_000  # one and a half of Kafka's fetch timeout
ELECTIONS = 5  # that are lost, of one to two seconds each
_STANDS = re.compile(r"Completed transition to ProspectiveState")


async def remove(scene: LiveScene, leader: str) -> Change:
    """What ``remove_voter`` of our systems declines to do."""
    keys, where = await scene.system.voter_keys(), scene.system.cluster()
    assert keys is not None
    key = ReplicaKey(scene.system.nodes.index(leader) + 1, UUID(keys[leader]))
    request = RemoveVoterRequest(key, where.id)
    return await kraft_voters.ask(request, where.addresses[leader], where.network, older=True)


def test_a_removed_leader_leads_on_alone_and_once_it_has_failed_nobody_leads(
    kafka: KafkaDist, tmp_path: Path
) -> None:
    assert kafka.archive.is_file()

    async def main(scene: LiveScene) -> None:
        leader = await scene.leader()
        (other,) = set(scene.system.voters) - {leader}
        links = [(leader, other), (other, leader)]
        await scene.env.net.cut(links)
        change = await remove(scene, leader)
        assert "REQUEST_TIMED_OUT" in change.detail
        first = await scene.look(leader)
        assert first is not None
        assert [key.id for key in first.voters] == [scene.system.nodes.index(other) + 1]
        assert first.high_watermark is not None
        assert first.asked_ms is not None
        now_ms = first.asked_ms
        while now_ms < first.asked_ms + 2 * CHECK_QUORUM_MS:
            now = await scene.look(leader)
            assert now is not None, "it leads without a majority: check quorum does not expire"
            assert (now.epoch, now.high_watermark) == (first.epoch, first.high_watermark)
            assert now.asked_ms is not None
            now_ms = now.asked_ms
        await scene.system.kill(leader)
        await scene.env.net.heal(links)
        await scene.system.start(leader)
        lost = len(_STANDS.findall(scene.printed(other)))
        while len(_STANDS.findall(scene.printed(other))) < lost + ELECTIONS:
            assert await scene.look(other) is None
            assert await scene.look(leader) is None
            await asyncio.sleep(0.1)

    play(tmp_path, main, SPEC, frozenset())
