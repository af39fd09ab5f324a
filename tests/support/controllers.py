"""A controller with a log of its own, driven as the node drives it."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from node.controller.controller import QuorumController
from node.controller.operations import (
    AlterResource,
    ConfigChange,
    ControllerResult,
    payload_values,
)
from node.metadata.image import TOPIC
from node.metadata.records import MetadataRecord, decode_record

T = TypeVar("T")


class Quorum:
    """Appends what an active controller proposes, and commits it when told to."""

    def __init__(self, *, broker_ids: Sequence[int] = (), seed: int = 1) -> None:
        self.controller = QuorumController(rng=Random(seed), broker_ids=broker_ids)
        self.controller.claim(1, 0)
        self.log: list[MetadataRecord] = []
        self.committed = 0

    def append(self, result: ControllerResult[T]) -> T:
        """Put the records of a result into the log; its reply."""
        for entry in result.entries:
            assert entry.count == len(entry.payload)
            base = len(self.log)
            values = payload_values(entry.payload, base)
            self.log += [decode_record(value) for value in values]
            self.controller.appended(base, len(self.log) - 1)
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


def alter(
    name: str, op: int, value: str | None = None, *, resource: str = "t", kind: int = TOPIC
) -> AlterResource:
    """One change of one setting."""
    return AlterResource(kind, resource, [ConfigChange(name, op, value)])
