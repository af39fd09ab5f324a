"""The starting corpus is made of seeds of the swarm, cut short."""

from harness.explore.moves import cut_short
from harness.explore.remake import shown
from harness.processes.crew import Local
from harness.sessions.plan import Plan
from harness.sessions.swarm import draw
from harness.shrink.moves import Candidate

SEEDS = range(1, 4)


def short(seed: int) -> Candidate:
    plan = Plan.simulated(draw(seed), asked_for=False)
    return cut_short(Candidate(plan.spec, plan.faults))


def test_seeds_are_played_cut_short_and_told_in_their_order() -> None:
    alone, together = (shown(SEEDS, Local(jobs)) for jobs in (1, 2))
    assert alone == together
    assert [run.candidate for run in alone] == [short(seed) for seed in SEEDS]
    assert all(run.features and run.events for run in alone)
