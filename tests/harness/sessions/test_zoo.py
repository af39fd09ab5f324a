"""The zoo, directed: each seeded bug is caught by its own scenario, for the right reason.

The same scenarios without a bug are valid: what is caught is the bug, not the scenario.
"""

from __future__ import annotations

import json

import pytest

from harness.sessions.simulated import SimRun, simulate
from harness.sessions.zoo import found, plan_of
from harness.verdict import Valid
from node import mutants
from node.catalogue.impossible import PENDING, ROWS
from node.catalogue.scenario import Scenario
from node.mutants import Mutant
from tests.support.cases import cases
from tests.support.simulated.judged import judged

ROW_LAST = 80

DIRECTED = [m for m in mutants.load().values() if m.scenario is not None]


def shape(scenario: Scenario) -> str:
    """What two scenarios must have in common to be one."""
    return json.dumps({**scenario.to_json(), "seeds": scenario.seeds[:1]}, sort_keys=True)


SHAPES = {shape(m.scenario): (m.name, m.scenario) for m in DIRECTED if m.scenario is not None}


SOUND = dict(SHAPES.values())
# Each run of the tests plays one in three of them: the swarm has its controls, too.
LONG = [name for number, name in enumerate(SOUND) if number % 3]


def play(scenario: Scenario, seed: int, mutant: str | None) -> SimRun:
    """Simulate a scenario."""
    stop_at = tuple(mutants.get(mutant).breaks) if mutant else None
    run = simulate(plan_of(scenario.to_json(), seed, mutant, stop_at))
    for checker, named, said in judged(run.judgement):
        assert named <= said, f"{checker} does not say that it judges {sorted(named - said)}"
    return run


@pytest.mark.parametrize("mutant", DIRECTED, ids=lambda m: m.name)
def test_a_seeded_bug_is_caught_in_its_scenario(mutant: Mutant) -> None:
    assert mutant.scenario is not None
    caught: set[str] = set()
    for seed in mutant.scenario.seeds:
        run = play(mutant.scenario, seed, mutant.name)
        caught |= found(run)
        if caught & set(mutant.breaks):
            assert run.verdict is Valid.INVALID
            return
    pytest.fail(f"caught by {sorted(caught)}, want one of {mutant.breaks}")


@pytest.mark.parametrize("scenario", cases(SOUND, LONG))
def test_without_the_bug_its_scenario_is_valid(scenario: Scenario) -> None:
    run = play(scenario, scenario.seeds[0], None)
    assert run.verdict is Valid.VALID, run.judgement.reasons
    assert {report.injection.outcome for report in run.result.faults} <= {"installed"}


def test_what_cannot_exist_here_is_a_row_of_the_catalogue_and_has_a_reason() -> None:
    rows = [*ROWS.items(), *PENDING.items()]
    assert all(1 <= row <= ROW_LAST and reason for row, reason in rows)
    assert not set(ROWS) & set(PENDING)
