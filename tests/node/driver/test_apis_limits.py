"""Answers that would be too long, and answers of versions that cannot say what is wrong."""

from __future__ import annotations

import asyncio
import functools
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kio.static.primitive import i32Timedelta

from node.driver import controller_work
from node.driver.apis import configs, forwarding
from node.driver.apis.configs import ANSWER_CHARS_MAX
from node.wire.api import ApiKey
from node.wire.errors import Disconnected
from node.wire.shape import REQUEST_ELEMENTS_MAX
from tests.support.nodes.api_homes import Site, broker_site, controller_site, part, versions
from tests.support.nodes.controllers import Cluster
from tests.support.nodes.driver import Running, formatted, free_port, in_loop, settings_of, until

NONE, TIMED_OUT, EXISTS, NOT_CONTROLLER, POLICY = 0, 7, 36, 41, 44
TOPIC, BROKER = 2, 4


async def describe(site: Site, *names: str, synonyms: bool = True) -> Any:
    key = ApiKey.DESCRIBE_CONFIGS
    resources = tuple(
        part(
            key,
            4,
            "DescribeConfigsResource",
            resource_type=TOPIC,
            resource_name=name,
            configuration_keys=None,
        )
        for name in names
    )
    answer = await site.ask(
        key, 4, resources=resources, include_synonyms=synonyms, include_documentation=False
    )
    return answer.results


@in_loop
async def test_settings_that_do_not_fit_are_refused_resource_by_resource(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(1)
    cluster.topic("small", (1,))
    cluster.topic("large", (1,), follower_replication_throttled_replicas="0:1," * 2_000 + "0:1")
    monkeypatch.setattr(configs, "ANSWER_CHARS_MAX", 15_000)
    async with broker_site(cluster) as site:
        rows = await describe(site, "small", "large", "large", "none", synonyms=False)
        assert [int(row.error_code) for row in rows] == [NONE, NONE, POLICY, POLICY]
        assert [len(row.configs) for row in rows] == [33, 33, 0, 0]
        assert "describe fewer resources" in rows[2].error_message
        assert [row.resource_name for row in rows] == ["small", "large", "large", "none"]


@in_loop
async def test_what_a_request_may_ask_at_most_has_an_answer_of_a_bounded_size() -> None:
    cluster = Cluster(1)
    cluster.topic("t", (1,), follower_replication_throttled_replicas="0:1," * 8_000 + "0:1")
    async with broker_site(cluster) as site:
        rows = await describe(site, *["t"] * 2_000)
        good = [row for row in rows if int(row.error_code) == NONE]
        assert 0 < len(good) < 200
        total = sum(
            len(each.value or "") + sum(len(s.value or "") for s in each.synonyms)
            for row in good
            for each in row.configs
        )
        assert ANSWER_CHARS_MAX / 2 < total <= ANSWER_CHARS_MAX
        assert len(rows) == 2_000 < REQUEST_ELEMENTS_MAX


@in_loop
async def test_metadata_that_was_refused_never_looks_like_metadata() -> None:
    """A follower cannot read linearizably; old versions have no error code of the whole."""
    cluster = Cluster(1)
    cluster.topic("t", (1,))
    async with controller_site(cluster, read_barrier="true") as site:
        site.node.refuses_reads = True
        for version in versions(site.apis, ApiKey.METADATA):
            topic = part(ApiKey.METADATA, version, "MetadataRequestTopic", name="t", topic_id=None)
            for topics in ((topic,), None if version else ()):
                answer = await site.ask(
                    ApiKey.METADATA,
                    version,
                    topics=topics,
                    allow_auto_topic_creation=False,
                    include_cluster_authorized_operations=False,
                    include_topic_authorized_operations=False,
                )
                assert answer.brokers == (), "clients take that for no answer"
                whole = int(getattr(answer, "error_code", NONE))
                rows = [(t.name, int(t.error_code)) for t in answer.topics]
                if version >= 13:
                    assert (whole, rows) == (NOT_CONTROLLER, [])
                else:
                    assert rows == ([("t", NOT_CONTROLLER)] if topics else [])


# --------------------------------------------------------------------------- what waits


async def metadata(site: Site) -> Any:
    return await site.ask(
        ApiKey.METADATA,
        12,
        topics=None,
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )


@in_loop
async def test_a_broker_that_has_not_caught_up_lets_only_so_many_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who gives up waits on, as far as the broker can see: they must not fill its memory."""
    monkeypatch.setattr(controller_work, "LOOKS_MAX", 3)
    broker = settings_of(tmp_path, voters={1: free_port()}, node_id=2)
    running = Running(formatted(broker | {"process.roles": "broker"}))
    looked: list[int] = []
    for number in range(3):
        assert running.node.when_published(functools.partial(looked.append, number))
    assert not running.node.when_published(functools.partial(looked.append, 3))
    assert looked == []
    running.node.close()


@in_loop
async def test_who_cannot_wait_is_disconnected() -> None:
    async with broker_site(Cluster(1)) as site:
        site.node.published = False
        with pytest.raises(Disconnected):
            await metadata(site)
        site.node.published = True
        assert (await metadata(site)).controller_id == 1


@in_loop
async def test_only_so_many_requests_are_forwarded_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forwarding, "FORWARDED_MAX", 2)
    cluster = Cluster(1)
    async with controller_site(cluster) as controller:
        controller.node.mute = True
        async with broker_site(cluster, [controller.endpoint]) as site:
            under_way = [asyncio.create_task(create(site, f"t{n}")) for n in range(2)]
            await until(lambda: len(controller.node.pending) == 2, "the controller has both")
            row = await create(site, "one-too-many")
            assert int(row.error_code) == TIMED_OUT
            assert "nothing was written" in row.error_message
            for write in controller.node.pending:
                write.refused()
            controller.node.mute = False
            assert {int((await task).error_code) for task in under_way} <= {NONE, EXISTS}
            assert int((await create(site, "now")).error_code) == NONE


async def create(site: Site, name: str) -> Any:
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
    wait = i32Timedelta.parse(timedelta(seconds=5))
    return (await site.ask(key, 7, topics=(topic,), timeout=wait, validate_only=False)).topics[0]
