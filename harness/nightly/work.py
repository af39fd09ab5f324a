"""A night's work, one step after the other: what is due, what failed, and the store's limit."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import partial
from itertools import count, islice
from typing import Any, Final

from harness.errors import UsageError
from harness.healing.heal import heal_all
from harness.nightly import sims
from harness.nightly.arguments import canary_arguments, run_arguments
from harness.nightly.entries import Canary, Explore, Live, Sim
from harness.nightly.ledger import LIVE, Failing, Ledger, Line
from harness.nightly.plan import Entry, Plan
from harness.nightly.rotation import rotate
from harness.nightly.searches import Searching, Stored
from harness.processes.command import Answer, Program
from harness.processes.crew import Crew, Job, Local, Said, work_off
from harness.run.explained import findings_of
from harness.sessions.ahead import import_ahead
from harness.sessions.released.live import player
from harness.sessions.released.simulated import simulated
from harness.sessions.zoo import bugs
from harness.store.folder import RunDir, Store
from harness.store.signatures import of_doubt, signature

SLICE_S: Final = 60.0  # of seeds of one entry, at most, before somebody else's turn
LATE_S: Final = 300.0  # what a seed or a run may take beyond its time
RUN_TIMES: Final = 4  # a live run may take so often its time limit, and LATE_S
ROTATE_S: Final = 300.0  # between two looks at the size of the store
# What failed is looked into beyond the budget, for so long at most: a share of it, or this.
BEYOND: Final = 0.25
BEYOND_S: Final = 300.0

Tell = Callable[[Line], None]  # is told of every line, after it is kept


class Worker:
    """Does a plan; everything that comes of it goes into the ledger first.

    Seeds are simulated by ``crew``: processes of this machine, if none is given. For live runs,
    replays and shrinking it begins the command line, ``program``.
    """

    def __init__(
        self,
        plan: Plan,
        ledger: Ledger,
        store: Store,
        program: Program,
        tell: Tell,
        crew: Crew | None = None,
    ) -> None:
        self._plan = plan
        self._ledger = ledger
        self._night = ledger.night
        self._store = store
        self._program = program
        self._tell = tell
        self._jobs = plan.jobs or os.cpu_count() or 1  # at a time on this machine
        self._crew = crew or Local(self._jobs)
        self._first = int(self._night.begun["first_seed"])
        self._rotated_s = time.monotonic()
        self._searches: dict[str, Searching] = {}  # by entry; those that were begun

    def work(self) -> None:
        """All there is to do until the budget is used up; goes on from where the ledger ends."""
        for canary in self._plan.canary:
            if canary.name not in self._night.canaries:
                self._spend(f"canary:{canary.name}", partial(self._canary, canary))
                self._store.home.keep()
        while self._left_s > 0:
            self._look_after()
            due = self._due()
            if due is None:
                break
            entry, step = due
            self._spend(entry, step)
            self._store.home.keep()
            self._keep_under_limit(ROTATE_S)
        for search in self._searches.values():
            search.close()
        self._tell_of_the_rest()
        self._look_after(max(BEYOND_S, BEYOND * self._plan.budget_s))
        self._store.home.keep()
        self._tell_of_failures_left()
        self._keep_under_limit(0.0)

    def _tell_of_the_rest(self) -> None:
        """Say which entries had no run, and that failures are looked into beyond the budget."""
        left_s = max(0.0, self._left_s)
        for live in self._plan.live:
            entry = f"live:{live.name}"
            if not self._night.seeds.get(entry) and entry not in self._night.skipped:
                reason = f"a run takes {live.time_limit:g} s and more, {left_s:.0f} s were left"
                self._keep({"t": "skipped", "entry": entry, "reason": reason})
        for entry in self._plan.entries:
            if entry.startswith(LIVE):
                continue
            if not self._night.seeds.get(entry) and entry not in self._night.skipped:
                self._keep({"t": "skipped", "entry": entry, "reason": "the budget was used up"})
        new = self._new_failures()
        if new and not left_s:
            most_s = max(BEYOND_S, BEYOND * self._plan.budget_s)
            text = (
                f"the budget is used up; {len(new)} failures are run again and shrunk beyond it, "
                f"for at most {most_s / 60:.0f} min"
            )
            self._tell({"t": "note", "text": text})

    def _tell_of_failures_left(self) -> None:
        """Say what was found too late to be looked into."""
        left = self._new_failures()
        if left:
            text = (
                f"there was no time to run again and shrink {len(left)} failures; "
                f"`krucible repro RUN` and `krucible shrink RUN` do it"
            )
            self._tell({"t": "note", "text": text})

    def _new_failures(self) -> list[Failing]:
        return [failing for failing in self._night.failing.values() if self._is_new(failing)]

    @property
    def _left_s(self) -> float:
        return self._plan.budget_s - self._night.used_s

    def _due(self) -> tuple[str, Callable[[], None]] | None:
        """The entry that has had the least of its share; None when nothing fits into the rest.

        A live run that would take longer than the night has left does not begin.
        """
        left_s, spent = self._left_s, self._night.spent_s
        fits = {
            name: entry
            for name, entry in self._plan.entries.items()
            if not isinstance(entry, Live) or entry.time_limit <= left_s
        }
        if not fits:
            return None
        name = min(fits, key=lambda name: spent.get(name, 0.0) / fits[name].weight)
        entry = fits[name]
        match entry:
            case Sim():
                return name, partial(self._sim, name, entry)
            case Explore():
                return name, partial(self._explore, name, entry)
            case Live():
                return name, partial(self._live, name, entry)

    def _spend(self, entry: str, step: Callable[[], None]) -> None:
        began_s = time.monotonic()
        try:
            step()
        finally:
            self._keep({"t": "spent", "entry": entry, "s": round(time.monotonic() - began_s, 3)})

    def _keep(self, line: Mapping[str, Any]) -> None:
        self._ledger.add(line)
        self._tell(line)

    def _seeds(self, entry: str) -> Iterator[int]:
        """The entry's seeds that were not judged yet."""
        done = self._night.seeds.setdefault(entry, set())
        return (seed for seed in count(self._first) if seed not in done)

    # ------------------------------------------------------------------ steps

    def _sim(self, entry: str, sim: Sim) -> None:
        for_s = self._slice_s(sim)
        # each process its own part of the seeds; one that dies leaves for later what it had not
        # begun, and the seed it was at is done with: it must not end the next process, too
        places = self._crew.places
        todo = list(islice(self._seeds(entry), places * int(for_s * _SEEDS_PER_S)))
        kept = self._plan.on_failure.kept
        left = {
            failing.key: self._share(kept - len(failing.runs))
            for failing in self._night.failing.values()
        }
        slices = [
            sims.Slice(
                *(entry, sim, todo[n::places], for_s, self._store),
                *(left, self._share(kept), self._night.features),
            )
            for n in range(places)
        ]
        jobs = {Job(entry, each.work, for_s + LATE_S, import_ahead): each for each in slices}
        with closing(self._crew.work_off(list(jobs))) as told:
            for each in told:
                if isinstance(each, Said):
                    self._keep(each.value)
                elif each.broken is not None:
                    done = self._night.seeds.get(entry, ())
                    at = next((seed for seed in jobs[each.job].seeds if seed not in done), None)
                    if at is None:
                        self._keep({"t": "broke", "reason": f"{entry}: {each.broken}"})
                    else:
                        self._keep(jobs[each.job].died(at, each.broken))

    def _slice_s(self, entry: Entry) -> float:
        return min(SLICE_S, max(1.0, min(self._left_s, self._plan.share_s(entry))))

    def _explore(self, entry: str, wanted: Explore) -> None:
        if entry not in self._searches:
            stored = Stored(self._store, self._plan.on_failure.kept)
            folder = self._ledger.folder
            self._searches[entry] = Searching(
                entry, wanted, self._night, folder, stored, self._crew
            )
        with closing(self._searches[entry].slice(self._slice_s(wanted))) as lines:
            for line in lines:
                self._keep(line)

    def _share(self, runs: int) -> int:
        """Tell how many of so many runs each process may store, which do not know of each other."""
        return -(-max(0, runs) // self._crew.places)

    def _live(self, entry: str, live: Live) -> None:
        seed = next(self._seeds(entry))
        limit_s = live.time_limit * RUN_TIMES + LATE_S
        answer = self._program.run(run_arguments(live, seed, self._store.root), limit_s)
        line: dict[str, Any] = {"t": "live", "entry": entry, "seed": seed, "invariants": []}
        line |= _of_run(answer)
        self._keep(line)
        if answer.broken is not None:
            self._heal()

    def _canary(self, canary: Canary) -> None:
        if canary.live and canary.bug is None:
            self._keep(self._live_canary(canary))
            return
        last: Line = {"t": "canary", "name": canary.name, "caught": False, "seed": None}
        last = {**last, "elapsed_s": 0.0, "why": "no seed of its scenario was simulated"}
        hunt, limit_s = partial(sims.canary, canary), canary.budget_s
        if canary.bug is not None:
            play = player(self._program, self._store.root) if canary.live else simulated
            hunt, limit_s = partial(sims.released_canary, canary, play), limit_s + LATE_S
        job = Job(canary.name, hunt, limit_s)
        with closing(work_off([job], 1)) as told:
            for each in told:
                if isinstance(each, Said):
                    last = each.value
                elif each.broken is not None and not last["caught"]:
                    last = {**last, "why": f"{last['why']}; {each.broken}".strip("; ")}
        self._keep(last)

    def _live_canary(self, canary: Canary) -> Line:
        (bug,) = bugs([canary.of])
        began_s, tries, judged, seen = time.monotonic(), 0, 0, set[str]()
        broken = ""
        while True:
            left_s = canary.budget_s - (time.monotonic() - began_s)
            if tries and left_s <= 0:
                break
            arguments = canary_arguments(canary, self._first + tries, self._store.root)
            answer = self._program.run(arguments, max(left_s, canary.time_limit) + LATE_S)
            tries += 1
            broken = answer.broken or answer.value.get("harness_error") or ""
            judged += not broken
            names = {anomaly["invariant"] for anomaly in answer.value.get("anomalies", ())}
            seen |= names
            if names & bug.breaks:
                break
        caught = sorted(seen & bug.breaks)
        found = f"broke {', '.join(sorted(seen)) or 'nothing'}"
        if not judged and not seen:  # none started, or none came to its end
            found = "could not be judged"
        return {
            "t": "canary",
            "name": canary.name,
            "caught": bool(caught),
            "by": caught,
            "seed": self._first + tries - 1 if caught else None,
            "elapsed_s": round(time.monotonic() - began_s, 3),
            "why": "" if caught else f"{tries} runs {found}; {broken}".rstrip("; "),
        }

    # ------------------------------------------------------------------ after a failure

    def _look_after(self, beyond_s: float = 0.0) -> None:
        """Run each new failure again, and shrink what can be shrunk.

        All are run again before the first is shrunk. Nothing more begins once the budget is used
        up, and so many seconds beyond it.
        """
        for failing in self._new_failures():
            if failing.again is None and self._left_s > -beyond_s:
                self._spend(failing.entry, partial(self._again, failing))
        for failing in self._new_failures():
            if failing.again is not None and self._left_s > -beyond_s:
                self._spend(failing.entry, partial(self._shrink, failing))

    def _is_new(self, failing: Failing) -> bool:
        """Tell whether a failure has a stored run that was not yet run again, or shrunk."""
        return bool(failing.runs) and (failing.again is None or self._can_be_shrunk(failing))

    def _can_be_shrunk(self, failing: Failing) -> bool:
        return (
            failing.shrunk is None
            and failing.verdict == "invalid"
            and not failing.entry.startswith(LIVE)
            and self._plan.on_failure.shrink_s > 0
        )

    def _again(self, failing: Failing) -> None:
        live = failing.entry.startswith(LIVE)
        times = self._plan.on_failure.repro_times if live else 2
        arguments = [
            *(
                "repro",
                self._at_hand(failing.runs[0]),
                "--times",
                str(times),
                "--store",
                str(self._store.root),
            )
        ]
        answer = self._program.run(arguments, times * LATE_S + LATE_S)
        line = {
            **_about(failing, "again"),
            "reproduced": answer.value.get("reproduced", 0),
            "times": answer.value.get("times", 0),
            "same_bytes": answer.value.get("same_bytes"),
            "broken": answer.broken,
        }
        self._keep(line)

    def _shrink(self, failing: Failing) -> None:
        budget_s = self._plan.on_failure.shrink_s
        arguments = [
            *("shrink", self._at_hand(failing.runs[0]), "--budget", f"{budget_s:g}"),
            *("--jobs", str(self._jobs), "--store", str(self._store.root)),
        ]
        answer = self._program.run(arguments, budget_s + LATE_S)
        line = {
            **_about(failing, "shrunk"),
            "store": answer.value.get("store"),
            "kept": answer.value.get("kept"),
            "story": answer.value.get("story"),
            "broken": answer.broken,
        }
        self._keep(line)

    def _at_hand(self, run: str) -> str:
        """The folder of a stored run, with all its files."""
        try:
            return str(self._store.resolve(run).path)
        except UsageError:  # it is gone; the command that is given it says so
            return run

    # ------------------------------------------------------------------ the host

    def _heal(self) -> None:
        """Undo what a run left behind that did not end as it should."""
        for leftover in heal_all():
            if not leftover.done:
                reason = f"{leftover.run}: {leftover.kind} could not be healed: {leftover.action}"
                self._keep({"t": "broke", "reason": reason})

    def _keep_under_limit(self, period_s: float) -> None:
        limit = self._plan.store_limit_bytes
        if limit is None or time.monotonic() - self._rotated_s < period_s:
            return
        self._rotated_s = time.monotonic()
        kept = {path for failing in self._night.failing.values() for path in failing.runs}
        done = rotate(self._store, limit, kept)
        if done.dropped:
            self._keep({"t": "dropped", "runs": [RunDir(path).told for path in done.dropped]})
        if done.left_bytes > limit:
            reason = (
                f"the store holds {done.left_bytes / 1e9:.1f} GB of runs that are not valid: more "
                f"than its limit of {limit / 1e9:.1f} GB; look through them, or raise the limit"
            )
            if reason not in self._night.broken:
                self._keep({"t": "broke", "reason": reason})


_SEEDS_PER_S: Final = 50  # more than any machine simulates: a slice ends by the clock


def _about(failing: Failing, kind: str) -> dict[str, Any]:
    return {
        "t": kind,
        "entry": failing.entry,
        "verdict": failing.verdict,
        "invariants": list(failing.invariants),
        "signature": failing.signature,
    }


def _of_run(answer: Answer) -> Line:
    """Tell what ``krucible run`` told, as part of a ledger line."""
    told = answer.value
    if answer.broken is not None:
        why = answer.broken
        return {"verdict": "unknown", "harness_error": why, "signature": of_doubt(why)}
    anomalies = told["anomalies"]
    doubts = [*told["system_reasons"], *told["coverage_reasons"], *told["harness_reasons"]]
    line: dict[str, Any] = {
        "verdict": told["verdict"],
        "invariants": sorted({anomaly["invariant"] for anomaly in anomalies}),
        "store": told["store"],
    }
    if anomalies:
        line["signature"] = signature(anomalies[0]["invariant"], anomalies[0]["message"])
    elif doubts:
        line["signature"] = of_doubt(doubts[0])
    if findings := findings_of(anomalies):
        line["findings"] = findings
    if told["verdict"] != "valid":
        line["message"] = anomalies[0]["message"] if anomalies else "; ".join(doubts)
    if told.get("known"):
        line["known"] = told["known"]
    if told["harness_error"]:
        line["harness_error"] = told["harness_error"]
    return line
