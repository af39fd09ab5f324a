"""Places each record in its partition, as sends and polls told."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from checkers.limits.budget import Budget, watched
from checkers.partitions.ops import LogOp, Record


@dataclass
class LogOrder:
    """One partition: who first told which value of each offset, and which offset of each value."""

    at: dict[int, dict[Hashable, LogOp]] = field(default_factory=dict)
    offsets: dict[Hashable, dict[int, LogOp]] = field(default_factory=dict)

    def add(self, record: Record, op: LogOp) -> None:
        """Take in that a record lies at its offset."""
        offset, value = record
        if offset is not None:
            self.at.setdefault(offset, {}).setdefault(value, op)
            self.offsets.setdefault(value, {}).setdefault(offset, op)

    @cached_property
    def _sorted(self) -> list[int]:
        return sorted(self.at)

    @cached_property
    def _dense(self) -> dict[int, int]:
        return {offset: place for place, offset in enumerate(self._sorted)}

    def place(self, record: Record) -> int | None:
        """The place of a record among all that are known, without holes; None when not known."""
        offset, value = record
        if offset is None:
            known = self.offsets.get(value, {})
            offset = next(iter(known)) if len(known) == 1 else None
        return None if offset is None else self._dense.get(offset)

    def at_place(self, place: int) -> tuple[Record, LogOp]:
        """The record that is known at a place, and who told of it."""
        offset = self._sorted[place]
        value, op = next(iter(self.at[offset].items()))
        return (offset, value), op

    def tellers(self, record: Record) -> list[LogOp]:
        """List the ops that told a value's offset, for a record that does not say so itself."""
        offset, value = record
        return [] if offset is not None else list(self.offsets.get(value, {}).values())


@dataclass(frozen=True, slots=True)
class Partitions:
    """All partitions, who sent each value of a key, and who polled it first (when that was ok)."""

    orders: dict[str, LogOrder]
    writers: dict[tuple[str, Hashable], LogOp]
    readers: dict[str, dict[Hashable, LogOp]]

    def committed(self, op: LogOp) -> bool:
        """Tell whether an op surely happened: it ended well, or something it sent was read."""
        if op.outcome != "info":
            return op.outcome == "ok"
        return any(
            value in self.readers.get(key, ())
            for key, records in op.sends.items()
            for _, value in records
        )


def partitions_of(ops: Sequence[LogOp], budget: Budget | None = None) -> Partitions:
    """Collect what all ops tell. O(records).

    A poll tells of what is there however its op ended; a send only when it is known to have
    happened.

    Raises:
        BudgetError: The budget has run out.
    """
    partitions = Partitions({}, {}, {})
    for op in watched(ops, budget):
        for key, records in op.sends.items():
            for _, value in records:
                known = partitions.writers.get((key, value))
                if known is None or known.outcome == "fail":
                    partitions.writers[key, value] = op
        for key, record in op.polled():
            partitions.orders.setdefault(key, LogOrder()).add(record, op)
            if op.outcome == "ok":
                partitions.readers.setdefault(key, {}).setdefault(record[1], op)
    for op in watched(ops, budget):
        if partitions.committed(op):
            for key, records in op.sends.items():
                for record in records:
                    partitions.orders.setdefault(key, LogOrder()).add(record, op)
    return partitions
