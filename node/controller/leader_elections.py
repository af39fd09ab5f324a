"""ElectLeaders, and the elections that the controller holds by itself.

Source: Kafka's ReplicationControlManager; KIP-183 (preferred), KIP-460 (unclean).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from uuid import UUID

from node.controller.context import Context, build_into
from node.controller.errors import ApiError, OperationError
from node.controller.operation import Operation
from node.controller.overlay.partitions import PartitionKey
from node.controller.partition_change import Election, PartitionChange, Rules, stays
from node.controller.partition_operations import (
    ElectionType,
    ElectLeadersReply,
    PartitionResult,
)
from node.controller.slices import Slices
from node.metadata.image import NO_LEADER, PartitionState

Refusal = tuple[ApiError, str | None]
_STEPS = 4  # of one election
_LOOKED_AT_MAX = 1_000  # partitions in one operation
_DONE: Refusal = (ApiError.NONE, None)
_NOT_NEEDED: Refusal = (
    ApiError.ELECTION_NOT_NEEDED,
    "Leader election not needed for topic partition.",
)
_ELECTIONS: Mapping[ElectionType, tuple[Election, Refusal]] = {
    ElectionType.PREFERRED: (
        Election.PREFERRED,
        (ApiError.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."),
    ),
    ElectionType.UNCLEAN: (
        Election.UNCLEAN,
        (
            ApiError.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            "Eligible topic partition leaders are not available.",
        ),
    ),
}


def elect_leaders(
    ctx: Context,
    operation: Operation,
    election_type: int,
    partitions: Mapping[str, Sequence[int]] | None,
) -> Slices[ElectLeadersReply]:
    """Elect a leader of each partition, or of all that need it.

    Raises:
        OperationError: INVALID_REQUEST, of an unknown type of election.
    """
    try:
        kind = ElectionType(election_type)
    except ValueError:
        raise OperationError(
            ApiError.INVALID_REQUEST, f"Unknown election type {election_type}"
        ) from None
    elections = _Elections(ctx, operation, kind)
    pending = elections.pending() if partitions is None else {}
    topics: dict[str, list[PartitionResult]] = {}
    for topic in ctx.overlay.topic_names() if partitions is None else partitions:
        indexes = elections.needed(topic, pending) if partitions is None else partitions[topic]
        its = topics[topic] = []
        for index in indexes:
            refusal = elections.elect(topic, index)
            if partitions is not None or refusal is not _NOT_NEEDED:
                its.append(PartitionResult(index, *refusal))
            if operation.pace.is_over(_STEPS if refusal is _DONE else 1):
                yield
        if operation.pace.is_over():
            yield
    return ElectLeadersReply(topics=topics)


class _Elections:
    """Elections of one kind in one operation: what stays as it is meanwhile is looked up once."""

    def __init__(self, ctx: Context, operation: Operation, kind: ElectionType) -> None:
        self._ctx = ctx
        self._operation = operation
        self._kind = kind
        self._election, self._unavailable = _ELECTIONS[kind]
        overlay = ctx.overlay
        active = {broker.id for broker in overlay.brokers() if overlay.is_active(broker.id)}
        self._is_active = active.__contains__
        self._topic: str | None = None  # of the three below
        self._topic_id: UUID | None = None
        self._rules: Rules | None = None
        self._state: Callable[[int], PartitionState | None] = lambda _: None

    def pending(self) -> dict[UUID, list[int]]:
        """The partitions of all topics that need an election by what is not committed."""
        partitions = self._ctx.overlay.partitions
        found: dict[UUID, list[int]] = {}
        for topic_id, index in (
            partitions.pending_imbalanced()
            if self._kind is ElectionType.PREFERRED
            else partitions.pending_leaderless()
        ):
            found.setdefault(topic_id, []).append(index)
        return found

    def needed(self, topic: str, pending: Mapping[UUID, Sequence[int]]) -> Iterable[int]:
        """The partitions of a topic that may need an election, sorted; of most topics none do."""
        topic_id = self._ctx.overlay.topic_id(topic)
        if topic_id is None:
            return ()
        image = self._ctx.overlay.image
        committed = (
            image.imbalanced_in(topic_id)
            if self._kind is ElectionType.PREFERRED
            else image.leaderless_in(topic_id)
        )
        more = pending.get(topic_id)
        return sorted({*committed, *more}) if more else committed

    def elect(self, topic: str, index: int) -> Refusal:
        """Elect the leader of one partition; _NOT_NEEDED when that leads already."""
        if topic != self._topic:
            self._turn_to(topic)
        topic_id, rules = self._topic_id, self._rules
        if topic_id is None or rules is None:
            return ApiError.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {topic}"
        state = self._state(index)
        if state is None:
            return ApiError.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {topic}-{index}"
        if _is_led(state, self._kind):
            return _NOT_NEEDED
        if stays(state, rules):
            return self._unavailable
        record = build_into(self._operation, PartitionChange(state, topic_id, index, rules))
        if record is None:
            return self._unavailable
        if record.replicas is not None:
            self._topic = None  # the rules go by how many replicas the first partition has
        return _DONE

    def _turn_to(self, topic: str) -> None:
        ctx = self._ctx
        self._topic, self._topic_id, self._rules = topic, ctx.overlay.topic_id(topic), None
        if self._topic_id is not None:
            self._rules = ctx.rules(self._topic_id, self._is_active, self._election)
            self._state = ctx.overlay.partitions.reader(self._topic_id)


class Round:
    """One look at all partitions of a kind, some at a time: most may have to stay as they are."""

    def __init__(self, begin: Callable[[], Iterator[PartitionKey]]) -> None:
        self._begin = begin
        self._walk: Iterator[PartitionKey] | None = None

    @property
    def under_way(self) -> bool:
        """Tell whether there may be partitions that this round has not looked at yet."""
        return self._walk is not None

    def next_keys(self) -> Iterator[PartitionKey]:
        """The next of them, few enough for one turn; after the last of all a round begins anew."""
        if self._walk is None:
            self._walk = self._begin()
        for _ in range(_LOOKED_AT_MAX):
            key = next(self._walk, None)
            if key is None:
                self._walk = None
                return
            yield key

    def clear(self) -> None:
        """Leave the round."""
        self._walk = None


def balance_leaders(ctx: Context, operation: Operation, round_: Round) -> int:
    """Give partitions back to their first replica, where it is in sync; how many."""
    elected = 0
    for key in round_.next_keys():
        state = ctx.overlay.partitions.get(key)
        assert state is not None, key  # noqa: S101 - the index has it
        change = ctx.change(key, state, election=Election.PREFERRED)
        elected += build_into(operation, change) is not None
        if elected >= ctx.config.elections_per_balance_max:
            break
    return elected


def elect_unclean(ctx: Context, operation: Operation, round_: Round) -> int:
    """Find leaders at the cost of data where the topic's settings allow it; how many."""
    elected = 0
    elections = _Elections(ctx, operation, ElectionType.UNCLEAN)
    for topic_id, index in round_.next_keys():
        topic = ctx.overlay.topic_name(topic_id)
        if topic is not None and ctx.allows_unclean(topic):
            elected += elections.elect(topic, index) is _DONE
        if elected >= ctx.config.elections_per_balance_max:
            break
    return elected


def _is_led(state: PartitionState, kind: ElectionType) -> bool:
    if kind is ElectionType.PREFERRED:
        return state.leader == next(iter(state.replicas), NO_LEADER)
    return state.leader != NO_LEADER
