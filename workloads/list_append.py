"""``list-append``: elements appended to lists that everybody reads; a list is a topic's setting."""

from __future__ import annotations

from random import Random

from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.static.primitive import i8

from harness.contracts.clients import Client, Outcome
from harness.contracts.system import System
from harness.contracts.traits import WorkloadTraits
from harness.contracts.workload import Workload
from harness.generators.generator import Draft, Generator, independent, limit, mix
from harness.history.ops import Op
from harness.kafka.client import EXISTS, TOPIC_RESOURCE, UNKNOWN_TOPIC, KafkaClient, bounded
from harness.kafka.route import Cluster, Route, cluster_of, deadline_s, request, the_row
from harness.registry import workloads
from harness.spec import RunSpec
from node.wire.network import Caller
from workloads.common.keys import Keys, groups

LIST_CONFIG = "follower.replication.throttled.replicas"  # elements are "partition:broker"
TOPIC_PREFIX = "register-list-"  # topics of this name are the clients' own affair, see ``effects``
APPEND = 2  # config operation
THREADS_PER_KEY = 5
OPS_PER_KEY = 120
FINISHED_KEYS = 2  # read by every thread after the heal, beside those that are in use


@workloads.register("list-append", WorkloadTraits(prefixed=True, refusals=frozenset()))
def list_append(spec: RunSpec) -> Workload:
    """Append to lists and read them in transactions; judge strict serializability."""
    keys = Keys("l")
    final = groups(spec.concurrency, THREADS_PER_KEY) + FINISHED_KEYS

    def client(system: System) -> Client:
        return ListOps(cluster_of(system))

    return Workload(
        client=client,
        generator=independent(_key_ops, threads_per_key=THREADS_PER_KEY, name=keys.name),
        final_generator=keys.on_each_thread(final, lambda key: Draft("read", key=key)),
        checkers=("list-append", "consensus", "observers", "reads"),
        reads=frozenset({"read"}),
    )


class ListOps:
    """Appends to and reads lists."""

    def __init__(self, cluster: Cluster, home: str = "") -> None:
        self._route = Route(cluster, home)
        self._topics = KafkaClient(cluster, home)

    async def open(self, node: str) -> ListOps:
        """A client that finds the controller by way of ``node``."""
        return ListOps(self._route.cluster, node)

    async def close(self) -> None:
        """Drop all connections."""
        self._route.close()
        await self._topics.close()

    async def invoke(self, op: Op) -> Op:
        """Append an element, or read the list (ok with its elements; of no topic, none)."""
        assert op.key is not None, "list-append ops have a key"  # noqa: S101
        by_s = deadline_s()
        try:
            match op.f:
                case "append":
                    await self._append(op.key, op.value, by_s)
                    return op.with_(type="ok")
                case "read":
                    found = await self._route.at_controller(
                        lambda connection: _read(connection, self._topic(str(op.key))), by_s
                    )
                    return op.with_(type="ok", value=found)
                case "local-read":
                    found = await self._look(self._topic(str(op.key)))
                    return op.with_(type="ok", value=found)
                case _:
                    raise AssertionError(f"list-append has no op {op.f!r}")
        except Outcome as outcome:
            failed = outcome.definite or op.f != "append"
            return op.with_(type="fail" if failed else "info", error=outcome.error)

    async def _look(self, topic: str) -> list[int]:
        """Tell what the home's own image says."""
        async with bounded():
            return await _read(await self._route.connect(self._route.home), topic)

    async def _append(self, key: str, element: int, by_s: float) -> None:
        """Append once; the topic behind the list is made when there is none."""
        topic = self._topic(key)
        change = AlterableConfig(
            name=LIST_CONFIG, config_operation=i8(APPEND), value=f"{element}:{element}"
        )
        resource = AlterConfigsResource(
            resource_type=i8(TOPIC_RESOURCE), resource_name=topic, configs=(change,)
        )
        wanted = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)

        async def attempt(connection: Caller) -> None:
            the_row((await request(connection, wanted)).responses)

        try:
            await self._route.to_change(attempt, by_s)
        except Outcome as outcome:
            if outcome.error != UNKNOWN_TOPIC:
                raise
            await self._make(key)
            await self._route.to_change(attempt, by_s)

    def _topic(self, key: str) -> str:
        return self._route.cluster.prefix + TOPIC_PREFIX + key

    async def _make(self, key: str) -> None:
        try:
            await self._topics.create(TOPIC_PREFIX + key, partitions=1, configs={})
        except Outcome as outcome:
            if outcome.error != EXISTS:
                # the append itself was refused, and is not tried again
                raise Outcome(f"create-topic: {outcome.error}", definite=True) from outcome


async def _read(connection: Caller, topic: str) -> list[int]:
    asked = DescribeConfigsResource(
        resource_type=i8(TOPIC_RESOURCE), resource_name=topic, configuration_keys=(LIST_CONFIG,)
    )
    question = DescribeConfigsRequest(
        resources=(asked,), include_synonyms=False, include_documentation=False
    )
    try:
        row = the_row((await request(connection, question)).results)
    except Outcome as outcome:
        if outcome.error != UNKNOWN_TOPIC:
            raise
        return []
    text = next((c.value for c in row.configs if c.name == LIST_CONFIG), None) or ""
    try:
        return [int(element.partition(":")[0]) for element in text.split(",") if element]
    except ValueError:
        raise Outcome(f"bad-answer: a list is {text!r}", definite=True) from None


def append_op(_: Random, n: int) -> Draft:
    """The n-th append to a list: elements 1, 2, 3, ... are unique within the list."""
    return Draft("append", n + 1)


def read_op(_: Random, __: int) -> Draft:
    """A linearizable read."""
    return Draft("read")


def _key_ops(_: str) -> Generator:
    return limit(mix(append_op, read_op), OPS_PER_KEY)
