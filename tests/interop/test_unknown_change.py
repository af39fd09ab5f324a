"""``docs/findings.md``: changes of settings that only brokers refuse end a leader's reign.

Real controllers and brokers. Should a newer Apache Kafka do better, this fails, and the page is to
be changed.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.static.primitive import i8

from harness.kafka.route import Route, deadline_s, request
from harness.kafka.topics import create_by_hand
from harness.systems.kafka.distribution import KafkaDist
from harness.systems.kafka.releases import DEFAULT, KNOWN
from tests.support.live.brokers import CONTROLLER, reigns, until, with_brokers
from tests.support.live.scene import LiveScene, play

pytestmark = [pytest.mark.slow, pytest.mark.long]
ON_A_BROKER, BROKER_ID = "n2", 2
FAILS = "incrementalAlterConfigs: event failed with NullPointerException"
NO_NUMBER = "registerBroker: event failed with NumberFormatException"
ALL_BROKERS = 4, ""
SET, APPEND, UNKNOWN = 0, 2, 7  # operations
OK, INVALID_REQUEST, UNKNOWN_ERROR = 0, 42, -1


async def answer(scene: LiveScene, node: str, operation: int, name: str, value: str | None) -> int:
    """Ask a node to change a setting of all brokers; the error code of its answer."""
    kind, resource = ALL_BROKERS
    change = AlterableConfig(name=name, config_operation=i8(operation), value=value)
    brokers = AlterConfigsResource(
        resource_type=i8(kind), resource_name=resource, configs=(change,)
    )
    wanted = IncrementalAlterConfigsRequest(resources=(brokers,), validate_only=False)
    route = Route(scene.system.cluster(), node)
    try:
        told = await request(await route.connect(node), wanted)
        return int(told.responses[0].error_code)
    finally:
        route.close()


@pytest.mark.parametrize(
    ("operation", "name", "value"),
    [(UNKNOWN, "log.retention.ms", "1"), (APPEND, "log.cleanup.policy", None)],
)
@pytest.mark.parametrize("release", [DEFAULT, KNOWN[-1]])
def test_a_change_that_makes_no_sense_ends_the_leaders_reign(
    kafka: KafkaDist, release: str, operation: int, name: str, value: str | None, tmp_path: Path
) -> None:
    """KIP-339 has four operations, and those on lists take a value."""
    assert kafka.archive.is_file()

    async def main(scene: LiveScene) -> None:
        before = reigns(scene)
        assert await answer(scene, CONTROLLER, SET, "log.retention.ms", "1000000") == OK
        assert await answer(scene, ON_A_BROKER, operation, name, value) == INVALID_REQUEST
        assert FAILS not in scene.printed(CONTROLLER)  # a broker refuses it by itself
        assert reigns(scene) == before
        assert await answer(scene, CONTROLLER, operation, name, value) == UNKNOWN_ERROR
        assert FAILS in scene.printed(CONTROLLER)
        await until(lambda: reigns(scene) > before)

    play(tmp_path, main, with_brokers(release, 1), frozenset())


@pytest.mark.parametrize("release", [DEFAULT, KNOWN[-1]])
def test_a_minimum_that_is_no_number_ends_reign_after_reign(
    kafka: KafkaDist, release: str, tmp_path: Path
) -> None:
    """Only brokers look at their settings, and KIP-919 has tools ask controllers."""
    assert kafka.archive.is_file()

    async def main(scene: LiveScene) -> None:
        name, value = "min.insync.replicas", "two"
        route = Route(scene.system.cluster(), CONTROLLER)
        await create_by_hand(route, "t", (BROKER_ID,), deadline_s())
        route.close()
        assert await answer(scene, ON_A_BROKER, SET, name, value) == INVALID_REQUEST
        assert await answer(scene, CONTROLLER, SET, name, value) == OK
        before = reigns(scene)
        await scene.system.kill(ON_A_BROKER)
        await scene.system._launch(ON_A_BROKER)
        await until(lambda: NO_NUMBER in scene.printed(CONTROLLER))
        await until(lambda: reigns(scene) > before + 1)

    play(tmp_path, main, with_brokers(release, 1), frozenset())
