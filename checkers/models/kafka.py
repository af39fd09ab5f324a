"""Model ``kafka``: records sent to and polled from partitions."""

from __future__ import annotations

from typing import Any

from checkers.limits.budget import (
    MEMORY_LIMIT_BYTES,
    TIME_LIMIT_S,
)
from checkers.partitions.log import NAME, check_log
from checkers.partitions.meanings import PARTITIONS
from checkers.partitions.ops import FS
from harness.history.formats import Conventions
from harness.history.ops import History
from harness.registry import models
from harness.verdict import CheckResult


@models.register(NAME, judges=PARTITIONS)
class KafkaLog:
    """Records sent to and polled from partitions; judged as Jepsen's kafka workload does."""

    fs: frozenset[str] = FS
    initial: Any = None

    def check(
        self,
        history: History,
        *,
        conventions: Conventions,
        time_limit_s: float = TIME_LIMIT_S,
        memory_limit_bytes: int | None = MEMORY_LIMIT_BYTES,
    ) -> CheckResult:
        """Judge the client ops of a history."""
        return check_log(
            history,
            ordered=conventions.equal_times == "ordered",
            time_limit_s=time_limit_s,
            memory_limit_bytes=memory_limit_bytes,
        )
