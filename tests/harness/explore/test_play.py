"""Exploring for real: simulations in processes of their own, failures stored and played again."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.explore import play as play_module
from harness.explore.play import STORED_MAX, Exploration, Played, play
from harness.explore.search import Step
from harness.processes.crew import Local
from harness.sessions.plan import Plan
from harness.sessions.simulated import simulate
from harness.sessions.swarm import draw
from harness.shrink.moves import Candidate
from harness.store.folder import RunDir, Store
from harness.store.reading import load_faults, load_results, load_spec
from harness.verdict import Valid

SHORT: Mapping[str, Any] = {
    "voters": 3,
    "observers": 0,
    "workload": "register",
    "time_limit_s": 4.0,
    "rate_hz": 5.0,
}


def exploration(store: Store | None, jobs: int, **given: Any) -> Exploration:
    def plan(seed: int) -> Plan:
        return Plan.simulated(draw(seed, {**SHORT, **given}), asked_for=False)

    return Exploration(11, plan, store, Local(jobs))


def two_rounds(its: Exploration) -> list[Played]:
    rounds = its.rounds()
    try:
        return [*next(rounds), *next(rounds)]
    finally:
        rounds.close()


def test_the_search_is_the_same_however_many_play_at_a_time() -> None:
    alone, beside = exploration(None, 1), exploration(None, 3)
    first, second = two_rounds(alone), two_rounds(beside)
    assert [p.step for p in first] == [p.step for p in second]
    assert [p.seen for p in first] == [p.seen for p in second]
    assert alone.search.corpus.counts == beside.search.corpus.counts
    assert [p.verdict for p in first] == [Valid.VALID] * len(first)
    assert not alone.failures
    assert alone.growth == beside.growth
    assert alone.growth[0] < alone.growth[1]
    assert alone.reach == beside.reach
    assert alone.reach.premises["S11"].watched == alone.played
    assert any(not p.step.fresh for p in first)


def test_failures_are_stored_and_are_the_same_again(tmp_path: Path) -> None:
    its = exploration(Store(tmp_path), 2, mutant="even-majority", voters=4)
    played = two_rounds(its)
    stored = [each for each in played if each.store is not None]
    assert stored, "the bug was never caught"
    assert len(stored) <= len(its.failures) * (STORED_MAX + len(played) // 2)
    for each in stored[:2]:
        folder = RunDir(Path(str(each.store)))
        assert each.verdict is Valid.INVALID
        plan = Plan.simulated(load_spec(folder.spec), load_faults(folder), asked_for=False)
        again = simulate(plan)
        assert again.trace_sha256 == (load_results(folder) or {})["trace_sha256"]
        assert {a.invariant for a in again.judgement.anomalies} == set(each.broken)


def test_a_process_that_dies_costs_its_candidate_only(monkeypatch: Any) -> None:
    import os  # noqa: PLC0415 - of this test alone

    its = exploration(None, 2)

    def dying(step: Any, *rest: Any) -> Played:
        if step.number == 1:
            os._exit(3)
        return play(step, *rest)

    monkeypatch.setattr(play_module, "play", dying)
    rounds = its.rounds()
    done = next(rounds)
    rounds.close()
    assert [each.harness_broke for each in done] == [n == 1 for n in range(len(done))]
    assert done[1].way == "the harness broke: its process exited with 3"


def test_a_shortened_run_in_which_nothing_happened_is_no_failure(tmp_path: Path) -> None:
    """Of a whole seed it is: that much is drawn for one that something has to happen."""
    idle = {"workload": "isr", "nemeses": (), "time_limit_s": 1.0, "voters": 3, "observers": 3}
    plan = Plan.simulated(draw(1, {**idle, "rate_hz": 2.0}), asked_for=False)
    candidate = Candidate(plan.spec, plan.faults)
    whole, short = (
        play(Step(1, candidate, fresh=True, tentative=tentative), Store(tmp_path))
        for tentative in (False, True)
    )
    assert whole.verdict is short.verdict is Valid.UNKNOWN
    assert (whole.undecided, short.undecided) == (False, True)
    assert (whole.way, short.way) == (f"unknown: {whole.message}", "")
    assert whole.store is not None
    assert short.store is None
