"""``views``: what brokers tell clients of topics, while administrators change these.

Clients of controllers make, grow, move and delete topics, and played brokers come and go. Those of
brokers ask what a topic looks like, by Metadata and by DescribeTopicPartitions (KIP-966), a few
partitions a page. Each answer must be a state of the committed log that the broker may have reached
(checker ``reads``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any, Final

from kio.schema.describe_topic_partitions.v0.request import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.types import TopicName
from kio.static.primitive import i32

from harness import seeds
from harness.contracts.clients import Client, Outcome
from harness.contracts.system import System
from harness.contracts.traits import WorkloadTraits
from harness.contracts.workload import LOCAL, Workload
from harness.generators.generator import Draft, each_thread, map_ops, mix
from harness.history.ops import Op
from harness.kafka.broker import Cast
from harness.kafka.client import UNKNOWN_TOPIC, bounded
from harness.kafka.errors import BAD_ANSWER
from harness.kafka.fleet import Fleet
from harness.kafka.route import Route, cluster_of, no_error, request, spoken
from harness.registry import workloads
from harness.spec import RunSpec
from node.wire.api import ApiKey
from node.wire.network import Caller
from workloads.admin import (
    BROKERS,
    LAST,
    TOPICS,
    AdminOps,
    create,
    delete,
    elect,
    grow,
    reassign,
)
from workloads.common.departures import RATE_HZ, departures
from workloads.common.on_brokers import by_brokers, need_client_of_broker
from workloads.elr import SETTINGS
from workloads.isr import TOPIC_PREFIX, heartbeat_s

LAYOUT: Final = LOCAL + "layout"
PAGES: Final = (1, 2, 2000)  # partitions in one
PAGES_MAX: Final = 100  # of a topic, which never has so many partitions
Row = list[Any]  # index, leader, leader epoch, replicas, ISR, ELR, last known leaders
Layout = dict[str, Any] | None


@workloads.register(
    "views",
    WorkloadTraits(plays_brokers=True, settings=SETTINGS, rate_hz=RATE_HZ, on_brokers=True),
)
def views(spec: RunSpec) -> Workload:
    """Change topics and ask brokers for them; each answers with a state that was committed."""
    need_client_of_broker(spec, "views")
    rng = seeds.rng(spec.seed, "views")

    def client(system: System) -> Client:
        cluster = cluster_of(system)
        fleet = Fleet(cluster, Cast(seeds.rng(spec.seed, "brokers")), BROKERS, heartbeat_s(spec))
        return ViewOps(AdminOps(fleet, Route(cluster, "")), Route(cluster, ""))

    def ask(draft: Draft) -> Draft:
        by = rng.choice((None, *PAGES))  # partitions of a page; None: all at once, by Metadata
        return draft._replace(f=LAYOUT, key=a_topic(rng), value=by)

    of_broker = by_brokers(spec, ask)
    drawn = {create: 14, grow: 4, delete: 1, reassign: 8, elect: 3}
    leave = departures(BROKERS)
    weights = (*drawn.values(), *(1 for _ in leave))
    return Workload(
        client=client,
        generator=map_ops(of_broker, mix(*drawn, *leave, weights=weights)),
        final_generator=map_ops(of_broker, each_thread(Draft("create", LAST))),
        checkers=("consensus", "observers", "reads"),
    )


def a_topic(rng: Random) -> str:
    """Draw one of the topics that administrators make."""
    return f"{TOPIC_PREFIX}{rng.randrange(TOPICS)}"


class ViewOps:
    """Asks its broker what topics look like; all else is for an administrator."""

    def __init__(self, admin: AdminOps, route: Route) -> None:
        self._admin = admin
        self._route = route

    async def open(self, node: str) -> ViewOps:
        """A client of ``node``."""
        return ViewOps(await self._admin.open(node), Route(self._route.cluster, node))

    async def close(self) -> None:
        """Drop all connections."""
        self._route.close()
        await self._admin.close()

    async def invoke(self, op: Op) -> Op:
        """Do one op; ok with what the topic looks like, None if there is none."""
        if op.f != LAYOUT:
            return await self._admin.invoke(op)
        try:
            async with bounded():
                shown = await self._layout(str(op.key), op.value)
        except Outcome as outcome:
            return op.with_(type="fail", error=outcome.error)  # it changes nothing
        return op.with_(type="ok", value=shown)

    async def _layout(self, topic: str, page: int | None) -> Layout:
        connection = await self._route.connect(self._route.home)
        if page is None:
            return await by_metadata(connection, topic)
        spoken(connection, ApiKey.DESCRIBE_TOPIC_PARTITIONS)  # or the op fails: it is older
        seen = await by_pages(connection, topic, page)
        while seen != (again := await by_pages(connection, topic, page)):
            seen = again  # pages are of one moment when all are the same twice
            await asyncio.sleep(0)
        return seen


async def by_metadata(connection: Caller, topic: str) -> Layout:
    """Tell what a topic looks like, by one answer; raises Outcome."""
    asked = MetadataRequestTopic(topic_id=None, name=TopicName(topic))
    question = MetadataRequest(
        topics=(asked,),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    (found,) = (await request(connection, question)).topics
    if not _is_there(found):
        return None
    rows = [_row(each, None, None) for each in found.partitions]
    return {"id": found.topic_id.hex, "partitions": sorted(rows)}


async def by_pages(connection: Caller, topic: str, size: int) -> Layout:
    """Tell what a topic looks like, page by page; raises Outcome."""
    rows: list[Row] = []
    id_, cursor = None, None
    for _ in range(PAGES_MAX):
        question = DescribeTopicPartitionsRequest(
            topics=(TopicRequest(name=TopicName(topic)),),
            response_partition_limit=i32(size),
            cursor=cursor,
        )
        answer = await request(connection, question)
        for found in answer.topics:
            if not _is_there(found):
                return None
            id_ = found.topic_id.hex
            rows += [
                _row(each, each.eligible_leader_replicas, each.last_known_elr)
                for each in found.partitions
            ]
        following = answer.next_cursor
        if following is None:
            return None if id_ is None else {"id": id_, "partitions": rows}
        begin = 0 if cursor is None else int(cursor.partition_index)
        if following.partition_index <= begin:
            told = f"after a page from partition {begin} on comes {following.partition_index}"
            raise Outcome(f"{BAD_ANSWER}: {told}", definite=True)
        cursor = Cursor(topic_name=following.topic_name, partition_index=following.partition_index)
    raise Outcome(f"{BAD_ANSWER}: more than {PAGES_MAX} pages", definite=True)


def _is_there(found: Any) -> bool:
    try:
        no_error(found)
    except Outcome as outcome:
        if outcome.error != UNKNOWN_TOPIC:
            raise
        return False
    return True


def _row(found: Any, eligible: Sequence[int] | None, last: Sequence[int] | None) -> Row:
    return [
        int(found.partition_index),
        int(found.leader_id),
        int(found.leader_epoch),
        list(map(int, found.replica_nodes)),
        sorted(map(int, found.isr_nodes)),
        None if eligible is None else sorted(map(int, eligible)),
        None if last is None else sorted(map(int, last)),
    ]
