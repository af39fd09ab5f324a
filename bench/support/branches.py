"""Forks a simulation where something new happens: each branch has dice of its own from there.

A simulation is all one process, so a branch is a copy of it (``os.fork``) that goes on with other
luck, and what came before is not simulated again. A branch is named by its tape, and replays from
zero by that to the same bytes. Branches are played one after the other, while the trunk waits.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import time
from asyncio import events
from collections.abc import Container, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from harness.clock import NS_PER_MS
from harness.explore.features import Reader, Seen
from harness.explore.play import seen_in
from harness.processes.command import end_with
from harness.sessions.plan import Plan
from harness.sessions.simulated import simulate
from harness.shrink.moves import Candidate
from harness.spec import RunSpec
from harness.verdict import Valid

SALT_MAX: Final = 1 << 30
NEVER: Final = 1 << 62  # ns: the main phase has not begun


@dataclass(frozen=True, slots=True)
class Shown:
    """The features of a simulation, and its candidate, which has the tape that it replays by."""

    candidate: Candidate
    seen: Seen
    valid: bool
    trace_sha256: str
    cpu_s: float  # of a branch: since it was forked


class Branching:
    """Branches of one simulation; see ``harness.sessions.simulated.Fork``.

    Args:
        spec: Of the simulation.
        known: Features that are not new.
        rng: Draws the salts.
        most: Branches at most.
        apart_ms: Of virtual time between two of them, and before the first.
    """

    def __init__(
        self, spec: RunSpec, known: Container[str], rng: Random, most: int, apart_ms: int
    ) -> None:
        self.told: list[Shown | None] = []  # by branches; None by one that died
        self.within = False  # a branch
        self._known = known
        self._rng = rng
        self._left = most
        self._apart_ns = apart_ms * NS_PER_MS
        self._next_ns = NEVER
        self._reader = Reader(frozenset(range(1, spec.voters + 1)), NEVER)
        self._answers: int | None = None

    def __call__(self, event: Mapping[str, Any], began_ns: int | None) -> int | None:
        """Fork where an event shows what is new; gives a salt in the branch."""
        if not self._left:
            return None
        if began_ns is not None and self._reader.began_ns == NEVER:
            self._reader.began_ns = began_ns
            self._next_ns = began_ns + self._apart_ns
        before = len(self._reader.seen)
        self._reader.feed(event, "")
        if event["ts"] < self._next_ns or not self._is_new(before):
            return None
        self._next_ns = event["ts"] + self._apart_ns
        self._left -= 1
        salt = self._rng.randrange(SALT_MAX)
        return salt if self._fork() else None

    def tell(self, outcome: Shown) -> None:
        """Hand what a branch came to over to its trunk, and end the branch."""
        assert self._answers is not None, "no branch"
        with os.fdopen(self._answers, "wb") as answers:
            pickle.dump(outcome, answers)
        os._exit(0)

    def _is_new(self, before: int) -> bool:
        seen = self._reader.seen
        names = list(seen)[before - len(seen) :] if len(seen) > before else []
        # states name the faults in force, of which events know nothing
        return any(name not in self._known and not name.startswith("state ") for name in names)

    def _fork(self) -> bool:
        """Tell in the branch that it is one; in the trunk, that it is not, when that is over."""
        loop = asyncio.get_running_loop()
        ours, theirs = os.pipe()
        trunk = os.getpid()
        child = os.fork()
        if not child:
            end_with(trunk)
            # asyncio knows the loop that runs by the number of the process
            events._set_running_loop(loop)  # noqa: SLF001
            os.close(ours)
            self.within, self._left, self._answers = True, 0, theirs
            return True
        os.close(theirs)
        with os.fdopen(ours, "rb") as answers:
            told = answers.read()
        _, status = os.waitpid(child, 0)
        self.told.append(pickle.loads(told) if told and not status else None)  # noqa: S301 - ours
        return False


def shown(candidate: Candidate, fork: Branching | None = None) -> list[Shown]:
    """Play a candidate in this process, and its branches, which come after it."""
    began_s = time.process_time()
    plan = Plan.simulated(candidate.spec, candidate.faults, asked_for=False)
    run = simulate(plan, fork=fork)
    seen = seen_in(run)
    branch = fork is not None and fork.within
    outcome = Shown(
        candidate.with_spec(tape=run.data.spec.tape),
        seen,
        run.verdict is Valid.VALID,
        run.trace_sha256,
        time.process_time() - (0.0 if branch else began_s),  # a copy's clock begins anew
    )
    if fork is None:
        return [outcome]
    if branch:
        fork.tell(outcome)
    return [outcome, *(each for each in fork.told if each is not None)]
