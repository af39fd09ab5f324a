"""Public admin clients administer a controller of ours.

They bootstrap by Metadata, which our controllers serve where their reads have a barrier; only the
leader's do, and these clients ask any node: hence one controller.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)
from kafka.admin import ConfigResource as PythonResource  # type: ignore[import-untyped]
from kafka.admin import ConfigResourceType, KafkaAdminClient
from kafka.errors import TopicAlreadyExistsError  # type: ignore[import-untyped]

from harness.systems.kafka.distribution import KafkaDist
from tests.support.kafka.cluster import CLUSTER_ID, Quorum
from tests.support.kafka.quorums import static_quorum

pytestmark = [pytest.mark.interop, pytest.mark.slow]

TIMEOUT_S = 10


@pytest.fixture(scope="module")
def ours(kafka: KafkaDist, folder: Path) -> Iterator[Quorum]:
    """A controller of ours that serves Metadata."""
    with static_quorum(kafka, folder, {1: "ours"}, read_barrier="true") as quorum:
        quorum.start_all()
        quorum.await_leader()
        yield quorum


@pytest.fixture
def python_admin(ours: Quorum) -> Iterator[KafkaAdminClient]:
    """kafka-python's client."""
    admin = KafkaAdminClient(bootstrap_servers=ours.addresses, request_timeout_ms=TIMEOUT_S * 1000)
    yield admin
    admin.close()


@pytest.fixture
def confluent_admin(ours: Quorum) -> AdminClient:
    """librdkafka's client."""
    return AdminClient({"bootstrap.servers": ours.addresses, "log_level": 2})


def confluent(futures: dict[Any, Any]) -> list[Any]:
    """The results of all futures."""
    return [future.result(TIMEOUT_S) for future in futures.values()]


def test_kafka_python_creates_lists_describes_and_deletes_topics(
    python_admin: KafkaAdminClient,
) -> None:
    python_admin.create_topics({"python": {"num_partitions": 2, "replication_factor": 2}})
    assert python_admin.list_topics() == ["python"]
    (topic,) = python_admin.describe_topics(["python"])
    replicas = {p["partition_index"]: sorted(p["replica_nodes"]) for p in topic["partitions"]}
    assert replicas == {0: [7, 8], 1: [7, 8]}
    with pytest.raises(TopicAlreadyExistsError):
        python_admin.create_topics({"python": {"num_partitions": 1}})
    python_admin.delete_topics(["python"])
    assert python_admin.list_topics() == []


def test_kafka_python_alters_and_describes_configs(python_admin: KafkaAdminClient) -> None:
    def retention() -> str | None:
        asked = PythonResource(ConfigResourceType.TOPIC, "settings")
        settings = python_admin.describe_configs([asked])["topic"]["settings"]
        value: str | None = settings.get("retention.ms", {}).get("value")
        return value

    python_admin.create_topics({"settings": {"num_partitions": 1}})
    assert retention() is None, "only what was modified is asked for"
    change = PythonResource(ConfigResourceType.TOPIC, "settings", configs={"retention.ms": "2000"})
    done = python_admin.alter_configs([change], raise_on_unknown=False)
    assert done == {"topic": {"settings": "OK"}}
    assert retention() == "2000"
    python_admin.delete_topics(["settings"])


def test_kafka_python_describes_the_cluster_and_the_quorum(
    ours: Quorum, python_admin: KafkaAdminClient
) -> None:
    view = ours.await_leader()
    cluster = python_admin.describe_cluster()
    assert cluster["cluster_id"] == CLUSTER_ID
    assert cluster["controller_id"] == view.leader_id
    quorum = python_admin.describe_metadata_quorum()
    (partition,) = quorum["topics"][0]["partitions"]
    assert partition["leader_id"] == view.leader_id
    assert partition["leader_epoch"] == view.epoch
    assert partition["high_watermark"] >= view.high_watermark
    assert {voter["replica_id"] for voter in partition["current_voters"]} == {1}
    nodes = {node["node_id"]: node["listeners"][0]["port"] for node in quorum["nodes"]}
    assert nodes == {i: member.endpoint.port for i, member in ours.members.items()}


def test_confluent_kafka_creates_lists_and_deletes_topics(confluent_admin: AdminClient) -> None:
    confluent(confluent_admin.create_topics([NewTopic("confluent", 3, 1)]))
    listed = confluent_admin.list_topics(timeout=TIMEOUT_S).topics["confluent"]
    assert sorted(listed.partitions) == [0, 1, 2]
    with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"):
        confluent(confluent_admin.create_topics([NewTopic("confluent", 1, 1)]))
    confluent(confluent_admin.delete_topics(["confluent"]))
    assert "confluent" not in confluent_admin.list_topics(timeout=TIMEOUT_S).topics


def test_confluent_kafka_alters_and_describes_configs(confluent_admin: AdminClient) -> None:
    confluent(confluent_admin.create_topics([NewTopic("tuned", 1, 1)]))
    entry = ConfigEntry("retention.ms", "7", incremental_operation=AlterConfigOpType.SET)
    topic = ConfigResource(ConfigResource.Type.TOPIC, "tuned", incremental_configs=[entry])
    confluent(confluent_admin.incremental_alter_configs([topic]))
    (settings,) = confluent(
        confluent_admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, "tuned")])
    )
    assert settings["retention.ms"].value == "7"
    confluent(confluent_admin.delete_topics(["tuned"]))


def test_confluent_kafka_describes_the_cluster(ours: Quorum, confluent_admin: AdminClient) -> None:
    cluster = confluent_admin.describe_cluster().result(TIMEOUT_S)
    assert cluster.cluster_id == CLUSTER_ID
    assert cluster.controller.id == ours.await_leader().leader_id
    assert {node.id for node in cluster.nodes} == {1}
