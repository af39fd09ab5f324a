"""Searches of a night: each goes on from slice to slice, also after the night was killed."""

from __future__ import annotations

import time
import traceback
from collections.abc import Collection, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from harness import seeds as streams
from harness.errors import HarnessError, UsageError
from harness.explore.features import Seen
from harness.explore.memory import Memory
from harness.explore.play import EXPLORE, LIMIT_S, candidate_of, seen_in
from harness.explore.search import Search, Step
from harness.explore.starting import OURS, fitting, load
from harness.nightly.entries import Explore
from harness.nightly.ledger import NO_FAILURE, UNDECIDED, Key, Night, key_of
from harness.nightly.sims import judged
from harness.processes.crew import Crew, Job, Said
from harness.sessions.ahead import import_ahead
from harness.sessions.plan import Plan
from harness.sessions.reached import Reach
from harness.sessions.simulated import SimRun, never_done, reason_of, save, simulate
from harness.sessions.swarm import draw
from harness.shrink.moves import Candidate
from harness.store.folder import Store
from harness.store.origin import Origin

DRAWS_MAX: Final = 20
FAR: Final = 1 << 40  # between seeds of which one does not go with the plan
APART: Final = 500_000  # of a night's seeds: the first of those that searches draw afresh

Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Heard:
    """The outcome of a run, from the process that played it."""

    line: Line | None  # None: its options do not go together
    store: str | None = None  # the folder of the run, if it was stored
    seen: Seen | None = None
    reach: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stored:
    """The store of a night, and how many runs of one failure it takes."""

    store: Store
    kept: int


@dataclass(frozen=True, slots=True)
class _Run:
    """A run of a search, to be played in any process; of its round it is number ``place``.

    ``room`` says of failures that were met before how many runs more may be stored.
    """

    entry: str
    step: Step
    place: int
    room: Mapping[Key, int]
    twice: float
    stored: Stored

    def work(self) -> Iterator[_Heard]:
        """Play it in this process; of those of a round that fail alike, the first are stored."""
        try:
            plan = _plan(self.step)
        except HarnessError:
            yield _Heard(None)
            return
        line, store = self._line(), None
        try:
            run = simulate(plan)
            seen, reach = seen_in(run), Reach()
            reach.take(run.data, run.judgement.results)
            line |= judged(run)
            if self.step.leaves_open(run.verdict, broke=run.broken is not None):
                line["verdict"] = UNDECIDED
            rng = streams.rng(plan.spec.seed, "nightly", self.step.number)
            if rng.random() < self.twice:
                line["same_bytes"] = simulate(plan).trace_sha256 == run.trace_sha256
            failed = line["verdict"] not in NO_FAILURE or line.get("same_bytes") is False
            if failed and self.place < self.room.get(key_of(line), self.stored.kept):
                store = self._save(run)
        except Exception as error:  # one run's: it is told, and costs the others nothing
            yield self.died(reason_of(error), "".join(traceback.format_exception(error)))
            return
        yield _Heard(line, store, seen, reach.to_json())

    def died(self, reason: str, trace: str | None = None) -> _Heard:
        """Tell of a run that ended its process, or could not be judged; it is stored."""
        run = never_done(_plan(self.step), reason, trace)
        return _Heard({**self._line(), **judged(run)}, self._save(run))

    def _line(self) -> Line:
        step = self.step
        return {"t": "seed", "entry": self.entry, "seed": step.number, "fresh": step.fresh}

    def _save(self, run: SimRun) -> str:
        return save(run, self.stored.store, Origin(EXPLORE)).told


class Searching:
    """A search of a night.

    Args:
        entry: Its name in the ledger.
        wanted: What the plan says of it.
        night: The night so far; runs that are in it are not judged again.
        folder: Of the night: what the search's runs showed is kept there.
        stored: Takes runs that fail.
        crew: Plays runs.
    """

    def __init__(
        self, entry: str, wanted: Explore, night: Night, folder: Path, stored: Stored, crew: Crew
    ) -> None:
        self._entry = entry
        self._wanted = wanted
        self._night = night
        self._stored = stored
        self._crew = crew
        first_seed = int(night.begun["first_seed"]) + APART
        starting = fitting(load(OURS), wanted.pinned())
        search = Search(first_seed, self._drawn, starting)
        path = folder / f"{entry.replace(':', '-')}.jsonl"
        self._memory = Memory(search, path, night.seeds.get(entry, ()))

    def slice(self, for_s: float) -> Generator[Line]:
        """Play whole rounds for so long: a ledger line for each run, last one of what they reached.

        The features of a run are on disk before its line is given, so that the search lacks no run
        that is in the ledger.
        """
        until_s, reach = time.monotonic() + for_s, Reach()
        while True:
            for heard in self._play(self._memory.left):
                if heard.line is not None:
                    known = self._night.features
                    new = [feature for feature in heard.seen or () if feature not in known]
                    stored = {} if heard.store is None else {"store": heard.store}
                    yield {**heard.line, **stored, "new": new}
                    if heard.reach:
                        reach.add(heard.reach)
            self._memory.learn()
            if time.monotonic() >= until_s:
                break
        yield {"t": "reached", **reach.to_json()}

    def close(self) -> None:
        """Close the file of what was shown."""
        self._memory.close()

    def _play(self, steps: Collection[Step]) -> Iterator[_Heard]:
        """Play runs side by side; each is in the memory when it is told."""
        room = {key: self._stored.kept - len(f.runs) for key, f in self._night.failing.items()}
        runs = [
            _Run(self._entry, step, place, room, self._wanted.twice, self._stored)
            for place, step in enumerate(steps)
        ]
        jobs = {
            Job(f"{run.entry} {run.step.number}", run.work, LIMIT_S, import_ahead): run
            for run in runs
        }
        with closing(self._crew.work_off(list(jobs))) as told:
            for each in told:
                run = jobs[each.job]
                if isinstance(each, Said):
                    heard: _Heard = each.value
                elif each.broken is not None:
                    heard = run.died(each.broken)
                else:
                    continue
                self._memory.keep(run.step.number, heard.seen, playable=heard.line is not None)
                yield heard

    def _drawn(self, seed: int) -> Candidate:
        """Draw a run; where what the plan pins does not go with that seed, of another one.

        Raises UsageError when it goes with none of so many.
        """
        wanted = self._wanted
        for other in range(DRAWS_MAX):
            try:
                spec = draw(seed + other * FAR, wanted.pinned())
                plan = Plan.simulated(spec, asked_for=wanted.asked_for)
            except UsageError:
                if other == DRAWS_MAX - 1:
                    raise
            else:
                return candidate_of(plan)
        raise AssertionError("no seed was drawn")


def _plan(step: Step) -> Plan:
    return Plan.simulated(step.candidate.spec, step.candidate.faults, asked_for=False)
