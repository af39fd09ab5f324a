"""Keys side by side: those that take long are judged in processes of their own, where it pays.

Cheap keys come first and are judged here, so that what is easy is decided whatever becomes of the
rest. Of a memory limit each process gets its share.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from multiprocessing import current_process
from typing import TypeVar

from checkers.limits.budget import Budget
from harness.processes.crew import Job, Said, work_off

T = TypeVar("T")
R = TypeVar("R")
PAYS_CALLS = 100_000  # of a key, from which it is worth a process (more than 1 s of search)


def each(
    parts: Sequence[T],
    judge: Callable[[T, Budget], R],
    calls: Callable[[T], int],
    budget: Budget,
    *,
    workers: int | None = None,
) -> Iterator[tuple[T, R]]:
    """Judge every part under one budget; results come as they are ready, cheap ones first.

    ``calls`` is the estimate of what a part costs. A part whose process broke is judged here.
    """
    order = sorted(parts, key=calls)
    long = [part for part in order if calls(part) >= PAYS_CALLS]
    at_a_time = workers or (_workers(budget) if long else 1)
    if len(long) < at_a_time or at_a_time == 1:
        long = []
    for part in order[: len(order) - len(long)]:
        yield part, judge(part, budget)
    if long:
        yield from _apart(long, judge, budget, at_a_time)


def _workers(budget: Budget) -> int:
    """Tell how many processes there may be: one for each core, if any may be had at all."""
    if not hasattr(os, "fork") or current_process().daemon or threading.active_count() > 1:
        return 1  # a fork would lose the other threads, and what they hold
    cores = len(os.sched_getaffinity(0))
    if budget.memory_bytes is not None and budget.memory() * 2 > budget.memory_bytes // cores:
        return 1
    return cores


def _apart(
    parts: Sequence[T], judge: Callable[[T, Budget], R], budget: Budget, workers: int
) -> Iterator[tuple[T, R]]:
    share = budget.part(budget.configurations_max)
    if budget.memory_bytes is not None:
        share.memory_bytes = budget.memory_bytes // workers

    def work(part: T) -> Iterator[tuple[R, int]]:
        yield judge(part, share), share.used

    by_job = {
        Job(str(at), partial(work, part), budget.left_s() + 1): part
        for at, part in reversed(list(enumerate(parts)))  # the longest first: they end together
    }
    told: set[Job] = set()
    for said in work_off(list(by_job), workers):
        if isinstance(said, Said):
            result, used = said.value
            budget.used += used
            told.add(said.job)
            yield by_job[said.job], result
        elif said.job not in told:
            yield by_job[said.job], judge(by_job[said.job], budget)
