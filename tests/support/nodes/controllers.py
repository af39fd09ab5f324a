"""A controller with a log of its own, driven as the node drives it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any, TypeVar
from uuid import UUID

from node.controller.broker_operations import (
    BrokerHeartbeatReply,
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
)
from node.controller.context import ControllerConfig
from node.controller.controller import QuorumController
from node.controller.errors import ApiError
from node.controller.feature_operations import BootstrapMetadata
from node.controller.operations import (
    AlterResource,
    ConfigChange,
    ControllerResult,
    NewTopic,
    payload_values,
)
from node.controller.partition_operations import (
    AlterPartitionData,
    AlterPartitionRequest,
    IsrMember,
)
from node.metadata.features import (
    ELR_VERSION,
    FEATURES,
    HIGHEST_OF_KAFKA,
    LATEST_METADATA_VERSION,
    default_features,
)
from node.metadata.image import TOPIC, BrokerState, PartitionState
from node.metadata.records import decode_record
from node.metadata.schemas import BrokerEndpoint, BrokerFeature, MetadataRecord

T = TypeVar("T")


class Quorum:
    """Appends what an active controller proposes, and commits it when told to."""

    def __init__(
        self,
        *,
        broker_ids: Sequence[int] | None = (),
        seed: int = 1,
        cluster_id: str | None = None,
        partitions_per_slice: int | None = None,
        **more: Any,
    ) -> None:
        config = ControllerConfig(**more)
        if partitions_per_slice is not None:
            config = replace(config, partitions_per_slice=partitions_per_slice)
        self.controller = QuorumController(
            rng=Random(seed), config=config, broker_ids=broker_ids, cluster_id=cluster_id
        )
        self.controller.claim(1, 0)
        self.log: list[MetadataRecord] = []
        self.committed = 0

    def append(self, result: ControllerResult[T]) -> T:
        """Put the records of a result into the log; its reply."""
        first = len(self.log)
        for entry in result.entries:
            assert entry.count == len(entry.payload)
            values = payload_values(entry.payload, len(self.log))
            self.log += [decode_record(value) for value in values]
        if result.entries:
            self.controller.appended(first, len(self.log) - 1)
        return result.reply

    def commit(self, upto: int | None = None) -> None:
        """Commit all records below ``upto``, or all there are."""
        end = len(self.log) if upto is None else upto
        while self.committed < end:
            self.controller.committed(self.log[self.committed], self.committed)
            self.committed += 1

    def do(self, result: ControllerResult[T]) -> T:
        """Append and commit."""
        reply = self.append(result)
        self.commit()
        return reply

    def finish(self) -> list[int]:
        """Do all slices of what takes more than one; how many records each has."""
        counts = []
        while self.controller.sweeps:
            result = self.controller.sweep()
            counts.append(sum(entry.count for entry in result.entries))
            self.do(result)
        return counts

    def fail_over(self, epoch: int = 2, now_ms: int = 0) -> None:
        """Have what is not committed lost, and another reign begin."""
        del self.log[self.committed :]
        self.controller.renounce()
        self.controller.claim(epoch, now_ms)


class Cluster(Quorum):
    """A quorum with a feature level as Kafka 4.1 formats it, and brokers that register."""

    def __init__(
        self,
        brokers: int = 0,
        *,
        elr: bool = True,
        seed: int = 1,
        broker_ids: tuple[int, ...] | None = None,
        partitions_per_slice: int | None = None,
        level: int = LATEST_METADATA_VERSION,
        **more: Any,
    ) -> None:
        super().__init__(
            broker_ids=broker_ids,
            seed=seed,
            cluster_id="c",
            partitions_per_slice=partitions_per_slice,
            **more,
        )
        self.now_ms = 0
        levels = default_features(level)
        if not elr:
            del levels[ELR_VERSION]
        self.do(self.controller.activate(BootstrapMetadata(levels)))
        for broker_id in range(1, brokers + 1):
            self.start(broker_id)

    def start(self, broker_id: int, **fields: Any) -> int:
        """Register a new incarnation of a broker and unfence it; its epoch."""
        epoch = self.register(broker_id, **fields)
        reply = self.beat(broker_id)
        assert (reply.error, reply.is_fenced) == (ApiError.NONE, False), reply
        return epoch

    def register(self, broker_id: int, **fields: Any) -> int:
        """Register a new incarnation of a broker; its epoch."""
        request = registration(broker_id, incarnation=len(self.log) + 1, **fields)
        reply = self.do(self.controller.register_broker(request, self.now_ms))
        assert reply.error == ApiError.NONE, reply
        return reply.broker_epoch

    def beat(self, broker_id: int, **fields: Any) -> BrokerHeartbeatReply:
        """A heartbeat of the registered incarnation, from one that knows all that is committed."""
        request = self.heartbeat(broker_id, **fields)
        self.controller.contact(broker_id, request.broker_epoch, self.now_ms)
        return self.do(self.controller.heartbeat(request))

    def heartbeat(self, broker_id: int, **fields: Any) -> BrokerHeartbeatRequest:
        """The request of such a heartbeat."""
        epoch = self.broker(broker_id).epoch
        values: dict[str, Any] = {
            "broker_epoch": epoch,
            "current_metadata_offset": self.committed - 1,
        } | fields
        return BrokerHeartbeatRequest(broker_id=broker_id, **values)

    def broker(self, broker_id: int) -> BrokerState:
        """A broker as committed."""
        return self.controller.image.brokers[broker_id]

    def topic(self, name: str = "t", *assignment: tuple[int, ...], **configs: str) -> UUID:
        """Create a topic with these replicas (a "_" in a setting's name is a "."); its id."""
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        new = NewTopic(name, assignments=dict(enumerate(assignment)), configs=settings)
        (reply,) = self.do(self.controller.create_topics([new]))
        assert reply.error == ApiError.NONE, reply
        assert reply.topic_id is not None
        return reply.topic_id

    def partition(self, name: str = "t", index: int = 0) -> PartitionState:
        """A partition as committed."""
        return self.controller.image.topics[name].partitions[index]

    def wants_isr(
        self, isr: Sequence[int], name: str = "t", index: int = 0, **fields: Any
    ) -> AlterPartitionRequest:
        """What the leader of a partition sends when it wants that ISR."""
        state = self.partition(name, index)
        sender = fields.pop("sender", state.leader)
        values: dict[str, Any] = {
            "leader_epoch": state.leader_epoch,
            "partition_epoch": state.partition_epoch,
            "new_isr": tuple(IsrMember(b, self.broker(b).epoch) for b in isr),
            "leader_recovery_state": 0,
        } | fields
        epoch = self.broker(sender).epoch
        topic_id = self.controller.image.topics[name].id
        return AlterPartitionRequest(
            sender, epoch, {topic_id: [AlterPartitionData(index, **values)]}
        )

    def set_isr(self, isr: Sequence[int], name: str = "t", index: int = 0) -> ApiError:
        """The leader of a partition gets that ISR, or an error."""
        reply = self.do(self.controller.alter_partition(self.wants_isr(isr, name, index)))
        ((result,),) = reply.topics.values()
        return result.error


def registration(
    broker_id: int, *, incarnation: int = 1, **fields: Any
) -> BrokerRegistrationRequest:
    """A registration of a broker that supports what the newest Kafka supports."""
    values: dict[str, Any] = {
        "cluster_id": "c",
        "incarnation_id": UUID(int=broker_id << 32 | incarnation),
        "listeners": (BrokerEndpoint(name="PLAINTEXT", host="h", port=9092, security_protocol=0),),
        "features": tuple(
            BrokerFeature(
                name=f.name,
                min_supported_version=f.lowest,
                max_supported_version=HIGHEST_OF_KAFKA[f.name],
            )
            for f in FEATURES.values()
        ),
        "log_dirs": (UUID(int=1000 + broker_id),),
    }
    return BrokerRegistrationRequest(broker_id=broker_id, **(values | fields))


def alter(
    name: str, op: int, value: str | None = None, *, resource: str = "t", kind: int = TOPIC
) -> AlterResource:
    """One change of one setting."""
    return AlterResource(kind, resource, [ConfigChange(name, op, value)])
