"""Measure how long list-append histories take to judge, and how that grows with their length.

    python bench/cycles.py [--ops 10000,100000,1000000] [--shape single|txns|stale|all] [--turns 3]

``single``: one append or read an op; ``txns``: transactions of one to four micro-ops (an op is a
transaction); ``stale``: as ``single``, with one read late in the history that misses an append.
Ten processes, 32 appends a key. CPU time of this process, the best of the turns, which go through
all lengths in turn; the ratio is time by time against length by length: 1.0 is linear.
"""

from __future__ import annotations

import argparse
import gc
import resource
import time
from random import Random
from typing import Any

from bench.support.figures import say, table
from checkers.transactions.cycles import check_transactions
from harness.history.ops import History, Op

PROCESSES, APPENDS_PER_KEY, KEYS_AT_ONCE = 10, 32, 8
SHAPES = ("single", "txns", "stale")


def history(n: int, shape: str, rng: Random) -> History:
    """A history of ``n`` ops, as a real store would answer, ten at a time."""
    state: dict[str, list[int]] = {}
    keys = [f"k{i}" for i in range(KEYS_AT_ONCE)]
    made = KEYS_AT_ONCE
    ops: list[Op] = []
    free, busy = list(range(PROCESSES)), list[tuple[int, list[list[Any]]]]()
    begun = 0
    stale = n * 9 // 10 if shape == "stale" else -1

    def note(process: int, type_: Any, mops: list[list[Any]]) -> None:
        at = len(ops)
        if shape == "txns":
            ops.append(Op(at, at, process, type_, "txn", mops))
        else:
            ((f, key, value),) = mops
            name = "append" if f == "append" else "read"
            ops.append(Op(at, at, process, type_, name, value, key=key))

    while begun < n or busy:
        if begun < n and free and (not busy or rng.random() < 0.5):
            mops: list[list[Any]] = []
            for _ in range(rng.randint(1, 4) if shape == "txns" else 1):
                slot = rng.randrange(KEYS_AT_ONCE)
                if len(state.get(keys[slot], ())) >= APPENDS_PER_KEY:
                    keys[slot] = f"k{made}"
                    made += 1
                append = rng.random() < 0.5
                mops.append(["append" if append else "r", keys[slot], begun if append else None])
            if shape == "txns":  # an element is appended once
                mops = [[f, k, v if v is None else v * 4 + i] for i, (f, k, v) in enumerate(mops)]
            process = free.pop(rng.randrange(len(free)))
            note(process, "invoke", mops)
            busy.append((process, mops))
            begun += 1
            continue
        process, mops = busy.pop(rng.randrange(len(busy)))
        free.append(process)
        answer: list[list[Any]] = []
        for f, key, value in mops:
            here = state.setdefault(key, [])
            if f == "append":
                here.append(value)
                answer.append([f, key, value])
            else:
                late = 0 <= stale <= begun and len(here) > KEYS_AT_ONCE
                answer.append([f, key, here[: -KEYS_AT_ONCE if late else None]])
                stale = -1 if late else stale
        note(process, "ok", answer)
    return History(ops)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ops", default="10000,100000,1000000")
    parser.add_argument("--shape", choices=(*SHAPES, "all"), default="all")
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    lengths = [int(n) for n in options.ops.split(",")]
    for shape in SHAPES if options.shape == "all" else (options.shape,):
        best: dict[int, float] = {}
        verdicts: dict[int, str] = {}
        for _ in range(options.turns):
            for n in lengths:
                made = history(n, shape, Random(n))
                gc.collect()
                began = time.process_time()
                verdicts[n] = str(check_transactions(made).valid)
                took = time.process_time() - began
                best[n] = min(took, best.get(n, took))
        first = lengths[0]
        rows = [
            (
                shape,
                f"{n:,}",
                verdicts[n],
                f"{best[n]:.2f}",
                f"{best[n] / n * 1e6:.1f}",
                f"{best[n] / best[first] / (n / first):.2f}",
            )
            for n in lengths
        ]
        say(table(("shape", "ops", "verdict", "CPU s", "us an op", "ratio"), rows))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    say(f"peak memory, histories and all: {peak:,.0f} MB")


if __name__ == "__main__":
    main()
