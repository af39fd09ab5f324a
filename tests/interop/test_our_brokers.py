"""Public admin clients administer a quorum of ours through brokers of ours."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)
from kafka.admin import KafkaAdminClient  # type: ignore[import-untyped]

from harness.systems.kafka.distribution import KafkaDist
from node.core.types import Endpoint
from tests.support.kafka.cluster import CLUSTER_ID, HOST, OurMember, Quorum, free_ports
from tests.support.kafka.quorums import dynamic_quorum

pytestmark = [pytest.mark.interop, pytest.mark.slow]

TIMEOUT_S = 10
BROKERS = (11, 12)


@contextlib.contextmanager
def brokers_of(quorum: Quorum, dist: KafkaDist, folder: Path) -> Iterator[list[OurMember]]:
    """Two started brokers of ours that have registered."""
    members = []
    for node_id, port in zip(BROKERS, free_ports(len(BROKERS)), strict=True):
        settings = {
            "node.id": str(node_id),
            "process.roles": "broker",
            "listeners": f"PLAINTEXT://{HOST}:{port}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": quorum.addresses,
            "log.dirs": str(folder / f"b{node_id}" / "data"),
        }
        endpoint = Endpoint(HOST, port)
        members.append(OurMember(node_id, endpoint, folder / f"b{node_id}", settings, dist))
    try:
        for member in members:
            member.format()
            member.start()
        yield members
    finally:
        for member in members:
            member.kill()


@pytest.fixture(scope="module")
def cluster(kafka: KafkaDist, folder: Path) -> Iterator[tuple[Quorum, list[OurMember]]]:
    """Three controllers and two brokers, all ours."""
    with dynamic_quorum(kafka, folder, {1: "ours", 2: "ours", 3: "ours"}) as quorum:
        quorum.start_all()
        quorum.await_leader()
        with brokers_of(quorum, kafka, folder) as brokers:
            for broker in brokers:
                quorum.wait_for(
                    lambda broker=broker: "is unfenced" in broker.said,  # type: ignore[misc]
                    f"broker {broker.node_id} is unfenced",
                )
            yield quorum, brokers


def addresses(brokers: list[OurMember]) -> str:
    return ",".join(f"{b.endpoint.host}:{b.endpoint.port}" for b in brokers)


def test_kafka_python_administers_through_our_brokers(
    cluster: tuple[Quorum, list[OurMember]],
) -> None:
    quorum, brokers = cluster
    admin = KafkaAdminClient(
        bootstrap_servers=addresses(brokers), request_timeout_ms=TIMEOUT_S * 1000
    )
    try:
        admin.create_topics({"python": {"num_partitions": 2, "replication_factor": 2}})
        quorum.wait_for(lambda: "python" in admin.list_topics(), "the brokers know the topic")
        (topic,) = admin.describe_topics(["python"])
        assert [sorted(p["replica_nodes"]) for p in topic["partitions"]] == [[11, 12], [11, 12]]
        described = admin.describe_cluster()
        assert described["cluster_id"] == CLUSTER_ID
        assert {b["broker_id"] for b in described["brokers"]} == {11, 12}
        (partition,) = admin.describe_metadata_quorum()["topics"][0]["partitions"]
        assert partition["leader_id"] == quorum.await_leader().leader_id
        assert {o["replica_id"] for o in partition["observers"]} >= {11, 12}
        admin.delete_topics(["python"])
        quorum.wait_for(lambda: "python" not in admin.list_topics(), "the brokers forgot it")
    finally:
        admin.close()


def producer_id(address: str) -> tuple[int, int]:
    """The id and epoch that an idempotent producer of librdkafka gets."""
    seen: list[dict[str, Any]] = []
    producer = Producer(
        {
            "bootstrap.servers": address,
            "enable.idempotence": True,
            "log_level": 2,
            "statistics.interval.ms": 50,
            "stats_cb": lambda text: seen.append(json.loads(text).get("eos", {})),
        }
    )
    deadline_s = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline_s:
        producer.poll(0.05)
        if seen and seen[-1].get("idemp_state") == "Assigned":
            return int(seen[-1]["producer_id"]), int(seen[-1]["producer_epoch"])
    raise AssertionError(f"no producer id: {seen[-3:]}")


def test_idempotent_producers_of_librdkafka_get_ids_of_their_own(
    cluster: tuple[Quorum, list[OurMember]],
) -> None:
    _, brokers = cluster
    given = [producer_id(addresses([broker])) for broker in (*brokers, *brokers)]
    assert len({id_ for id_, _ in given}) == len(given)
    assert {epoch for _, epoch in given} == {0}


def test_confluent_kafka_administers_through_our_brokers_while_leaders_change(
    cluster: tuple[Quorum, list[OurMember]],
) -> None:
    quorum, brokers = cluster
    admin = AdminClient({"bootstrap.servers": addresses(brokers), "log_level": 2})
    admin.create_topics([NewTopic("confluent", 3, 2)])["confluent"].result(TIMEOUT_S)
    quorum[quorum.await_leader().leader_id].kill()
    # No need to wait for the next leader: the brokers look for it as long as the client waits.
    entry = ConfigEntry("retention.ms", "7", incremental_operation=AlterConfigOpType.SET)
    topic = ConfigResource(ConfigResource.Type.TOPIC, "confluent", incremental_configs=[entry])
    for done in admin.incremental_alter_configs([topic]).values():
        done.result(TIMEOUT_S)

    def retention() -> str | None:
        asked = ConfigResource(ConfigResource.Type.TOPIC, "confluent")
        (settings,) = [f.result(TIMEOUT_S) for f in admin.describe_configs([asked]).values()]
        value: str | None = settings["retention.ms"].value
        return value

    quorum.wait_for(lambda: retention() == "7", "the broker shows what was set")
    cluster_view = admin.describe_cluster().result(TIMEOUT_S)
    assert cluster_view.cluster_id == CLUSTER_ID
    assert {node.id for node in cluster_view.nodes} == {11, 12}
    admin.delete_topics(["confluent"])["confluent"].result(TIMEOUT_S)
    quorum.start_all()


def test_a_broker_of_ours_stops_in_a_controlled_way(
    cluster: tuple[Quorum, list[OurMember]],
) -> None:
    quorum, brokers = cluster
    quorum.await_leader()
    last = brokers[-1]
    last.stop()
    assert "Stopping" in last.said
    assert "consent" not in last.said, "the controller agreed"


# --------------------------------------------------------------------------- Kafka's controller


@pytest.fixture(scope="module")
def at_kafkas(kafka: KafkaDist, folder: Path) -> Iterator[tuple[Quorum, list[OurMember]]]:
    """A controller of Kafka's and two brokers of ours."""
    below = folder / "kafkas"
    with dynamic_quorum(kafka, below, {1: "kafka"}) as quorum:
        quorum.start_all()
        quorum.await_leader()
        with brokers_of(quorum, kafka, below) as brokers:
            for broker in brokers:
                quorum.wait_for(
                    lambda broker=broker: "is unfenced" in broker.said,  # type: ignore[misc]
                    f"broker {broker.node_id} is unfenced by Kafka's controller",
                )
            yield quorum, brokers


def test_kafkas_controller_places_topics_on_our_brokers_and_gives_them_producer_ids(
    at_kafkas: tuple[Quorum, list[OurMember]],
) -> None:
    quorum, brokers = at_kafkas
    admin = AdminClient({"bootstrap.servers": addresses(brokers), "log_level": 2})
    admin.create_topics([NewTopic("theirs", 4, 2)])["theirs"].result(TIMEOUT_S)

    def leaders() -> set[int]:
        topic = admin.list_topics(timeout=TIMEOUT_S).topics.get("theirs")
        return set() if topic is None else {p.leader for p in topic.partitions.values()}

    quorum.wait_for(lambda: leaders() == {11, 12}, "our brokers show what Kafka wrote")
    given = [producer_id(addresses([broker])) for broker in (*brokers, *brokers)]
    assert len({id_ for id_, _ in given}) == len(given)


def test_kafkas_controller_lets_a_broker_of_ours_go_and_come_back(
    at_kafkas: tuple[Quorum, list[OurMember]],
) -> None:
    quorum, (one, two) = at_kafkas
    admin = AdminClient({"bootstrap.servers": addresses([one]), "log_level": 2})

    def leaders() -> set[int]:
        topic = admin.list_topics(timeout=TIMEOUT_S).topics["theirs"]
        return {p.leader for p in topic.partitions.values()}

    assert two.stop() == 0
    assert "consent" not in two.said, "the controller agreed"
    assert leaders() == {11}, "the broker that was left knew before the other went"
    two.start()  # and waits until the controller has forgotten its last session
    quorum.wait_for(lambda: two.said.count("is unfenced") == 2, "it is back")
