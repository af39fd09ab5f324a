"""Helpers for live tests with real brokers, whose metadata is read from the controller's log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from kafka import KafkaConsumer, KafkaProducer  # type: ignore[import-untyped]
from kafka.structs import TopicPartition  # type: ignore[import-untyped]

from harness.spec import RunSpec
from harness.systems.kafka.releases import VERSION
from node.metadata.fold import TRANSACTION_MARKS, apply_record
from node.metadata.image import MetadataImage
from node.metadata.records import from_json
from node.metadata.state import PartitionState
from tests.support.live.scene import LiveScene
from workloads.elr import SETTINGS

CONTROLLER: Final = "n1"
WITHIN_S: Final = 40.0  # the start of a JVM, and a session


def with_brokers(release: str, brokers: int, **settings: str) -> RunSpec:
    """Give the options of one controller of a release of Kafka, and of so many brokers.

    Their sessions are short. ``settings`` are more of Kafka's, with ``_`` for each dot.
    """
    return RunSpec(
        7,
        system="kafka",
        workload="elr",
        voters=1,
        observers=brokers,
        settings={
            **SETTINGS,
            VERSION: release,
            **{name.replace("_", "."): value for name, value in settings.items()},
        },
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


def partition(scene: LiveScene, topic: str, index: int = 0) -> PartitionState:
    """Fold the controller's log, and give a partition's state."""
    image = MetadataImage()
    for batch in scene.system.stored_log(CONTROLLER):
        for each in () if batch.control else batch.records:
            record = from_json({"version": 0, **each})
            if not isinstance(record, TRANSACTION_MARKS):
                apply_record(image, record, each["offset"])
    return image.topics[topic].partitions[index]


def reigns(scene: LiveScene) -> int:
    """Count the leaders that the log has seen."""
    return len(records(scene, "LeaderChange"))


def servers(scene: LiveScene, *nodes: str) -> dict[str, str]:
    """Where clients find brokers: host and port by name."""
    places = scene.system.cluster().addresses
    return {node: f"{places[node].host}:{places[node].port}" for node in nodes}


async def stop(scene: LiveScene, node: str, broker_id: int) -> None:
    """Stop a broker in good order, and wait until the controller has fenced it."""
    await scene.system._stop(node)
    await until(lambda: is_fenced(scene, broker_id))


async def kill(scene: LiveScene, node: str, broker_id: int) -> None:
    """Kill a broker, and wait until the controller has fenced it."""
    await scene.system.kill(node)
    await until(lambda: is_fenced(scene, broker_id))


async def start(scene: LiveScene, node: str, broker_id: int) -> None:
    """Start a broker again, and wait until the controller lets it serve."""
    await scene.system._launch(node)
    await until(lambda: not is_fenced(scene, broker_id))


def is_fenced(scene: LiveScene, broker_id: int) -> bool:
    """Tell whether the controller fenced a broker last, and did not unfence it since."""
    changes = records(scene, "BrokerRegistrationChangeRecord")
    told = [each["fenced"] for each in changes if each["broker_id"] == broker_id]
    return [each for each in told if each][-1:] == [1]


def send(server: str, topic: str, times: int = 1, **settings: Any) -> int:
    """Produce messages with acks=all; the offset that the last one was acknowledged at."""
    producer, offset = KafkaProducer(bootstrap_servers=server, acks="all", **settings), -1
    try:
        for _ in range(times):
            sent = producer.send(topic, b"M", partition=0)
            offset = int(sent.get(timeout=WITHIN_S).offset)
    finally:
        producer.close()
    return offset


def end(server: str, topic: str) -> int:
    """The end of a topic's partition by the word of its leader."""
    consumer, partition = KafkaConsumer(bootstrap_servers=server), TopicPartition(topic, 0)
    try:
        return int(consumer.end_offsets([partition])[partition])
    finally:
        consumer.close()
