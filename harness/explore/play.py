"""Plays the candidates of a search, several at a time, each in a process of its own."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from sys import intern
from traceback import format_exception
from typing import Any

from harness.clock import NS_PER_MS
from harness.errors import HarnessError
from harness.explore.distil import Shown
from harness.explore.features import Seen, features
from harness.explore.search import Search, Step
from harness.processes.crew import Crew, Job, Said
from harness.sessions.ahead import import_ahead
from harness.sessions.plan import Plan
from harness.sessions.reached import Reach, premises
from harness.sessions.simulated import SimRun, never_done, reason_of, save, simulate
from harness.shrink.moves import Candidate
from harness.store.folder import Store
from harness.store.origin import Origin
from harness.verdict import Valid

EXPLORE = "explore"  # the command that a stored run names
STORED_MAX = 3  # runs of each way to fail
LIMIT_S = 600.0  # for one candidate


@dataclass(frozen=True, slots=True)
class Played:
    """The outcome of one candidate."""

    step: Step
    verdict: Valid
    broken: tuple[str, ...] = ()  # invariants, sorted
    message: str | None = None  # of the first anomaly, or why the harness broke
    harness_broke: bool = False
    unplayable: bool = False  # its options do not go together
    seen: Seen | None = None
    reached: Mapping[str, Any] = field(default_factory=dict)  # as ``Reach.to_json``; of some none
    events: int = 0
    simulated_s: float = 0.0
    cpu_s: float = 0.0
    store: str | None = None  # the folder of the run, if it was stored

    @property
    def undecided(self) -> bool:
        """Tell whether too little happened to judge it, which is no failure."""
        return self.step.leaves_open(self.verdict, broke=self.harness_broke)

    @property
    def way(self) -> str:
        """Name the way in which it failed; empty when it did not."""
        if self.harness_broke:
            return f"the harness broke: {self.message}"
        if self.verdict is Valid.VALID or self.undecided:
            return ""
        return ", ".join(self.broken) or f"{self.verdict}: {self.message}"


def play(step: Step, store: Store | None, enough: Collection[str] = ()) -> Played:
    """Play one candidate in this process.

    One that fails goes into the store, if there is one and it did not fail in a way of ``enough``.
    """
    began_s = time.process_time()
    try:
        plan = Plan.simulated(step.candidate.spec, step.candidate.faults, asked_for=False)
    except HarnessError as error:
        return Played(step, Valid.VALID, message=str(error), unplayable=True)
    try:
        run = simulate(plan)
        seen, reach = seen_in(run), Reach()
        reach.take(run.data, run.judgement.results)
    except Exception as error:
        run = never_done(plan, reason_of(error), "".join(format_exception(error)))
        seen, reach = None, Reach()
    outcome = _outcome(step, run, seen, time.process_time() - began_s)
    outcome = replace(outcome, reached=reach.to_json())
    return outcome if outcome.way in enough else _stored(outcome, run, store)


def _one(step: Step, store: Store | None, enough: Collection[str]) -> Iterator[Played]:
    yield play(step, store, enough)


def seen_in(run: SimRun) -> Seen:
    """Give the features of a simulation."""
    began_ns = run.result.phases_ns.get("main", 0)
    data, checked = run.data, premises(run.judgement.results)
    return features(data.events, data.history, data.voters, checked, began_ns)


def _outcome(step: Step, run: SimRun, seen: Seen | None, cpu_s: float) -> Played:
    anomalies = run.judgement.anomalies
    return Played(
        step,
        run.verdict,
        tuple(sorted({anomaly.invariant for anomaly in anomalies})),
        run.broken or next((a.message for a in anomalies), None) or _doubt(run),
        harness_broke=run.broken is not None,
        seen=seen,
        events=run.events,
        simulated_s=run.simulated_ns / NS_PER_MS / 1_000,
        cpu_s=cpu_s,
    )


def _doubt(run: SimRun) -> str | None:
    return next(iter(run.judgement.reasons["system"]), None)


def _stored(played: Played, run: SimRun, store: Store | None) -> Played:
    if store is None or not played.way:
        return played
    return replace(played, store=save(run, store, Origin(EXPLORE)).told)


class Exploration:
    """A search under way: what was played, what it showed, what failed.

    Args:
        seed: Of the search.
        drawn: Gives the plan of a seed of the swarm.
        store: Takes the runs that fail, a few of each way; None: none.
        crew: Plays candidates.
        starting: A starting corpus.
        pool: Takes what each valid run showed, to be distilled; None: nothing.
    """

    def __init__(
        self,
        seed: int,
        drawn: Callable[[int], Plan],
        store: Store | None,
        crew: Crew,
        starting: Iterable[Candidate] = (),
        pool: list[Shown] | None = None,
    ) -> None:
        self.search = Search(seed, lambda n: candidate_of(drawn(n)), starting)
        self.played = 0
        self.unplayable = 0
        self.simulated_s = 0.0
        self.cpu_s = 0.0
        self.failures: dict[str, list[Played]] = {}  # by the way in which they failed
        self.undecided: Counter[str] = Counter()  # by the reason
        self.growth: list[int] = []  # features known after each round
        self.reach = Reach()
        self._store = store
        self._crew = crew
        self._pool = pool

    def rounds(self) -> Generator[list[Played]]:
        """Play round after round without end; closing the iterator ends what is under way."""
        while True:
            steps = self.search.round()
            done = self._play(steps)
            for each in done:
                self._take(each)
            self.growth.append(len(self.search.corpus.counts))
            yield done

    def _play(self, steps: Sequence[Step]) -> list[Played]:
        """Play all of a round; the outcomes in its order."""
        enough = [way for way, runs in self.failures.items() if len(runs) >= STORED_MAX]
        jobs: dict[Job, Step] = {}
        for step in steps:
            play = partial(_one, step, self._store, enough)
            jobs[Job(str(step.number), play, LIMIT_S, import_ahead)] = step
        done: dict[int, Played] = {}
        with closing(self._crew.work_off(list(jobs))) as told:
            for each in told:
                step = jobs[each.job]
                if isinstance(each, Said):
                    done[step.number] = each.value
                elif step.number not in done:
                    done[step.number] = self._died(step, each.broken or "it said nothing")
        return [done[step.number] for step in steps]

    def _died(self, step: Step, reason: str) -> Played:
        plan = Plan.simulated(step.candidate.spec, step.candidate.faults, asked_for=False)
        run = never_done(plan, reason)
        return _stored(_outcome(step, run, None, 0.0), run, self._store)

    def _take(self, played: Played) -> None:
        if played.unplayable:
            self.unplayable += 1
            return
        self.played += 1
        self.simulated_s += played.simulated_s
        self.cpu_s += played.cpu_s
        if played.seen is not None:
            self.search.learn(played.step, played.seen)
            self.reach.add(played.reached)
            if self._pool is not None and played.verdict is Valid.VALID:
                names = tuple(intern(name) for name in played.seen)  # one string for all runs
                self._pool.append(Shown(played.step.candidate, names, played.events))
        if played.undecided:
            self.undecided[str(played.message)] += 1
        if played.way:
            self.failures.setdefault(played.way, []).append(played)


def candidate_of(plan: Plan) -> Candidate:
    """Give a planned run as a candidate of a search."""
    return Candidate(plan.spec, plan.faults)
