"""Every admin API in every version against a real socket, on a controller and on a broker."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest

from node.core.inputs import Tick
from node.driver.apis.fields import MESSAGE_CHARS_MAX
from node.wire.api import BROKER_APIS, CONTROLLER_APIS, ApiKey
from node.wire.errors import Disconnected
from tests.support.nodes.driver import (
    CLUSTER,
    HOST,
    NO_TIMEOUT,
    Client,
    Running,
    formatted,
    free_port,
    in_loop,
    lone_voter,
    part,
    settings_of,
    until,
)

NONE, UNKNOWN_TOPIC, INVALID_TOPIC, EXISTS = 0, 3, 17, 36
TOPIC = 2


def versions(key: ApiKey) -> range:
    """All that a controller or a broker serves."""
    api = CONTROLLER_APIS.get(key) or BROKER_APIS[key]
    return range(api.min_version, api.max_version + 1)


async def create(client: Client, version: int, name: str, **configs: str) -> Any:
    """The result row of a CreateTopics of one topic."""
    key = ApiKey.CREATE_TOPICS
    rows = tuple(
        part(key, version, "CreatableTopicConfig", name=n.replace("_", "."), value=v)
        for n, v in configs.items()
    )
    topic = part(
        key,
        version,
        "CreatableTopic",
        name=name,
        num_partitions=2,
        replication_factor=1,
        assignments=(),
        configs=rows,
    )
    answer = await client.ask(
        key, version, topics=(topic,), timeout=NO_TIMEOUT, validate_only=False
    )
    return answer.topics[0]


async def alter(client: Client, version: int, name: str, key: str, value: str) -> Any:
    """The result row of an IncrementalAlterConfigs SET."""
    api = ApiKey.INCREMENTAL_ALTER_CONFIGS
    change = part(api, version, "AlterableConfig", name=key, config_operation=0, value=value)
    resource = part(
        api,
        version,
        "AlterConfigsResource",
        resource_type=TOPIC,
        resource_name=name,
        configs=(change,),
    )
    answer = await client.ask(api, version, resources=(resource,), validate_only=False)
    return answer.responses[0]


async def configs_of(client: Client, version: int, name: str) -> Any:
    """The result row of a DescribeConfigs of one topic."""
    api = ApiKey.DESCRIBE_CONFIGS
    resource = part(
        api,
        version,
        "DescribeConfigsResource",
        resource_type=TOPIC,
        resource_name=name,
        configuration_keys=None,
    )
    answer = await client.ask(
        api, version, resources=(resource,), include_synonyms=False, include_documentation=False
    )
    return answer.results[0]


def set_on_topic(row: Any) -> dict[str, str]:
    """The settings of the topic's own, of a result row of DescribeConfigs."""
    return {c.name: c.value for c in row.configs if c.config_source == 1}


async def metadata(client: Client, version: int, *names: str) -> Any:
    """A Metadata of those topics; of all without names."""
    topics: Any = tuple(
        part(ApiKey.METADATA, version, "MetadataRequestTopic", name=n, topic_id=None) for n in names
    )
    if not names and version > 0:
        topics = None
    return await client.ask(
        ApiKey.METADATA,
        version,
        topics=topics,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


async def delete(client: Client, version: int, name: str) -> Any:
    """The result row of a DeleteTopics by name."""
    api = ApiKey.DELETE_TOPICS
    topics: tuple[Any, ...] = ()
    if version >= 6:
        topics = (part(api, version, "DeleteTopicState", name=name, topic_id=None),)
    answer = await client.ask(api, version, topics=topics, topic_names=(name,), timeout=NO_TIMEOUT)
    return answer.responses[0]


@in_loop
async def test_a_topic_lives_and_dies_in_every_version(tmp_path: Path) -> None:
    async with lone_voter(tmp_path, read_barrier="true") as running, Client.of(running) as client:
        ids = set()
        for version in versions(ApiKey.CREATE_TOPICS):
            row = await create(client, version, f"t{version}", retention_ms="5")
            assert int(row.error_code) == NONE, row
            if version >= 5:
                assert (row.num_partitions, row.replication_factor) == (2, 1)
                assert [(c.name, c.value) for c in row.configs] == [("retention.ms", "5")]
            if version >= 7:
                ids.add(row.topic_id)
            again = await create(client, version, f"t{version}")
            assert int(again.error_code) == EXISTS
        for version in versions(ApiKey.INCREMENTAL_ALTER_CONFIGS):
            row = await alter(client, version, "t7", "retention.ms", str(1000 + version))
            assert int(row.error_code) == NONE
            row = await alter(client, version, "nowhere", "retention.ms", "1")
            assert int(row.error_code) == UNKNOWN_TOPIC
        for version in versions(ApiKey.DESCRIBE_CONFIGS):
            row = await configs_of(client, version, "t7")
            assert set_on_topic(row) == {"retention.ms": "1001"}
            row = await configs_of(client, version, "nowhere")
            assert int(row.error_code) == UNKNOWN_TOPIC
        for version in versions(ApiKey.METADATA):
            answer = await metadata(client, version, "t7", "nowhere")
            there, missing = answer.topics
            assert (there.name, int(there.error_code)) == ("t7", NONE)
            assert [p.partition_index for p in there.partitions] == [0, 1]
            assert int(missing.error_code) == UNKNOWN_TOPIC
            if version >= 10:
                assert {there.topic_id} == ids
            everything = await metadata(client, version)
            assert [t.name for t in everything.topics] == [
                f"t{v}" for v in versions(ApiKey.CREATE_TOPICS)
            ]
        for version in versions(ApiKey.DELETE_TOPICS):
            name = f"t{version + 1}"
            assert int((await delete(client, version, name)).error_code) == NONE
            assert int((await delete(client, version, name)).error_code) == UNKNOWN_TOPIC


@in_loop
async def test_deletion_and_metadata_by_id(tmp_path: Path) -> None:
    async with lone_voter(tmp_path, read_barrier="true") as running, Client.of(running) as client:
        topic_id = (await create(client, 7, "t")).topic_id
        for version in (12, 13):
            topic = part(
                ApiKey.METADATA, version, "MetadataRequestTopic", name=None, topic_id=topic_id
            )
            answer = await client.ask(
                ApiKey.METADATA,
                version,
                topics=(topic,),
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=False,
            )
            assert [t.name for t in answer.topics] == ["t"]
        state = part(ApiKey.DELETE_TOPICS, 6, "DeleteTopicState", name=None, topic_id=topic_id)
        answer = await client.ask(ApiKey.DELETE_TOPICS, 6, topics=(state,), timeout=NO_TIMEOUT)
        assert (answer.responses[0].name, int(answer.responses[0].error_code)) == ("t", NONE)


@in_loop
async def test_describe_cluster_in_every_version(tmp_path: Path) -> None:
    async with lone_voter(tmp_path, read_barrier="true") as running, Client.of(running) as client:
        for version in versions(ApiKey.DESCRIBE_CLUSTER):
            answer = await client.ask(
                ApiKey.DESCRIBE_CLUSTER,
                version,
                include_cluster_authorized_operations=False,
                endpoint_type=2,
                include_fenced_brokers=False,
            )
            assert answer.cluster_id == CLUSTER
            assert answer.controller_id == 1
            assert [(b.host, b.port) for b in answer.brokers] == [
                (HOST, running.config.listener.port)
            ]


@in_loop
async def test_a_static_quorum_is_described_without_directories_and_with_times_since_1970(
    tmp_path: Path,
) -> None:
    """As Kafka's tools want it; found with ``kafka-metadata-quorum describe --replication``."""
    async with lone_voter(tmp_path) as running, Client.of(running) as client:
        clock = running.node.clock
        before_ms = clock.wall_ms()
        asked = part(ApiKey.DESCRIBE_QUORUM, 2, "PartitionData", partition_index=0)
        topic = part(
            ApiKey.DESCRIBE_QUORUM,
            2,
            "TopicData",
            topic_name="__cluster_metadata",
            partitions=(asked,),
        )
        answer = await client.ask(ApiKey.DESCRIBE_QUORUM, 2, topics=(topic,))
        (voter,) = answer.topics[0].partitions[0].current_voters
        assert voter.replica_directory_id is None
        slack_ms = 2  # the two clocks are read one after the other
        for time_ms in (voter.last_fetch_timestamp, voter.last_caught_up_timestamp):
            assert before_ms - slack_ms <= time_ms <= clock.wall_ms() + slack_ms


@in_loop
async def test_metadata_on_a_controller_needs_the_barrier(tmp_path: Path) -> None:
    async with lone_voter(tmp_path) as running, Client.of(running) as client:
        with pytest.raises(Disconnected):
            await metadata(client, 12)
        assert running.listeners.rejected_connections == 1


@in_loop
async def test_a_refusal_longer_than_its_field_does_not_hurt_the_node(tmp_path: Path) -> None:
    """In version 2 the message shares a name's limit of 32767 bytes, and quotes the name."""
    async with lone_voter(tmp_path) as running, Client.of(running) as client:
        row = await create(client, 2, "x" * 32767)
        assert int(row.error_code) == INVALID_TOPIC
        assert len(row.error_message) == MESSAGE_CHARS_MAX
        row = await alter(client, 0, "y" * 32767, "retention.ms", "1")
        assert int(row.error_code) == INVALID_TOPIC
        assert running.errors == []


@in_loop
async def test_an_answer_that_cannot_be_encoded_ends_its_connection_only(tmp_path: Path) -> None:
    """Versions 10 and 11 of Metadata may ask by id and cannot answer without a name."""
    async with lone_voter(tmp_path, read_barrier="true") as running:
        async with Client.of(running) as client:
            topic = part(
                ApiKey.METADATA,
                11,
                "MetadataRequestTopic",
                name=None,
                topic_id=(await create(client, 7, "t")).topic_id,
            )
            unknown = part(
                ApiKey.METADATA,
                11,
                "MetadataRequestTopic",
                name=None,
                topic_id=UUID(int=5),
            )
            with pytest.raises(Disconnected):
                await client.ask(
                    ApiKey.METADATA,
                    11,
                    topics=(topic, unknown),
                    allow_auto_topic_creation=False,
                    include_topic_authorized_operations=False,
                )
        async with Client.of(running) as client:
            assert [t.name for t in (await metadata(client, 11)).topics] == ["t"]
        assert running.errors == []


@in_loop
async def test_a_broker_answers_reads_from_its_image_and_forwards_writes(tmp_path: Path) -> None:
    async with lone_voter(tmp_path) as controller, Client.of(controller) as client:
        topic_id = (await create(client, 7, "t", retention_ms="9")).topic_id
        port = controller.config.listener.port
        settings = settings_of(tmp_path, voters={1: port}, node_id=2) | {
            "process.roles": "broker",
            "read.barrier": "true",
        }
        broker = Running(formatted(settings))
        await broker.start()
        try:
            wanted = controller.node.machine.applied
            await until(lambda: broker.node.machine.applied >= wanted, "the broker caught up")
            async with Client.of(broker) as at_broker:
                answer = await metadata(at_broker, 12)
                assert [(t.name, t.topic_id) for t in answer.topics] == [("t", topic_id)]
                assert answer.controller_id == 2  # any broker: all of them forward
                assert set_on_topic(await configs_of(at_broker, 4, "t")) == {"retention.ms": "9"}
                for row in (
                    await create(at_broker, 7, "u"),
                    await alter(at_broker, 1, "t", "retention.ms", "1"),
                    await delete(at_broker, 6, "t"),
                ):
                    assert int(row.error_code) == NONE
                assert list(controller.node.machine.image.topics) == ["u"]
            wanted = controller.node.machine.applied
            await until(lambda: broker.node.machine.applied >= wanted, "the broker caught up")
            same = controller.node.machine.image.digest
            assert broker.node.machine.image.digest == same
            image = [e for e in broker.events if e["t"] == "image"][-1]
            assert (image["off"], image["digest"]) == (broker.node.machine.applied, same)
            assert [e["api"] for e in broker.events if e["t"] == "read"] == [
                "Metadata",
                "DescribeConfigs",
            ]
        finally:
            await broker.stop()


@in_loop
async def test_a_seed_does_not_repeat_topic_ids_after_a_restart(tmp_path: Path) -> None:
    seed = str(Random(5).getrandbits(64))
    ids = set()
    port = free_port()
    for name in ("a", "b"):
        settings = settings_of(tmp_path, voters={1: port}) | {"krucible.seed": seed}
        running = Running(formatted(settings))
        await running.start()
        try:
            await running.lead()
            running.node.pump.enqueue(Tick())
            async with Client.of(running) as client:
                ids.add((await create(client, 7, name)).topic_id)
        finally:
            await running.stop()
    assert len(ids) == 2
