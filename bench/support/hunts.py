"""Runs hunts for many mutations, each in a process of its own, and sums up their outcomes."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from random import Random
from threading import Lock
from typing import Any, Final, TypeVar

from bench.support.figures import say, table
from harness.nightly.proportion import wilson

ROOT: Final = Path(__file__).resolve().parents[2]
M = TypeVar("M")  # a dataclass that is a mutation
Row = dict[str, Any]


def in_a_process(module: str, order: Mapping[str, Any], cpu_s: int) -> tuple[Row | None, str]:
    """Have ``module --one`` do what an order says, in a new process, which may die or never end.

    Returns:
        The outcome, which is hung when it took more CPU time than it may; None if the process
        failed, and what it printed then.
    """

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))

    done = subprocess.run(
        (sys.executable, "-m", module, "--one"),
        input=json.dumps(order),
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        preexec_fn=limit,
    )
    if done.returncode == 0:
        answer: Row = json.loads(done.stdout.splitlines()[-1])
        return answer, ""
    if -done.returncode in (signal.SIGXCPU, signal.SIGKILL):
        return {"outcome": "hung"}, ""
    return None, f"exit {done.returncode}\n{done.stderr}"


def stored(out: Path) -> list[Row]:
    """Read the outcomes of a file, if it is there."""
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


def play(
    left: Iterator[M],
    hunt: Callable[[M], Row],
    rows: list[Row],
    out: Path,
    *,
    is_enough: Callable[[Sequence[Row]], bool],
    jobs: int,
) -> None:
    """Hunt mutations until there are enough outcomes, or no more; each is added to the file."""
    one_at_a_time = Lock()  # no iterator may be asked by two threads at once

    def step() -> None:
        while not is_enough(rows):
            with one_at_a_time:
                mutation = next(left, None)
            if mutation is None:
                return
            row = {"mutation": asdict(mutation), **hunt(mutation)}  # type: ignore[call-overload]
            rows.append(row)
            with out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            say(f"{row['outcome']}: {mutation} {row.get('by', '')} {row.get('cpu_s', '')}")

    with ThreadPoolExecutor(jobs) as workers:
        for done in [workers.submit(step) for _ in range(jobs)]:
            done.result()


def counted(rows: Iterable[Mapping[str, Any]], outcomes: Collection[str]) -> int:
    """Count the rows whose outcome is one of these."""
    return sum(row["outcome"] in outcomes for row in rows)


def report(
    rows: Sequence[Mapping[str, Any]],
    counting: Sequence[str],
    others: Sequence[str],
    named: Callable[[Mapping[str, Any]], str],
) -> str:
    """Give the table of outcomes by operator, the share that was caught, and the others by name.

    Args:
        rows: The outcomes.
        counting: Outcomes that count; the first one is caught.
        others: Those that do not.
        named: Gives the name of a row's mutation.
    """
    caught, *missed = counting
    by_operator: dict[str, Counter[str]] = {}
    for row in rows:
        by_operator.setdefault(row["mutation"]["operator"], Counter())[row["outcome"]] += 1
    every = (*sorted(by_operator.items()), ("all", Counter(row["outcome"] for row in rows)))
    outcomes = (*counting, *others)
    lines = [(name, *(count[each] for each in outcomes)) for name, count in every]
    of, hits = counted(rows, counting), counted(rows, (caught,))
    low, high = wilson(hits, of) if of else (0.0, 1.0)
    return "\n".join(
        [
            table(("operator", *outcomes), lines),
            f"{caught} {hits} of {of} (95 %: {low:.0%} to {high:.0%})",
            *(f"not {caught}: {named(row)}" for row in rows if row["outcome"] in missed),
        ]
    )


def one_by_one(groups: Mapping[str, Iterable[M]], rng: Random) -> Iterator[M]:
    """Draw, none twice: first a group, each as likely as the others, then one of it."""
    left = {name: places for name, group in groups.items() if (places := list(group))}
    while left:
        name = rng.choice(sorted(left))
        places = left[name]
        yield places.pop(rng.randrange(len(places)))
        if not places:
            del left[name]
