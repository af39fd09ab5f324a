"""AlterPartition (56), AssignReplicasToDirs (73): what brokers say of their replicas.

An id of zeros, which kio reads as None, is that of no topic and no directory.
Source: KIP-497, KIP-903 (broker epochs in the ISR), KIP-858.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final
from uuid import UUID

from node.controller.controller import QuorumController
from node.controller.errors import ApiError
from node.controller.operations import ControllerResult
from node.controller.partition_operations import (
    AlterPartitionData,
    AlterPartitionReply,
    AlterPartitionRequest,
    AlterPartitionResult,
    AssignReplicasToDirsReply,
    AssignReplicasToDirsRequest,
    IsrMember,
)
from node.controller.slices import Pace, Slices
from node.driver.apis.call import Call
from node.driver.apis.fields import code, error_fields
from node.driver.apis.registry import Listener, serves
from node.driver.apis.serving import Serving
from node.wire.api import ApiKey

_ZERO: Final = UUID(int=0)


@serves(ApiKey.ALTER_PARTITION, Listener.CONTROLLER)
def alter_partition(serving: Serving, call: Call) -> None:
    """A leader wants other ISRs."""

    def alter(controller: QuorumController) -> Slices[ControllerResult[AlterPartitionReply]]:
        request = yield from _alterations(call.body)
        return (yield from controller.long.alter_partition(request))

    def encode(reply: AlterPartitionReply) -> Any:
        return call.struct(
            topics=tuple(
                [
                    call.struct(
                        "TopicData",
                        topic_id=topic_id,
                        partitions=tuple([_altered(call, result) for result in results]),
                    )
                    for topic_id, results in reply.topics.items()
                ]
            ),
            **error_fields(reply),
        )

    serving.write(call, alter, AlterPartitionReply, encode)


def _alterations(body: Any) -> Slices[AlterPartitionRequest]:
    pace = Pace()
    topics: defaultdict[UUID, list[AlterPartitionData]] = defaultdict(list)
    for topic in body.topics:
        wanted = topics[topic.topic_id or _ZERO]
        for partition in topic.partitions:
            wanted.append(_wanted(partition))
            if pace.is_over():
                yield
    return AlterPartitionRequest(int(body.broker_id), int(body.broker_epoch), dict(topics))


def _wanted(partition: Any) -> AlterPartitionData:
    if hasattr(partition, "new_isr_with_epochs"):
        isr = [
            IsrMember(int(m.broker_id), int(m.broker_epoch)) for m in partition.new_isr_with_epochs
        ]
    else:
        isr = [IsrMember(int(broker_id)) for broker_id in partition.new_isr]
    return AlterPartitionData(
        partition_index=int(partition.partition_index),
        leader_epoch=int(partition.leader_epoch),
        partition_epoch=int(partition.partition_epoch),
        new_isr=tuple(isr),
        leader_recovery_state=int(partition.leader_recovery_state),
    )


def _altered(call: Call, result: AlterPartitionResult) -> Any:
    return call.struct(
        "PartitionData",
        partition_index=result.partition_index,
        error_code=code(result.error),
        leader_id=result.leader_id,
        leader_epoch=result.leader_epoch,
        isr=result.isr,
        leader_recovery_state=result.leader_recovery_state,
        partition_epoch=result.partition_epoch,
    )


@serves(ApiKey.ASSIGN_REPLICAS_TO_DIRS, Listener.CONTROLLER)
def assign_replicas_to_dirs(serving: Serving, call: Call) -> None:
    """A broker says in which directories its replicas are."""

    def assign(controller: QuorumController) -> Slices[ControllerResult[AssignReplicasToDirsReply]]:
        request = yield from _assignments(call.body)
        return (yield from controller.long.assign_replicas_to_dirs(request))

    def refused(error: ApiError, message: str) -> AssignReplicasToDirsReply:
        return AssignReplicasToDirsReply(error, message)

    def encode(reply: AssignReplicasToDirsReply) -> Any:
        return call.struct(directories=_directories(call, reply), **error_fields(reply))

    serving.write(call, assign, refused, encode)


def _assignments(body: Any) -> Slices[AssignReplicasToDirsRequest]:
    pace = Pace()
    directories: dict[UUID, dict[UUID, list[int]]] = {}
    for directory in body.directories:
        topics = directories.setdefault(directory.id_ or _ZERO, {})
        for topic in directory.topics:
            indexes = topics.setdefault(topic.topic_id or _ZERO, [])
            for partition in topic.partitions:
                indexes.append(int(partition.partition_index))
                if pace.is_over():
                    yield
    return AssignReplicasToDirsRequest(int(body.broker_id), int(body.broker_epoch), directories)


def _directories(call: Call, reply: AssignReplicasToDirsReply) -> tuple[Any, ...]:
    return tuple(
        [
            call.struct(
                "DirectoryData",
                id_=directory,
                topics=tuple(
                    [
                        call.struct(
                            "TopicData",
                            topic_id=topic_id,
                            partitions=tuple(
                                [
                                    call.struct(
                                        "PartitionData",
                                        partition_index=result.partition,
                                        error_code=code(result.error),
                                    )
                                    for result in results
                                ]
                            ),
                        )
                        for topic_id, results in topics.items()
                    ]
                ),
            )
            for directory, topics in reply.directories.items()
        ]
    )
