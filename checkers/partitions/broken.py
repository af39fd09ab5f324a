"""One promise about partitions that ops have broken."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from checkers.partitions.ops import LogOp
from harness.verdict import Anomaly


@dataclass(frozen=True, slots=True)
class Broken:
    """An anomaly of a partition: its name, a sentence, its ops, and facts for the report.

    ``key`` None: it is about several.
    """

    name: str
    key: str | None
    message: str
    ops: tuple[LogOp, ...]
    details: dict[str, Any] = field(default_factory=dict)

    def anomaly(self) -> Anomaly:
        """The same as a checker returns it."""
        ends = [op.interval.completion for op in self.ops if op.interval.completion is not None]
        begins = [op.interval.invocation for op in self.ops]
        about = "" if self.key is None else f"partition {self.key} "
        numbers = "" if self.key is None else ", ".join(f"op {op.number}" for op in self.ops)
        return Anomaly(
            self.name,
            f"{self.name}: {about}{self.message}" + (f" ({numbers})" if numbers else ""),
            ops=tuple(sorted({op.index for op in (*begins, *ends)})),
            details={**({} if self.key is None else {"key": self.key}), **self.details},
            time_ns=max((end.time_ns for end in ends), default=None),
        )
