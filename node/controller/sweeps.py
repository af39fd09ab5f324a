"""Walks over very many partitions, a slice at a time, so that others get their turn in between.

A broker may have a third of a million replicas. What its end or its return does to them is a walk:
its first slice is part of the operation that asked for it, and with few partitions all of it is;
the others are operations of their own, each a batch that may be committed without the next. The
order is that of Kafka's records, so each prefix is a state that Kafka may have, too: who is fenced
leads nothing. Walks are soft state. A successor continues what is not done: a silent broker's
session ends once more, a broker that wants to stop says so again, and partitions that nobody leads
are looked at by each new controller.

Source: KIP-631; Kafka's QuorumController splits what is not atomic into batches, but works it out
in one event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from node.controller.operation import Operation
from node.controller.operations import PendingWrite
from node.controller.overlay.partitions import PartitionKey

PARTITIONS_PER_SLICE = 500
NOBODY = -1


def nothing(_: object) -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Sweep:
    """One walk. ``broker_id`` is whom it is about, NOBODY if it is about all.

    ``change`` deals with some partitions, ``end`` adds what is to come last; ``wrote`` is told of
    each write that has records of it.
    """

    name: str
    broker_id: int
    keys: Iterator[PartitionKey]
    change: Callable[[Operation, list[PartitionKey]], None]
    end: Callable[[Operation], None] = nothing
    wrote: Callable[[PendingWrite], None] = nothing


class Sweeps:
    """The walks that are under way, the oldest first; there is one of a name and broker at most."""

    def __init__(self, size: int = PARTITIONS_PER_SLICE) -> None:
        self.size = size
        self._going: dict[tuple[str, int], Sweep] = {}

    def __len__(self) -> int:
        """Count the walks that are under way."""
        return len(self._going)

    def is_about(self, broker_id: int, *names: str) -> bool:
        """Tell whether a walk of one of these names is under way for a broker."""
        return any((name, broker_id) in self._going for name in names)

    def begin(self, operation: Operation, sweep: Sweep) -> bool:
        """Do the first slice; whether that was all."""
        self.cancel(sweep.broker_id, sweep.name)
        if self._slice(operation, sweep):
            return True
        self._going[sweep.name, sweep.broker_id] = sweep
        return False

    def add(self, sweep: Sweep) -> None:
        """Have it done from its first slice on by ``advance``."""
        self._going[sweep.name, sweep.broker_id] = sweep

    def advance(self, operation: Operation) -> None:
        """Do the next slice of the oldest."""
        for key, sweep in self._going.items():
            if self._slice(operation, sweep):
                del self._going[key]
            return

    def cancel(self, broker_id: int, *names: str) -> None:
        """Give up these walks of a broker, where there are any."""
        for name in names:
            self._going.pop((name, broker_id), None)

    def clear(self) -> None:
        """Give up all: the reign is over."""
        self._going.clear()

    def _slice(self, operation: Operation, sweep: Sweep) -> bool:
        keys = list(islice(sweep.keys, self.size))
        sweep.change(operation, keys)
        over = len(keys) < self.size
        if over:
            sweep.end(operation)
        if operation.records:
            sweep.wrote(operation.write)
        return over
