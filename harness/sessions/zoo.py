"""The zoo: seeded bugs are caught, for the right reason, and soon; a healthy node is not.

Three arms. Directed: each bug in its own scenario. Exploratory: the generic swarm, which does not
know which bug is in. Control: the same swarm and no bug. A catch by an invariant that the bug does
not break is counted apart: it does not count as caught.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import count
from typing import Any

from harness.contracts.nemesis import Fault
from harness.faults.schedule import fault_from_json
from harness.registry import mutants_of
from harness.sessions.plan import Plan
from harness.sessions.simulated import SimRun, reason_of, simulate
from harness.sessions.swarm import draw
from harness.spec import SIM, RunSpec

EXPLORED_FROM = 1  # the first seed of the exploratory arm
SYSTEM = "kraft"
_TIMES = ("elapsed_s", "cpu_s", "simulated_s")


@dataclass(frozen=True, slots=True)
class Bug:
    """A seeded bug as its system offers it."""

    name: str
    breaks: frozenset[str]
    source: str
    description: str
    scenario: Mapping[str, Any] | None

    @classmethod
    def of(cls, offer: Mapping[str, Any]) -> Bug:
        """Make it from an object of ``mutants_of``."""
        return cls(
            offer["name"],
            frozenset(name.strip() for name in offer["breaks"].split(",")),
            offer["source"],
            offer["description"],
            offer.get("scenario"),
        )


def bugs(only: Sequence[str] = ()) -> list[Bug]:
    """The seeded bugs, all or those of these names, which must exist."""
    found = [Bug.of(offer) for offer in mutants_of(SYSTEM)]
    return [bug for bug in found if not only or bug.name in only]


@dataclass(slots=True)
class Hunt:
    """The outcome of one bug in one arm."""

    mutant: str
    arm: str
    caught_by: list[str] = field(default_factory=list)  # of what it breaks
    seed: int | None = None  # that caught it
    tried: int = 0  # seeds
    elapsed_s: float = 0.0  # until it was caught, or given up
    cpu_s: float = 0.0
    simulated_s: float = 0.0
    wrong: dict[str, int] = field(default_factory=dict)  # other invariants, in how many seeds
    broken: dict[str, int] = field(default_factory=dict)  # why seeds could not be judged, likewise

    @property
    def caught(self) -> bool:
        """Tell whether it was caught for the right reason."""
        return bool(self.caught_by)

    def to_json(self) -> dict[str, Any]:
        """Give it as a JSON object."""
        times = {name: round(getattr(self, name), 3) for name in _TIMES}
        return {**asdict(self), **times, "caught": self.caught}


def directed(bug: Bug) -> Iterator[Hunt]:
    """The bug in its own scenario, seed by seed; the hunt so far after each."""
    scenario, stop_at = bug.scenario, tuple(sorted(bug.breaks))
    if scenario is None:
        return iter((Hunt(bug.name, "directed"),))
    specs = (spec_of(scenario, seed, bug.name, stop_at) for seed in scenario["seeds"])
    faults = faults_of(scenario)
    return _hunt(bug, "directed", (partial(Plan.simulated, spec, faults) for spec in specs), None)


def exploratory(bug: Bug, budget_s: float) -> Iterator[Hunt]:
    """The bug in the swarm, until it is caught or the time is up; the hunt so far after each seed.

    A seed that is under way when the time is up is finished.
    """
    pinned = {"mutant": bug.name, "stop_at": tuple(sorted(bug.breaks))}
    specs = (draw(seed, pinned) for seed in count(EXPLORED_FROM))
    plans = (partial(Plan.simulated, spec, asked_for=False) for spec in specs)
    return _hunt(bug, "exploratory", plans, budget_s)


def control(seed: int) -> SimRun:
    """A seed of the swarm with no bug in."""
    return simulate(Plan.simulated(draw(seed), asked_for=False))


def plan_of(
    scenario: Mapping[str, Any],
    seed: int,
    mutant: str | None,
    stop_at: tuple[str, ...] | None = None,
) -> Plan:
    """The run that a scenario is; see ``RunSpec.stop_at``."""
    return Plan.simulated(spec_of(scenario, seed, mutant, stop_at), faults_of(scenario))


def spec_of(
    scenario: Mapping[str, Any], seed: int, mutant: str | None, stop_at: tuple[str, ...] | None
) -> RunSpec:
    """The options of that run."""
    fields = {k: v for k, v in scenario.items() if k not in ("seeds", "faults")}
    fields["nemeses"] = tuple(fields["nemeses"])
    return RunSpec(seed=seed, env=SIM, mutant=mutant, stop_at=stop_at, **fields)


def faults_of(scenario: Mapping[str, Any]) -> list[Fault] | None:
    """Give the scenario's schedule of faults; None when it is to be drawn from the seed."""
    faults = enumerate(scenario["faults"])
    return [fault_from_json({"id": n, **each}) for n, each in faults] or None


def found(run: SimRun) -> frozenset[str]:
    """The invariants that a run has broken."""
    return frozenset(anomaly.invariant for anomaly in run.judgement.anomalies)


def _hunt(
    bug: Bug, arm: str, plans: Iterable[Callable[[], Plan]], budget_s: float | None
) -> Iterator[Hunt]:
    hunt, wrong, broken = Hunt(bug.name, arm), Counter[str](), Counter[str]()
    first: dict[str, int | None] = {}  # seed, by what broke
    began_s, cpu_began_s = time.monotonic(), time.process_time()
    for make in plans:
        run, reason, seed = None, None, None
        try:
            plan = make()
            seed = plan.spec.seed
            run = simulate(plan)
            reason = run.broken
        except Exception as error:  # told at the end: it must not cost the other seeds
            reason = reason_of(error)
        hunt.tried += 1
        hunt.elapsed_s = time.monotonic() - began_s
        hunt.cpu_s = time.process_time() - cpu_began_s
        if reason is not None:
            broken[f"{reason}, first in seed {first.setdefault(reason, seed)}"] += 1
        if run is not None:
            hunt.simulated_s += run.simulated_ns / 1e9
            seen = found(run)
            if seen & bug.breaks:
                hunt.caught_by, hunt.seed = sorted(seen & bug.breaks), seed
            else:
                wrong.update(sorted(seen))
        hunt.wrong, hunt.broken = dict(wrong), dict(broken)
        yield hunt
        if hunt.caught or (budget_s is not None and hunt.elapsed_s >= budget_s):
            return
