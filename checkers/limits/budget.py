"""Budgets of a check: time, memory, and what happens at their end.

Memory is what the whole process holds, as the system counts it (resident), since that is what
runs out; a search asks while it grows. A table that grows is copied once, so a search stops where
three quarters are used, and what it holds at its peak stays below the limit.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from time import monotonic
from typing import Final, TypeVar

T = TypeVar("T")

TIME_LIMIT_S: Final = 60.0
MEMORY_LIMIT_BYTES: Final = 4 << 30
CONFIGURATIONS_MAX: Final = 20_000_000
_SHARE = 0.75  # of the memory limit at which a search stops: tables double when they grow
_SMALL = 4_096  # configurations that are never worth a look at the memory
EVERY: Final = 8_192  # items of a loop between two looks at the budget
_STATM = Path("/proc/self/statm")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class BudgetError(Exception):
    """Raised inside a search when a limit is reached; ``reason`` says which."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def resident_bytes() -> int:
    """Memory that this process holds; 0 where the system does not say."""
    try:
        return int(_STATM.read_bytes().split()[1]) * _PAGE
    except OSError:
        return 0


@dataclass(slots=True)
class Budget:
    """Limits of a check: time and memory over all its keys, configurations at one moment."""

    configurations_max: int
    deadline_s: float  # by ``clock``
    clock: Callable[[], float] = monotonic
    used: int = 0  # configurations looked at, in all
    memory_bytes: int | None = None  # of the process, in all; None: no limit
    memory: Callable[[], int] = resident_bytes

    @classmethod
    def of(
        cls,
        time_limit_s: float,
        memory_limit_bytes: int | None = MEMORY_LIMIT_BYTES,
        configurations_max: int = CONFIGURATIONS_MAX,
    ) -> Budget:
        """A budget that begins now."""
        deadline_s = monotonic() + time_limit_s
        return cls(configurations_max, deadline_s, memory_bytes=memory_limit_bytes)

    def left_s(self) -> float:
        """Seconds until the deadline; never below 0."""
        return max(0.0, self.deadline_s - self.clock())

    def part(self, configurations_max: int) -> Budget:
        """A budget within this one, with fewer configurations at once and a count of its own."""
        return Budget(
            min(configurations_max, self.configurations_max),
            self.deadline_s,
            self.clock,
            memory_bytes=self.memory_bytes,
            memory=self.memory,
        )

    def spend(self, looked_at: int, held: int, soon_bytes: int = 0) -> None:
        """Count configurations, and memory about to be used; raises BudgetError at a limit."""
        self.used += looked_at
        if held > self.configurations_max:
            raise BudgetError(f"more than {self.configurations_max} configurations at once")
        if self.clock() > self.deadline_s:
            raise BudgetError("the time limit")
        if (
            held > _SMALL
            and self.memory_bytes is not None
            and self.memory() + soon_bytes > self.memory_bytes * _SHARE
        ):
            raise BudgetError(f"the memory limit of {self.memory_bytes >> 20} MiB")

    def look(self, items: int = 1, soon_bytes: int = 0) -> None:
        """Count items that were gone through, of work that is no search; raises BudgetError.

        As with ``spend``, what is small is done whatever else the process holds.
        """
        self.spend(items, min(self.used + items, self.configurations_max), soon_bytes)


def watched(items: Iterable[T], budget: Budget | None, every: int = EVERY) -> Iterator[T]:
    """The items, with a look at the budget after each so many; raises BudgetError at a limit."""
    if budget is None:
        return iter(items)
    return chain.from_iterable(_portions(iter(items), budget, every))


def _portions(source: Iterator[T], budget: Budget, every: int) -> Iterator[list[T]]:
    while some := list(islice(source, every)):
        yield some
        budget.look(len(some))


@contextmanager
def uncollected() -> Iterator[None]:
    """Millions of small objects, none of them in a circle: to search them for circles is vain."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
