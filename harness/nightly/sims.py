"""Seeds of a night in processes of their own: each is in the ledger as soon as it is judged."""

from __future__ import annotations

import time
import traceback
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from harness import seeds as streams
from harness.errors import UsageError
from harness.explore.play import seen_in
from harness.nightly.entries import Canary, Sim
from harness.nightly.ledger import Key, key_of
from harness.processes.outlook import expect
from harness.run.explained import findings_of
from harness.sessions.plan import Plan
from harness.sessions.reached import Reach
from harness.sessions.released.chase import Chase, Play, chase
from harness.sessions.released.quarry import ARM, LIVE_ARM, quarries
from harness.sessions.simulated import SimRun, never_done, reason_of, save, simulate
from harness.sessions.swarm import draw
from harness.sessions.zoo import Hunt, bugs, directed
from harness.store.folder import Store
from harness.store.signatures import of_doubt, signature
from harness.verdict import Valid

Line = dict[str, Any]
SEED_S: Final = 2.0  # that a seed takes, about


@dataclass(frozen=True, slots=True)
class Slice:
    """Seeds of an entry that one process simulates, for so many seconds.

    ``left`` says of failures that were met before how many runs more of each may be stored here,
    ``fresh`` of all others; ``known`` holds the features that the night has seen.
    """

    entry: str
    sim: Sim
    seeds: Iterable[int]
    for_s: float
    store: Store
    left: Mapping[Key, int]
    fresh: int
    known: Collection[str] = ()

    def work(self) -> Iterator[Line]:
        """A ledger line for each seed, and at the end one of what they reached."""
        until_s = time.monotonic() + self.for_s
        expect(round(self.for_s / SEED_S))
        reach, known = Reach(), set(self.known)
        stored: Counter[Key] = Counter()
        for seed in self.seeds:
            yield self._seed(seed, reach, known, stored)
            if time.monotonic() >= until_s:
                break
        yield {"t": "reached", **reach.to_json()}

    def _seed(self, seed: int, reach: Reach, known: set[str], stored: Counter[Key]) -> Line:
        line: Line = {"t": "seed", "entry": self.entry, "seed": seed, "invariants": []}
        try:
            plan = Plan.simulated(draw(seed, self.sim.pinned()), asked_for=self.sim.asked_for)
            run = simulate(plan)
            reach.take(run.data, run.judgement.results)
            new = [feature for feature in seen_in(run) if feature not in known]
            known.update(new)
            line |= {**judged(run), "new": new}
            rng = streams.rng(seed, "nightly")
            if rng.random() < self.sim.twice:
                line["same_bytes"] = simulate(plan).trace_sha256 == run.trace_sha256
            kept = rng.random() < self.sim.save
            if self._is_news(line, stored) or kept:
                line["store"] = save(run, self.store).told
        except UsageError as error:  # the options do not go with what this seed draws
            told = {"harness_error": str(error), "signature": of_doubt(str(error))}
            return {**line, "verdict": "unknown", **told}
        except Exception as error:  # one seed's: it is told, and costs the others nothing
            return self.died(seed, reason_of(error), "".join(traceback.format_exception(error)))
        return line

    def died(self, seed: int, reason: str, trace: str | None = None) -> Line:
        """The line of a seed that ended its process, or could not be judged; it is stored."""
        plan = Plan.simulated(draw(seed, self.sim.pinned()), asked_for=self.sim.asked_for)
        run = never_done(plan, reason, trace)
        line = {"t": "seed", "entry": self.entry, "seed": seed, **judged(run)}
        return {**line, "store": save(run, self.store).told}

    def _is_news(self, line: Mapping[str, Any], stored: Counter[Key]) -> bool:
        if line["verdict"] == "valid" and line.get("same_bytes") is not False:
            return False
        key = key_of(line)
        stored[key] += 1
        return stored[key] <= self.left.get(key, self.fresh)


def judged(run: SimRun) -> Line:
    """Tell what a simulation came to, as part of a ledger line."""
    judgement = run.judgement
    names = sorted({anomaly.invariant for anomaly in judgement.anomalies})
    doubts = [reason for reasons in judgement.reasons.values() for reason in reasons]
    first = judgement.anomalies[0].message if judgement.anomalies else "; ".join(doubts)
    line: Line = {
        "verdict": str(run.verdict),
        "invariants": names,
        "simulated_s": round(run.simulated_ns / 1e9, 3),
        "sha256": run.trace_sha256,
    }
    if judgement.anomalies:
        line["signature"] = signature(judgement.anomalies[0].invariant, first)
    elif doubts:
        line["signature"] = of_doubt(doubts[0])
    if findings := findings_of(anomaly.to_json() for anomaly in judgement.anomalies):
        line["findings"] = findings
    if run.verdict is not Valid.VALID:
        line["message"] = first
    if judgement.known:
        line["known"] = dict(judgement.known)
    if run.broken is not None:
        line["harness_error"] = run.broken
    return line


def canary(wanted: Canary) -> Iterator[Line]:
    """The hunt for a seeded bug in its own scenario, a line after each seed."""
    (bug,) = bugs([wanted.of])
    for hunt in directed(bug):
        yield canary_line(wanted, hunt)


def released_canary(wanted: Canary, play: Play) -> Iterator[Line]:
    """The hunt for a bug of a release, a line after each seed of both releases.

    It counts as caught when the release that has it fixed broke nothing that it breaks.
    """
    (quarry,) = quarries([wanted.of], live=wanted.live)
    arm = LIVE_ARM if wanted.live else ARM
    for so_far in chase(quarry, wanted.budget_s, play, arm):
        yield chase_line(wanted, so_far)


def chase_line(wanted: Canary, chase: Chase) -> Line:
    """Tell what a chase has come to so far, as a ledger line."""
    wrong = ", ".join(chase.wrong) or "nothing"
    alarms = "".join(f"; {chase.fixed} broke {name}, too" for name in chase.alarms)
    broken = "".join(f"; broken: {why}" for why in chase.broken)
    caught = chase.caught and not chase.alarms
    missed = "" if chase.caught else f"{chase.tried} seeds of {chase.affected} broke {wrong}"
    return {
        "t": "canary",
        "name": wanted.name,
        "caught": caught,
        "by": chase.caught_by,
        "seed": chase.seed,
        "elapsed_s": round(chase.elapsed_s, 3),
        "why": "" if caught else f"{missed}{alarms}{broken}".strip("; "),
    }


def canary_line(wanted: Canary, hunt: Hunt) -> Line:
    """Tell what a hunt has come to so far, as a ledger line."""
    wrong = ", ".join(hunt.wrong) or "nothing"
    broken = "".join(f"; broken: {why}" for why in hunt.broken)
    return {
        "t": "canary",
        "name": wanted.name,
        "caught": hunt.caught,
        "by": hunt.caught_by,
        "seed": hunt.seed,
        "elapsed_s": round(hunt.elapsed_s, 3),
        "why": "" if hunt.caught else f"{hunt.tried} seeds broke {wrong}{broken}",
    }
