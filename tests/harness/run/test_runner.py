"""The runner: Jepsen's rules for processes, the fault player, and every way a run can end."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from harness.clock import NS_PER_MS, NS_PER_S, LoopClock
from harness.contracts.clients import Client, Outcome
from harness.contracts.environment import ProcessState
from harness.contracts.nemesis import Fault, Injection
from harness.contracts.system import System
from harness.errors import EnvError, HarnessError, SystemStuckError
from harness.generators.generator import Draft, each_thread, fn, limit, phases, repeat
from harness.history.ops import Op
from harness.run.interpreter import CANCEL_GRACE_S, Interpreter
from harness.run.recorder import Recorder, Silence
from harness.run.runner import RunOptions, RunPlan, RunResult, run
from harness.systems.atom import AtomSystem
from tests.support.live.kernel import (
    FakeNemesis,
    NoProcesses,
    RegisterOps,
    read_op,
    registers_client,
    registers_plan,
    run_to_history,
    write_op,
)
from tests.support.places import ROOT
from tests.support.simulated.virtual_time import VirtualLoop, run_virtual

FAULT = Fault(id=0, nemesis="fake", at_ms=1_000, duration_ms=500, params={"target": "leader"})


def run_plan(plan: RunPlan, folder: Path, **kwargs: Any) -> tuple[RunResult, list[Op]]:
    result, history = run_virtual(run_to_history(plan, folder, **kwargs))
    return result, list(history)


# ------------------------------------------------------------------ the history


def test_a_healthy_run_is_recorded_whole(tmp_path: Path) -> None:
    result, ops = run_plan(registers_plan(rate_hz=200, time_limit_s=10.0), tmp_path)
    assert result.crash_trace is None
    assert result.harness_ok
    assert not result.interrupted
    assert result.recovered is True
    assert [op.index for op in ops] == list(range(result.ops))
    assert [op.time_ns for op in ops] == sorted(op.time_ns for op in ops)
    assert 1_800 < result.counts["invoke"] < 2_200  # 10 s at 200 ops/s
    assert result.counts["ok"] == result.counts["invoke"]
    assert list(result.phases_ns) == ["main", "heal", "recovery", "close"]


def test_processes_do_one_op_at_a_time_on_their_own_node(tmp_path: Path) -> None:
    plan = registers_plan(concurrency=7, voters=2, observers=1, rate_hz=0, time_limit_s=0.5)
    _, history = run_virtual(run_to_history(plan, tmp_path))
    assert {op.node for op in history if op.process == 4} == {"n2"}
    assert {op.process for op in history.clients()} == set(range(7))
    assert all(pair.completion is not None for pair in history.intervals())


def test_same_seed_same_ops(tmp_path: Path) -> None:
    runs = []
    for number, latency in enumerate(("0.1", "5", "5")):
        folder = tmp_path / str(number)
        folder.mkdir()
        plan = registers_plan(
            generator=limit(fn(write_op), 200), settings={"atom.latency-ms": latency}
        )
        _, ops = run_plan(plan, folder)
        runs.append([(op.f, op.key, op.value) for op in ops if op.type == "invoke"])
    assert runs[0] == runs[1] == runs[2]
    assert len(runs[0]) == 200


def test_virtual_runs_are_equal_to_the_byte(tmp_path: Path) -> None:
    texts = []
    for name in "ab":
        folder = tmp_path / name
        folder.mkdir()
        faults = [FAULT]
        run_plan(registers_plan(faults=faults, nemeses={"fake": FakeNemesis()}), folder)
        texts.append((folder / "history.jsonl").read_bytes())
    assert texts[0] == texts[1]


def test_info_retires_the_process_and_opens_a_fresh_client(tmp_path: Path) -> None:
    plan = registers_plan(
        generator=limit(fn(write_op), 100), settings={"atom.info-rate": "0.3"}, rate_hz=0
    )
    result, ops = run_plan(plan, tmp_path)
    assert result.counts["info"] > 10
    ops = [op for op in ops if op.process != "nemesis"]
    over: set[int | str] = set()
    for op in ops:
        assert op.process not in over
        if op.type == "info":
            over.add(op.process)
    threads = {int(op.process) % 4 for op in ops}
    assert threads == {0, 1, 2, 3}
    assert all(op.node == f"n{int(op.process) % 5 + 1}" for op in ops)


class SlowOps(RegisterOps):
    """Writes of multiples of 5 never return."""

    async def invoke(self, op: Op) -> Op:
        if op.f == "write" and op.value % 5 == 0:
            await asyncio.Event().wait()
        return await super().invoke(op)


def slow_client(system: System) -> Client:
    return SlowOps(cast("AtomSystem", system).register_client())


def test_an_op_that_takes_too_long_is_info(tmp_path: Path) -> None:
    plan = registers_plan(client=slow_client, generator=limit(fn(write_op), 20))
    result, ops = run_plan(plan, tmp_path, options=RunOptions(op_timeout_s=0.7))
    assert result.harness_ok
    timeouts = [op for op in ops if op.error == "timeout"]
    assert [op.type for op in timeouts] == ["info"] * 4
    began = {op.process: op.time_ns for op in ops if op.type == "invoke"}
    for op in timeouts:
        assert abs(op.time_ns - began[op.process] - 700 * NS_PER_MS) < NS_PER_MS


class ClosedDoor(RegisterOps):
    """Node n2 cannot be reached; n3 never answers."""

    async def open(self, node: str) -> Client:
        if node == "n2":
            raise ConnectionRefusedError(111, "refused")
        if node == "n3":
            await asyncio.Event().wait()
        return await super().open(node)


def test_a_client_that_cannot_be_opened_fails_its_ops(tmp_path: Path) -> None:
    plan = registers_plan(
        client=lambda s: ClosedDoor(cast("AtomSystem", s).register_client()),
        rate_hz=0,
        time_limit_s=3.0,
    )
    result, ops = run_plan(plan, tmp_path, options=RunOptions(op_timeout_s=1.0))
    assert result.harness_ok
    on_n2 = [op for op in ops if op.node == "n2" and op.type != "invoke"]
    assert {op.type for op in on_n2} == {"fail"}
    assert all("refused" in (op.error or "") for op in on_n2)
    assert {op.process for op in on_n2} == {1}  # failing is definite: nobody retires
    assert 30 < len(on_n2) <= 62  # a rest between tries, so no storm
    on_n3 = [op for op in ops if op.node == "n3" and op.type != "invoke"]
    assert {(op.type, op.error) for op in on_n3} == {("fail", "open: timeout")}


def test_ops_reach_the_disk_while_the_run_goes_on(tmp_path: Path) -> None:
    """SIGKILL may lose what is younger than the flush period, and nothing before it."""
    script = (
        "import asyncio, sys; from pathlib import Path; from tests.support.live import kernel\n"
        "plan = kernel.registers_plan(time_limit_s=60.0, rate_hz=500.0)\n"
        "asyncio.run(kernel.run_to_history(plan, Path(sys.argv[1])))\n"
    )
    env = {**os.environ, "PYTHONPATH": f"{ROOT}"}
    process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], env=env)
    history = tmp_path / "history.jsonl"
    try:
        deadline = time.monotonic() + 20
        while not history.exists() or history.read_bytes().count(b"\n") < 300:
            assert time.monotonic() < deadline, "no 300 ops within 20 s"
            assert process.poll() is None
            time.sleep(0.02)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    lines = history.read_bytes().count(b"\n")
    assert lines >= 300


# ------------------------------------------------------------------ faults


def test_faults_are_played_on_time_with_evidence(tmp_path: Path) -> None:
    log: list[str] = []
    faults = [
        Fault(id=0, nemesis="fake", at_ms=500, duration_ms=1_000),
        Fault(id=1, nemesis="fake", at_ms=800, duration_ms=200),  # within the first
    ]
    plan = registers_plan(faults=faults, nemeses={"fake": FakeNemesis(log)}, time_limit_s=3.0)
    result, ops = run_plan(plan, tmp_path)
    assert log == ["inject 0", "inject 1", "heal 1", "heal 0"]
    nemesis = [op for op in ops if op.f in ("inject", "heal")]
    assert all(op.type == "info" for op in nemesis)
    seen = [(op.f, op.value["id"], round(op.time_ns / NS_PER_MS, -1)) for op in nemesis]
    assert seen[::2] == [
        ("inject", 0, 500),
        ("inject", 1, 800),
        ("heal", 1, 1000),
        ("heal", 0, 1500),
    ]
    injected = nemesis[1].value
    assert injected["outcome"] == "installed"
    assert injected["evidence"] == [{"seen": True}]
    assert injected["at_ms"] == 500
    assert nemesis[-1].value["evidence"] == {"gone": True}
    assert [report.heal_evidence for report in result.faults] == [{"gone": True}] * 2
    assert result.unplayed == ()


def test_faults_open_at_the_end_are_healed_last_first(tmp_path: Path) -> None:
    log: list[str] = []
    faults = [Fault(id=i, nemesis="fake", at_ms=100 * i, duration_ms=60_000) for i in range(3)] + [
        Fault(id=3, nemesis="fake", at_ms=10_000, duration_ms=1)
    ]
    plan = registers_plan(faults=faults, nemeses={"fake": FakeNemesis(log)}, time_limit_s=1.0)
    result, _ = run_plan(plan, tmp_path)
    assert log[3:] == ["heal 2", "heal 1", "heal 0"]
    assert [fault.id for fault in result.unplayed] == [3]
    assert result.harness_ok


class Unsafe(AtomSystem):
    """An atom system that is not safe any more after two seconds."""

    async def until_unsafe(self) -> str:
        await asyncio.sleep(2.0)
        return "no leader is known"


def test_a_system_that_is_not_safe_any_more_is_let_go_of_at_once(tmp_path: Path) -> None:
    log: list[str] = []
    faults = [replace(FAULT, duration_ms=60_000), replace(FAULT, id=1, at_ms=9_000)]
    plan = registers_plan(faults=faults, nemeses={"fake": FakeNemesis(log)}, time_limit_s=30.0)
    unsafe = Unsafe(plan.spec, None, None)
    plan = replace(plan, cluster=replace(plan.cluster, system=unsafe))
    result, ops = run_plan(plan, tmp_path)
    assert (result.aborted, result.crash, result.recovered) == ("no leader is known", None, True)
    assert log[-1] == "heal 0"
    assert [fault.id for fault in result.unplayed] == [1]
    aborts = [op for op in ops if op.f == "abort"]
    assert [op.value for op in aborts] == [{"reason": "no leader is known"}] * 2
    assert 2 * NS_PER_S <= aborts[0].time_ns < 3 * NS_PER_S
    assert not [op for op in ops if op.type == "invoke" and op.time_ns > aborts[0].time_ns]
    assert list(result.phases_ns) == ["main", "heal", "recovery", "close"]


def test_what_was_skipped_is_recorded_and_not_healed(tmp_path: Path) -> None:
    log: list[str] = []
    nemesis = FakeNemesis(log, outcome="skipped")
    plan = registers_plan(faults=[FAULT], nemeses={"fake": nemesis})
    result, ops = run_plan(plan, tmp_path, options=RunOptions(last_round_s=0.0))
    assert log == ["inject 0"]
    assert result.faults[0].injection.reason == "not here"
    assert [op.value.get("outcome") for op in ops if op.f in ("inject", "heal")] == [
        None,
        "skipped",
    ]


def test_a_heal_that_fails_once_is_recorded_and_tried_again(tmp_path: Path) -> None:
    nemesis = FakeNemesis(heal_errors=1)
    result, ops = run_plan(registers_plan(faults=[FAULT], nemeses={"fake": nemesis}), tmp_path)
    assert result.harness_ok
    errors = [op.error for op in ops if op.f == "heal"]
    assert errors == [None, "OSError: still broken", None, None]


def test_a_fault_that_cannot_be_healed_breaks_the_run_and_others_are_healed(
    tmp_path: Path,
) -> None:
    log: list[str] = []
    nemeses = {"fake": FakeNemesis(log, heal_errors=99), "other": FakeNemesis(log)}
    faults = [Fault(1, "other", 0, 60_000), FAULT]
    result, _ = run_plan(registers_plan(faults=faults, nemeses=nemeses, time_limit_s=60), tmp_path)
    assert not result.harness_ok
    assert "fault 0 could not be healed in 3 tries: OSError: still broken" in (result.crash or "")
    assert log[-1] == "heal 1"
    assert result.ended_ns < 10 * NS_PER_S  # it did not go on for the rest of its minute


@pytest.mark.parametrize(("lasts_ms", "first"), [(60_000, 1), (2_500, 3)])
def test_a_fault_that_needs_what_another_one_holds_is_healed_after_it(
    tmp_path: Path, lasts_ms: int, first: int
) -> None:
    class Waiting(FakeNemesis):
        async def heal(self, fault: Fault, injection: Injection, cluster: Any) -> Any:
            self.heal_errors = int("heal 1" not in self.log)
            return await super().heal(fault, injection, cluster)

    log: list[str] = []
    faults = [Fault(1, "other", 0, 60_000), Fault(0, "fake", 100, lasts_ms)]
    nemeses = {"fake": Waiting(log), "other": FakeNemesis(log)}
    result, _ = run_plan(registers_plan(faults=faults, nemeses=nemeses, time_limit_s=3), tmp_path)
    assert result.harness_ok, result.crash
    assert log == ["inject 1", "inject 0", *["heal 0"] * first, "heal 1", "heal 0"]


@pytest.mark.parametrize(("errors", "heals"), [(3, 4), (99, 6)])
def test_a_system_that_is_stuck_is_asked_again_when_all_is_healed_and_then_judged(
    tmp_path: Path, errors: int, heals: int
) -> None:
    log: list[str] = []
    stuck = FakeNemesis(log, heal_errors=errors, heal_error=SystemStuckError("no leader"))
    faults = [Fault(1, "other", 0, 60_000), FAULT]
    plan = registers_plan(faults=faults, nemeses={"fake": stuck, "other": FakeNemesis(log)})
    result, ops = run_plan(plan, tmp_path)
    assert result.harness_ok, result.crash
    assert result.recovered is not None
    again = heals - 3
    assert log == ["inject 1", "inject 0", *["heal 0"] * 3, "heal 1", *["heal 0"] * again]
    assert [op.error for op in ops if op.error].count("harness.errors.SystemStuckError: no leader")
    healed = {report.fault.id: report.heal_evidence is not None for report in result.faults}
    assert healed == {1: True, 0: errors < 6}


def test_an_injection_that_raises_breaks_the_run(tmp_path: Path) -> None:
    nemesis = FakeNemesis(inject_error=OSError("no iptables"))
    result, ops = run_plan(registers_plan(faults=[FAULT], nemeses={"fake": nemesis}), tmp_path)
    assert "inject of fault 0 raised OSError: no iptables" in (result.crash or "")
    assert [op.error for op in ops if op.f == "inject"] == [None, "OSError: no iptables"]


def test_a_nemesis_without_evidence_is_named(tmp_path: Path) -> None:
    class Liar(FakeNemesis):
        async def inject(self, *_: Any) -> Any:
            return Injection("installed", ("n1",))

    result, _ = run_plan(registers_plan(faults=[FAULT], nemeses={"fake": Liar()}), tmp_path)
    assert "a fault is installed but has no evidence" in (result.crash or "")


def test_an_unknown_nemesis_in_the_schedule_is_an_error(tmp_path: Path) -> None:
    result, _ = run_plan(registers_plan(faults=[FAULT]), tmp_path)
    assert "the run lacks: ['fake']" in (result.crash or "")


# ------------------------------------------------------------------ the end


def test_final_generator_runs_after_heal_and_recovery(tmp_path: Path) -> None:
    plan = registers_plan(
        faults=[Fault(0, "fake", 100, 60_000)],
        nemeses={"fake": FakeNemesis()},
        time_limit_s=1.0,
        final=each_thread(Draft("read", key="k0")),
    )
    result, ops = run_plan(plan, tmp_path)
    healed = max(op.index for op in ops if op.f == "heal")
    final = [op for op in ops if op.index > healed and op.type == "ok"]
    assert {int(op.process) % 4 for op in final} == {0, 1, 2, 3}
    assert len({op.value for op in final}) == 1
    assert list(result.phases_ns) == ["main", "heal", "recovery", "final", "close"]


def test_recovery_is_in_the_history(tmp_path: Path) -> None:
    plan = registers_plan(time_limit_s=0.5)

    async def never(timeout_s: float) -> bool:
        await asyncio.sleep(timeout_s)
        return False

    cast("Any", plan.cluster.system).await_recovery = never
    result, ops = run_plan(plan, tmp_path, options=RunOptions(recovery_timeout_s=3.0))
    assert result.recovered is False
    assert result.harness_ok
    said = [op.value for op in ops if op.f == "recovery"]
    assert said == [{"timeout_s": 3.0}, {"recovered": False, "elapsed_ms": 3000}]


@pytest.mark.parametrize("env", ["local", "sim"])
def test_a_recovery_that_fails_names_the_nodes_that_are_down(env: str, tmp_path: Path) -> None:
    plan = registers_plan(time_limit_s=0.5)
    plan = replace(plan, spec=replace(plan.spec, env=env))

    async def never(_: float) -> bool:
        return False

    cast("Any", plan.cluster.system).await_recovery = never
    states = cast("NoProcesses", plan.cluster.environment).states
    states["n1"] = ProcessState(4, "S", "pid 4")
    states["n2"] = ProcessState(None, "gone", "pid 7 exited with 3")
    _, ops = run_plan(plan, tmp_path)
    said = [op.value for op in ops if op.f == "recovery"][-1]
    down = {"n2": "pid 7 exited with 3"}
    assert said == {"recovered": False, "elapsed_ms": 0, "down": down}


def test_phases_wait_for_all(tmp_path: Path) -> None:
    plan = registers_plan(
        generator=phases(limit(fn(write_op), 30), limit(fn(read_op), 30)), rate_hz=0
    )
    _, ops = run_plan(plan, tmp_path)
    last_write = max(op.index for op in ops if op.f == "write")
    assert min(op.index for op in ops if op.f == "read") > last_write


class Buggy(RegisterOps):
    async def invoke(self, op: Op) -> Op:
        if op.value == 50:
            raise ZeroDivisionError("a bug of ours")
        return await super().invoke(op)


def test_a_programmers_error_ends_the_run_with_the_history_whole(tmp_path: Path) -> None:
    log: list[str] = []
    plan = registers_plan(
        client=lambda s: Buggy(cast("AtomSystem", s).register_client()),
        generator=fn(write_op),
        faults=[Fault(0, "fake", 0, 60_000)],
        nemeses={"fake": FakeNemesis(log)},
    )
    result, history = run_virtual(run_to_history(plan, tmp_path))
    assert result.crash == "ZeroDivisionError: a bug of ours"
    assert "test_runner.py" in (result.crash_trace or "")
    assert log == ["inject 0", "heal 0"]
    assert len(history) == result.ops
    intervals = history.intervals()
    assert all(pair.completion is not None for pair in intervals)
    assert any(pair.completion and pair.completion.error == "interrupted" for pair in intervals)


def test_a_client_without_the_ability_is_a_crash_that_says_so(tmp_path: Path) -> None:
    def none(_: System) -> Client:
        raise EnvError("system 'x' has no registers: choose another workload")

    result, ops = run_plan(registers_plan(client=none), tmp_path)
    assert "has no registers" in (result.crash or "")
    assert ops == []


class Rewriter(RegisterOps):
    async def invoke(self, op: Op) -> Op:
        return op.with_(type="ok", f="other")


def test_a_completion_that_breaks_the_rules_is_named(tmp_path: Path) -> None:
    plan = registers_plan(client=lambda s: Rewriter(cast("AtomSystem", s).register_client()))
    result, _ = run_plan(plan, tmp_path)
    assert "Rewriter: completion of op 0 changed f from" in (result.crash or "")


class Deaf(RegisterOps):
    """Ignores cancellation, until ``released``."""

    released: asyncio.Event

    async def invoke(self, op: Op) -> Op:
        await until_released()
        return op.with_(type="ok")


async def until_released() -> None:
    while not Deaf.released.is_set():
        with suppress(asyncio.CancelledError):
            await Deaf.released.wait()


def test_a_client_that_ignores_cancellation_cannot_hold_up_the_run(tmp_path: Path) -> None:
    async def body() -> RunResult:
        Deaf.released = asyncio.Event()
        plan = registers_plan(
            client=lambda s: Deaf(cast("AtomSystem", s).register_client()), time_limit_s=2.0
        )
        result, _ = await run_to_history(plan, tmp_path, options=RunOptions(op_timeout_s=1.0))
        Deaf.released.set()
        await asyncio.sleep(1)
        return result

    result = run_virtual(body())
    assert "ignore" in (result.crash or "")
    assert result.ended_ns < 60 * NS_PER_S


class DeafGoodbye(SlowOps):
    """Its close never returns, whoever cancels it, until ``released``."""

    async def close(self) -> None:
        await until_released()


def test_a_client_whose_close_ignores_cancellation_cannot_either(tmp_path: Path) -> None:
    async def body() -> RunResult:
        Deaf.released = asyncio.Event()
        plan = registers_plan(
            client=lambda s: DeafGoodbye(cast("AtomSystem", s).register_client()),
            generator=repeat(Draft("write", 5, "k")),
            time_limit_s=2.0,
        )
        result, _ = await run_to_history(plan, tmp_path, options=RunOptions(op_timeout_s=1.0))
        Deaf.released.set()
        await asyncio.sleep(1)
        return result

    result = run_virtual(body())
    assert "ignore cancellation" in (result.crash or "")
    assert "close() of the client on thread" in (result.crash_trace or "")


def test_a_goodbye_that_ignores_cancellation_cannot_hold_up_the_end(tmp_path: Path) -> None:
    async def body() -> RunResult:
        Deaf.released = asyncio.Event()
        plan = registers_plan(
            client=lambda s: DeafGoodbye(cast("AtomSystem", s).register_client()),
            generator=limit(repeat(Draft("write", 1, "k")), 4),
        )
        result, _ = await run_to_history(plan, tmp_path)
        Deaf.released.set()
        await asyncio.sleep(1)
        return result

    result = run_virtual(body())
    assert "close() of the client on thread" in (result.crash or "")
    assert result.recovered


class Leaver(SlowOps):
    """Honours cancellation, but needs a few turns of the loop to put its things away."""

    async def invoke(self, op: Op) -> Op:
        try:
            return await super().invoke(op)
        except asyncio.CancelledError:
            for _ in range(3):
                await asyncio.sleep(0)
            raise


@pytest.mark.parametrize(("at_s", "times"), [(0.2, 1), (3.0, 1), (0.2, 5)])
def test_a_loop_that_stands_still_is_no_fault_of_a_client(
    tmp_path: Path, at_s: float, times: int
) -> None:
    """The host is so busy that the loop does not run for longer than the grace, again and again."""

    async def body() -> tuple[RunResult, list[Op]]:
        loop = cast("VirtualLoop", asyncio.get_running_loop())

        def stand_still(left: int) -> None:
            loop.jumping.now_s += 3 * CANCEL_GRACE_S
            if left > 1:
                loop.call_soon(stand_still, left - 1)

        loop.call_later(at_s, stand_still, times)
        plan = registers_plan(
            client=lambda s: Leaver(cast("AtomSystem", s).register_client()),
            generator=limit(repeat(Draft("write", 5, "k")), 4),
            time_limit_s=1.0,
        )
        result, history = await run_to_history(plan, tmp_path)
        return result, list(history)

    result, ops = run_virtual(body())
    assert result.crash is None
    assert {op.error for op in ops if op.type == "info" and op.process != "nemesis"} == {"timeout"}


def test_values_that_are_not_json_are_named(tmp_path: Path) -> None:
    result, _ = run_plan(registers_plan(generator=repeat(Draft("write", object()))), tmp_path)
    assert "is not JSON" in (result.crash or "")


def test_interrupt_heals_and_closes_the_history(tmp_path: Path) -> None:
    log: list[str] = []

    async def body() -> tuple[RunResult, int]:
        plan = registers_plan(
            client=slow_client,
            faults=[Fault(0, "fake", 0, 60_000)],
            nemeses={"fake": FakeNemesis(log)},
            time_limit_s=60.0,
            final=each_thread(Draft("read", key="k0")),
        )
        task = asyncio.create_task(run_to_history(plan, tmp_path))
        await asyncio.sleep(2)
        task.cancel()
        result, history = await task
        assert all(pair.completion is not None for pair in history.intervals())
        return result, task.cancelling()

    result, cancelling = run_virtual(body())
    assert result.interrupted
    assert result.harness_ok
    assert log == ["inject 0", "heal 0"]
    assert list(result.phases_ns) == ["main", "heal", "close"]
    assert result.recovered is None
    assert cancelling == 0
    assert result.ended_ns < 3 * NS_PER_S


def test_a_second_interrupt_leaves_at_once(tmp_path: Path) -> None:
    class Stuck(FakeNemesis):
        async def heal(self, *_: Any) -> Any:
            await asyncio.sleep(50)
            return {"gone": True}

    async def body() -> None:
        plan = registers_plan(
            faults=[Fault(0, "fake", 0, 60_000)], nemeses={"fake": Stuck()}, time_limit_s=60.0
        )
        task = asyncio.create_task(run_to_history(plan, tmp_path))
        await asyncio.sleep(2)
        task.cancel()
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_virtual(body())
    assert (tmp_path / "history.jsonl").read_bytes().endswith(b"}\n")


def test_ctrl_c_gives_a_result(tmp_path: Path) -> None:
    """SIGINT under asyncio.run: the run ends in order and its result is returned."""
    script = (
        "import asyncio, sys; from pathlib import Path; from tests.support.live import kernel\n"
        "plan = kernel.registers_plan(time_limit_s=60.0)\n"
        "result, _ = asyncio.run(kernel.run_to_history(plan, Path(sys.argv[1])))\n"
        "print('interrupted', result.interrupted, result.harness_ok)\n"
    )
    env = {**os.environ, "PYTHONPATH": f"{ROOT}"}
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], env=env, stdout=subprocess.PIPE, text=True
    ) as process:
        history = tmp_path / "history.jsonl"
        deadline = time.monotonic() + 20
        while not history.exists() or not history.stat().st_size:
            assert time.monotonic() < deadline, "no op within 20 s"
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=20)
    assert out == "interrupted True True\n"


# ------------------------------------------------------------------ watching, bad arguments


def test_progress_hears_everything(tmp_path: Path) -> None:
    heard: dict[str, list[Any]] = defaultdict(list)

    class Ear(Silence):
        def on_op(self, op: Op) -> None:
            heard["ops"].append(op)

        def on_fault(self, fault: Fault, stage: str, _: dict[str, Any]) -> None:
            heard["faults"].append((fault.id, stage))

        def on_phase(self, phase: str) -> None:
            heard["phases"].append(phase)

    nemesis = FakeNemesis(heal_errors=1)
    plan = registers_plan(faults=[FAULT], nemeses={"fake": nemesis})
    result, _ = run_plan(plan, tmp_path, progress=Ear())
    assert len(heard["ops"]) == sum(result.counts.values())
    stages = ["inject", "installed", "heal", "heal-failed", "heal", "healed"]
    assert heard["faults"] == [(0, stage) for stage in stages]
    assert heard["phases"] == list(result.phases_ns)


def test_progress_that_raises_ends_the_run_and_faults_are_still_healed(tmp_path: Path) -> None:
    class Broken(Silence):
        def on_fault(self, fault: Fault, stage: str, _: dict[str, Any]) -> None:
            if stage == "heal":
                raise ZeroDivisionError(f"fault {fault.id}")

    log: list[str] = []
    faults = [FAULT, Fault(1, "fake", 0, 60_000)]
    plan = registers_plan(faults=faults, nemeses={"fake": FakeNemesis(log)}, time_limit_s=60)
    result, _ = run_plan(plan, tmp_path, progress=Broken())
    assert result.crash == "ZeroDivisionError: fault 0"
    assert log == ["inject 1", "inject 0", "heal 0", "heal 1"]


def test_interpreter_refuses_nonsense(tmp_path: Path) -> None:
    async def body() -> None:
        plan = registers_plan()
        client = registers_client(plan.cluster.system)
        recorder = Recorder(tmp_path / "h.jsonl", LoopClock(), Silence())
        try:
            with pytest.raises(HarnessError, match="concurrency is 0"):
                Interpreter(client, ("n1",), 0, recorder)
            with pytest.raises(HarnessError, match="no nodes"):
                Interpreter(client, (), 1, recorder)
        finally:
            recorder.close()

    run_virtual(body())


def test_outcome_raised_while_opening_is_a_failed_op(tmp_path: Path) -> None:
    class Refusing(RegisterOps):
        async def open(self, _: str) -> Client:
            raise Outcome("NOT_CONTROLLER", definite=True)

    plan = registers_plan(
        client=lambda s: Refusing(cast("AtomSystem", s).register_client()), time_limit_s=0.5
    )
    result, _ = run_plan(plan, tmp_path)
    assert result.harness_ok
    assert result.counts["fail"] == result.counts["invoke"]


def test_a_full_disk_ends_the_run_and_faults_are_still_healed() -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("needs /dev/full")
    log: list[str] = []
    plan = registers_plan(
        faults=[Fault(0, "fake", 0, 60_000)], nemeses={"fake": FakeNemesis(log)}, time_limit_s=60
    )
    result = run_virtual(run(plan, full))
    assert "cannot write the history: [Errno 28] No space left" in (result.crash or "")
    assert log == ["inject 0", "heal 0"]
    assert result.ended_ns < NS_PER_S
