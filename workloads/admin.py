"""``admin``: administrators ask for what may be had, and for what must be refused.

Topics are made, grown, moved and deleted, settings and leaders changed and brokers forgotten, with
right and with wrong names, numbers and replicas. What a controller answers is judged by what it had
(C17), whatever it is. Brokers are played, and die and stop meanwhile, as in ``elr``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final

from kio.schema.alter_configs.v2 import request as replacements
from kio.schema.alter_partition_reassignments.v0 import request as reassignments
from kio.schema.create_partitions.v3 import request as growths
from kio.schema.create_topics.v7 import request as creations
from kio.schema.delete_topics.v6 import request as deletions
from kio.schema.elect_leaders.v2 import request as elections
from kio.schema.incremental_alter_configs.v1 import request as settings_
from kio.schema.list_partition_reassignments.v0 import request as listings
from kio.schema.types import BrokerId, TopicName
from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest
from kio.schema.update_features.v1 import request as levels
from kio.static.primitive import i8, i16, i32

from harness import seeds
from harness.contracts.clients import Client, Outcome
from harness.contracts.system import System
from harness.contracts.traits import WorkloadTraits
from harness.contracts.workload import Workload
from harness.generators.generator import Draft, each_thread, mix
from harness.history.ops import Op
from harness.kafka.broker import Cast
from harness.kafka.client import REQUEST_TIMEOUT
from harness.kafka.fleet import Fleet
from harness.kafka.route import NotController, Route, cluster_of, deadline_s, no_error, request
from harness.registry import workloads
from harness.spec import RunSpec
from node.metadata.features import (
    ELR_VERSION,
    GROUP_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    TRANSACTION_VERSION,
)
from node.wire.network import Caller
from workloads.common.departures import RATE_HZ, Drawn, departures
from workloads.elr import SETTINGS
from workloads.isr import TOPIC_PREFIX, heartbeat_s

BROKERS: Final = 4
TOPICS: Final = 4
NOBODY: Final = 99  # a place that no broker has
RIGHT: Final = 0.7  # of the names
BAD_NAMES: Final = ("", ".", "a b", "x" * 250, TOPIC_PREFIX + "gone")
VALUES: Final[Mapping[str, Sequence[str]]] = {
    "min.insync.replicas": ("1", "2", "3", "0", "many"),
    "cleanup.policy": ("compact", "delete", "compact,delete", "burn"),
    "segment.bytes": ("1048576", "1", "-1", "many"),
    "unclean.leader.election.enable": ("true", "false", "perhaps"),
    "no.such.setting": ("1",),
}
# Of these, those that a topic takes, in all releases (TopicConfig, LogConfig).
RIGHT_VALUES: Final[Mapping[str, frozenset[str]]] = {
    "min.insync.replicas": frozenset({"1", "2", "3"}),
    "cleanup.policy": frozenset({"compact", "delete", "compact,delete"}),
    "segment.bytes": frozenset({"1048576"}),
    "unclean.leader.election.enable": frozenset({"true", "false"}),
    "no.such.setting": frozenset(),
}
WHOLE_EVERY: Final = 4  # changes of settings
SET, DELETE, APPEND, SUBTRACT, NO_OP = 0, 1, 2, 3, 7
TOPIC, BROKER = 2, 4
FEATURES: Final = (
    *(ELR_VERSION, GROUP_VERSION, METADATA_VERSION, TRANSACTION_VERSION, KRAFT_VERSION),
    "no.such.version",
)
LAST: Final = {"topic": TOPIC_PREFIX + "last", "partitions": 1, "factor": -1, "only": False}

Asked = Mapping[str, Any]
Place = Callable[[int], BrokerId]


def right_settings(op: Op) -> bool | None:
    """Tell whether a topic takes the values that an op sets; None: not known, or it sets none."""
    asked = op.value if isinstance(op.value, Mapping) else {}
    if op.f == "create":
        changes = [(name, SET, value) for name, value in asked.get("settings", {}).items()]
    elif op.f == "configure" and asked["kind"] == TOPIC:
        changes = asked["changes"]
    else:
        return None
    right = [value in RIGHT_VALUES[name] for name, change, value in changes if change == SET]
    if False in right:
        return False
    return True if right and len(right) == len(changes) else None


@workloads.register(
    "admin",
    WorkloadTraits(
        plays_brokers=True,
        settings=SETTINGS,
        rate_hz=RATE_HZ,
        sets_levels=True,
        right_settings=right_settings,
    ),
)
def admin(spec: RunSpec) -> Workload:
    """Ask for what may be had and what must be refused; each answer follows from the metadata."""

    def client(system: System) -> Client:
        cluster = cluster_of(system)
        fleet = Fleet(cluster, Cast(seeds.rng(spec.seed, "brokers")), BROKERS, heartbeat_s(spec))
        return AdminOps(fleet, Route(cluster, ""))

    drawn: dict[Drawn, int] = {
        create: 8,
        grow: 4,
        delete: 4,
        configure: 8,
        reassign: 8,
        look: 2,
        elect: 4,
        forget: 1,
        level: 2,
    }
    return asking(client, drawn)


def asking(client: Callable[[System], Client], drawn: Mapping[Drawn, int]) -> Workload:
    """Make a workload of these ops, by their weights, during which brokers leave and come back."""
    leave = departures(BROKERS)
    return Workload(
        client=client,
        generator=mix(*drawn, *leave, weights=(*drawn.values(), *(1 for _ in leave))),
        final_generator=each_thread(Draft("create", LAST)),
        checkers=("consensus", "observers"),
    )


# ------------------------------------------------------------------------ what is asked for


def a_topic(rng: Random) -> str:
    """Draw a name, mostly of a topic that there may be."""
    if rng.random() < RIGHT:
        return f"{TOPIC_PREFIX}{rng.randrange(TOPICS)}"
    return rng.choice(BAD_NAMES)


def some_places(rng: Random) -> list[int]:
    """Draw replicas: of different brokers, mostly."""
    if rng.random() < RIGHT:
        return rng.sample(range(BROKERS), rng.randint(1, 3))
    return [rng.choice((*range(BROKERS), NOBODY)) for _ in range(rng.randint(0, 3))]


def create(rng: Random, _: int) -> Draft:
    """Draw a new topic, by numbers or by hand."""
    asked: dict[str, Any] = {"topic": a_topic(rng), "only": rng.random() < 0.1}  # noqa: PLR2004
    if rng.random() < 0.5:  # noqa: PLR2004
        asked |= {
            "partitions": rng.choice((-1, 0, 1, 2, 3)),
            "factor": rng.choice((-1, 0, 1, 2, 5)),
        }
    else:
        places = [some_places(rng) for _ in range(rng.randint(1, 2))]
        first = rng.choice((0, 0, 0, 1))
        asked |= {"partitions": rng.choice((-1, -1, 2)), "factor": -1, "first": first}
        asked["replicas"] = places
    if rng.random() < 0.3:  # noqa: PLR2004
        name = rng.choice(list(VALUES))
        asked["settings"] = {name: rng.choice(VALUES[name])}
    return Draft("create", asked)


def grow(rng: Random, _: int) -> Draft:
    """Draw more partitions for a topic, or no more."""
    asked: dict[str, Any] = {"topic": a_topic(rng), "partitions": rng.choice((-1, 1, 2, 3, 4))}
    if rng.random() < 0.5:  # noqa: PLR2004
        asked["replicas"] = [some_places(rng) for _ in range(rng.randint(1, 2))]
    return Draft("grow", asked)


def delete(rng: Random, _: int) -> Draft:
    """Draw a topic that is to go."""
    return Draft("delete", {"topic": a_topic(rng)})


def configure(rng: Random, n: int) -> Draft:
    """Draw a change of a setting, of a topic, a broker or all brokers; or all settings of one."""
    kind = rng.choice((TOPIC, TOPIC, BROKER))
    place = rng.choice(("", "", *range(BROKERS), NOBODY))
    changes = []
    for name in rng.sample(list(VALUES), rng.choice((1, 1, 2))):
        change = rng.choice((SET, SET, SET, DELETE, APPEND, SUBTRACT))
        value = None if change == DELETE else rng.choice(VALUES[name])
        if rng.random() < 0.002:  # noqa: PLR2004 - see docs/findings.md
            change, value = rng.choice(((NO_OP, "1"), (APPEND, None)))
        changes.append([name, change, value])
    asked = {"kind": kind, "of": a_topic(rng) if kind == TOPIC else place, "changes": changes}
    if n % WHOLE_EVERY == 0 and all(change == SET for _, change, _ in changes):
        asked["whole"] = True
    return Draft("configure", {**asked, "only": rng.random() < 0.1})  # noqa: PLR2004


def reassign(rng: Random, _: int) -> Draft:
    """Draw where replicas are to go; None: they stay."""
    places = None if rng.random() < 0.2 else some_places(rng)  # noqa: PLR2004
    partition = rng.choice((0, 0, 0, 1, 7))
    return Draft("reassign", {"topic": a_topic(rng), "partition": partition, "replicas": places})


def look(rng: Random, _: int) -> Draft:
    """Draw whose replicas are asked for that move: of some partitions of a topic, or of all."""
    if rng.random() < 0.5:  # noqa: PLR2004
        return Draft("look", {"topic": None})
    return Draft("look", {"topic": a_topic(rng), "partitions": rng.choice(([0], [0, 1], [1, 7]))})


def elect(rng: Random, _: int) -> Draft:
    """Draw a partition that is to have a leader: the preferred one, any at all, or of no kind."""
    kind, partition = rng.choice((0, 0, 1, 1, 2)), rng.choice((0, 0, 1, 7))
    return Draft("elect", {"kind": kind, "topic": a_topic(rng), "partition": partition})


def forget(rng: Random, _: int) -> Draft:
    """Draw a broker that is to be forgotten; it comes back, if it lives."""
    return Draft("forget", {"member": rng.choice((*range(BROKERS), NOBODY))})


def level(rng: Random, _: int) -> Draft:
    """Draw levels of features, and which way each is said to be; of several, all or none."""
    changes = [
        [feature, rng.choice((-1, 0, 1, 1, 2, 1000)), rng.choice((0, 1, 1, 2, 3))]
        for feature in rng.sample(FEATURES, rng.choice((1, 1, 2, 3)))
    ]
    return Draft("level", {"changes": changes, "only": rng.random() < 0.5})  # noqa: PLR2004


# ------------------------------------------------------------------------ the requests


def _creation(asked: Asked, at: Place) -> creations.CreateTopicsRequest:
    first, replicas = asked.get("first", 0), asked.get("replicas", ())
    topic = creations.CreatableTopic(
        name=TopicName(asked["topic"]),
        num_partitions=i32(asked["partitions"]),
        replication_factor=i16(asked["factor"]),
        assignments=tuple(
            creations.CreatableReplicaAssignment(
                partition_index=i32(first + place), broker_ids=tuple(map(at, of_one))
            )
            for place, of_one in enumerate(replicas)
        ),
        configs=tuple(
            creations.CreatableTopicConfig(name=name, value=value)
            for name, value in asked.get("settings", {}).items()
        ),
    )
    return creations.CreateTopicsRequest(
        topics=(topic,), timeout=REQUEST_TIMEOUT, validate_only=asked["only"]
    )


def _growth(asked: Asked, at: Place) -> growths.CreatePartitionsRequest:
    replicas = asked.get("replicas")
    topic = growths.CreatePartitionsTopic(
        name=TopicName(asked["topic"]),
        count=i32(asked["partitions"]),
        assignments=None
        if replicas is None
        else tuple(
            growths.CreatePartitionsAssignment(broker_ids=tuple(map(at, of_one)))
            for of_one in replicas
        ),
    )
    return growths.CreatePartitionsRequest(
        topics=(topic,), timeout=REQUEST_TIMEOUT, validate_only=False
    )


def _deletion(asked: Asked, _: Place) -> deletions.DeleteTopicsRequest:
    topic = deletions.DeleteTopicState(name=TopicName(asked["topic"]), topic_id=None)
    return deletions.DeleteTopicsRequest(topics=(topic,), timeout=REQUEST_TIMEOUT)


def _settings(
    asked: Asked, at: Place
) -> settings_.IncrementalAlterConfigsRequest | replacements.AlterConfigsRequest:
    of, kind = asked["of"], i8(asked["kind"])
    name_ = of if isinstance(of, str) else str(at(of))
    if asked.get("whole"):
        whole = replacements.AlterConfigsResource(
            resource_type=kind,
            resource_name=name_,
            configs=tuple(
                replacements.AlterableConfig(name=name, value=value)
                for name, _, value in asked["changes"]
            ),
        )
        return replacements.AlterConfigsRequest(resources=(whole,), validate_only=asked["only"])
    resource = settings_.AlterConfigsResource(
        resource_type=kind,
        resource_name=name_,
        configs=tuple(
            settings_.AlterableConfig(name=name, config_operation=i8(change), value=value)
            for name, change, value in asked["changes"]
        ),
    )
    return settings_.IncrementalAlterConfigsRequest(
        resources=(resource,), validate_only=asked["only"]
    )


def _move(asked: Asked, at: Place) -> reassignments.AlterPartitionReassignmentsRequest:
    places = asked["replicas"]
    partition = reassignments.ReassignablePartition(
        partition_index=i32(asked["partition"]),
        replicas=None if places is None else tuple(map(at, places)),
    )
    topic = reassignments.ReassignableTopic(name=TopicName(asked["topic"]), partitions=(partition,))
    return reassignments.AlterPartitionReassignmentsRequest(
        timeout=REQUEST_TIMEOUT, topics=(topic,)
    )


def _listing(asked: Asked, _: Place) -> listings.ListPartitionReassignmentsRequest:
    topics = None
    if asked["topic"] is not None:
        topics = (
            listings.ListPartitionReassignmentsTopics(
                name=TopicName(asked["topic"]),
                partition_indexes=tuple(map(i32, asked["partitions"])),
            ),
        )
    return listings.ListPartitionReassignmentsRequest(timeout=REQUEST_TIMEOUT, topics=topics)


def _election(asked: Asked, _: Place) -> elections.ElectLeadersRequest:
    of_topic = elections.TopicPartitions(
        topic=TopicName(asked["topic"]), partitions=(i32(asked["partition"]),)
    )
    return elections.ElectLeadersRequest(
        election_type=i8(asked["kind"]), topic_partitions=(of_topic,), timeout=REQUEST_TIMEOUT
    )


def _forgetting(asked: Asked, at: Place) -> UnregisterBrokerRequest:
    return UnregisterBrokerRequest(broker_id=at(asked["member"]))


def _level(asked: Asked, _: Place) -> levels.UpdateFeaturesRequest:
    updates = tuple(
        levels.FeatureUpdateKey(feature=feature, max_version_level=i16(to), upgrade_type=i8(way))
        for feature, to, way in asked["changes"]
    )
    return levels.UpdateFeaturesRequest(feature_updates=updates, validate_only=asked["only"])


REQUESTS: Final[Mapping[str, Callable[[Asked, Place], Any]]] = {
    "create": _creation,
    "grow": _growth,
    "delete": _deletion,
    "configure": _settings,
    "reassign": _move,
    "look": _listing,
    "elect": _election,
    "forget": _forgetting,
    "level": _level,
}


class AdminOps:
    """Asks, and has brokers leave and come back."""

    def __init__(self, fleet: Fleet, route: Route) -> None:
        self._fleet = fleet
        self._route = route

    async def open(self, node: str) -> AdminOps:
        """A client that finds the controller by way of ``node``."""
        self._fleet.enter()
        return AdminOps(self._fleet, Route(self._route.cluster, node))

    async def close(self) -> None:
        """Drop all connections."""
        self._route.close()
        await self._fleet.leave()

    async def invoke(self, op: Op) -> Op:
        """Do one op; one that is refused is ok, too: ``told`` is the error."""
        try:
            if op.f not in REQUESTS:
                await self._leave(op)
                return op.with_(type="ok")
            told = await self._ask(REQUESTS[op.f](op.value, self._broker))
        except Outcome as outcome:
            return op.with_(type="fail" if outcome.definite else "info", error=outcome.error)
        return op.with_(type="ok", value={**op.value, "told": told})

    async def _leave(self, op: Op) -> None:
        """Have a broker stop in good order, die, or be silent."""
        member = op.value["member"]
        match op.f:
            case "restart":
                await self._fleet.restart(member, self._route, deadline_s())
            case "crash":
                await self._fleet.crash(member)
            case "silence":
                self._fleet.silence(member, op.value["for_s"])
            case _:
                raise AssertionError(f"admin has no op {op.f!r}")

    def _broker(self, place: int) -> BrokerId:
        """The id of the broker at a place, or of nobody."""
        ids = self._fleet.ids
        return BrokerId(ids[place] if place < len(ids) else place)

    async def _ask(self, wanted: Any) -> str | None:
        """Send a request, and give the first error in the answer; raises Outcome: there is none."""

        async def attempt(connection: Caller) -> str | None:
            answer = await request(connection, wanted)
            try:
                _check(answer)
            except Outcome as outcome:
                if isinstance(outcome, NotController) or not outcome.definite:
                    raise
                return outcome.error
            return None

        return await self._route.to_change(attempt, deadline_s())


def _check(answer: Any) -> None:
    """Look for an error in an answer, and in all its rows; raises Outcome."""
    if hasattr(answer, "error_code"):
        no_error(answer)
    for name in getattr(answer, "__slots__", ()) or vars(answer):
        part = getattr(answer, name)
        if isinstance(part, tuple):
            for row in part:
                if hasattr(row, "__dataclass_fields__"):
                    _check(row)
