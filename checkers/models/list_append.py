"""Model ``list-append``: transactions over lists that are only appended to."""

from __future__ import annotations

from typing import Any

from checkers.limits.budget import (
    MEMORY_LIMIT_BYTES,
    TIME_LIMIT_S,
)
from checkers.transactions.consistency import (
    STRICT,
)
from checkers.transactions.cycles import NAME, check_transactions
from checkers.transactions.meanings import TRANSACTIONS
from checkers.transactions.txns import FS
from harness.history.formats import Conventions
from harness.history.ops import History
from harness.registry import models
from harness.verdict import CheckResult


@models.register(NAME, judges=TRANSACTIONS)
class ListAppend:
    """Lists that transactions append to and read; dependency cycles; initially empty."""

    fs: frozenset[str] = FS
    initial: Any = ()

    def __init__(self, consistency_model: str = STRICT) -> None:
        self._consistency_model = consistency_model

    def check(
        self,
        history: History,
        *,
        conventions: Conventions,
        time_limit_s: float = TIME_LIMIT_S,
        memory_limit_bytes: int | None = MEMORY_LIMIT_BYTES,
    ) -> CheckResult:
        """Judge the client ops of a history."""
        return check_transactions(
            history,
            consistency_model=self._consistency_model,
            ordered=conventions.equal_times == "ordered",
            time_limit_s=time_limit_s,
            memory_limit_bytes=memory_limit_bytes,
        )
