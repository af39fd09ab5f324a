"""Evidence: the replicated logs and snapshots that nodes left on their disks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class LogBatch:
    """A batch of a node's replicated log as it lay on its disk at the end of the run."""

    base: int
    last: int
    epoch: int
    crc: int
    control: bool
    records: tuple[Mapping[str, Any], ...]  # {"offset", "type", "fields"}

    def to_json(self) -> dict[str, Any]:
        """The batch as a JSON object."""
        return {
            "base": self.base,
            "last": self.last,
            "epoch": self.epoch,
            "crc": self.crc,
            "control": self.control,
            "records": [dict(r) for r in self.records],
        }


@dataclass(frozen=True, slots=True)
class LogSnapshot:
    """A snapshot of a node's replicated log as it lay on its disk at the end of the run."""

    end: int  # it holds what the records below this offset leave behind
    epoch: int  # of the last of them
    records: tuple[Mapping[str, Any], ...]  # {"type", "version", "fields"}, without its frame
    error: str | None = None  # why it is not usable; then its records are left out

    def to_json(self) -> dict[str, Any]:
        """The snapshot as a JSON object."""
        return {
            "end": self.end,
            "epoch": self.epoch,
            "error": self.error,
            "records": [dict(r) for r in self.records],
        }


ReadLog = Callable[[str, int, int], Sequence[LogBatch]]  # as ``Simulated.read_log``
