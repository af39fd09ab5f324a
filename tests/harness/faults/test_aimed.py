"""Faults that are drawn for moments, and weather: beside the schedule, which stays as it was."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.errors import UsageError
from harness.faults import aimed, weather
from harness.faults.choice import plan, select
from harness.faults.schedule import OUTLASTING, PACES, TIMERS, load, outlasting_ms, paced, save
from harness.moments.trigger import CHANGE, EVENT
from harness.registry import nemeses
from harness.sessions import swarm
from harness.sessions.plan import Plan
from harness.sessions.swarm import draw
from harness.spec import FAIR, SIM, RunSpec

SEEDS = range(200)
SPEC = RunSpec(1, env=SIM, nemeses=("kill", "power", "pause"), time_limit_s=20.0)


def plain(seed: int) -> Plan:
    return Plan.simulated(draw(seed, {"moments": 0, "weather": FAIR}), asked_for=False)


def test_the_faults_that_go_by_time_stay_as_they_were() -> None:
    for seed in SEEDS:
        spec = draw(seed)
        timed, whole = plain(seed), Plan.simulated(spec, asked_for=False)
        assert whole.faults[: len(timed.faults)] == timed.faults
        assert replace(whole.spec, moments=0, weather=FAIR, nemeses=()) == replace(
            timed.spec, nemeses=()
        )


def test_most_of_what_is_drawn_does_not_depend_on_what_few_seeds_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each has a stream of its own: a seed without them is as if there were none."""
    with_them = {seed: draw(seed) for seed in SEEDS}
    for chance in ("MOMENTS_CHANCE", "LENGTHS_CHANCE", "WEATHER_CHANCE"):
        monkeypatch.setattr(swarm, chance, 0.0)
    usual = [
        seed
        for seed, spec in with_them.items()
        if (spec.moments, spec.weather) == (0, FAIR) and spec.pace not in swarm.LENGTHS
    ]
    assert len(SEEDS) / 3 < len(usual) < len(SEEDS)
    assert all(draw(seed) == with_them[seed] for seed in usual)


def test_every_occasion_kind_and_weather_comes_up_in_some_seed() -> None:
    specs = [draw(seed) for seed in SEEDS]
    faults = [f for spec in specs for f in Plan.simulated(spec, asked_for=False).faults]
    struck = [fault for fault in faults if fault.trigger is not None]
    assert {spec.weather for spec in specs} == {FAIR, *weather.WEATHERS}
    assert {str(nemeses.get(f.nemesis).family) for f in struck} == set(aimed.FAMILIES)
    types = {f.trigger.on.t for f in struck if f.trigger}
    assert types == {occasion.trigger.on.t for occasion in aimed.OCCASIONS}
    assert sum(f.params.get("target") == EVENT for f in struck) > len(struck) / 2


def test_a_fault_that_strikes_has_its_whole_length() -> None:
    for seed in SEEDS:
        drawn = Plan.simulated(draw(seed, {"moments": 4}), asked_for=False)
        limit_ms = drawn.spec.time_limit_s * 1_000
        for fault in drawn.faults:
            if fault.trigger is not None:
                assert fault.trigger.until_ms is not None
                assert fault.at_ms <= fault.trigger.until_ms <= limit_ms - fault.duration_ms


def test_what_was_asked_for_is_all_that_strikes() -> None:
    assert all(draw(seed, {"nemeses": ("kill",)}).moments == 0 for seed in SEEDS)
    kinds = {
        f.nemesis
        for seed in range(30)
        for f in plan(replace(SPEC, seed=seed, moments=5))[1]
        if f.trigger is not None
    }
    assert kinds == {"kill", "power", "pause"}
    assert plan(replace(SPEC, nemeses=("none",), moments=5))[1] == []
    assert (
        plan(replace(SPEC, nemeses=("disk-full",), moments=5))[1]
        == plan(replace(SPEC, nemeses=("disk-full",)))[1]
    )


def test_live_runs_draw_none() -> None:
    live = replace(SPEC, env="local", moments=5)
    assert all(fault.trigger is None for fault in plan(live)[1])


def test_what_was_drawn_is_saved_and_loaded(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("drawn") / "schedule.jsonl"
    for seed in range(40):
        faults = list(Plan.simulated(draw(seed, {"moments": 4}), asked_for=False).faults)
        save(path, faults)
        assert load(path) == faults


def test_too_little_time_for_a_fault_of_its_length_is_no_fault() -> None:
    usable = select(("kill",))
    for seed in SEEDS:
        found = aimed.build(seed, 3, usable, 10.0, PACES["lasting"], first_id=7)
        assert all(fault.duration_ms <= 9_000 for fault in found)
        assert [fault.id for fault in found] == list(range(7, 7 + len(found)))
    assert aimed.build(1, 3, select(("clock",)), 60.0, PACES["steady"], first_id=0) == []


def test_occasions_can_come() -> None:
    assert all(set(o.families) <= set(aimed.FAMILIES) for o in aimed.OCCASIONS)
    changes = [o for o in aimed.OCCASIONS if o.trigger.on.t == CHANGE]
    assert all(o.trigger.needs_disks for o in changes)


# --------------------------------------------------------------------------- weather


def test_weather_is_a_fault_as_long_as_the_run() -> None:
    _, faults = plan(replace(SPEC, weather="lossy"))
    (sky,) = (fault for fault in faults if fault.nemesis == "lossy-links")
    assert (sky.at_ms, sky.duration_ms) == (0, 20_000)
    assert sky.params == {"target": "all", "way": "both", "loss": 0.02}
    assert len({fault.id for fault in faults}) == len(faults)


def test_weather_that_nobody_knows_is_refused() -> None:
    with pytest.raises(UsageError, match="no weather is called 'foggy'"):
        plan(replace(SPEC, weather="foggy"))


def test_each_weather_is_told() -> None:
    assert weather.told(FAIR) == "fair"
    assert weather.told("stormy") == "stormy (loses 8%)"
    assert weather.told("far") == "far (40 to 60 ms)"


# --------------------------------------------------------------------------- lengths


def test_outlasting_faults_are_longer_than_the_slowest_timer() -> None:
    assert paced(OUTLASTING) == PACES[OUTLASTING]
    for setting, value_ms in (
        ("broker.session.timeout.ms", 2_000),
        ("controller.quorum.election.timeout.ms", 4_000),
        ("metadata.log.max.snapshot.interval.ms", 25_000),
        ("krucible.log.clean.interval.ms", 12_000),
    ):
        low_ms, high_ms = outlasting_ms({setting: str(value_ms)})
        (timer,) = (each for each in TIMERS if each.setting == setting)
        assert low_ms > value_ms * timer.times + timer.more_ms
        assert low_ms < high_ms
    short = {"broker.session.timeout.ms": "2000"}
    assert outlasting_ms(short)[1] < outlasting_ms({})[0]
    assert outlasting_ms({"metadata.log.max.snapshot.interval.ms": "3600000"})[1] <= 56_000


def test_faults_of_a_seed_outlast_its_own_timers() -> None:
    for seed in range(60):
        spec = draw(seed, {"pace": OUTLASTING, "moments": 0, "weather": FAIR})
        low_ms, high_ms = outlasting_ms(spec.settings)
        faults = Plan.simulated(spec, asked_for=False).faults
        assert all(low_ms <= fault.duration_ms <= high_ms for fault in faults)


def test_three_faults_may_be_in_force_at_a_time() -> None:
    most = 0
    for seed in range(30):
        spec = draw(seed, {"pace": "crowded", "moments": 0, "weather": FAIR})
        spans = [
            (f.at_ms, f.at_ms + f.duration_ms) for f in Plan.simulated(spec, asked_for=False).faults
        ]
        most = max([most, *(sum(a <= at < b for a, b in spans) for at, _ in spans)])
    assert most == 3
