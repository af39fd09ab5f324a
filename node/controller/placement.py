"""Places the replicas of new partitions: in turn over racks, and over the brokers of each.

Each partition begins one rack and one broker further than the one before. Fenced brokers are used
only when there are not enough others, and never for the first replica. After as many partitions as
there are unfenced brokers the order is shuffled, so that the same sets do not come again.
Source: Kafka's StripedReplicaPlacer; KIP-36.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from node.controller.context import Context
from node.controller.errors import ApiError, OperationError
from node.controller.slices import Pace, Slices

Replicas = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class UsableBroker:
    """A broker that may be given replicas."""

    id: int
    rack: str | None = None
    fenced: bool = False


class _Ring:
    """Brokers to be taken in turn: each at most once per partition."""

    def __init__(self, brokers: Sequence[int], rng: Random) -> None:
        self.brokers = sorted(brokers)
        self._offset = rng.randrange(len(brokers)) if brokers else 0
        self._index = 0
        self._round = 0

    def next(self, round_: int) -> int | None:
        """The next broker for the partition of that number; None when all were taken."""
        if not self.brokers:
            return None
        if self._round != round_:
            self._round, self._index = round_, 0
            self._offset += 1
        if self._index == len(self.brokers):
            return None
        broker = self.brokers[(self._index + self._offset) % len(self.brokers)]
        self._index += 1
        return broker


class _Rack:
    """The brokers of one rack, those in service first."""

    def __init__(self, brokers: Sequence[UsableBroker], rng: Random) -> None:
        self.unfenced = _Ring([b.id for b in brokers if not b.fenced], rng)
        self.fenced = _Ring([b.id for b in brokers if b.fenced], rng)

    def next(self, round_: int) -> int | None:
        """The next broker, a fenced one when no other is left."""
        broker = self.unfenced.next(round_)
        return self.fenced.next(round_) if broker is None else broker


class StripedReplicaPlacer:
    """Places partitions on ``brokers``; draws where to begin, and shuffles, with ``rng``."""

    def __init__(self, brokers: Sequence[UsableBroker], rng: Random) -> None:
        names = sorted({b.rack for b in brokers}, key=lambda rack: (rack is not None, rack or ""))
        self._racks = [_Rack([b for b in brokers if b.rack == name], rng) for name in names]
        self._rng = rng
        self._total = len(brokers)
        self._unfenced = sum(not b.fenced for b in brokers)
        self._round = 0
        self._first = rng.randrange(len(names)) if names else 0

    def place(self, replication_factor: int) -> Replicas:
        """The replicas of the next partition; raises OperationError."""
        if replication_factor > self._total:
            raise _unreachable(
                replication_factor,
                f"The target replication factor of {replication_factor} cannot be reached because "
                f"only {self._total} broker(s) are registered and not cordoned.",
            )
        if self._unfenced == 0:
            raise _unreachable(replication_factor, "All brokers are currently fenced or cordoned.")
        if self._round == self._unfenced and self._unfenced > 1:
            self._shuffle()
        racks = self._racks[self._first :] + self._racks[: self._first]
        leader, at = next(
            (broker, rack)
            for rack in racks
            if (broker := rack.unfenced.next(self._round)) is not None
        )
        replicas = [leader]
        turn = [rack for rack in racks if rack is not at]
        while len(replicas) < replication_factor:
            for rack in turn:
                broker = rack.next(self._round)
                if broker is not None:
                    replicas.append(broker)
                if len(replicas) == replication_factor:
                    break
            turn = racks  # from the second time round the leader's rack has its turn too
        self._round += 1
        self._first = (self._first + 1) % len(self._racks)
        return tuple(replicas)

    def _shuffle(self) -> None:
        self._round = 0
        self._rng.shuffle(self._racks)
        for rack in self._racks:
            self._rng.shuffle(rack.unfenced.brokers)
            self._rng.shuffle(rack.fenced.brokers)


def place_partitions(
    ctx: Context, pace: Pace, count: int, replication_factor: int
) -> Slices[list[Replicas]]:
    """The replicas of so many new partitions; none at all where no broker is there and none must.

    Raises:
        OperationError: INVALID_REPLICATION_FACTOR.
    """
    brokers = usable_brokers(ctx)
    if ctx.config.static_broker_ids == () and all(broker.fenced for broker in brokers):
        return [()] * count
    placer = StripedReplicaPlacer(brokers, ctx.rng)
    rows = []
    for _ in range(count):
        rows.append(placer.place(replication_factor))
        if pace.is_over():
            yield
    return rows


def usable_brokers(ctx: Context) -> list[UsableBroker]:
    """All brokers but those that are shutting down or cordoned.

    While none has registered they are the static ones.
    """
    registered = ctx.overlay.brokers()
    if not registered and ctx.config.static_broker_ids:
        return [UsableBroker(broker_id) for broker_id in ctx.config.static_broker_ids]
    return [
        UsableBroker(b.id, b.rack, b.fenced)
        for b in registered
        if not ctx.sessions.is_shutting_down(b.id) and not b.is_cordoned
    ]


def check_assignment(
    ctx: Context,
    replicas: Sequence[int],
    replication_factor: int | None = None,
    *,
    there: Sequence[int] = (),
) -> None:
    """Check replicas that were chosen by hand; raises OperationError.

    Those that are ``there`` already are on a cordoned broker by right: nothing is placed there.
    Apache Kafka 4.4.0 refuses these, too (docs/findings.md).
    """
    problem = None
    unknown = [b for b in replicas if not is_known(ctx, b)]
    cordoned = [b for b in replicas if b not in there and _is_closed(ctx, b)]
    if not replicas:
        problem = "an empty replica list."
    elif unknown:
        problem = f"broker {unknown[0]}, but no such broker is registered."
    elif cordoned:
        problem = f"broker {cordoned[0]}, but all its log directories are cordoned."
    elif len(set(replicas)) != len(replicas):
        twice = next(b for b in replicas if replicas.count(b) > 1)
        problem = f"the broker {twice} more than once."
    elif replication_factor is not None and len(replicas) != replication_factor:
        problem = (
            f"a partition with {len(replicas)} replica(s), but this is not consistent with "
            f"previous partitions, which have {replication_factor} replica(s)."
        )
    if problem is not None:
        raise OperationError(
            ApiError.INVALID_REPLICA_ASSIGNMENT,
            f"The manual partition assignment includes {problem}",
        )


def _is_closed(ctx: Context, broker_id: int) -> bool:
    """Tell whether a broker gets no new replicas."""
    broker = ctx.overlay.broker(broker_id)
    return broker is not None and broker.is_cordoned and not ctx.config.cordons_by_number_only


def is_known(ctx: Context, broker_id: int) -> bool:
    """Tell whether an administrator may put replicas on a broker."""
    if ctx.overlay.broker(broker_id) is not None:
        return True
    static = ctx.config.static_broker_ids
    if static is None or ctx.overlay.has_brokers():
        return False
    return broker_id in static or (not static and broker_id >= 0)


def in_sync(ctx: Context, replicas: Replicas) -> Replicas:
    """The first ISR of a new partition: its replicas on active brokers."""
    if ctx.config.static_broker_ids is not None and not ctx.overlay.has_brokers():
        return replicas
    return tuple([b for b in replicas if ctx.overlay.is_active(b)])


def _unreachable(replication_factor: int, why: str) -> OperationError:
    return OperationError(
        ApiError.INVALID_REPLICATION_FACTOR,
        f"Unable to replicate the partition {replication_factor} time(s): {why}",
    )
