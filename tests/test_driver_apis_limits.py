"""Answers that would be too long, and answers of versions that cannot say what is wrong."""

from __future__ import annotations

from typing import Any

import pytest
from api_homes import Site, broker_site, controller_site, part, versions
from controllers import Cluster
from driver_nodes import in_loop

from node.driver.apis import configs
from node.driver.apis.configs import ANSWER_CHARS_MAX
from node.wire.api import ApiKey
from node.wire.shape import REQUEST_ELEMENTS_MAX

NONE, NOT_CONTROLLER, POLICY = 0, 41, 44
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
