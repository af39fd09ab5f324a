"""``isr``: leaders of partitions change their ISRs, a compare-and-set on the partition epoch.

The brokers are played: some of them for the whole run, which now and then stop in good order and
come back as another incarnation. All clients speak for all of them, so that one leader has several
changes under way at a time.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any
from uuid import UUID

from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32, i64
from kio.static.protocol import RequestPayload

from harness import seeds
from harness.contracts.abilities import Topics
from harness.contracts.clients import Client, Outcome
from harness.contracts.system import System
from harness.contracts.traits import WorkloadTraits
from harness.contracts.workload import Workload
from harness.generators.generator import Draft, mix
from harness.history.ops import Op
from harness.kafka.broker import Cast
from harness.kafka.client import EXISTS, bounded
from harness.kafka.fleet import Fleet
from harness.kafka.route import (
    Cluster,
    NotController,
    Route,
    cluster_of,
    deadline_s,
    no_error,
    request,
    spoken,
    the_row,
)
from harness.kafka.topics import create_by_hand
from harness.registry import workloads
from harness.spec import RunSpec
from node.wire.api import ApiKey
from node.wire.network import Caller
from node.wire.payloads import api_schema
from node.wire.structs import build, knows
from workloads.common.abilities import refuse_without
from workloads.common.keys import Keys

BROKERS = 3
PARTITIONS = 2  # in use at a time, each of a topic of its own
OPS_PER_PARTITION = 150  # of a kind; then come the next ones
TOPIC_PREFIX = "register-isr-"  # topics of this name are the clients' own affair, see ``effects``
WITH_EPOCHS = "new_isr_with_epochs"
NO_BROKERS = "brokers-not-registered"
HEARTBEAT_SETTING, HEARTBEAT_MS = "broker.heartbeat.interval.ms", 2000
# Of a change that goes by what is over: another leader, ISR, topic or incarnation of a broker.
OUTDATED = frozenset(
    {
        *("fenced-leader-epoch", "invalid-update-version", "ineligible-replica"),
        *("unknown-topic", "unknown-topic-id", "stale-broker-epoch", "broker-id-not-registered"),
        "duplicate-broker-registration",
    }
)


@workloads.register("isr", WorkloadTraits(plays_brokers=True, refusals=OUTDATED))
def isr(spec: RunSpec) -> Workload:
    """Change ISRs while brokers restart; of changes with one partition epoch only one may win."""
    refuse_without(Topics, spec)
    keys = Keys("p")

    def name(n: int) -> str:
        turn, place = divmod(n, PARTITIONS)
        return keys.name(turn // OPS_PER_PARTITION * PARTITIONS + place)

    def alter(rng: Random, n: int) -> Draft:
        members = [place for place in range(BROKERS) if rng.random() < 0.6]  # noqa: PLR2004
        how = rng.choice(("now", "now", "now", "old-members", "old-epoch"))
        return Draft("alter", {"members": members, "how": how}, name(n))

    def describe(_: Random, n: int) -> Draft:
        return Draft("describe", None, name(n))

    def restart(rng: Random, _: int) -> Draft:
        return Draft("restart", {"member": rng.randrange(BROKERS)})

    def client(system: System) -> Client:
        cluster = cluster_of(system)
        cast = Cast(seeds.rng(spec.seed, "brokers"))
        return IsrOps(Shared(cluster, Fleet(cluster, cast, BROKERS, heartbeat_s(spec))))

    return Workload(
        client=client,
        generator=mix(alter, describe, restart, weights=(24, 6, 1)),
        final_generator=keys.on_each_thread(PARTITIONS, lambda key: Draft("describe", key=key)),
        checkers=("isr", "consensus", "observers", "reads"),
        reads=frozenset({"describe"}),
    )


@dataclass(frozen=True, slots=True)
class Known:
    """The last word of the leader of a partition; ``old``: it is known to be past."""

    topic_id: UUID
    leader: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    old: bool = False


@dataclass(slots=True)
class Shared:
    """All clients of a run share this: the brokers, and what each partition's leader knows.

    ``waits``: topics are made once all brokers have registered, and not on brokers to come;
    ``factor``: on so many of them, None: on all. Of the ``partitions`` of each topic the ops of a
    key are about one, and the others are only there.
    """

    cluster: Cluster
    fleet: Fleet
    waits: bool = False
    factor: int | None = None
    partitions: int = 1
    known: dict[str, Known] = field(default_factory=dict)
    making: dict[str, asyncio.Lock] = field(default_factory=dict)

    def index_of(self, key: str) -> int:
        """Give the partition of its topic that the ops of a key are about."""
        return int(key.removeprefix("p")) % self.partitions


class IsrOps:
    """Alters and describes partitions, and restarts their brokers."""

    def __init__(self, shared: Shared, home: str = "") -> None:
        self._shared = shared
        self._fleet = shared.fleet
        self._route = Route(shared.cluster, home)

    async def open(self, node: str) -> IsrOps:
        """A client that finds the controller by way of ``node``."""
        self._fleet.enter()
        return IsrOps(self._shared, node)

    async def close(self) -> None:
        """Drop all connections."""
        self._route.close()
        await self._fleet.leave()

    async def invoke(self, op: Op) -> Op:
        """Do one op; of an alter the completion tells what was asked for, whatever came of it."""
        by_s, asked = deadline_s(), dict(op.value or {})
        try:
            match op.f:
                case "alter":
                    await self._alter(op.key or "", asked, by_s)
                    return op.with_(type="ok", value=asked)
                case "describe" | "local-describe":
                    known = await self._look(op.key or "", by_s)
                    node = self._lookout if op.f != "describe" else op.node
                    shown = _told(known) | {"partition": self._shared.index_of(op.key or "")}
                    return op.with_(type="ok", value=shown, node=node)
                case "restart":
                    epoch = await self._fleet.restart(asked["member"], self._route, by_s)
                    return op.with_(type="ok", value={**asked, "epoch": epoch})
                case _:
                    raise AssertionError(f"isr has no op {op.f!r}")
        except Outcome as outcome:
            failed = outcome.definite or op.f.endswith("describe")
            return op.with_(type="fail" if failed else "info", value=asked, error=outcome.error)

    # ------------------------------------------------------------------ alter

    async def _alter(self, key: str, asked: dict[str, Any], by_s: float) -> None:
        """Send what the leader wants; ``asked`` gets the request and the answer."""
        known = self._shared.known.get(key)
        if known is None or known.old:
            try:
                known = await self._look(key, by_s)
            except Outcome as outcome:  # nothing was asked for yet
                raise Outcome(f"look: {outcome.error}", definite=True) from outcome
        leader = self._fleet.member(known.leader)
        if leader is None or leader.broker.epoch is None or not leader.broker.serves(key):
            self._learn(key, known, old=True)
            raise Outcome("no-leader", definite=True)
        wanted = self._wanted(key, known, asked)
        asked["asked"] = {
            "leader": [known.leader, leader.broker.epoch],
            "lep": known.leader_epoch,
            "pep": known.partition_epoch - (asked["how"] == "old-epoch"),
            "isr": wanted,
            "epochs": [
                [m.broker.id, m.broker.epoch]
                for m in self._fleet.members
                if m.broker.epoch is not None
            ],
        }
        topic_id = known.topic_id

        async def attempt(connection: Caller) -> Any:
            version = spoken(connection, ApiKey.ALTER_PARTITION)
            message = _message(topic_id, self._shared.index_of(key), asked["asked"], version)
            answer = no_error(await request(connection, message))
            return the_row(the_topic(answer.topics).partitions)

        try:
            row = await self._route.at_controller(attempt, by_s)
        except Outcome as outcome:
            self._refused(key, known, asked, outcome.error)
            raise
        got = Known(
            known.topic_id,
            int(row.leader_id),
            int(row.leader_epoch),
            int(row.partition_epoch),
            tuple(map(int, row.isr)),
        )
        asked["got"] = _told(got) | {"pep": got.partition_epoch}
        self._learn(key, got)

    def _wanted(self, key: str, known: Known, asked: dict[str, Any]) -> list[list[int]]:
        """The new ISR with the epochs of its members, or those that they had before."""
        found = []
        for place, member in enumerate(self._fleet.members):
            id_, epoch = member.broker.id, member.broker.epoch
            if asked["how"] == "old-members" and member.before >= 0:
                epoch = member.before
            is_wanted = place in asked["members"] or id_ == known.leader
            if is_wanted and epoch is not None and member.broker.serves(key):
                found.append([id_, epoch])
        return found

    def _refused(self, key: str, known: Known, asked: dict[str, Any], error: str) -> None:
        """Learn from a refusal: each says that something has gone on."""
        if error == "invalid-update-version":
            after = asked["asked"]["pep"] + 1
            self._learn(key, replace(known, partition_epoch=max(known.partition_epoch, after)))
        elif error != "ineligible-replica":
            self._learn(key, known, old=True)

    def _learn(self, key: str, told: Known, *, old: bool = False) -> None:
        """Remember what is the newest."""
        last = self._shared.known.get(key)
        place = (told.leader_epoch, told.partition_epoch)
        if last is None or place >= (last.leader_epoch, last.partition_epoch):
            self._shared.known[key] = replace(told, old=old)

    # ------------------------------------------------------------------ describe

    async def _look(self, key: str, by_s: float) -> Known:
        """The partition as it is now, or as a broker shows it; its topic is made when need be."""
        lock = self._shared.making.setdefault(key, asyncio.Lock())
        async with lock:
            if key not in self._shared.known:
                await self._make(key, by_s)
        topic = await self._describe(key, by_s)
        index = self._shared.index_of(key)
        row = the_row([each for each in topic.partitions if each.partition_index == index])
        last = self._shared.known.get(key)
        led = int(row.leader_epoch)
        # only brokers are told the partition epoch: it grew at least as often as the leader's
        epoch = 0 if last is None else last.partition_epoch + max(0, led - last.leader_epoch)
        isr = tuple(map(int, row.isr_nodes))
        known = Known(topic.topic_id, int(row.leader_id), led, epoch, isr)
        self._learn(key, known)
        return known

    @property
    def _lookout(self) -> str:
        return self._shared.cluster.lookout(self._route.home)

    async def _describe(self, key: str, by_s: float) -> Any:
        """The topic at the controller; where that answers no Metadata, at a broker."""
        if not self._shared.cluster.lookouts:
            return await self._route.at_controller(lambda c: _describe(c, key), by_s)
        async with bounded():
            return await _describe(await self._route.connect(self._lookout), key)

    async def _make(self, key: str, by_s: float) -> None:
        if self._shared.waits and not self._fleet.is_registered:
            raise Outcome(NO_BROKERS, definite=True)
        ids = self._fleet.ids
        first = int(key.removeprefix("p")) % len(ids)
        try:
            replicas = (ids[first:] + ids[:first])[: self._shared.factor]
            await create_by_hand(
                self._route,
                TOPIC_PREFIX + key,
                replicas,
                by_s,
                partitions=self._shared.partitions,
                index=self._shared.index_of(key),
            )
        except Outcome as outcome:
            if outcome.error != EXISTS:
                raise Outcome(f"create-topic: {outcome.error}", definite=True) from outcome


def heartbeat_s(spec: RunSpec) -> float:
    """Give how often a played broker sends a heartbeat."""
    return int(spec.settings.get(HEARTBEAT_SETTING, HEARTBEAT_MS)) / 1000


def the_topic(topics: Any) -> Any:
    """The one topic of an answer; raises Outcome."""
    if len(topics) != 1:
        raise Outcome(f"bad-answer: {len(topics)} topics for one", definite=False)
    return topics[0]


async def _describe(connection: Caller, key: str) -> Any:
    question = MetadataRequest(
        topics=(MetadataRequestTopic(topic_id=None, name=TopicName(TOPIC_PREFIX + key)),),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    rows = (await request(connection, question)).topics
    if not rows:  # this version has no error of the whole answer: so a read is refused
        raise NotController
    return the_row(rows)


def _message(topic_id: UUID, index: int, asked: dict[str, Any], version: int) -> RequestPayload:
    """The request in a version; before 3 it says no epochs of members (KIP-903)."""
    payload = api_schema(ApiKey.ALTER_PARTITION, version).request
    broker, epoch = asked["leader"]
    members = [(BrokerId(id_), i64(at)) for id_, at in asked["isr"]]
    partition = build(
        payload,
        "PartitionData",
        partition_index=i32(index),
        leader_epoch=i32(asked["lep"]),
        new_isr=tuple(id_ for id_, _ in members),
        new_isr_with_epochs=tuple(
            build(payload, "BrokerState", broker_id=id_, broker_epoch=at)
            for id_, at in (members if knows(payload, "PartitionData", WITH_EPOCHS) else ())
        ),
        partition_epoch=i32(asked["pep"]),
    )
    wanted: RequestPayload = build(
        payload,
        broker_id=BrokerId(broker),
        broker_epoch=i64(epoch),
        topics=(build(payload, "TopicData", topic_id=topic_id, partitions=(partition,)),),
    )
    return wanted


def _told(known: Known) -> dict[str, Any]:
    return {"leader": known.leader, "lep": known.leader_epoch, "isr": list(known.isr)}
