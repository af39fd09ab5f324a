"""The last round: kinds of fault that never took hold get one more try, when all is healed."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.contracts.nemesis import Cluster, Fault, Injection
from harness.errors import UsageError
from harness.faults.schedule import check, fault_from_json, load
from harness.generators.basic import Draft, limit, repeat
from harness.history.ops import Op
from harness.run.runner import RunOptions, RunPlan, RunResult
from harness.sessions.plan import Plan
from harness.sessions.simulated import SimRun, save, simulate
from harness.shrink.moves import Candidate, closer, earlier, shorter_runs
from harness.spec import RunSpec
from harness.store.folder import Store
from harness.systems.atom import AtomSystem
from harness.verdict import Valid
from tests.support.commands.command import krucible
from tests.support.live.kernel import FakeNemesis, registers_plan, run_to_history
from tests.support.simulated.virtual_time import run_virtual

SHY = Fault(0, "shy", 500, 300, {"target": "leader"}, 0.25)
BOLD = Fault(1, "bold", 1_000, 300)
AGAIN = replace(SHY, id=2, late=True)


class Shy(FakeNemesis):
    """Skips its first tries."""

    def __init__(self, log: list[str] | None = None, tries: int = 1) -> None:
        super().__init__(log)
        self.tries = tries

    async def inject(self, fault: Fault, cluster: Cluster) -> Injection:
        self.tries -= 1
        self.outcome = "installed" if self.tries < 0 else "skipped"
        return await super().inject(fault, cluster)


def plan_of(*faults: Fault, shy: FakeNemesis | None = None, **options: Any) -> RunPlan:
    nemeses = {"shy": shy or Shy(), "bold": FakeNemesis()}
    return registers_plan(faults=faults, nemeses=nemeses, **{"time_limit_s": 2.0, **options})


def played(plan: RunPlan, folder: Path, **options: Any) -> tuple[RunResult, list[Op]]:
    folder.mkdir(exist_ok=True)
    result, history = run_virtual(run_to_history(plan, folder, options=RunOptions(**options)))
    assert result.crash is None
    return result, list(history)


def test_what_never_took_hold_gets_one_more_try_beside_ops(tmp_path: Path) -> None:
    result, ops = played(plan_of(SHY, BOLD), tmp_path)
    (added,) = result.added
    assert added == replace(AGAIN, at_ms=added.at_ms)
    assert added.at_ms >= 2_000
    assert list(result.phases_ns) == ["main", "heal", "again", "recovery", "close"]
    assert [(r.fault.id, r.injection.outcome) for r in result.faults] == [
        (0, "skipped"),
        (1, "installed"),
        (2, "installed"),
    ]
    assert result.faults[-1].heal_evidence == {"gone": True}
    began, ended = (
        next(op.time_ns for op in ops if op.f == f and op.value.get("late"))
        for f in ("inject", "heal")
    )
    assert ended - began == 300_000_000
    assert any(began < op.time_ns < ended for op in ops if op.type == "ok")


def test_nothing_changes_where_all_took_hold(tmp_path: Path) -> None:
    texts = []
    for name, options in (("with", {}), ("without", {"last_round_s": 0.0})):
        result, _ = played(plan_of(SHY, BOLD, shy=Shy(tries=0)), tmp_path / name, **options)
        assert result.added == ()
        assert "again" not in result.phases_ns
        texts.append((tmp_path / name / "history.jsonl").read_bytes())
    assert texts[0] == texts[1]


def test_the_schedule_with_what_was_added_repeats_the_run(tmp_path: Path) -> None:
    first, _ = played(plan_of(SHY, BOLD), tmp_path / "first")
    second, _ = played(plan_of(SHY, BOLD, *first.added), tmp_path / "second")
    assert second.added == ()
    one, other = ((tmp_path / n / "history.jsonl").read_bytes() for n in ("first", "second"))
    assert one == other


def test_a_late_fault_is_replayed_though_its_kind_took_hold_before(tmp_path: Path) -> None:
    late = replace(AGAIN, at_ms=2_345)
    result, _ = played(plan_of(SHY, BOLD, late, shy=Shy(tries=0)), tmp_path, last_round_s=0.0)
    assert [r.fault for r in result.faults] == [SHY, BOLD, late]


def test_there_is_one_more_try_and_no_third(tmp_path: Path) -> None:
    log: list[str] = []
    result, _ = played(plan_of(SHY, BOLD, shy=Shy(log, tries=9)), tmp_path)
    assert log == ["inject 0", "inject 2"]
    assert [r.injection.outcome for r in result.faults] == ["skipped", "installed", "skipped"]


def test_what_the_time_ran_out_for_is_tried(tmp_path: Path) -> None:
    never = replace(SHY, at_ms=9_000)
    result, _ = played(plan_of(never, BOLD, shy=Shy(tries=0)), tmp_path)
    assert [r.fault.nemesis for r in result.faults] == ["bold", "shy"]
    assert result.unplayed == (never,)


def test_what_cannot_be_had_here_is_not_tried_again(tmp_path: Path) -> None:
    class Never(Shy):
        def available(self, _: Cluster) -> str | None:
            return "not here"

    result, _ = played(plan_of(SHY, BOLD, shy=Never()), tmp_path)
    assert result.added == ()


def test_the_time_of_the_round_is_bounded(tmp_path: Path) -> None:
    faults = [Fault(n, "shy", 100 * n, 3_000) for n in range(2)]
    plan = registers_plan(
        faults=[replace(f, nemesis=f"shy{f.id}") for f in faults],
        nemeses={"shy0": Shy(), "shy1": Shy()},
        time_limit_s=2.0,
    )
    result, _ = played(plan, tmp_path, last_round_s=2.0)
    assert [fault.nemesis for fault in result.added] == ["shy0"]


def test_a_cluster_that_does_not_come_back_gets_no_more_faults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(_: AtomSystem, timeout_s: float) -> bool:
        await asyncio.sleep(timeout_s)
        return False

    monkeypatch.setattr(AtomSystem, "await_recovery", never)
    result, _ = played(plan_of(SHY, BOLD), tmp_path)
    assert (result.added, result.recovered) == ((), False)


def test_ops_that_end_sooner_do_not_end_the_round(tmp_path: Path) -> None:
    few = limit(repeat(Draft("write", 1, "k")), 3)
    result, _ = played(plan_of(replace(SHY, at_ms=0), generator=few, rate_hz=0), tmp_path)
    assert [r.injection.outcome for r in result.faults] == ["skipped", "installed"]
    assert result.faults[-1].healed_ns is not None


def test_an_interrupt_in_the_round_heals(tmp_path: Path) -> None:
    log: list[str] = []

    async def body() -> RunResult:
        plan = plan_of(replace(SHY, duration_ms=60_000), shy=Shy(log))
        task = asyncio.create_task(run_to_history(plan, tmp_path))
        while len(log) < 2:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.1)
        task.cancel()
        result, history = await task
        assert all(pair.completion is not None for pair in history.intervals())
        return result

    result = run_virtual(body())
    assert (result.interrupted, result.harness_ok) == (True, True)
    assert log == ["inject 0", "inject 1", "heal 1"]
    assert result.ended_ns < 10e9


def test_an_injection_that_raises_in_the_round_breaks_the_run(tmp_path: Path) -> None:
    class Worse(Shy):
        async def inject(self, fault: Fault, cluster: Cluster) -> Injection:
            if fault.late:
                raise OSError("no hands left")
            return await super().inject(fault, cluster)

    result, _ = run_virtual(run_to_history(plan_of(SHY, shy=Worse()), tmp_path))
    assert "no hands left" in (result.crash or "")
    assert [fault.id for fault in result.added] == [1]


# --------------------------------------------------------------------------- as data


def test_late_is_a_field_of_those_that_are_late() -> None:
    assert "late" not in SHY.to_json()
    assert fault_from_json(AGAIN.to_json()) == AGAIN
    with pytest.raises(ValueError, match="late is 1, want true or false"):
        fault_from_json({**SHY.to_json(), "late": 1})


def test_only_a_late_fault_may_begin_after_the_end() -> None:
    after = Fault(0, "kill", 5_000, 100)
    check([replace(after, late=True)], RunSpec(1, time_limit_s=5.0), "here")
    with pytest.raises(UsageError, match="when the run is over"):
        check([after], RunSpec(1, time_limit_s=5.0), "here")


def test_the_shrinker_leaves_late_faults_late() -> None:
    late = Fault(1, "pause", 9_000, 100, late=True)
    candidate = Candidate(RunSpec(1, time_limit_s=8.0), (Fault(0, "kill", 4_000, 100), late))
    assert earlier(candidate, 1) == []
    for move in (*closer(candidate), *shorter_runs(candidate, 10.0)):
        assert late in move.faults


# --------------------------------------------------------------------------- in the simulator

KILL = Fault(0, "kill", 1_000, 6_000, {"target": "all"}, 0.5)
PAUSE = Fault(1, "pause", 3_000, 1_000, {"target": "follower"}, 0.5)


@pytest.fixture(scope="module")
def down_at_its_turn() -> SimRun:
    """A pause whose turn finds all nodes down."""
    spec = RunSpec(3, nemeses=("kill", "pause"), time_limit_s=9.0, rate_hz=20.0, concurrency=4)
    return simulate(Plan.simulated(spec, [KILL, PAUSE]))


def test_a_kind_whose_turn_met_nodes_that_were_down_takes_hold_at_the_end(
    down_at_its_turn: SimRun,
) -> None:
    run = down_at_its_turn
    assert [(r.fault.nemesis, r.injection.outcome) for r in run.result.faults] == [
        ("kill", "installed"),
        ("pause", "skipped"),
        ("pause", "installed"),
    ]
    assert (run.verdict, run.judgement.coverage) == (Valid.VALID, Valid.VALID)
    assert run.data.faults == (KILL, PAUSE, *run.result.added)


def test_the_stored_run_repeats_to_the_byte(down_at_its_turn: SimRun, tmp_path: Path) -> None:
    run_dir = save(down_at_its_turn, Store(tmp_path))
    assert load(run_dir.schedule)[-1].late
    ended = krucible("repro", run_dir.path, "--times", 2, "--store", tmp_path / "again", "--json")
    assert ended.code == 0
    assert (ended.json["same_bytes"], ended.json["same_as_before"]) == (True, True)


def test_where_nobody_asked_for_a_kind_it_gets_no_more_tries(down_at_its_turn: SimRun) -> None:
    spec = down_at_its_turn.data.spec
    run = simulate(Plan.simulated(spec, [KILL, PAUSE], asked_for=False))
    assert (len(run.result.faults), run.result.added) == (2, ())
