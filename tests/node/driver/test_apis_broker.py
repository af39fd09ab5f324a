"""Each API of a broker's listener on a real socket: its image, and the way to the controller."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from kio.static.primitive import i32Timedelta

from node.controller.errors import ApiError
from node.controller.operations import AlterResource, ConfigChange
from node.core.types import Endpoint
from node.driver.apis.call import Call
from node.driver.apis.envelope import FORWARDABLE
from node.driver.apis.fields import CLUSTER_OPERATIONS, TOPIC_OPERATIONS, code
from node.driver.apis.forwarding import anonymous_principal
from node.driver.apis.serving import NOTHING_WRITTEN, OUTCOME_UNKNOWN
from node.metadata.schemas import BrokerEndpoint
from node.wire.api import ALL_APIS, ApiKey
from node.wire.errors import Disconnected
from node.wire.payloads import api_schema, decode, encode, request_frame
from node.wire.structs import build
from tests.support.nodes.api_homes import (
    HOST,
    FakeNode,
    Site,
    broker_site,
    controller_site,
    part,
    settings,
    versions,
)
from tests.support.nodes.controllers import Cluster
from tests.support.nodes.driver import in_loop, until

NONE, UNKNOWN_TOPIC, TIMED_OUT, UNSUPPORTED, NOT_CONTROLLER, INVALID = 0, 3, 7, 35, 41, 42
TOPIC, BROKER = 2, 4
SOON = i32Timedelta.parse(timedelta(milliseconds=100))
LATER = i32Timedelta.parse(timedelta(seconds=5))


async def metadata(site: Site, version: int, *names: str) -> Any:
    topics: Any = tuple(
        part(ApiKey.METADATA, version, "MetadataRequestTopic", name=n, topic_id=None) for n in names
    )
    return await site.ask(
        ApiKey.METADATA,
        version,
        topics=topics,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=version in (8, 9, 10),
        include_topic_authorized_operations=True,
    )


async def create(site: Site, name: str, timeout: i32Timedelta = LATER) -> Any:
    key = ApiKey.CREATE_TOPICS
    topic = part(
        key,
        7,
        "CreatableTopic",
        name=name,
        num_partitions=1,
        replication_factor=1,
        assignments=(),
        configs=(),
    )
    answer = await site.ask(key, 7, topics=(topic,), timeout=timeout, validate_only=False)
    return answer.topics[0]


# --------------------------------------------------------------------------- Metadata


@in_loop
async def test_metadata_shows_brokers_in_service_and_partitions_as_they_can_be_used() -> None:
    cluster = Cluster(2)
    cluster.register(3)  # and stays fenced
    elsewhere = BrokerEndpoint(name="OTHER", host="h", port=1, security_protocol=0)
    cluster.start(4, listeners=(elsewhere,))
    topic_id = cluster.topic("t", (2, 1), (4, 1))
    async with broker_site(cluster) as site:
        for version in versions(site.apis, ApiKey.METADATA):
            answer = await metadata(site, version, "t", "none")
            assert [int(b.node_id) for b in answer.brokers] == [1, 2]
            assert getattr(answer, "controller_id", 1) == 1
            there, missing = answer.topics
            assert (int(there.error_code), int(missing.error_code)) == (NONE, UNKNOWN_TOPIC)
            assert getattr(there, "topic_id", topic_id) == topic_id
            assert getattr(there, "topic_authorized_operations", TOPIC_OPERATIONS) == (
                TOPIC_OPERATIONS
            )
            if version in (8, 9, 10):
                assert answer.cluster_authorized_operations == CLUSTER_OPERATIONS
            good, hidden = there.partitions
            assert (good.leader_id, tuple(good.replica_nodes)) == (2, (2, 1))
            assert getattr(good, "offline_replicas", ()) == ()
            assert hidden.leader_id == -1
            # Version 0 leaves out whom it cannot reach; 6 is the first to name the listener.
            assert tuple(hidden.replica_nodes) == ((1,) if version == 0 else (4, 1))
            assert int(hidden.error_code) == (72 if version >= 6 else 5)
            if version >= 5:
                assert hidden.offline_replicas == (4,)


@in_loop
async def test_a_replica_on_a_failed_disk_is_offline() -> None:
    cluster = Cluster(2)
    cluster.topic("t", (1, 2))
    cluster.now_ms = 20_000  # its session is over
    cluster.beat(1)
    cluster.start(2, log_dirs=(UUID(int=7777),))
    async with broker_site(cluster) as site:
        ((partition,),) = [t.partitions for t in (await metadata(site, 12, "t")).topics]
        assert partition.offline_replicas == (2,)


@in_loop
async def test_a_broker_that_nobody_registered_names_itself() -> None:
    async with broker_site(Cluster(), node_id=7) as site:
        answer = await metadata(site, 12)
        assert [(int(b.node_id), b.port) for b in answer.brokers] == [(7, 19095)]
        assert answer.controller_id == 7


@in_loop
async def test_describe_cluster_names_brokers_and_fenced_ones_if_asked() -> None:
    cluster = Cluster(1)
    cluster.register(2)
    async with broker_site(cluster) as site:
        for fenced, expected in ((False, [(1, False)]), (True, [(1, False), (2, True)])):
            answer = await site.ask(
                ApiKey.DESCRIBE_CLUSTER,
                2,
                include_cluster_authorized_operations=True,
                endpoint_type=1,
                include_fenced_brokers=fenced,
            )
            assert [(int(b.broker_id), b.is_fenced) for b in answer.brokers] == expected
            assert (answer.controller_id, answer.endpoint_type) == (1, 1)
            assert answer.cluster_authorized_operations == CLUSTER_OPERATIONS
        site.node.replica.leader_id = 3001
        answer = await site.ask(
            ApiKey.DESCRIBE_CLUSTER, 1, include_cluster_authorized_operations=False, endpoint_type=2
        )
        assert [int(b.broker_id) for b in answer.brokers] == [3000, 3001]
        assert (answer.controller_id, answer.endpoint_type) == (3001, 2)


# --------------------------------------------------------------------------- pages of topics


async def page(site: Site, names: tuple[str, ...], limit: int, cursor: Any = None) -> Any:
    key = ApiKey.DESCRIBE_TOPIC_PARTITIONS
    if cursor is not None:
        cursor = part(
            key, 0, "Cursor", topic_name=cursor.topic_name, partition_index=cursor.partition_index
        )
    topics = tuple(part(key, 0, "TopicRequest", name=name) for name in names)
    return await site.ask(key, 0, topics=topics, response_partition_limit=limit, cursor=cursor)


@in_loop
async def test_topics_come_in_pages_that_miss_and_repeat_nothing() -> None:
    cluster = Cluster(1)
    for name, count in (("a", 3), ("b", 2), ("c", 1)):
        cluster.topic(name, *[(1,)] * count)
    everything = [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("c", 0)]
    async with broker_site(cluster) as site:
        for limit in range(1, 8):
            found = []
            cursor = None
            for _ in range(8):
                answer = await page(site, (), limit, cursor)
                rows = [(t.name, p.partition_index) for t in answer.topics for p in t.partitions]
                assert 0 < len(rows) <= limit
                found += rows
                cursor = answer.next_cursor
                if cursor is None:
                    break
            assert found == everything


@in_loop
async def test_a_page_names_what_is_unknown_and_refuses_a_cursor_elsewhere() -> None:
    cluster = Cluster(1)
    cluster.topic("a", (1,))
    async with broker_site(cluster) as site:
        answer = await page(site, ("a", "none", "no/name"), 9)
        found = {t.name: int(t.error_code) for t in answer.topics}
        assert found == {"a": NONE, "none": UNKNOWN_TOPIC, "no/name": 17}
        cursor = build(api_schema(75, 0).request, "Cursor", topic_name="zz", partition_index=0)
        with pytest.raises(Disconnected):
            await page(site, ("a",), 9, cursor)
        assert (await page(site, ("a",), -1)).topics == ()


# --------------------------------------------------------------------------- DescribeConfigs


async def configs(site: Site, type_: int, name: str, version: int = 4, **fields: Any) -> Any:
    key = ApiKey.DESCRIBE_CONFIGS
    resource = part(
        key,
        version,
        "DescribeConfigsResource",
        resource_type=type_,
        resource_name=name,
        configuration_keys=fields.pop("keys", None),
    )
    answer = await site.ask(
        key,
        version,
        resources=(resource,),
        include_synonyms=fields.pop("synonyms", False),
        include_documentation=False,
    )
    return answer.results[0]


def set_broker(cluster: Cluster, name: str, key: str, value: str) -> None:
    change = AlterResource(BROKER, name, [ConfigChange(key, 0, value)])
    (result,) = cluster.do(cluster.controller.alter_configs([change]))
    assert result.error == NONE, result


@in_loop
async def test_a_topics_settings_come_with_defaults_and_their_sources() -> None:
    cluster = Cluster(1)
    cluster.topic("t", (1,), retention_ms="9")
    set_broker(cluster, "", "log.segment.bytes", "1000000")
    set_broker(cluster, "1", "log.roll.ms", "77")
    async with broker_site(cluster) as site:
        for version in versions(site.apis, ApiKey.DESCRIBE_CONFIGS):
            row = await configs(site, TOPIC, "t", version)
            found = {c.name: (c.value, c.config_source) for c in row.configs}
            assert found["retention.ms"] == ("9", 1)
            assert found["segment.ms"] == ("77", 2)
            assert found["segment.bytes"] == ("1000000", 3)
            assert found["cleanup.policy"] == ("delete", 5)
            assert len(found) == 33
        row = await configs(site, TOPIC, "t", keys=("retention.ms",), synonyms=True)
        (setting,) = row.configs
        assert [(s.name, s.value, s.source) for s in setting.synonyms] == [
            ("retention.ms", "9", 1),
            ("log.retention.ms", "604800000", 5),
        ]
        assert int((await configs(site, TOPIC, "none")).error_code) == UNKNOWN_TOPIC


@in_loop
async def test_a_broker_describes_itself_and_the_default_of_all() -> None:
    cluster = Cluster(1)
    set_broker(cluster, "", "log.segment.bytes", "1000000")
    set_broker(cluster, "1", "ssl.keystore.password", "hush")
    async with broker_site(cluster) as site:
        own = {c.name: c for c in (await configs(site, BROKER, "1")).configs}
        assert (own["node.id"].value, own["node.id"].read_only) == ("1", True)
        assert (own["log.segment.bytes"].value, own["log.segment.bytes"].config_source) == (
            "1000000",
            3,
        )
        hidden = own["ssl.keystore.password"]
        assert (hidden.value, hidden.is_sensitive) == (None, True)
        default = await configs(site, BROKER, "")
        assert {c.config_source for c in default.configs} == {3}
        assert ("log.segment.bytes", "1000000") in [(c.name, c.value) for c in default.configs]
        assert int((await configs(site, BROKER, "2")).error_code) == INVALID


# --------------------------------------------------------------------------- forwarding


@in_loop
async def test_writes_are_forwarded_in_every_version() -> None:
    cluster = Cluster(1)
    async with controller_site(cluster) as controller:
        async with broker_site(cluster, [controller.endpoint]) as site:
            for version in versions(site.apis, ApiKey.CREATE_TOPICS):
                topic = part(
                    ApiKey.CREATE_TOPICS,
                    version,
                    "CreatableTopic",
                    name=f"t{version}",
                    num_partitions=1,
                    replication_factor=1,
                    assignments=(),
                    configs=(),
                )
                answer = await site.ask(
                    ApiKey.CREATE_TOPICS,
                    version,
                    topics=(topic,),
                    timeout=LATER,
                    validate_only=False,
                )
                assert [int(t.error_code) for t in answer.topics] == [NONE]
            answers = await asyncio.gather(*[create(site, f"many{i}") for i in range(12)])
            assert {int(row.error_code) for row in answers} == {NONE}
        assert len(cluster.controller.image.topics) == 12 + 6


@in_loop
async def test_the_new_controller_is_found() -> None:
    cluster, old = Cluster(1), Cluster(1)
    async with controller_site(cluster) as now, controller_site(old, active=False) as before:
        dead = Endpoint(HOST, 1)
        known = [None, dead, before.endpoint, now.endpoint]
        async with broker_site(cluster, known) as site:
            assert int((await create(site, "t")).error_code) == NONE


@in_loop
async def test_with_no_controller_nothing_is_written_and_the_client_is_told_so() -> None:
    async with broker_site(Cluster(1)) as site:
        row = await create(site, "t", SOON)
        assert int(row.error_code) == TIMED_OUT
        assert "nothing was written" in row.error_message


@in_loop
async def test_an_answer_that_is_lost_leaves_the_outcome_unknown() -> None:
    cluster = Cluster(1)
    async with controller_site(cluster) as controller:
        controller.node.mute = True
        async with broker_site(cluster, [controller.endpoint]) as site:
            row = await create(site, "t", SOON)
            assert int(row.error_code) == TIMED_OUT
            assert "may still take effect" in row.error_message


@in_loop
async def test_what_a_deposed_controller_says_is_not_tried_again() -> None:
    cluster = Cluster(1)
    async with controller_site(cluster) as controller:
        controller.node.deposed = True
        async with broker_site(cluster, [controller.endpoint]) as site:
            row = await create(site, "t")
            assert (int(row.error_code), row.error_message) == (NOT_CONTROLLER, OUTCOME_UNKNOWN)


@in_loop
async def test_a_broker_without_a_way_to_the_controller_refuses() -> None:
    node = FakeNode(settings("broker", node_id=7), Cluster(1))
    async with Site(node) as site:
        row = await create(site, "t")
        assert (int(row.error_code), row.error_message) == (NOT_CONTROLLER, NOTHING_WRITTEN)


@in_loop
async def test_a_broker_closes_with_requests_under_way() -> None:
    cluster = Cluster(1)
    async with controller_site(cluster) as controller:
        controller.node.mute = True
        async with broker_site(cluster, [controller.endpoint]) as site:
            asked = asyncio.create_task(create(site, "t"))
            await until(lambda: controller.node.pending, "the controller has the request")
        with pytest.raises(Disconnected):
            await asked


@in_loop
async def test_every_refusal_of_a_forwarded_request_can_be_said_in_every_version() -> None:
    """DescribeQuorum and voter changes too, whose answers only the core knows."""
    async with broker_site(Cluster(1)) as site:
        asked: list[tuple[ApiKey, dict[str, Any]]] = [
            (ApiKey.DESCRIBE_QUORUM, {"topics": ()}),
            (
                ApiKey.ADD_RAFT_VOTER,
                {
                    "cluster_id": None,
                    "timeout": SOON,
                    "voter_id": 9,
                    "voter_directory_id": UUID(int=9),
                    "listeners": (),
                    "ack_when_committed": True,
                },
            ),
        ]
        for key, values in asked:
            for version in versions(site.apis, key):
                schema = api_schema(key, version)
                request = build(schema.request, **values)
                answers: list[Any] = []
                call = _Recorder(schema, request, answers)
                site.apis._refuse(Call(call), ApiError.REQUEST_TIMED_OUT, "late")
                assert int(answers[0].error_code) == TIMED_OUT
                assert decode(schema.response, encode(answers[0])) == answers[0]


class _Recorder:
    """A request that keeps what it is answered."""

    client_id = None
    connection = 1
    peer = (HOST, 1)

    def __init__(self, schema: Any, body: Any, answers: list[Any]) -> None:
        self.api_key, self.version, self.body = schema.key, schema.version, body
        self._answers = answers

    def reply(self, answer: Any, *, then_close: str | None = None) -> None:
        assert then_close is None
        self._answers.append(answer)

    def reject(self, reason: str) -> None:
        raise AssertionError(reason)


# --------------------------------------------------------------------------- envelopes


def test_the_principal_is_that_of_kafka() -> None:
    """Version 0 in two bytes, then two compact strings, a boolean and no tags."""
    assert anonymous_principal() == b"\0\0" + b"\x05User" + b"\x0aANONYMOUS" + b"\0" + b"\0"


async def wrap(site: Site, data: bytes, address: bytes = b"\x7f\0\0\1") -> Any:
    return await site.ask(
        ApiKey.ENVELOPE, 0, request_data=data, request_principal=b"any", client_host_address=address
    )


def inner(key: int, version: int, **values: Any) -> bytes:
    schema = api_schema(key, version)
    frame = request_frame(schema, 5, b"client", encode(build(schema.request, **values)))
    return frame[4:]


@in_loop
async def test_an_envelope_is_answered_with_the_answer_inside() -> None:
    cluster = Cluster(1)
    async with controller_site(cluster) as site:
        answer = await wrap(site, inner(64, 0, broker_id=9))
        assert int(answer.error_code) == NONE
        # correlation 5 and no tags, then the body
        response: Any = decode(api_schema(64, 0).response, answer.response_data, 5)
        assert answer.response_data[:5] == b"\0\0\0\x05\0"
        assert int(response.error_code) == 102


@in_loop
async def test_envelopes_hold_forwardable_requests_only() -> None:
    async with controller_site(Cluster(1)) as site:
        for data, address, error in (
            (inner(62 + 1, 0, **_beat()), b"\x7f\0\0\1", INVALID),
            (inner(64, 0, broker_id=9), b"\x7f\0\1", INVALID),
            (b"", b"\x7f\0\0\1", UNSUPPORTED),
            (inner(64, 0, broker_id=9)[:-2], b"\x7f\0\0\1", UNSUPPORTED),
            (inner(64, 0, broker_id=9) + b"x", b"\0" * 16, UNSUPPORTED),
            (b"\0\x40\0\x09" + bytes(8), b"\x7f\0\0\1", UNSUPPORTED),
        ):
            answer = await wrap(site, data, address)
            assert (int(answer.error_code), answer.response_data) == (error, None), data


def _beat() -> dict[str, Any]:
    return {
        "broker_id": 1,
        "broker_epoch": 1,
        "current_metadata_offset": 1,
        "want_fence": False,
        "want_shut_down": False,
    }


def test_what_is_forwardable_is_known() -> None:
    assert set(ALL_APIS) >= FORWARDABLE
    assert ApiKey.ENVELOPE not in FORWARDABLE


@in_loop
async def test_an_envelope_says_that_another_node_is_the_controller() -> None:
    async with controller_site(Cluster(1), active=False) as site:
        answer = await wrap(site, inner(64, 0, broker_id=9))
        assert (int(answer.error_code), answer.response_data) == (NOT_CONTROLLER, None)


@in_loop
async def test_an_envelope_for_the_quorum_goes_to_the_quorum() -> None:
    taken: list[int] = []

    def quorum(request: Any) -> None:
        taken.append(request.api_key)
        request.reply(build(api_schema(55, 0).response, error_code=code(NONE), topics=()))

    node = FakeNode(settings("controller"), Cluster(1))
    async with Site(node, quorum=quorum) as site:
        answer = await wrap(site, inner(55, 0, topics=()))
        assert (int(answer.error_code), taken) == (NONE, [55])
    async with Site(node) as site:
        answer = await wrap(site, inner(55, 0, topics=()))
        assert int(answer.error_code) == -1
