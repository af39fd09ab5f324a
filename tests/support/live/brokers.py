"""Helpers for live tests with real brokers, whose metadata is read from the controller's log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from harness.spec import RunSpec
from harness.systems.kafka.releases import VERSION
from tests.support.live.scene import LiveScene
from workloads.elr import SETTINGS

CONTROLLER: Final = "n1"
WITHIN_S: Final = 40.0  # the start of a JVM, and a session


def with_brokers(release: str, brokers: int) -> RunSpec:
    """One controller of a release of Kafka, and so many brokers with short sessions."""
    return RunSpec(
        7,
        system="kafka",
        workload="elr",
        voters=1,
        observers=brokers,
        settings={**SETTINGS, VERSION: release},
    )


async def until(is_so: Callable[[], bool]) -> None:
    """Look again and again until something is so."""
    async with asyncio.timeout(WITHIN_S):
        while not is_so():  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.2)


def records(scene: LiveScene, kind: str) -> list[dict[str, Any]]:
    """The fields of the controller's records of a kind, the oldest first."""
    batches = scene.system.stored_log(CONTROLLER)
    return [dict(r["fields"]) for batch in batches for r in batch.records if r["type"] == kind]


def is_fenced(scene: LiveScene, broker_id: int) -> bool:
    """Tell whether the controller fenced a broker last, and did not unfence it since."""
    changes = records(scene, "BrokerRegistrationChangeRecord")
    told = [each["fenced"] for each in changes if each["broker_id"] == broker_id]
    return [each for each in told if each][-1:] == [1]
