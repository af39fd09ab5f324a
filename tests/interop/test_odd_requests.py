"""``docs/findings.md``: requests that make no sense end a controller, each by itself.

Real controllers, one for each request. Should a newer Apache Kafka do better, this fails, and the
page is to be changed.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from harness.kafka.odd.bases import View
from harness.kafka.odd.controllers import OF_CONTROLLERS
from harness.kafka.odd.saying import UNANSWERED, UNSAID, say
from harness.kafka.quorum import QuorumView
from harness.systems.kafka.distribution import KafkaDist
from harness.systems.kafka.releases import DEFAULT, KNOWN
from node.core.types import OffsetAndEpoch
from tests.support.live.brokers import CONTROLLER, WITHIN_S, until, with_brokers
from tests.support.live.scene import LiveScene, play

pytestmark = [pytest.mark.slow, pytest.mark.long]
FATAL = "Encountered fatal fault: "
SNAPSHOTS = {"metadata.log.max.record.bytes.between.snapshots": "300"}
WAYS = {
    "AddRaftVoter listeners.0.name = empty": "The provided listener name is null or empty",
    "UpdateRaftVoter listeners.0.name = empty": "The provided listener name is null or empty",
    "BeginQuorumEpoch leader_endpoints.0.name = empty": "The provided listener name is null or",
    "UpdateRaftVoter voter_id = leader": "Received a FETCH/FETCH_SNAPSHOT request from the leader",
    "FetchSnapshot replica_id = leader": "Received a FETCH/FETCH_SNAPSHOT request from the leader",
    "FetchSnapshot max_bytes = -1": "IllegalArgumentException",
    "Vote-next topics.0.partitions.0.replica_id = own": "Cannot add voted key",
    "BeginQuorumEpoch-next leader_endpoints = empty": "Unknown leader endpoints",
    "EndQuorumEpoch-next topics.0.partitions.0.leader_id = own": "matches the local node.id",
    "BrokerRegistration listeners.0.name = empty": "Unable to apply RegisterBrokerRecord",
}
# of the requests to a controller, those that end no process
END_REIGNS = [
    f"{request} = {value}"
    for request, values in {
        "IncrementalAlterConfigs resources.0.configs.0.config_operation": ("-1", "most", "least"),
        "BrokerRegistration listeners.0.host": ("empty",),
        "BrokerRegistration listeners.0.port": ("0",),
        "BrokerRegistration listeners.0.security_protocol": ("-1", "most", "least"),
        "ControllerRegistration listeners.0.host": ("empty",),
        "ControllerRegistration listeners.0.port": ("0",),
        "ControllerRegistration listeners.0.security_protocol": ("-1", "most", "least"),
    }.items()
    for value in values
]


def newest_snapshot(scene: LiveScene) -> OffsetAndEpoch | None:
    """Give the newest snapshot that a controller has written, but for that of its format."""
    found = scene.env.node_dir(CONTROLLER).rglob("0*.checkpoint")
    ids = (OffsetAndEpoch(*map(int, path.stem.split("-"))) for path in found)
    return max((each for each in ids if each.offset > 0), default=None)


@pytest.mark.parametrize("words", WAYS)
@pytest.mark.parametrize("release", [DEFAULT, KNOWN[-1]])
def test_a_request_that_makes_no_sense_ends_a_controller(
    kafka: KafkaDist, release: str, words: str, tmp_path: Path
) -> None:
    assert kafka.archive.is_file()

    async def main(scene: LiveScene) -> None:
        await until(lambda: newest_snapshot(scene) is not None)
        seen, snapshot = await scene.look(CONTROLLER), newest_snapshot(scene)
        assert isinstance(seen, QuorumView)
        assert snapshot is not None
        way = scene.system.cluster()
        view = View(seen.epoch, seen.leader_id, seen.leader_id, snapshot, way.id)
        answer = await say(words, view, way.addresses[CONTROLLER], way.network)
        assert answer.startswith(UNANSWERED), answer
        await until(lambda: FATAL in scene.printed(CONTROLLER))
        assert WAYS[words] in scene.printed(CONTROLLER).partition(FATAL)[2]
        again = await say("Vote voter_id = most", view, way.addresses[CONTROLLER], way.network)
        assert again.startswith(UNSAID), "it is gone"

    spec = with_brokers(release, 0)
    spec = replace(spec, settings={**spec.settings, **SNAPSHOTS})
    play(tmp_path, main, spec, frozenset())


@pytest.mark.parametrize("release", [DEFAULT, KNOWN[-1]])
def test_requests_to_a_controller_that_make_no_sense_end_its_reign(
    kafka: KafkaDist, release: str, tmp_path: Path
) -> None:
    """All odd requests of brokers and tools, each once: those named end reigns, and no others.

    At last a broker of the id -1 is registered.
    """
    assert kafka.archive.is_file()
    ended: list[str] = []

    async def main(scene: LiveScene) -> None:
        way = scene.system.cluster()
        address = way.addresses[CONTROLLER]
        view = View(1, 1, own=1, cluster_id=way.id)
        for name, base in OF_CONTROLLERS.items():
            for place, value in base.choices():
                words = f"{name} {place} = {value}"
                if words in WAYS:
                    continue
                before = reigns_told(scene)
                answer = await say(words, view, address, way.network)
                assert not answer.startswith(UNANSWERED), (words, answer)
                assert ("unknown_server_error" in answer) == (words in END_REIGNS), (words, answer)
                assert FATAL not in scene.printed(CONTROLLER), words
                if reigns_told(scene) > before:
                    ended.append(words)
                    await until_it_leads(scene)
        freed = await say("UnregisterBroker broker_id = 77", view, address, way.network)
        odd = await say("BrokerRegistration broker_id = -1", view, address, way.network)
        assert (freed, odd) == ("none", "none"), "two brokers cannot have the same disk"

    play(tmp_path, main, with_brokers(release, 0), frozenset())
    assert ended == END_REIGNS


def reigns_told(scene: LiveScene) -> int:
    """Count how often the controller has given up its reign because of what it was asked."""
    return scene.printed(CONTROLLER).count("Renouncing leadership")


async def until_it_leads(scene: LiveScene) -> None:
    """Ask for what is refused, until it is the active controller that refuses it."""
    way = scene.system.cluster()
    view = View(1, 1, own=1)
    async with asyncio.timeout(WITHIN_S):
        while "not_controller" in await say(  # noqa: ASYNC110 - it tells nobody
            "UnregisterBroker broker_id = most", view, way.addresses[CONTROLLER], way.network
        ):
            await asyncio.sleep(0.1)
