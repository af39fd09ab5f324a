"""Faults that strike at moments: within the step, the same bytes again, shrunk, told in words."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.contracts.nemesis import Fault
from harness.errors import UsageError
from harness.faults.schedule import check, fault_from_json, load, summary
from harness.moments.trigger import Match, Trigger
from harness.run.runner import RunOptions
from harness.sessions.plan import Plan
from harness.sessions.simulated import SimRun, save, simulate
from harness.sessions.zoo import found
from harness.shrink import moves
from harness.shrink.moves import Candidate, Struck
from harness.shrink.search import Budget, Failure, Shrunk, shrink
from harness.shrink.story import story
from harness.shrink.tries import failure_of, struck_at
from harness.spec import SIM, RunSpec
from harness.store.folder import Store
from harness.store.reading import load_faults, load_run
from harness.verdict import Anomaly
from reports.faults import fault_views
from tests.support.live.kernel import FakeNemesis, registers_plan, run_to_history
from tests.support.simulated.scene import DYNAMIC, Scene, play
from tests.support.simulated.virtual_time import run_virtual

CHANGE, LED = Match("change"), Match("role", {"to": "leader"})
SPEC = RunSpec(3, env=SIM, voters=3, observers=0, rate_hz=10.0, concurrency=2, time_limit_s=4.0)
ON_N1 = Trigger(CHANGE, 5, "n1")
FAULT = Fault(0, "kill", 0, 500, {"target": "event"}, 0.25, trigger=ON_N1)
BRIEF = RunOptions(settle_s=0.0)


def simulated(*faults: Fault, **spec: Any) -> SimRun:
    return simulate(Plan.simulated(replace(SPEC, **spec), faults, asked_for=False), BRIEF)


def moment(run: SimRun) -> Mapping[str, Any]:
    (seen,) = (e for r in run.result.faults for e in r.injection.evidence if e["saw"] == "moment")
    return seen


# --------------------------------------------------------------------------- within the step


@pytest.mark.parametrize("number", [1, 2, 3, 7])
def test_what_strikes_before_a_disk_change_comes_before_it(number: int) -> None:
    async def main(scene: Scene) -> None:
        host, changes = scene.env.host("n1"), []
        before = 0

        async def strike() -> None:
            nonlocal before
            before = host.disk.operations
            await scene.system.kill("n1")

        def tell(node: str, event: Mapping[str, Any]) -> None:
            if node == "n1" and event["t"] == "change":
                changes.append(event)
                if len(changes) == number:
                    scene.env.moments.begin(strike(), name="strike")

        scene.env.moments.watch(tell)
        while scene.env.process("n1").state != "gone":  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.05)
        assert host.disk.operations == before
        assert len(changes) == number
        scene.env.moments.watch(None)
        await scene.system.start("n1")
        assert await scene.system.await_recovery(20.0)
        assert len(changes) == number

    play(main)


def test_what_strikes_at_an_event_lets_the_node_do_nothing_after_it() -> None:
    async def main(scene: Scene) -> None:
        leader = await scene.leader()
        seen: list[str] = []

        def tell(node: str, event: Mapping[str, Any]) -> None:
            if node == leader:
                seen.append(event["t"])
                if event["t"] == "hwm":
                    scene.env.moments.begin(scene.system.kill(leader), name="strike")

        scene.env.moments.watch(tell)
        while scene.env.process(leader).state != "gone":  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.05)
        assert seen[-1] == "hwm"
        assert seen.count("hwm") == 1
        scene.env.moments.watch(None)
        await scene.system.start(leader)

    play(main)


def test_a_cut_at_an_event_holds_back_what_the_step_sends_after_it() -> None:
    """A candidate is cut off as it stands: nobody ever hears its requests for votes."""
    at = Trigger(Match("role", {"to": "candidate"}))
    cut = Fault(1, "partition-isolate-one", 0, 600, {"target": "event"}, 0.5, trigger=at)
    kill = Fault(0, "kill", 500, 2_000, {"target": "leader"}, 0.5)
    run = simulated(kill, cut)
    when = moment(run)
    asked = [e for es in run.data.events.values() for e in es if e["t"] == "vote" and not e["pre"]]
    inside = [
        e
        for e in asked
        if when["event"]["ts"] <= e["ts"] <= when["event"]["ts"] + 500_000_000
        and e["cand"] == when["event"]["node"]
        and e["node"] != e["cand"]
    ]
    assert asked
    assert inside == []
    assert run.broken is None


def test_a_torn_write_is_that_of_the_moment() -> None:
    power = replace(FAULT, nemesis="power", params={"target": "event", "mid_write": True})
    at = replace(ON_N1, on=Match("change", {"op": "append", "file": "log"}), nth=3)
    run = simulated(replace(power, trigger=at))
    (report,) = run.result.faults
    (loss,) = (e for e in report.injection.evidence if e["saw"] == "power loss")
    assert (loss["torn_write"], report.injection.targets) == (True, ("n1",))
    assert moment(run)["event"] == {"t": "change", "op": "append", "file": "log"}


@pytest.mark.parametrize("kind", ["pause", "power", "slow-links", "partition-one-way", "kill"])
def test_each_kind_strikes_the_node_of_the_event(kind: str) -> None:
    at = Trigger(Match("fetch_rx"), 4, "leader")
    run = simulated(replace(FAULT, nemesis=kind, trigger=at))
    (report,) = run.result.faults
    assert (report.injection.outcome, run.broken) == ("installed", None)
    assert report.injection.targets == (moment(run)["node"],)
    assert report.healed_ns is not None


def test_a_voter_change_is_struck_while_it_is_not_committed() -> None:
    at = Trigger(Match("voters"), role="leader", during="voter-change")
    change = Fault(0, "membership", 300, 1_000, {"target": "follower"}, 0.5)
    cut = Fault(1, "partition-isolate-one", 0, 500, {"target": "event"}, 0.5, trigger=at)
    run = simulated(change, cut, settings=DYNAMIC.settings)
    event = moment(run)["event"]
    marks = [
        e
        for e in run.data.events[f"n{event['node']}"]
        if e["t"] == "hwm" and e["v"] > event["off"] and e["inc"] == event["inc"]
    ]
    assert all(mark["ts"] > event["ts"] + 400_000_000 for mark in marks)


# --------------------------------------------------------------------------- as data, again


def test_a_fault_that_waits_changes_nothing_before_its_moment() -> None:
    """The trigger changes nothing of the run before its moment."""
    plain, struck = simulated(), simulated(FAULT)
    at_ns = next(op.time_ns for op in struck.data.history if op.f == "inject")

    def before(run: SimRun) -> list[Any]:
        events = [e for es in run.data.events.values() for e in es if e["ts"] < at_ns]
        return events + [op.to_json() for op in run.data.history if op.time_ns < at_ns]

    assert before(plain) == before(struck)
    assert before(plain)


def test_a_stored_run_is_replayed_to_the_byte(tmp_path: Path) -> None:
    first = simulated(FAULT)
    place = save(first, Store(tmp_path))
    faults = load_faults(place)
    assert faults == (FAULT,)
    assert load(place.schedule) == [FAULT]
    assert simulated(*faults).trace_sha256 == first.trace_sha256
    assert simulated().trace_sha256 != first.trace_sha256
    view = fault_views(faults, load_run(place.path).data.history.nemesis())[0]
    assert view.params == "target event; before the 5th disk change on n1, for 0.5 s"
    assert "its moment, before the 5th disk change on n1, came at n1" in view.evidence[0]


def test_a_moment_that_never_comes_leaves_the_fault_unplayed() -> None:
    never = replace(FAULT, trigger=Trigger(Match("eclipse")))
    late = replace(FAULT, id=1, trigger=replace(ON_N1, until_ms=0))
    plan = Plan.simulated(SPEC, (never, late))
    run = simulate(plan, replace(BRIEF, last_round_s=0.0))
    assert {fault.id for fault in run.result.unplayed} == {0, 1}
    assert (
        "kill was never installed: its moment never came (at the first `eclipse`)"
        in (run.judgement.reasons["coverage"][0])
    )


def test_what_missed_its_moment_has_its_try_in_the_last_round() -> None:
    never = replace(FAULT, trigger=Trigger(Match("eclipse")))
    run = simulate(Plan.simulated(SPEC, (never,)))
    (added,) = run.result.added
    assert (added.trigger, added.late) == (None, True)
    assert run.result.faults[0].injection.outcome == "installed"


def test_a_fault_waits_from_its_time_on() -> None:
    run = simulated(replace(FAULT, at_ms=2_000))
    began = run.result.phases_ns["main"]
    at_ns = next(op.time_ns for op in run.data.history if op.f == "inject")
    assert at_ns - began >= 2_000_000_000


def test_who_has_no_events_refuses() -> None:
    with pytest.raises(UsageError, match=r"fault 0 .kill. waits for a change of a disk"):
        check([FAULT], replace(SPEC, env="local"), "here")
    event = replace(FAULT, trigger=Trigger(Match("trunc")))
    check([event], replace(SPEC, env="local"), "here")
    kafka = replace(SPEC, system="kafka", env="local")
    check([event], kafka, "here")
    with pytest.raises(UsageError, match="nodes of system 'kafka' tell of none: give a time"):
        check([event], replace(kafka, settings={"krucible.agent": "false"}), "here")
    with pytest.raises(UsageError, match="names n9"):
        check([replace(FAULT, trigger=Trigger(CHANGE, 1, "n9"))], SPEC, "here")


def test_a_run_without_moments_refuses(tmp_path: Path) -> None:
    plan = registers_plan(faults=(FAULT,), nemeses={"kill": FakeNemesis()}, time_limit_s=1.0)
    result, _ = run_virtual(run_to_history(plan, tmp_path))
    assert "faults [0] wait for events, and nobody tells of any here" in (result.crash or "")


def test_json() -> None:
    assert fault_from_json(FAULT.to_json()) == FAULT
    assert "trigger" not in replace(FAULT, trigger=None).to_json()
    with pytest.raises(ValueError, match="want one of them, not both"):
        fault_from_json({**FAULT.to_json(), "late": True})
    told = summary([FAULT, Fault(1, "kill", 100, 200)])
    assert (told["at_moments"], told["fault_ms"], told["end_ms"]) == (1, 200, 300)


# --------------------------------------------------------------------------- smaller, in words


def test_the_story_tells_the_moment() -> None:
    run = simulated(FAULT)
    lines = story(run.data, Anomaly("S1", "n1 is odd", time_ns=run.simulated_ns))
    assert any(line.endswith(": kill n1 before the 5th disk change on n1") for line in lines)


def test_when_and_where_a_fault_struck_is_known_to_the_shrinker() -> None:
    run = simulated(FAULT)
    began_ns = run.result.phases_ns["main"]
    at_ns = next(op.time_ns for op in run.data.history if op.f == "inject")
    assert struck_at(run, began_ns) == {0: Struck((at_ns - began_ns) // 1_000_000, "n1")}
    assert failure_of(run) is None


def made_up(needs_trigger: bool, least: int) -> Any:
    """A failure that needs fault 0, at its moment or at any time, and a number of 3 or more."""

    def run(candidates: Any) -> Any:
        for tried in candidates:
            fault = next((f for f in tried.faults if f.id == 0), None)
            fails = fault is not None and (
                not needs_trigger if fault.trigger is None else fault.trigger.nth >= least
            )
            struck = {0: Struck(1_234, "n2")}
            yield Failure((("S1", 0.5),), 0, struck=struck) if fails else None

    return run


@pytest.mark.parametrize("needs_trigger", [True, False])
def test_a_moment_becomes_a_time_or_a_plainer_moment(needs_trigger: bool) -> None:
    at = Trigger(CHANGE, 40, "leader", after=LED, during="unflushed", until_ms=900)
    start = Candidate(SPEC, (replace(FAULT, trigger=at), Fault(1, "kill", 100, 100)))
    end = shrink(start, made_up(needs_trigger, 3), budget=Budget(1e9, 400), now_s=lambda: 0.0)
    assert isinstance(end, Shrunk)
    (fault,) = end.candidate.faults
    if needs_trigger:
        assert fault.trigger == Trigger(CHANGE, 3)
    else:
        assert (fault.trigger, fault.params["target"]) == (None, "n2")


def test_windows_and_gaps_leave_faults_with_a_trigger_where_they_are() -> None:
    start = Candidate(SPEC, (FAULT, Fault(1, "kill", 2_000, 100), Fault(2, "kill", 3_000, 100)))
    for each in (*moves.windows(start, 0), *moves.closer(start)):
        assert all(fault.at_ms >= 0 for fault in each.faults)
        assert each.spec.time_limit_s == SPEC.time_limit_s or FAULT not in each.faults
    assert moves.earlier(start, 0) == []
    assert moves.sooner(start, 1) == []


def test_a_bug_shows_between_two_disk_changes_and_not_a_millisecond_beside_them() -> None:
    """A candidate whose power fails between two writes of its vote starts from one never given."""
    spec = replace(SPEC, time_limit_s=3.0, mutant="two-step-vote", stop_at=("S37",))
    kill = Fault(0, "kill", 500, 1_000, {"target": "leader"}, 0.5)
    power = Fault(1, "power", 0, 500, {"target": "event", "clean": True}, 0.5)
    file = Match("change", {"file": "quorum-state"})
    at = Trigger(file, 6, after=Match("role", {"to": "prospective"}))

    def played(last: Fault) -> SimRun:
        return simulate(Plan.simulated(spec, (kill, last), asked_for=False), BRIEF)

    run = played(replace(power, trigger=at))
    assert "S37" in found(run)
    assert played(replace(power, trigger=at)).trace_sha256 == run.trace_sha256
    assert "S37" not in found(played(replace(power, trigger=replace(at, nth=2))))
    struck = struck_at(run, run.result.phases_ns["main"])[1]
    timed = moves.timed(Candidate(spec, (replace(power, trigger=at),)), 0, struck)
    assert "S37" not in found(played(timed.faults[0]))
