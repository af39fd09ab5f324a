"""ElectLeaders, and the elections that the controller holds by itself.

Source: Kafka's ReplicationControlManager; KIP-183 (preferred), KIP-460 (unclean).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from uuid import UUID

from node.controller.context import Context, build_into
from node.controller.errors import ApiError, OperationError
from node.controller.operation import Operation
from node.controller.overlay.partitions import PartitionKey
from node.controller.partition_change import Election
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
    if partitions is None:
        partitions = yield from _needed(ctx, operation, kind)
    topics: dict[str, list[PartitionResult]] = {}
    for topic, indexes in partitions.items():
        its = topics[topic] = []
        for index in indexes:
            its.append(PartitionResult(index, *_elect(ctx, operation, topic, index, kind)))
            if operation.pace.is_over(_STEPS):
                yield
    return ElectLeadersReply(topics=topics)


def _needed(
    ctx: Context, operation: Operation, kind: ElectionType
) -> Slices[dict[str, Sequence[int]]]:
    """The partitions of all topics that need an election, by name; of most topics none do."""
    partitions = ctx.overlay.partitions
    walk = partitions.imbalanced() if kind is ElectionType.PREFERRED else partitions.leaderless()
    found: dict[UUID, list[int]] = {}
    for topic_id, index in walk:
        found.setdefault(topic_id, []).append(index)
        if operation.pace.is_over():
            yield
    needed: dict[str, Sequence[int]] = {}
    for topic in ctx.overlay.topic_names():
        topic_id_ = ctx.overlay.topic_id(topic)
        needed[topic] = found.get(topic_id_, ()) if topic_id_ is not None else ()
    return needed


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
    for topic_id, index in round_.next_keys():
        topic = ctx.overlay.topic_name(topic_id)
        if topic is not None and ctx.allows_unclean(topic):
            elected += _elect(ctx, operation, topic, index, ElectionType.UNCLEAN) == _DONE
        if elected >= ctx.config.elections_per_balance_max:
            break
    return elected


def _elect(
    ctx: Context, operation: Operation, topic: str, index: int, kind: ElectionType
) -> Refusal:
    topic_id = ctx.overlay.topic_id(topic)
    if topic_id is None:
        return ApiError.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {topic}"
    state = ctx.overlay.partition(topic_id, index)
    if state is None:
        return ApiError.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {topic}-{index}"
    if _is_led(state, kind):
        return ApiError.ELECTION_NOT_NEEDED, None
    if kind is ElectionType.PREFERRED:
        election, refusal = Election.PREFERRED, ApiError.PREFERRED_LEADER_NOT_AVAILABLE
    else:
        election, refusal = Election.UNCLEAN, ApiError.ELIGIBLE_LEADERS_NOT_AVAILABLE
    if _record(ctx, operation, (topic_id, index), state, election):
        return _DONE
    return refusal, None


def _record(
    ctx: Context,
    operation: Operation,
    key: tuple[UUID, int],
    state: PartitionState,
    election: Election,
) -> bool:
    return build_into(operation, ctx.change(key, state, election=election)) is not None


def _is_led(state: PartitionState, kind: ElectionType) -> bool:
    if kind is ElectionType.PREFERRED:
        return state.leader == next(iter(state.replicas), NO_LEADER)
    return state.leader != NO_LEADER
