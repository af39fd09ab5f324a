"""``topics``: create, delete and describe of contended topic names."""

from __future__ import annotations

from random import Random

from harness.contracts.abilities import Topics
from harness.contracts.clients import Client, Outcome, TopicClient, TopicView
from harness.contracts.system import System
from harness.contracts.traits import WorkloadTraits
from harness.contracts.workload import Workload
from harness.errors import EnvError
from harness.generators.generator import Draft, Generator, independent, limit, mix, repeat
from harness.history.ops import Op
from harness.registry import workloads
from harness.spec import RunSpec
from workloads.common.abilities import refuse_without
from workloads.common.keys import Keys, groups

THREADS_PER_NAME = 5  # clients that fight for one name
OPS_PER_NAME = 120
PARTITIONS_MAX = 4
CONTENDED = frozenset({"topic-already-exists", "unknown-topic"})  # whoever was faster
FINISHED_NAMES = 2  # described by every thread after the heal, beside those that are in use


@workloads.register("topics", WorkloadTraits(prefixed=True, refusals=CONTENDED))
def topics(spec: RunSpec) -> Workload:
    """Create, delete and describe contended topics; one creator wins, and ids are never reused."""
    refuse_without(Topics, spec)
    keys = Keys("t")
    final = groups(spec.concurrency, THREADS_PER_NAME) + FINISHED_NAMES
    return Workload(
        client=topic_client,
        generator=independent(_name_ops, threads_per_key=THREADS_PER_NAME, name=keys.name),
        final_generator=keys.on_each_thread(final, lambda key: Draft("describe", key=key)),
        checkers=("topics", "consensus", "observers", "reads"),
        model="topics",
        reads=frozenset({"describe"}),
    )


def topic_client(system: System) -> Client:
    """A client for creating, deleting and looking; raises EnvError without topics."""
    if not isinstance(system, Topics):
        raise EnvError(f"system {system.name!r} has no topics: choose another workload")
    return TopicOps(system.topic_client())


class TopicOps:
    """Does topic ops through a system's topic client."""

    def __init__(self, topics: TopicClient) -> None:
        self._topics = topics

    async def open(self, node: str) -> TopicOps:
        """A client of ``node``."""
        return TopicOps(await self._topics.open(node))

    async def invoke(self, op: Op) -> Op:
        """Do one op; a describe that failed is always a ``fail``, it changed nothing."""
        assert op.key is not None, "topic ops have a key"  # noqa: S101
        try:
            match op.f:
                case "create":
                    topic_id = await self._topics.create(
                        op.key, partitions=op.value["partitions"], configs=op.value["configs"]
                    )
                    return op.with_(type="ok", value={**op.value, "id": topic_id})
                case "delete":
                    await self._topics.delete(op.key)
                    return op.with_(type="ok")
                case "describe":
                    return op.with_(type="ok", value=_told(await self._topics.describe(op.key)))
                case "local-describe":
                    node, view = await self._topics.describe_local(op.key)
                    return op.with_(type="ok", value=_told(view), node=node)
                case _:
                    raise AssertionError(f"topics has no op {op.f!r}")
        except Outcome as outcome:
            failed = outcome.definite or op.f.endswith("describe")
            return op.with_(type="fail" if failed else "info", error=outcome.error)

    async def close(self) -> None:
        """Release the connection."""
        await self._topics.close()


def _told(view: TopicView | None) -> dict[str, object] | None:
    if view is None:
        return None
    return {"id": view.topic_id, "partitions": view.partitions, "configs": dict(view.configs)}


def _create(rng: Random, n: int) -> Draft:
    # the config value is unique within the name, so a describe shows which create it saw
    partitions = 1 + rng.randrange(PARTITIONS_MAX)
    return Draft("create", {"partitions": partitions, "configs": {"retention.ms": str(n + 1)}})


def _name_ops(_: str) -> Generator:
    ops = mix(_create, repeat(Draft("delete")), repeat(Draft("describe")), weights=(2, 1, 2))
    return limit(ops, OPS_PER_NAME)
