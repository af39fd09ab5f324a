"""Operations that may be about very many topics or partitions, in slices.

Until an operation has ended no other may be worked out: its records are one batch, or refused as a
whole, and nobody may build on half of it. Reads go on, for they see committed state only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from node.controller import configs, isr, leader_elections, reassignments, topics
from node.controller.context import Context
from node.controller.errors import ApiError, OperationError
from node.controller.operation import Operation
from node.controller.operations import (
    AlterResource,
    AlterResult,
    ControllerResult,
    CreateResult,
    DeleteResult,
    NewTopic,
    ReplaceResource,
    TopicRef,
)
from node.controller.partition_operations import (
    AlterPartitionReply,
    AlterPartitionRequest,
    AssignReplicasToDirsReply,
    AssignReplicasToDirsRequest,
    ElectLeadersReply,
    NewPartitions,
    NewPartitionsResult,
    Reassignment,
    ReassignmentsReply,
    all_refused,
)
from node.controller.slices import Slices

T = TypeVar("T")
R = TypeVar("R", AlterResource, ReplaceResource)


class Write(Protocol):
    """Works out one write in slices."""

    def __call__(
        self,
        work: Callable[[Operation], Slices[T]],
        *,
        atomic: bool = True,
        validate_only: bool = False,
    ) -> Slices[ControllerResult[T]]:
        """Give ``work`` an operation and make a result of what it returns."""
        ...


class LongOperations:
    """Operations of an active controller in slices; each ends with its result."""

    def __init__(self, ctx: Context, write: Write, collisions: topics.Collisions) -> None:
        self._ctx = ctx
        self._write = write
        self._collisions = collisions

    def create_topics(
        self, wanted: Sequence[NewTopic], *, validate_only: bool = False
    ) -> Slices[ControllerResult[tuple[CreateResult, ...]]]:
        """CreateTopics (19): each topic with its settings and partitions, or nothing of it."""
        counts = Counter(topic.name for topic in wanted)

        def create(operation: Operation, topic: NewTopic) -> Slices[CreateResult]:
            try:
                only_once(counts[topic.name], "Duplicate topic name.")
                created = yield from topics.create(self._ctx, operation, topic, self._collisions)
            except OperationError as refusal:
                return CreateResult(topic.name, None, refusal.error, refusal.message)
            return replace(created, topic_id=None) if validate_only else created

        def each(operation: Operation) -> Slices[tuple[CreateResult, ...]]:
            rows = []
            for topic in wanted:
                rows.append((yield from create(operation, topic)))
                if operation.pace.is_over():
                    yield
            return tuple(rows)

        result = yield from self._write(each, validate_only=validate_only)
        if validate_only:
            self._collisions.forget()
        return result

    def delete_topics(
        self, wanted: Sequence[TopicRef]
    ) -> Slices[ControllerResult[tuple[DeleteResult, ...]]]:
        """DeleteTopics (20), by name or by id."""
        counts = Counter(wanted)

        def delete(operation: Operation, topic: TopicRef) -> DeleteResult:
            try:
                only_once(counts[topic], "Duplicate topic in request.")
                name, topic_id = topics.delete(self._ctx, operation, topic)
            except OperationError as refusal:
                return DeleteResult(topic.name, topic.id, refusal.error, refusal.message)
            self._collisions.forget()
            return DeleteResult(name, topic_id)

        return self._write(lambda op: _each(op, wanted, delete))

    def create_partitions(
        self, wanted: Sequence[NewPartitions], *, validate_only: bool = False
    ) -> Slices[ControllerResult[tuple[NewPartitionsResult, ...]]]:
        """CreatePartitions (37): each topic all or nothing."""
        counts = Counter(topic.name for topic in wanted)

        def create(operation: Operation, topic: NewPartitions) -> Slices[NewPartitionsResult]:
            try:
                only_once(counts[topic.name], "Duplicate topic name.")
                yield from topics.create_partitions(self._ctx, operation, topic)
            except OperationError as refusal:
                return NewPartitionsResult(topic.name, refusal.error, refusal.message)
            return NewPartitionsResult(topic.name)

        def each(operation: Operation) -> Slices[tuple[NewPartitionsResult, ...]]:
            rows = []
            for topic in wanted:
                rows.append((yield from create(operation, topic)))
                if operation.pace.is_over():
                    yield
            return tuple(rows)

        return self._write(each, validate_only=validate_only)

    def alter_configs(
        self, resources: Sequence[AlterResource], *, validate_only: bool = False
    ) -> Slices[ControllerResult[tuple[AlterResult, ...]]]:
        """IncrementalAlterConfigs (44): each resource all or nothing, all of them in one batch."""
        return self._alter(resources, configs.alter, validate_only)

    def replace_configs(
        self, resources: Sequence[ReplaceResource], *, validate_only: bool = False
    ) -> Slices[ControllerResult[tuple[AlterResult, ...]]]:
        """AlterConfigs (33): each resource all or nothing, all of them in one batch."""
        return self._alter(resources, configs.replace, validate_only)

    def alter_partition(
        self, request: AlterPartitionRequest
    ) -> Slices[ControllerResult[AlterPartitionReply]]:
        """AlterPartition (56): each partition by itself."""
        return self._ask(
            lambda op: isr.alter_partition(self._ctx, op, request),
            AlterPartitionReply,
            atomic=False,
        )

    def assign_replicas_to_dirs(
        self, request: AssignReplicasToDirsRequest
    ) -> Slices[ControllerResult[AssignReplicasToDirsReply]]:
        """AssignReplicasToDirs (73): each partition by itself."""
        return self._ask(
            lambda op: reassignments.assign_to_directories(self._ctx, op, request),
            AssignReplicasToDirsReply,
            atomic=False,
        )

    def elect_leaders(
        self, election_type: int, partitions: Mapping[str, Sequence[int]] | None
    ) -> Slices[ControllerResult[ElectLeadersReply]]:
        """ElectLeaders (43); None = all partitions."""

        def elect(operation: Operation) -> Slices[ElectLeadersReply]:
            return leader_elections.elect_leaders(self._ctx, operation, election_type, partitions)

        def refused(error: ApiError, message: str | None) -> ElectLeadersReply:
            return ElectLeadersReply(error, message, all_refused(partitions or {}, error, message))

        return self._ask(elect, refused)

    def alter_partition_reassignments(
        self,
        wanted: Mapping[str, Sequence[Reassignment]],
        *,
        allow_replication_factor_change: bool = True,
    ) -> Slices[ControllerResult[ReassignmentsReply]]:
        """AlterPartitionReassignments (45)."""

        def alter(operation: Operation) -> Slices[ReassignmentsReply]:
            return reassignments.alter_reassignments(
                self._ctx,
                operation,
                wanted,
                allow_replication_factor_change=allow_replication_factor_change,
            )

        return self._ask(alter, ReassignmentsReply)

    def _ask(
        self,
        work: Callable[[Operation], Slices[T]],
        refused: Callable[[ApiError, str | None], T],
        *,
        atomic: bool = True,
    ) -> Slices[ControllerResult[T]]:
        """A write that is refused as a whole, if at all."""
        try:
            return (yield from self._write(work, atomic=atomic))
        except OperationError as refusal:
            reply = refused(refusal.error, refusal.message)
        return (yield from self._write(lambda _: _at_once(reply)))

    def _alter(
        self,
        resources: Sequence[R],
        work: Callable[[Context, Operation, R], None],
        validate_only: bool,
    ) -> Slices[ControllerResult[tuple[AlterResult, ...]]]:
        counts = Counter((r.resource_type, r.resource_name) for r in resources)

        def alter(operation: Operation, request: R) -> AlterResult:
            resource = (request.resource_type, request.resource_name)
            try:
                only_once(counts[resource], "Each resource must appear at most once.")
                work(self._ctx, operation, request)
            except OperationError as refusal:
                return AlterResult(*resource, refusal.error, refusal.message)
            return AlterResult(*resource)

        return self._write(lambda op: _each(op, resources, alter), validate_only=validate_only)


W = TypeVar("W")


def _each(
    operation: Operation, wanted: Sequence[W], do: Callable[[Operation, W], T]
) -> Slices[tuple[T, ...]]:
    """Do what is small for each that is wanted."""
    rows = []
    for one in wanted:
        rows.append(do(operation, one))
        if operation.pace.is_over():
            yield
    return tuple(rows)


def _at_once(reply: T) -> Slices[T]:
    """A reply that takes no work."""
    yield from ()
    return reply


def only_once(count: int, message: str) -> None:
    """Refuse what a request names more than once; raises OperationError(INVALID_REQUEST)."""
    if count > 1:
        raise OperationError(ApiError.INVALID_REQUEST, message)
