"""``docs/findings.md``: a reassignment that is taken back, and what is done though it is refused.

A real controller and real brokers. Should a newer Apache Kafka do better, this fails, and the page
is to be changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest
from kio.schema.alter_client_quotas.v1 import request as quotas
from kio.schema.update_features.v1.request import FeatureUpdateKey, UpdateFeaturesRequest
from kio.static.primitive import f64, i8, i16

from harness.kafka.features import finalized
from harness.kafka.route import Route, deadline_s, request
from harness.kafka.topics import create_by_hand
from harness.systems.kafka.distribution import KafkaDist
from harness.systems.kafka.releases import DEFAULT, KNOWN
from node.metadata.features import KRAFT_VERSION, METADATA_VERSION
from tests.support.live.brokers import CONTROLLER, kill, records, start, until, with_brokers
from tests.support.live.reassignments import TOPIC, move, moving
from tests.support.live.scene import LiveScene, play

pytestmark = [pytest.mark.slow, pytest.mark.long]
FIRST_ID, OTHER, OTHER_ID = 2, "n3", 3
LASTS_S = 15.0
INVALID_REQUEST, INVALID_UPDATE_VERSION = 42, 95
ENDLESS = KNOWN[-1]  # releases from 4.3 on


def in_sync(scene: LiveScene) -> list[int]:
    """Read the partition's ISR from the newest change of it in the controller's log."""
    changes = [each["isr"] for each in records(scene, "PartitionChangeRecord")]
    return next((list(each) for each in reversed(changes) if each is not None), [FIRST_ID])


@pytest.mark.parametrize("release", [DEFAULT, ENDLESS])
def test_a_reassignment_that_is_taken_back_never_ends_since_4_3(
    kafka: KafkaDist, release: str, tmp_path: Path
) -> None:
    """To a broker that is down, and back by the plan that the tool keeps for a rollback."""
    assert kafka.archive.is_file()

    async def main(scene: LiveScene) -> None:
        route = Route(scene.system.cluster(), CONTROLLER)
        await create_by_hand(route, TOPIC, (FIRST_ID,), deadline_s())
        await kill(scene, OTHER, OTHER_ID)
        connection = await route.connect(CONTROLLER)
        assert await move(connection, OTHER_ID) == 0
        assert await moving(connection) == [([OTHER_ID], [FIRST_ID])]
        assert await move(connection, FIRST_ID) == 0
        if release == DEFAULT:
            assert await moving(connection) == []
            route.close()
            return
        both = [([OTHER_ID], [OTHER_ID])]
        assert await moving(connection) == both
        await start(scene, OTHER, OTHER_ID)
        await until(lambda: sorted(in_sync(scene)) == [FIRST_ID, OTHER_ID])
        await asyncio.sleep(LASTS_S)
        assert await moving(connection) == both
        route.close()

    play(tmp_path, main, with_brokers(release, 2), frozenset())


async def levels(scene: LiveScene) -> Mapping[str, int]:
    """Ask the controller for the finalised levels."""
    addresses = scene.system.cluster().addresses
    told = await finalized(addresses[CONTROLLER], scene.system.cluster().network, timeout_s=5.0)
    assert told is not None
    return told


@pytest.mark.parametrize("release", [DEFAULT, KNOWN[-1]])
def test_a_refused_change_of_levels_raises_kraft_version(
    kafka: KafkaDist, release: str, tmp_path: Path
) -> None:
    """Of two levels one cannot be had; the answer says that none was changed (KIP-1022)."""
    assert kafka.archive.is_file()

    async def main(scene: LiveScene) -> None:
        route = Route(scene.system.cluster(), CONTROLLER)
        before = await levels(scene)
        assert before.get(KRAFT_VERSION, 0) == 0
        updates = tuple(
            FeatureUpdateKey(feature=name, max_version_level=i16(level), upgrade_type=i8(1))
            for name, level in ((KRAFT_VERSION, 1), (METADATA_VERSION, 1000))
        )
        wanted = UpdateFeaturesRequest(feature_updates=updates, validate_only=False)
        told = await request(await route.connect(CONTROLLER), wanted)
        assert int(told.error_code) == INVALID_UPDATE_VERSION
        assert (await levels(scene))[METADATA_VERSION] == before[METADATA_VERSION]
        await until(lambda: bool(records(scene, "KRaftVersion")))
        assert (await levels(scene))[KRAFT_VERSION] == 1
        route.close()

    play(tmp_path, main, with_brokers(release, 2), frozenset())


@pytest.mark.parametrize("release", [DEFAULT, KNOWN[-1]])
def test_a_refused_quota_is_set(kafka: KafkaDist, release: str, tmp_path: Path) -> None:
    """A request names a user twice, once for each of two rates (KIP-546)."""
    assert kafka.archive.is_file()

    async def main(scene: LiveScene) -> None:
        route = Route(scene.system.cluster(), CONTROLLER)
        user = (quotas.EntityData(entity_type="user", entity_name="u"),)
        rates = [
            quotas.OpData(key=f"{name}_byte_rate", value=f64(1000.0), remove=False)
            for name in ("producer", "consumer")
        ]
        entries = tuple([quotas.EntryData(entity=user, ops=(rate,)) for rate in rates])
        wanted = quotas.AlterClientQuotasRequest(entries=entries, validate_only=False)
        told = await request(await route.connect(CONTROLLER), wanted)
        assert [int(row.error_code) for row in told.entries] == [INVALID_REQUEST]
        await until(lambda: bool(records(scene, "ClientQuotaRecord")))
        assert [each["key"] for each in records(scene, "ClientQuotaRecord")] == [rates[0].key]
        route.close()

    play(tmp_path, main, with_brokers(release, 2), frozenset())
