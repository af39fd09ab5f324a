"""Each API of a controller's listener on a real socket, over a real controller."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from random import Random
from typing import Any
from uuid import UUID

import pytest
from kio.static.primitive import i32Timedelta

from node.controller.errors import ApiError
from node.core.messages import Error
from node.driver.apis import registry
from node.driver.apis.fields import MESSAGE_CHARS_MAX
from node.driver.apis.registry import QUORUM
from node.driver.apis.serving import NOTHING_WRITTEN, OUTCOME_UNKNOWN
from node.metadata.features import GROUP_VERSION, KRAFT_VERSION, METADATA_VERSION
from node.wire.api import ALL_APIS, ApiKey, apis
from node.wire.connection import Connection
from node.wire.errors import Disconnected, RequestTimedOut
from node.wire.payloads import api_schema
from node.wire.structs import build
from tests.support.nodes.api_homes import (
    CLUSTER_ID,
    Site,
    controller_site,
    part,
    registration_fields,
    settings,
    versions,
)
from tests.support.nodes.controllers import Cluster
from tests.support.nodes.driver import in_loop
from tests.support.wire.entities import every_schema, random_entity

NONE, NOT_CONTROLLER, INVALID_REQUEST = 0, 41, 42
TOPIC, BROKER = 2, 4
WAIT = i32Timedelta.parse(timedelta(seconds=5))

# Kafka 4.1's list of the controller's listener, without what we have nothing for: quotas (49),
# SCRAM (51) and delegation tokens (38 to 41).
CONTROLLER = {1, 17, 18, 19, 20, 29, 30, 31, 32, 33, 36, 37, 43, 44, 45, 46, 52, 53, 54, 55, 56}
CONTROLLER |= {57, 58, 59, 60, 62, 63, 64, 67, 70, 73, 80, 81, 82}
BROKERS = {3, 17, 18, 19, 20, 22, 29, 30, 31, 32, 33, 36, 37, 43, 44, 45, 46, 55, 57, 60, 64, 75}
BROKERS |= {80, 81}


def test_a_listener_serves_kafkas_apis_of_its_role() -> None:
    config = settings("controller")
    table = registry.served(config, ["controller"], forwarding=True)
    assert set(table) == CONTROLLER
    assert set(registry.served(config, ["broker"], forwarding=True)) == BROKERS
    assert all(ALL_APIS[key] == api for key, api in table.items())
    assert list(table) == sorted(table)


def test_metadata_on_a_controller_needs_the_barrier() -> None:
    with_barrier = settings("controller", read_barrier="true")
    assert set(registry.served(with_barrier, ["controller"])) == CONTROLLER | {3}


def test_without_a_way_to_the_controller_a_broker_serves_what_its_core_answers() -> None:
    table = registry.served(settings("broker", node_id=7), ["broker"])
    assert set(table) == BROKERS - {80, 81}
    assert 55 not in registry.handlers(settings("broker", node_id=7), ["broker"])


# --------------------------------------------------------------------------- brokers, controllers


@in_loop
async def test_a_broker_registers_beats_and_is_unregistered() -> None:
    cluster = Cluster()
    async with controller_site(cluster) as site:
        for version in versions(site.apis, ApiKey.BROKER_REGISTRATION):
            id_ = 10 + version
            answer = await site.ask(
                ApiKey.BROKER_REGISTRATION,
                version,
                **registration_fields(ApiKey.BROKER_REGISTRATION, version, id_),
            )
            if version < 2:  # which has no directories, and the metadata version wants them
                assert int(answer.error_code) == 119
                continue
            assert int(answer.error_code) == NONE
            state = cluster.broker(id_)
            assert answer.broker_epoch == state.epoch
            assert (state.fenced, [x.host for x in state.listeners]) == (True, ["h"])
        for version in versions(site.apis, ApiKey.BROKER_HEARTBEAT):
            answer = await beat(site, 14, version)
            assert (int(answer.error_code), answer.is_fenced) == (NONE, False)
            assert answer.is_caught_up
        answer = await beat(site, 14, 1, broker_epoch=-7)
        assert int(answer.error_code) == 77  # STALE_BROKER_EPOCH
        for expected in (NONE, 102):  # BROKER_ID_NOT_REGISTERED
            answer = await site.ask(ApiKey.UNREGISTER_BROKER, 0, broker_id=14)
            assert int(answer.error_code) == expected
        assert 14 not in cluster.controller.image.brokers


async def beat(site: Site, id_: int, version: int, **fields: Any) -> Any:
    cluster = site.node.cluster
    values = {
        "broker_id": id_,
        "broker_epoch": cluster.broker(id_).epoch,
        "current_metadata_offset": cluster.committed,
        "want_fence": False,
        "want_shut_down": False,
        "offline_log_dirs": (None,),
    }
    return await site.ask(ApiKey.BROKER_HEARTBEAT, version, **(values | fields))


@in_loop
async def test_a_heartbeat_prolongs_the_session_from_its_arrival() -> None:
    cluster = Cluster(1)
    async with controller_site(cluster) as site:
        site.node.now_ms = 8000
        await beat(site, 1, 0)
        for now_ms, fenced in ((9500, None), (17_500, 1)):
            result = cluster.controller.expire_sessions(now_ms)
            assert result.reply == fenced
            cluster.do(result)


@in_loop
async def test_a_controller_registers_and_is_described() -> None:
    cluster = Cluster()
    async with controller_site(cluster) as site:
        answer = await describe_cluster(site, 2, endpoint_type=2)
        voters = [(1, 19093), (2, 19094)]
        assert [(int(b.broker_id), b.port) for b in answer.brokers] == voters
        answer = await site.ask(
            ApiKey.CONTROLLER_REGISTRATION,
            0,
            **registration_fields(ApiKey.CONTROLLER_REGISTRATION, 0, 1),
        )
        assert (int(answer.error_code), answer.error_message) == (NONE, None)
        # It has told no listener by the name of the one that asks.
        answer = await describe_cluster(site, 2, endpoint_type=2)
        assert [int(b.broker_id) for b in answer.brokers] == [1, 2]


async def describe_cluster(site: Site, version: int, **fields: Any) -> Any:
    return await site.ask(
        ApiKey.DESCRIBE_CLUSTER,
        version,
        **{"include_cluster_authorized_operations": False, "include_fenced_brokers": False}
        | fields,
    )


@in_loop
async def test_describe_cluster_answers_for_its_own_type_of_endpoint_only() -> None:
    """KIP-919; version 0 knows no types."""
    async with controller_site(Cluster()) as site:
        for version, type_, error in (
            (0, 1, INVALID_REQUEST),
            (1, 1, 114),
            (2, 1, 114),
            (1, 9, 115),
            (1, 2, NONE),
            (2, 2, NONE),
        ):
            answer = await describe_cluster(site, version, endpoint_type=type_)
            assert int(answer.error_code) == error, (version, type_)
            if error == NONE:
                assert (answer.cluster_id, answer.controller_id) == (CLUSTER_ID, 1)
                assert answer.endpoint_type == 2
    async with controller_site(Cluster(), read_barrier="true") as site:
        for version in range(3):  # answers Metadata, so it is taken for a broker
            answer = await describe_cluster(site, version, endpoint_type=1)
            assert (int(answer.error_code), answer.controller_id) == (NONE, 1)


@in_loop
async def test_producer_ids_are_never_given_twice() -> None:
    cluster = Cluster(1)
    async with controller_site(cluster) as site:
        epoch = cluster.broker(1).epoch
        blocks = []
        for _ in range(2):
            answer = await site.ask(
                ApiKey.ALLOCATE_PRODUCER_IDS, 0, broker_id=1, broker_epoch=epoch
            )
            assert int(answer.error_code) == NONE
            blocks.append((answer.producer_id_start, answer.producer_id_len))
        assert blocks == [(0, 1000), (1000, 1000)]
        answer = await site.ask(ApiKey.ALLOCATE_PRODUCER_IDS, 0, broker_id=1, broker_epoch=-5)
        assert (int(answer.error_code), answer.producer_id_len) == (77, 0)


# --------------------------------------------------------------------------- partitions


@in_loop
async def test_a_leader_alters_its_isr() -> None:
    cluster = Cluster(3)
    key = ApiKey.ALTER_PARTITION
    async with controller_site(cluster) as site:
        for version in versions(site.apis, key):
            topic_id = cluster.topic(f"t{version}", (1, 2, 3))
            members = tuple(
                part(key, version, "BrokerState", broker_id=b, broker_epoch=cluster.broker(b).epoch)
                for b in (1, 2)
                if version >= 3
            )
            rows = [
                part(
                    key,
                    version,
                    "PartitionData",
                    partition_index=index,
                    leader_epoch=0,
                    new_isr=(1, 2),
                    new_isr_with_epochs=members,
                    leader_recovery_state=0,
                    partition_epoch=0,
                )
                for index in (0, 9)
            ]
            topics = (
                part(key, version, "TopicData", topic_id=topic_id, partitions=(rows[0],)),
                part(key, version, "TopicData", topic_id=topic_id, partitions=(rows[1],)),
                part(key, version, "TopicData", topic_id=None, partitions=(rows[0],)),
            )
            epoch = cluster.broker(1).epoch
            answer = await site.ask(key, version, broker_id=1, broker_epoch=epoch, topics=topics)
            assert int(answer.error_code) == NONE
            found = {t.topic_id: list(t.partitions) for t in answer.topics}
            done, missing = found[topic_id]
            assert (int(done.error_code), done.isr, done.partition_epoch) == (NONE, (1, 2), 1)
            assert int(missing.error_code) == 3
            ((row,),) = [rows for id_, rows in found.items() if id_ != topic_id]
            assert int(row.error_code) == 100  # UNKNOWN_TOPIC_ID
            assert cluster.partition(f"t{version}").isr == (1, 2)


@in_loop
async def test_a_broker_assigns_replicas_to_directories() -> None:
    cluster = Cluster(1)
    key = ApiKey.ASSIGN_REPLICAS_TO_DIRS
    topic_id = cluster.topic("t", (1,), (1,))
    directory = UUID(int=1001)
    async with controller_site(cluster) as site:
        rows = tuple(part(key, 0, "PartitionData", partition_index=index) for index in (0, 1, 5))
        topic = part(key, 0, "TopicData", topic_id=topic_id, partitions=rows)
        answer = await site.ask(
            key,
            0,
            broker_id=1,
            broker_epoch=cluster.broker(1).epoch,
            directories=(part(key, 0, "DirectoryData", id_=directory, topics=(topic,)),),
        )
        assert int(answer.error_code) == NONE
        (found,) = answer.directories
        assert found.id_ == directory
        ((p0, p1, p5),) = [t.partitions for t in found.topics]
        assert [int(p.error_code) for p in (p0, p1, p5)] == [NONE, NONE, 3]
        assert cluster.partition("t").directories == (directory,)


@in_loop
async def test_partitions_are_added() -> None:
    cluster = Cluster(3)
    key = ApiKey.CREATE_PARTITIONS
    async with controller_site(cluster) as site:
        for version in versions(site.apis, key):
            name = f"t{version}"
            cluster.topic(name, (1, 2))
            row = part(key, version, "CreatePartitionsAssignment", broker_ids=(2, 3))
            topics = tuple(
                part(key, version, "CreatePartitionsTopic", name=n, count=2, assignments=rows)
                for n, rows in ((name, (row,)), ("none", None))
            )
            for validate_only in (True, False):
                answer = await site.ask(
                    key, version, topics=topics, timeout=WAIT, validate_only=validate_only
                )
                found = {r.name: int(r.error_code) for r in answer.results}
                assert found == {name: NONE, "none": 3}
                there = cluster.controller.image.topics[name].partitions
                assert len(there) == (1 if validate_only else 2)
            assert cluster.partition(name, 1).replicas == (2, 3)


@in_loop
async def test_leaders_are_elected() -> None:
    cluster = Cluster(2)
    key = ApiKey.ELECT_LEADERS
    cluster.topic("t", (1, 2))
    async with controller_site(cluster) as site:
        for version in versions(site.apis, key):
            rows = tuple(
                part(key, version, "TopicPartitions", topic=t, partitions=(0,)) for t in ("t", "u")
            )
            answer = await site.ask(
                key, version, election_type=0, topic_partitions=rows, timeout=WAIT
            )
            found = {
                r.topic: [int(p.error_code) for p in r.partition_result]
                for r in answer.replica_election_results
            }
            assert found == {"t": [84], "u": [3]}  # ELECTION_NOT_NEEDED
            assert int(getattr(answer, "error_code", NONE)) == NONE
            long = part(key, version, "TopicPartitions", topic="x" * 5000, partitions=(0,))
            answer = await site.ask(
                key, version, election_type=0, topic_partitions=(long,), timeout=WAIT
            )
            (row,) = answer.replica_election_results[0].partition_result
            assert len(row.error_message) == MESSAGE_CHARS_MAX
            answer = await site.ask(
                key, version, election_type=0, topic_partitions=None, timeout=WAIT
            )
            assert [len(r.partition_result) for r in answer.replica_election_results] == [0]


@in_loop
async def test_partitions_are_reassigned_listed_and_left_alone() -> None:
    cluster = Cluster(3)
    cluster.topic("t", (1, 2))
    alter, list_ = ApiKey.ALTER_PARTITION_REASSIGNMENTS, ApiKey.LIST_PARTITION_REASSIGNMENTS
    async with controller_site(cluster) as site:
        for version in versions(site.apis, alter):
            for replicas, ongoing in (((3, 1), 1), (None, 0)):
                row = part(
                    alter, version, "ReassignablePartition", partition_index=0, replicas=replicas
                )
                topic = part(alter, version, "ReassignableTopic", name="t", partitions=(row,))
                answer = await site.ask(
                    alter,
                    version,
                    timeout=WAIT,
                    allow_replication_factor_change=True,
                    topics=(topic,),
                )
                assert int(answer.error_code) == NONE
                ((result,),) = [t.partitions for t in answer.responses]
                assert int(result.error_code) == NONE, result
                for asked in (
                    None,
                    (
                        part(
                            list_,
                            0,
                            "ListPartitionReassignmentsTopics",
                            name="t",
                            partition_indexes=(0,),
                        ),
                    ),
                ):
                    listed = await site.ask(list_, 0, timeout=WAIT, topics=asked)
                    assert int(listed.error_code) == NONE
                    assert len(listed.topics) == ongoing
                    for found in listed.topics:
                        assert found.partitions[0].adding_replicas == (3,)
                        assert found.partitions[0].removing_replicas == (2,)


# --------------------------------------------------------------------------- settings, features


@in_loop
async def test_alter_configs_replaces_all_settings_of_a_resource() -> None:
    cluster = Cluster(1)
    key = ApiKey.ALTER_CONFIGS
    async with controller_site(cluster) as site:
        for version in versions(site.apis, key):
            name = f"t{version}"
            cluster.topic(name, (1,), retention_ms="5")
            change = part(key, version, "AlterableConfig", name="segment.ms", value="7")
            resources = tuple(
                part(
                    key,
                    version,
                    "AlterConfigsResource",
                    resource_type=TOPIC,
                    resource_name=resource,
                    configs=(change,),
                )
                for resource in (name, "none")
            )
            answer = await site.ask(key, version, resources=resources, validate_only=False)
            assert [int(r.error_code) for r in answer.responses] == [NONE, 3]
            assert cluster.controller.image.config((TOPIC, name)) == {"segment.ms": "7"}


@in_loop
async def test_features_are_updated_all_or_none() -> None:
    """Versions 0 and 1 name the features that were updated, version 2 does not."""
    key = ApiKey.UPDATE_FEATURES
    for version in range(3):
        cluster = Cluster()
        level = cluster.controller.image.metadata_version
        async with controller_site(cluster) as site:
            for wanted, error in ((level, NONE), (10_000, 95)):
                update = part(
                    key,
                    version,
                    "FeatureUpdateKey",
                    feature=METADATA_VERSION,
                    max_version_level=wanted,
                    allow_downgrade=False,
                    upgrade_type=1,
                )
                answer = await site.ask(
                    key, version, timeout=WAIT, feature_updates=(update,), validate_only=False
                )
                assert int(answer.error_code) == error
                if version < 2:
                    named = [r.feature for r in answer.results]
                    assert named == ([METADATA_VERSION] if error == NONE else [])


def kraft_update(level: int, upgrade_type: int = 1) -> Any:
    key = ApiKey.UPDATE_FEATURES
    return part(
        key,
        2,
        "FeatureUpdateKey",
        feature=KRAFT_VERSION,
        max_version_level=level,
        upgrade_type=upgrade_type,
    )


@in_loop
@pytest.mark.parametrize("validate_only", [False, True])
async def test_the_core_changes_the_kraft_version_unless_it_is_only_asked(
    validate_only: bool,
) -> None:
    """KIP-853: its record is a control record; the other levels of the request follow."""
    cluster = Cluster()
    key = ApiKey.UPDATE_FEATURES
    other = part(
        key, 2, "FeatureUpdateKey", feature=GROUP_VERSION, max_version_level=0, upgrade_type=2
    )
    async with controller_site(cluster) as site:
        updates = (kraft_update(1), other)
        answer = await site.ask(
            key, 2, timeout=WAIT, feature_updates=updates, validate_only=validate_only
        )
        assert int(answer.error_code) == NONE
        assert site.node.replica.kraft_version == (0 if validate_only else 1)
        assert (GROUP_VERSION in cluster.controller.image.features) == validate_only


@in_loop
async def test_the_trace_tells_the_kraft_version_that_levels_were_compared_with() -> None:
    """A level that is in force already may be asked for as any type of change."""
    key = ApiKey.UPDATE_FEATURES
    async with controller_site(Cluster()) as site:
        for update, error in (
            (kraft_update(1, 3), 95),
            (kraft_update(1), 0),
            (kraft_update(1, 3), 0),
        ):
            answer = await site.ask(
                key, 2, timeout=WAIT, feature_updates=(update,), validate_only=False
            )
            assert int(answer.error_code) == error
        told = [fields["kraft"] for name, fields in site.node.traced if name == "answered"]
    assert told == [0, 1, 1]


@in_loop
@pytest.mark.parametrize(
    ("level", "upgrade_type", "core", "error"),
    [
        (2, 1, Error.NONE, ApiError.INVALID_UPDATE_VERSION),  # the controller knows it cannot be
        (1, 2, Error.NONE, ApiError.INVALID_UPDATE_VERSION),
        (1, 1, Error.INVALID_UPDATE_VERSION, ApiError.INVALID_UPDATE_VERSION),
        (1, 1, Error.REQUEST_TIMED_OUT, ApiError.REQUEST_TIMED_OUT),
        (1, 1, Error.NOT_LEADER_OR_FOLLOWER, ApiError.NOT_CONTROLLER),
    ],
)
async def test_a_kraft_version_that_cannot_be_is_refused_with_all_of_the_request(
    level: int, upgrade_type: int, core: Error, error: ApiError
) -> None:
    """KIP-584: all levels or none."""
    cluster = Cluster()
    key = ApiKey.UPDATE_FEATURES
    other = part(
        key, 2, "FeatureUpdateKey", feature=GROUP_VERSION, max_version_level=0, upgrade_type=2
    )
    async with controller_site(cluster) as site:
        site.node.upgrade_error = core
        updates = (other, kraft_update(level, upgrade_type))
        answer = await site.ask(key, 2, timeout=WAIT, feature_updates=updates, validate_only=False)
        assert int(answer.error_code) == error
        assert answer.error_message
        assert GROUP_VERSION in cluster.controller.image.features
        assert site.node.replica.kraft_version == 0


# --------------------------------------------------------------------------- security


@in_loop
async def test_sasl_is_refused_and_ends_the_connection_and_acls_are_disabled() -> None:
    async with controller_site(Cluster()) as site:
        answer = await site.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")
        assert int(answer.error_code) == 34
        assert len(site.rejected) == 1
        creation = part(
            ApiKey.CREATE_ACLS,
            3,
            "AclCreation",
            resource_type=2,
            resource_name="t",
            resource_pattern_type=3,
            principal="User:a",
            host="*",
            operation=3,
            permission_type=3,
        )
        answer = await site.ask(ApiKey.CREATE_ACLS, 3, creations=(creation,) * 2)
        assert [int(r.error_code) for r in answer.results] == [54, 54]


# --------------------------------------------------------------------------- whoever is not active


WRITES = sorted({19, 20, 33, 37, 43, 44, 45, 56, 57, 62, 63, 64, 67, 70, 73})


@in_loop
async def test_every_write_in_every_version_says_that_nothing_was_written() -> None:
    """NOT_CONTROLLER in some field, and the words where the version has words."""
    async with controller_site(Cluster(1), active=False) as site:
        for schema in every_schema(apis(WRITES)):
            request = random_entity(schema.request, Random(schema.key), items_max=2)
            async with await Connection.open(site.endpoint) as connection:
                text = repr(await connection.request(request, timeout_s=5.0))
            if "not_controller" not in text:
                assert "error_code" not in text, text  # nothing was asked for, so no rows
            if "error_message='" in text:
                assert NOTHING_WRITTEN in text


@in_loop
async def test_a_write_that_was_lost_after_the_append_has_an_unknown_outcome() -> None:
    cluster = Cluster(1)
    async with controller_site(cluster) as site:
        site.node.deposed = True
        answer = await site.ask(ApiKey.UNREGISTER_BROKER, 0, broker_id=1)
        assert (int(answer.error_code), answer.error_message) == (NOT_CONTROLLER, OUTCOME_UNKNOWN)


@in_loop
async def test_a_write_is_answered_only_when_it_is_committed() -> None:
    cluster = Cluster(1)
    async with controller_site(cluster) as site:
        site.node.mute = True
        async with await Connection.open(site.endpoint) as connection:
            epoch = cluster.broker(1).epoch
            request = build(api_schema(67, 0).request, broker_id=1, broker_epoch=epoch)
            with pytest.raises(RequestTimedOut):
                await connection.request(request, timeout_s=0.05)
        assert len(site.node.pending) == 1


# --------------------------------------------------------------------------- hostile input


def test_no_valid_request_of_any_version_breaks_a_listener() -> None:
    """Whatever the fields hold: an answer, or an end of that connection, and nothing else."""

    @in_loop
    async def run() -> None:
        cluster = Cluster(3)
        cluster.topic("a", (1, 2, 3))
        async with controller_site(cluster, read_barrier="true") as site:
            errors: list[dict[str, Any]] = []
            asyncio.get_running_loop().set_exception_handler(lambda _, c: errors.append(c))
            own = {key for key in site.apis.table if key not in QUORUM}
            answered = 0
            for schema in every_schema(apis(own)):
                for round_ in range(8):
                    rng = Random(schema.key * 1000 + schema.version * 10 + round_)
                    request = random_entity(schema.request, rng)
                    async with await Connection.open(site.endpoint) as connection:
                        try:
                            await connection.request(request, timeout_s=5.0)
                            answered += 1
                        except Disconnected:  # its answer does not fit the protocol
                            continue
                    assert errors == [], (schema, request)
            assert answered > 300

    run()
