"""A small state machine above the raft client alone: topics, and their settings as registers.

It writes Kafka's own metadata records, so that the log reads as one of a controller, and takes the
requests that ``harness.kafka.client`` sends for registers. A read is linearizable: it waits for a
NoOpRecord of its own to commit. Snapshots are made by size, as Kafka's controllers do it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final
from uuid import UUID

from harness.systems.kafka.simulated.process import KafkaProcess
from node.controller.errors import ApiError
from node.driver.apis.call import Call, Inbound
from node.driver.apis.config_defaults import ConfigType
from node.driver.apis.fields import AUTHORIZED_OPERATIONS_OMITTED, fields_of
from node.driver.apis.serving import NO_ID, NOTHING_WRITTEN, OUTCOME_UNKNOWN
from node.metadata.features import default_features
from node.metadata.records import decode_record, encode_record
from node.metadata.schemas import (
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionRecord,
    TopicRecord,
)
from node.wire.api import ApiKey

TOPIC: Final = 2  # resource type
TOPIC_CONFIG: Final = 1  # source of a setting
CONTROLLERS: Final = 2  # endpoint type
IDLE_MS: Final = "metadata.max.idle.interval.ms"  # 0: never
SNAPSHOT_BYTES: Final = "metadata.log.max.record.bytes.between.snapshots"
SNAPSHOT_BYTES_DEFAULT: Final = 20 * 1024 * 1024

APIS: Final = frozenset(
    {
        ApiKey.API_VERSIONS,
        ApiKey.CREATE_TOPICS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_CLUSTER,
    }
)

Refuse = Callable[[ApiError, str], Any]


@dataclass(slots=True)
class _Waiting:
    """A request that waits until its last record is committed."""

    call: Call
    epoch: int
    done: Callable[[], Any]
    refused: Refuse
    asked: int  # the newest event when it came
    is_read: bool
    last: int | None = None


class Registers:
    """One node's; see ``StateMachine``."""

    kind: Final = "bytes"
    apis: Final = APIS
    native: Final = frozenset[ApiKey]()

    def __init__(self, process: KafkaProcess) -> None:
        self._process = process
        self._id = process.config.node_id
        self._rng = Random(process.seed * 1_000_003 + process.world.incarnation)
        self._features: dict[str, int] = {}
        self._topics: dict[str, UUID] = {}
        self._configs: dict[tuple[str, str], str] = {}
        self._making: set[str] = set()  # topics of this reign that may not be committed yet
        self._applied = 0
        self._leader: int | None = None
        self._reign: int | None = None  # the epoch in which this node leads
        self._waiting: list[_Waiting] = []
        self._bytes = 0  # of records since the last snapshot
        limit = process.settings.get(SNAPSHOT_BYTES)
        self._idle_s = int(process.settings.get(IDLE_MS, 500)) / 1e3
        self._limit = SNAPSHOT_BYTES_DEFAULT if limit is None else int(limit)

    # ------------------------------------------------------------------ the log

    def committed(self, end: int, epoch: int, size: int, values: list[bytes]) -> None:
        """Apply records, and answer those who waited for them."""
        for value in values:
            self._apply(decode_record(value))
        self._bytes += size
        self._applied = end
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if each.last is None or each.last >= self._applied:
                self._waiting.append(each)
            elif each.epoch == epoch:
                self._answer(each)
            else:
                each.call.reply(each.refused(ApiError.NOT_CONTROLLER, OUTCOME_UNKNOWN))
        if self._bytes >= self._limit:
            self._bytes = 0
            self._process.snapshot(self._applied, epoch, list(map(encode_record, self._state())))

    def _answer(self, each: _Waiting) -> None:
        event = {"api": each.call.name, "off": self._applied if each.is_read else each.last}
        if each.is_read:
            self._process.trace("read", each.epoch, **event, asked=each.asked)
        else:
            self._process.trace("ack", each.epoch, **event, hwm=self._applied)
        each.call.reply(each.done())

    def loaded(self, end: int, epoch: int, values: list[bytes]) -> None:
        """Begin with a snapshot's state."""
        del epoch
        self._features, self._topics, self._configs = {}, {}, {}
        for value in values:
            self._apply(decode_record(value))
        self._applied, self._bytes = end, 0

    def led_by(self, leader: int | None, epoch: int) -> None:
        """Gain the lead, or lose it, and with it all that is not committed."""
        self._leader = leader
        if self._reign is not None and (leader != self._id or epoch != self._reign):
            self._process.trace("renounce", self._reign, applied=self._applied, kept=0)
            self._reign = None
            self._making.clear()
            waiting, self._waiting = self._waiting, []
            for each in waiting:
                each.call.reply(each.refused(ApiError.NOT_CONTROLLER, OUTCOME_UNKNOWN))
        if leader == self._id and self._reign is None:
            self._reign = epoch
            self._process.trace("claim", epoch, applied=self._applied)
            self._beat(epoch)
            if not self._features:
                levels = default_features().items()
                records = [FeatureLevelRecord(name=n, feature_level=v) for n, v in levels]
                values = list(map(encode_record, records))
                self._process.append(epoch, values, lambda _: None)

    def _beat(self, epoch: int) -> None:
        """Write something now and then, as long as the reign lasts, as Kafka's controllers do."""
        if self._idle_s and self._reign == epoch:
            self._process.later(self._idle_s, lambda: self._beat(epoch))
            self._process.append(epoch, [encode_record(NoOpRecord())], lambda _: None)

    def _apply(self, record: MetadataRecord) -> None:
        match record:
            case TopicRecord():
                assert record.topic_id is not None  # noqa: S101 - written below
                self._topics[record.name] = record.topic_id
            case ConfigRecord():
                self._configs[record.resource_name, record.name] = record.value or ""
            case FeatureLevelRecord():
                self._features[record.name] = record.feature_level
            case _:
                pass

    def _state(self) -> list[MetadataRecord]:
        return [
            *(
                FeatureLevelRecord(name=n, feature_level=v)
                for n, v in sorted(self._features.items())
            ),
            *(
                record
                for name, id_ in sorted(self._topics.items())
                for record in (TopicRecord(name=name, topic_id=id_), _partition(id_))
            ),
            *(
                ConfigRecord(resource_type=TOPIC, resource_name=topic, name=name, value=value)
                for (topic, name), value in sorted(self._configs.items())
            ),
        ]

    # ------------------------------------------------------------------ clients

    def serve(self, request: Inbound) -> None:
        """Answer a client; see ``apis``."""
        call = Call(request)
        match call.api_key:
            case ApiKey.DESCRIBE_CLUSTER:
                call.reply(self._cluster(call))
            case ApiKey.CREATE_TOPICS:
                self._create(call)
            case ApiKey.INCREMENTAL_ALTER_CONFIGS:
                self._alter(call)
            case _:
                self._describe(call)

    def _cluster(self, call: Call) -> Any:
        return call.struct(
            **fields_of(ApiError.NONE),
            endpoint_type=CONTROLLERS,
            cluster_id=self._process.cluster_id,
            controller_id=NO_ID if self._leader is None else self._leader,
            brokers=(),
            cluster_authorized_operations=AUTHORIZED_OPERATIONS_OMITTED,
        )

    def _create(self, call: Call) -> None:
        (topic,) = call.body.topics
        id_ = UUID(int=self._rng.getrandbits(128), version=4)

        def row(error: ApiError, message: str | None = None) -> Any:
            made = call.struct(
                "CreatableTopicResult",
                name=topic.name,
                topic_id=None if error else id_,
                num_partitions=0,
                replication_factor=-1,
                configs=None,
                **fields_of(error, message),
            )
            return call.struct(topics=(made,))

        name = str(topic.name)
        if self._reign is not None:
            if name in self._topics or name in self._making:
                call.reply(row(ApiError.TOPIC_ALREADY_EXISTS))
                return
            self._making.add(name)
        records = [TopicRecord(name=name, topic_id=id_), _partition(id_)]
        self._write(call, records, lambda: row(ApiError.NONE), row)

    def _alter(self, call: Call) -> None:
        (resource,) = call.body.resources

        def row(error: ApiError, message: str | None = None) -> Any:
            altered = call.struct(
                "AlterConfigsResourceResponse",
                resource_type=int(resource.resource_type),
                resource_name=resource.resource_name,
                **fields_of(error, message),
            )
            return call.struct(responses=(altered,))

        known = resource.resource_name in self._topics or resource.resource_name in self._making
        if not known and self._reign is not None:
            call.reply(row(ApiError.UNKNOWN_TOPIC_OR_PARTITION))
            return
        records = [
            ConfigRecord(
                resource_type=TOPIC,
                resource_name=resource.resource_name,
                name=config.name,
                value=config.value,
            )
            for config in resource.configs
        ]
        self._write(call, records, lambda: row(ApiError.NONE), row)

    def _describe(self, call: Call) -> None:
        (resource,) = call.body.resources
        topic, keys = resource.resource_name, resource.configuration_keys

        def row(error: ApiError, message: str | None = None) -> Any:
            settings = () if error else tuple(self._settings(call, topic, keys))
            described = call.struct(
                "DescribeConfigsResult",
                resource_type=int(resource.resource_type),
                resource_name=topic,
                configs=settings,
                **fields_of(error, message),
            )
            return call.struct(results=(described,))

        def done() -> Any:
            known = topic in self._topics
            return row(ApiError.NONE if known else ApiError.UNKNOWN_TOPIC_OR_PARTITION)

        self._write(call, [NoOpRecord()], done, row, is_read=True)

    def _settings(self, call: Call, topic: str, keys: Any) -> Any:
        for (resource, name), value in sorted(self._configs.items()):
            if resource == topic and (not keys or name in keys):
                yield call.struct(
                    "DescribeConfigsResourceResult",
                    name=name,
                    value=value,
                    read_only=False,
                    config_source=TOPIC_CONFIG,
                    is_sensitive=False,
                    synonyms=(),
                    config_type=ConfigType.UNKNOWN,
                    documentation=None,
                )

    def _write(
        self,
        call: Call,
        records: list[Any],
        done: Callable[[], Any],
        refused: Refuse,
        *,
        is_read: bool = False,
    ) -> None:
        epoch = self._reign
        if epoch is None:
            call.reply(refused(ApiError.NOT_CONTROLLER, NOTHING_WRITTEN))
            return
        waiting = _Waiting(call, epoch, done, refused, self._process.seq, is_read)
        self._waiting.append(waiting)

        def appended(last: int | None) -> None:
            waiting.last = last
            if last is None and waiting in self._waiting:
                self._waiting.remove(waiting)
                call.reply(refused(ApiError.NOT_CONTROLLER, NOTHING_WRITTEN))

        self._process.append(epoch, list(map(encode_record, records)), appended)


def _partition(topic: UUID) -> PartitionRecord:
    """Make a partition without replicas: there are no brokers."""
    return PartitionRecord(
        partition_id=0, topic_id=topic, replicas=(), isr=(), leader_epoch=0, partition_epoch=0
    )
