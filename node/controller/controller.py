"""The quorum controller: requests in, records and answers out; no I/O, no clock.

A write is worked out against the committed image *and* all writes before it that are not
committed yet (the overlay), so writes are pipelined without waiting for each other. Its records
are one atomic batch. Its answer must be held back until ``ControllerResult.wait_for`` is
committed; that holds for writes that come to no record too, or they would give away what may yet
be lost. Reads see committed state only.

Duties of the driver: ``claim`` only after the image has everything below the epoch's first
commit; propose the entries of each result in the order of the calls; ``appended`` for each
accepted proposal in that order; ``committed`` for each committed data record in offset order;
``renounce`` as soon as leadership is lost or a proposal is refused.

Source: Kafka's QuorumController (prepareAppend, deferred events); KIP-631.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar
from uuid import UUID

from node.controller.configs import NewSettings, alter_resource, check_resource, unknown_topic
from node.controller.errors import (
    ApiError,
    ControllerError,
    NotControllerError,
    OperationError,
)
from node.controller.operations import (
    AlterResource,
    AlterResult,
    ConfigDescription,
    ControllerResult,
    CreateResult,
    DeleteResult,
    NewTopic,
    PendingWrite,
    TopicDescription,
    TopicRef,
)
from node.controller.overlay import Overlay
from node.controller.topics import (
    MAX_RECORDS_PER_OPERATION,
    check_configs,
    check_name,
    place_partitions,
    too_large,
    topic_records,
)
from node.core.messages import Records
from node.log.meta_properties import random_id
from node.metadata.image import TOPIC, ConfigResource, MetadataImage
from node.metadata.records import NO_OP, MetadataRecord, encode_record
from node.metadata.schemas import ConfigRecord, RemoveTopicRecord

MAX_BYTES_PER_OPERATION = 7 * 1024 * 1024  # below the 8 MiB of a batch, with room for headers

T = TypeVar("T")


class _Operation:
    """A write being worked out: its records so far, within the bounds of one batch."""

    def __init__(self) -> None:
        self.write = PendingWrite(0)
        self.payload: list[bytes] = []
        self.bytes = 0

    def add(self, records: Sequence[MetadataRecord]) -> None:
        """Take in all of ``records`` or none; raises OperationError(POLICY_VIOLATION)."""
        encoded = [encode_record(record) for record in records]
        size = sum(map(len, encoded))
        if (
            len(self.payload) + len(encoded) > MAX_RECORDS_PER_OPERATION
            or self.bytes + size > MAX_BYTES_PER_OPERATION
        ):
            raise too_large()
        self.payload += encoded
        self.bytes += size


class QuorumController:
    """The state machine that decides what goes into the metadata log.

    ``payload`` of the ``Records`` it returns is a tuple of encoded record values. With ``image``
    it shares an image that somebody else applies committed records to; without, it keeps its own.
    ``broker_ids`` are the brokers that partitions are placed on (there is no registration yet).
    """

    def __init__(
        self,
        *,
        rng: Random,
        image: MetadataImage | None = None,
        broker_ids: Sequence[int] = (),
    ) -> None:
        self.image = MetadataImage() if image is None else image
        self.epoch: int | None = None
        self._rng = rng
        self._broker_ids = tuple(broker_ids)
        self._overlay = Overlay(self.image)
        self._pending: deque[PendingWrite] = deque()
        self._unappended: deque[PendingWrite] = deque()

    # ------------------------------------------------------------------ leadership and commits

    @property
    def active(self) -> bool:
        """Whether this controller may write."""
        return self.epoch is not None

    @property
    def pending(self) -> int:
        """How many writes are not committed yet."""
        return len(self._pending)

    def claim(self, epoch: int) -> None:
        """Become the active controller of ``epoch``."""
        if self.epoch is not None:
            raise ControllerError(f"claim of epoch {epoch} while active in epoch {self.epoch}")
        self.epoch = epoch

    def renounce(self) -> None:
        """Stop being active: what is pending may or may not be committed by others. O(pending)."""
        self.epoch = None
        self._overlay.clear()
        self._pending.clear()
        self._unappended.clear()

    def appended(self, base_offset: int, last_offset: int) -> None:
        """The records of the oldest write not yet in the log are there now."""
        if not self._unappended:
            raise ControllerError(f"records {base_offset}..{last_offset} are of no pending write")
        write = self._unappended.popleft()
        if last_offset - base_offset + 1 != write.records:
            raise ControllerError(
                f"{write.records} records were appended as {base_offset}..{last_offset}"
            )
        write.last_offset = last_offset

    def committed(self, record: MetadataRecord, offset: int) -> None:
        """Apply a committed data record (unless the shared image has it) and settle its write."""
        if offset >= self.image.end_offset:
            self.image.apply(record, offset)
        while self._pending:
            last_offset = self._pending[0].last_offset
            if last_offset is None or last_offset > offset:
                return
            self._overlay.committed(self._pending.popleft())

    # ------------------------------------------------------------------ writes

    def alter_configs(
        self, resources: Sequence[AlterResource], *, validate_only: bool = False
    ) -> ControllerResult[tuple[AlterResult, ...]]:
        """IncrementalAlterConfigs: each resource all or nothing, all of them in one batch."""
        operation = self._begin()
        counts = Counter((r.resource_type, r.resource_name) for r in resources)

        def alter(request: AlterResource) -> AlterResult:
            resource = (request.resource_type, request.resource_name)
            try:
                _only_once(counts[resource], "Each resource must appear at most once.")
                settings = alter_resource(self._overlay, request)
                operation.add(_config_records(resource, settings))
            except OperationError as refusal:
                return AlterResult(*resource, refusal.error, refusal.message)
            if settings and not validate_only:
                self._overlay.put_settings(operation.write, resource, settings)
            return AlterResult(*resource)

        return self._finish(operation, tuple([alter(r) for r in resources]), validate_only)

    def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> ControllerResult[tuple[CreateResult, ...]]:
        """CreateTopics: each topic with its settings and partitions, or nothing of it."""
        operation = self._begin()
        counts = Counter(topic.name for topic in topics)

        def create(topic: NewTopic) -> CreateResult:
            try:
                _only_once(counts[topic.name], "Duplicate topic name.")
                return self._create(operation, topic, validate_only)
            except OperationError as refusal:
                return CreateResult(topic.name, None, refusal.error, refusal.message)

        return self._finish(operation, tuple([create(t) for t in topics]), validate_only)

    def delete_topics(
        self, topics: Sequence[TopicRef]
    ) -> ControllerResult[tuple[DeleteResult, ...]]:
        """DeleteTopics, by name or by id."""
        operation = self._begin()
        counts = Counter(topics)

        def delete(topic: TopicRef) -> DeleteResult:
            try:
                _only_once(counts[topic], "Duplicate topic in request.")
                name, topic_id = self._resolve(topic)
                operation.add([RemoveTopicRecord(topic_id=topic_id)])
            except OperationError as refusal:
                return DeleteResult(topic.name, topic.id, refusal.error, refusal.message)
            self._overlay.remove_topic(operation.write, name, topic_id)
            return DeleteResult(name, topic_id)

        return self._finish(operation, tuple([delete(t) for t in topics]), validate_only=False)

    def no_op(self) -> ControllerResult[None]:
        """One NoOpRecord, for an idle quorum."""
        operation = self._begin()
        operation.payload.append(NO_OP)
        return self._finish(operation, None, validate_only=False)

    # ------------------------------------------------------------------ reads of committed state

    def describe_configs(
        self, resource: ConfigResource, names: Sequence[str] | None = None
    ) -> ConfigDescription:
        """The settings of a resource as committed, or those of ``names`` that are set."""
        try:
            check_resource(resource)
            if resource[0] == TOPIC and resource[1] not in self.image.topics:
                raise unknown_topic(resource[1])
        except OperationError as refusal:
            return ConfigDescription(*resource, refusal.error, refusal.message)
        settings = self.image.config(resource)
        wanted = sorted(settings) if names is None else names
        return ConfigDescription(
            *resource, configs={name: settings[name] for name in wanted if name in settings}
        )

    def describe_topics(
        self, topics: Sequence[TopicRef] | None = None
    ) -> tuple[TopicDescription, ...]:
        """Topics as committed, or all of them by name."""
        if topics is None:
            topics = [TopicRef(name=name) for name in sorted(self.image.topics)]
        return tuple([self._describe(topic) for topic in topics])

    # ------------------------------------------------------------------ inside

    def _begin(self) -> _Operation:
        if self.epoch is None:
            raise NotControllerError("this controller is not the active one")
        return _Operation()

    def _finish(self, operation: _Operation, reply: T, validate_only: bool) -> ControllerResult[T]:
        payload = () if validate_only else tuple(operation.payload)
        if not payload:
            return ControllerResult((), reply, self._pending[-1] if self._pending else None)
        write = operation.write
        write.records = len(payload)
        self._pending.append(write)
        self._unappended.append(write)
        return ControllerResult((Records(len(payload), payload),), reply, write)

    def _create(self, operation: _Operation, topic: NewTopic, validate_only: bool) -> CreateResult:
        check_name(topic.name)
        if self._overlay.topic_id(topic.name) is not None:
            raise OperationError(
                ApiError.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists."
            )
        configs = check_configs(topic.configs)
        partitions = place_partitions(topic, self._broker_ids, self._rng)
        topic_id = self._new_topic_id()
        operation.add(topic_records(topic.name, topic_id, partitions, configs))
        if not validate_only:
            self._overlay.put_topic(operation.write, topic.name, topic_id)
            if configs:
                self._overlay.put_settings(operation.write, (TOPIC, topic.name), configs)
        return CreateResult(
            topic.name,
            None if validate_only else topic_id,
            partitions=len(partitions),
            replication_factor=len(partitions[0]),
            configs=configs,
        )

    def _new_topic_id(self) -> UUID:
        while True:
            topic_id = random_id(self._rng)
            if self._overlay.topic_name(topic_id) is None:
                return topic_id

    def _resolve(self, topic: TopicRef) -> tuple[str, UUID]:
        """Name and id of a live topic, pending writes included; raises OperationError."""
        name = _only(topic, self._overlay.topic_name)
        topic_id = self._overlay.topic_id(name)
        if topic_id is None:
            raise unknown_topic(name)
        return name, topic_id

    def _describe(self, ref: TopicRef) -> TopicDescription:
        try:
            name = _only(ref, self._committed_name)
            topic = self.image.topics.get(name)
            if topic is None:
                raise unknown_topic(name)
        except OperationError as refusal:
            return TopicDescription(ref.name, ref.id, refusal.error, refusal.message)
        return TopicDescription(
            topic.name,
            topic.id,
            partitions=dict(topic.partitions),
            configs=dict(self.image.config((TOPIC, name))),
        )

    def _committed_name(self, topic_id: UUID) -> str | None:
        topic = self.image.topic_by_id(topic_id)
        return None if topic is None else topic.name


def _config_records(resource: ConfigResource, settings: NewSettings) -> list[ConfigRecord]:
    type_, name = resource
    return [
        ConfigRecord(resource_type=type_, resource_name=name, name=key, value=value)
        for key, value in settings.items()
    ]


def _only_once(count: int, message: str) -> None:
    if count > 1:
        raise OperationError(ApiError.INVALID_REQUEST, message)


def _only(topic: TopicRef, name_of: Callable[[UUID], str | None]) -> str:
    """The name of a topic that is given by name or by id; raises OperationError."""
    if topic.id is None:
        if topic.name is None:
            raise OperationError(ApiError.INVALID_REQUEST, "Neither topic name nor id was given.")
        return topic.name
    if topic.name is not None:
        raise OperationError(
            ApiError.INVALID_REQUEST, "You may not specify both topic name and id."
        )
    name = name_of(topic.id)
    if name is None:
        raise OperationError(ApiError.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    return name
