"""The tape of a simulation: events at which its luck is drawn anew."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.sessions.plan import Plan
from harness.sessions.simulated import SimRun, save, simulate
from harness.sessions.swarm import draw
from harness.spec import RunSpec
from harness.store.folder import Store
from harness.store.reading import load_faults, load_spec

AT = 900


@pytest.fixture(scope="module")
def plan() -> Plan:
    given = {"voters": 3, "observers": 1, "workload": "register", "time_limit_s": 3.0}
    return Plan.simulated(draw(3, given), asked_for=False)


@pytest.fixture(scope="module")
def plain(plan: Plan) -> SimRun:
    return simulate(plan)


def taped(plan: Plan, *tape: tuple[int, int]) -> SimRun:
    return simulate(replace(plan, spec=replace(plan.spec, tape=tape)))


def events(run: SimRun) -> list[tuple[Any, ...]]:
    """All events by their moments; those of one moment by their nodes."""
    every = (event for of in run.data.events.values() for event in of)
    return sorted((e["ts"], e["node"], e["seq"], repr(e)) for e in every)


def test_from_an_event_on_all_is_otherwise_and_the_same_again(plan: Plan, plain: SimRun) -> None:
    first, again, other = taped(plan, (AT, 7)), taped(plan, (AT, 7)), taped(plan, (AT, 8))
    assert first.trace_sha256 == again.trace_sha256
    assert len({plain.trace_sha256, first.trace_sha256, other.trace_sha256}) == 3
    assert events(first)[: AT - 1] == events(plain)[: AT - 1], "what came before is the same"


def test_a_fork_leaves_its_tape_and_that_replays_to_the_same_bytes(plan: Plan) -> None:
    count, begins = 0, list[int | None]()

    def fork(_: Mapping[str, Any], began_ns: int | None) -> int | None:
        nonlocal count
        count += 1
        begins.append(began_ns)
        return {AT: 7, 2 * AT: 11}.get(count)

    forked = simulate(plan, fork=fork)
    assert forked.data.spec.tape == ((AT, 7), (2 * AT, 11))
    assert forked.trace_sha256 == taped(plan, *forked.data.spec.tape).trace_sha256
    assert begins[0] is None, "the first events come before the schedule"
    assert begins[-1] == forked.result.phases_ns["main"]


def test_a_stored_run_has_its_tape(plan: Plan, tmp_path: Path) -> None:
    run = taped(plan, (AT, 7))
    stored = save(run, Store(tmp_path))
    spec = load_spec(stored.spec)
    assert spec == run.data.spec
    assert spec.tape == ((AT, 7),)
    again = simulate(Plan.simulated(spec, load_faults(stored), asked_for=False))
    assert again.trace_sha256 == run.trace_sha256


def test_a_spec_without_a_tape_is_as_it_always_was() -> None:
    assert "tape" not in RunSpec(1).to_json()
    assert RunSpec.from_json(RunSpec(1, tape=((5, 6),)).to_json()).tape == ((5, 6),)
