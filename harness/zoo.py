"""The zoo: seeded bugs are caught, for the right reason, and soon; a healthy node is not.

Three arms. Directed: each bug in its own scenario. Exploratory: the generic swarm, which does not
know which bug is in. Control: the same swarm and no bug. A catch by an invariant that the bug does
not break is counted apart: it does not count as caught.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from harness.protocols import Fault
from harness.registry import mutants_of, systems
from harness.simulate import SimPlan, SimRun, simulate
from harness.spec import SIM, RunSpec
from harness.swarm import draw

EXPLORED_FROM = 1  # the first seed of the exploratory arm
SYSTEM = "kraft"


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
        """From an object of ``mutants_of``."""
        return cls(
            offer["name"],
            frozenset(name.strip() for name in offer["breaks"].split(",")),
            offer["source"],
            offer["description"],
            offer.get("scenario"),
        )


def bugs(only: Sequence[str] = ()) -> list[Bug]:
    """The seeded bugs, all or those of these names, which must exist."""
    found = [Bug.of(offer) for offer in mutants_of(systems.get(SYSTEM))]
    return [bug for bug in found if not only or bug.name in only]


@dataclass(slots=True)
class Hunt:
    """What became of one bug in one arm."""

    mutant: str
    arm: str
    caught_by: list[str] = field(default_factory=list)  # of what it breaks
    seed: int | None = None  # that caught it
    tried: int = 0  # seeds
    elapsed_s: float = 0.0  # until it was caught, or given up
    simulated_s: float = 0.0
    wrong: dict[str, int] = field(default_factory=dict)  # other invariants, in how many seeds

    @property
    def caught(self) -> bool:
        """Whether it was caught for the right reason."""
        return bool(self.caught_by)

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {**asdict(self), "caught": self.caught}


def directed(bug: Bug) -> Hunt:
    """The bug in its own scenario, seed by seed."""
    scenario = bug.scenario
    if scenario is None:
        return Hunt(bug.name, "directed")
    stop_at = tuple(sorted(bug.breaks))
    plans = (plan_of(scenario, seed, bug.name, stop_at) for seed in scenario["seeds"])
    return _hunt(bug, "directed", plans, None)


def exploratory(bug: Bug, budget_s: float) -> Hunt:
    """The bug in the swarm, until it is caught or the time is up."""

    def plans() -> Iterable[SimPlan]:
        seed, stop_at = EXPLORED_FROM, tuple(sorted(bug.breaks))
        while True:
            yield SimPlan.of(draw(seed, {"mutant": bug.name, "stop_at": stop_at}), asked_for=False)
            seed += 1

    return _hunt(bug, "exploratory", plans(), budget_s)


def control(seed: int) -> SimRun:
    """A seed of the swarm with no bug in."""
    return simulate(SimPlan.of(draw(seed), asked_for=False))


def plan_of(
    scenario: Mapping[str, Any],
    seed: int,
    mutant: str | None,
    stop_at: tuple[str, ...] | None = None,
) -> SimPlan:
    """The run that a scenario is; see ``RunSpec.stop_at``."""
    fields = {k: v for k, v in scenario.items() if k not in ("seeds", "faults")}
    fields["nemeses"] = tuple(fields["nemeses"])
    spec = RunSpec(seed=seed, env=SIM, mutant=mutant, stop_at=stop_at, **fields)
    faults = [Fault(id=number, **each) for number, each in enumerate(scenario["faults"])]
    return SimPlan.of(spec, faults or None)


def found(run: SimRun) -> frozenset[str]:
    """The invariants that a run has broken."""
    return frozenset(anomaly.invariant for anomaly in run.judgement.anomalies)


def _hunt(bug: Bug, arm: str, plans: Iterable[SimPlan], budget_s: float | None) -> Hunt:
    hunt, wrong = Hunt(bug.name, arm), Counter[str]()
    began_s = time.monotonic()
    for plan in plans:
        run = simulate(plan)
        hunt.tried += 1
        hunt.simulated_s += run.simulated_ns / 1e9
        hunt.elapsed_s = time.monotonic() - began_s
        broken = found(run)
        if broken & bug.breaks:
            hunt.caught_by, hunt.seed = sorted(broken & bug.breaks), plan.spec.seed
            break
        wrong.update(broken)
        if budget_s is not None and hunt.elapsed_s >= budget_s:
            break
    hunt.wrong = dict(wrong)
    return hunt
