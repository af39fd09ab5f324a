"""Generators: what the clients do next, as immutable values.

A generator answers ``op(ctx)`` with a pair: a ``Draft`` to be done now by the thread it names,
``PENDING`` (nothing now, perhaps later) or None (never again), and the generator that follows.
``update(ctx, event)`` tells it what happened. Neither changes the generator itself. Threads are
the numbers 0 to concurrency - 1; a thread stays while the processes on it are retired.

Randomness: ``seeded(seed)`` gives each random part of a tree of generators a seed of its own,
split from its parent's by position; the runner calls it once with the run's seed. The n-th op of
such a part is a function of that seed and n. So a seed decides which ops are drawn, in which
order, from each part; timing only decides which thread gets them and where a time limit cuts them
off. Generators per thread and per key are parts of their own, so their ops stay the same however
the threads interleave.

Source: Jepsen's ``jepsen.generator`` (its terms and its semantics, written anew).
"""

from __future__ import annotations

from harness.generators.basic import (
    PENDING,
    Context,
    Draft,
    Generator,
    Pending,
    Step,
    coerce,
    cycle,
    filter_ops,
    fn,
    limit,
    map_ops,
    mix,
    once,
    only,
    phases,
    repeat,
    seq,
    stagger,
    synchronize,
    time_limit,
    until_ok,
)
from harness.generators.threads import each_thread, independent, on_threads, reserve

__all__ = [
    "PENDING",
    "Context",
    "Draft",
    "Generator",
    "Pending",
    "Step",
    "coerce",
    "cycle",
    "each_thread",
    "filter_ops",
    "fn",
    "independent",
    "limit",
    "map_ops",
    "mix",
    "on_threads",
    "once",
    "only",
    "phases",
    "repeat",
    "reserve",
    "seq",
    "stagger",
    "synchronize",
    "time_limit",
    "until_ok",
]
