"""``docs/findings.md``: what real controllers do with brokers that are cordoned (KIP-1066).

The brokers are played. Should a newer Apache Kafka do better, this fails, and the page is to be
changed.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from pathlib import Path

import pytest

from harness.contracts.clients import Outcome
from harness.kafka.broker import Cast, PlayedBroker, committed_offset, heartbeat, register
from harness.kafka.route import Route, deadline_s
from harness.kafka.topics import create_by_hand
from harness.systems.kafka.distribution import KafkaDist
from harness.systems.kafka.releases import KNOWN
from tests.support.live.brokers import CONTROLLER, WITHIN_S, records, until, with_brokers
from tests.support.live.reassignments import TOPIC, move
from tests.support.live.scene import LiveScene, play

pytestmark = [pytest.mark.slow, pytest.mark.long]
NEWEST = KNOWN[-1]
BY_HAND = "4.3.1"  # asks nobody whether a broker is cordoned (KAFKA-20832)
INVALID_REPLICA_ASSIGNMENT = 39


async def serve(route: Route, broker: PlayedBroker) -> int:
    """Register a broker, and have it let in; give its id."""
    await register(route, broker, deadline_s())
    await beat(route, broker)
    assert not (await beat(route, broker))
    return broker.id


async def beat(route: Route, broker: PlayedBroker) -> bool:
    """Have a broker say that it lives; tell whether it is fenced."""
    by_s = deadline_s()
    return (await heartbeat(route, broker, await committed_offset(route, by_s), by_s)).fenced


def cordons(scene: LiveScene, broker: PlayedBroker) -> list[object]:
    """Give what the log has of the broker's cordoned directories, the oldest first."""
    changes = records(scene, "BrokerRegistrationChangeRecord")
    of_one = [each for each in changes if each["broker_id"] == broker.id]
    told = [each.get("cordoned_log_dirs") for each in of_one]
    return [each for each in told if each is not None]


@pytest.mark.parametrize(("release", "error"), [(BY_HAND, 0), (NEWEST, INVALID_REPLICA_ASSIGNMENT)])
def test_a_partition_with_a_replica_on_a_cordoned_broker_cannot_be_moved_by_others(
    kafka: KafkaDist, release: str, error: int, tmp_path: Path
) -> None:
    """Of two replicas the other one is to move; or only their order is to change."""
    assert kafka.archive.is_file()

    async def main(scene: LiveScene) -> None:
        route, cast = Route(scene.system.cluster(), CONTROLLER), Cast(random.Random(1))
        brokers = [cast.another() for _ in range(3)]
        for broker in brokers:
            broker.cordoned = ()
            await serve(route, broker)
        stays, leaves, comes = (broker.id for broker in brokers)
        await create_by_hand(route, TOPIC, (stays, leaves), deadline_s())
        brokers[0].cordoned = brokers[0].directories
        await beat(route, brokers[0])
        await until(lambda: len(cordons(scene, brokers[0])) == 2)
        connection = await route.connect(CONTROLLER)
        assert await move(connection, leaves, stays) == error
        assert await move(connection, stays, comes) == error
        assert await move(connection, leaves, comes) == 0  # so it may only go
        route.close()

    play(tmp_path, main, with_brokers(release, 0), frozenset())


def test_a_broker_that_registers_anew_is_not_cordoned(kafka: KafkaDist, tmp_path: Path) -> None:
    """It has been cordoned, and is given a replica before it has read the metadata."""
    assert kafka.archive.is_file()

    async def main(scene: LiveScene) -> None:
        route, cast = Route(scene.system.cluster(), CONTROLLER), Cast(random.Random(1))
        old, other = cast.another(), cast.another()
        for broker in (old, other):
            broker.cordoned = ()
            await serve(route, broker)
        old.cordoned = old.directories
        await beat(route, old)
        await until(lambda: len(cordons(scene, old)) == 2)
        by_s = deadline_s()
        await heartbeat(route, old, await committed_offset(route, by_s), by_s, want_shut_down=True)
        with pytest.raises(Outcome, match="invalid-replica-assignment"):  # while it is away
            await create_by_hand(route, TOPIC, (other.id, old.id), deadline_s())
        old.restart(cast.rng)
        async with asyncio.timeout(WITHIN_S):
            while old.epoch is None:
                with suppress(Outcome):  # until the session before is over
                    await register(route, old, deadline_s())
            while await beat(route, other):
                pass
        await create_by_hand(route, TOPIC, (other.id, old.id), deadline_s())
        route.close()

    play(tmp_path, main, with_brokers(NEWEST, 0), frozenset())
