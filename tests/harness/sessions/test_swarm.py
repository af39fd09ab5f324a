"""Swarm testing: what seeds draw, and what a batch of them has exercised."""

from __future__ import annotations

from collections import Counter
from statistics import mean, median

from checkers.invariants.decisions import GRACE_MS, SESSION_MS
from harness.contracts.checker import RunData
from harness.contracts.nemesis import Fault
from harness.faults.schedule import PACES, paced
from harness.history.ops import NEMESIS, History, Op
from harness.registry import systems
from harness.sessions.plan import Plan
from harness.sessions.reached import WANTED, never, reached
from harness.sessions.swarm import OBSERVERS, VOTERS, WORKLOADS, draw, families
from harness.spec import FAIR, RunSpec

SEEDS = range(300)
DOWN = ("kill", "pause", "power", "stop")


def test_the_same_seed_draws_the_same() -> None:
    assert [draw(seed) for seed in SEEDS] == [draw(seed) for seed in SEEDS]
    assert len({str(draw(seed)) for seed in SEEDS}) == len(SEEDS)


def test_everything_is_drawn_by_some_seed() -> None:
    specs = [draw(seed) for seed in SEEDS]
    assert {spec.voters for spec in specs} == set(VOTERS)
    assert {spec.observers for spec in specs} == set(OBSERVERS)
    assert {spec.workload for spec in specs} == {*WORKLOADS, *systems.traits("kraft").apart}
    assert {name for spec in specs for name in spec.nemeses} == {*families(), "none"}
    assert {spec.settings["krucible.quorum"] for spec in specs} == {"static", "dynamic"}
    assert {spec.pace for spec in specs} == set(PACES)
    sizes = Counter(len(spec.nemeses) for spec in specs)
    assert len(sizes) > 2, "families are left out"


def test_a_system_has_its_own_workloads_and_somebody_to_look_at() -> None:
    traits = systems.traits("kafka").simulated
    assert traits is not None
    assert traits.drawn is not None
    specs = [draw(seed, {"system": "kafka"}) for seed in SEEDS]
    assert {spec.workload for spec in specs} == traits.drawn | {*traits.apart}
    assert all(spec.observers for spec in specs if spec.workload in traits.observed)
    alone = [draw(seed, {"system": "kafka", "observers": 0}) for seed in SEEDS]
    assert {spec.workload for spec in alone} == traits.drawn | {"admin", "cordons", "security"}
    assert not any(spec.observers for spec in alone)


def test_who_has_few_clients_gets_no_workload_that_takes_more() -> None:
    drawn = [draw(seed, {"concurrency": 1}).workload for seed in SEEDS]
    assert "views" not in drawn
    assert "views" in {draw(seed).workload for seed in SEEDS}
    without = [draw(seed, {"observers": 0}).workload for seed in SEEDS]
    assert "views" not in without


def test_what_is_pinned_stays_and_does_not_shift_the_rest() -> None:
    settings = {"metadata.max.idle.interval.ms": "77"}
    for seed in SEEDS:
        free = draw(seed)
        pinned = draw(seed, {"voters": 3, "nemeses": ("kill",), "settings": settings})
        assert (pinned.voters, pinned.nemeses) == (3, ("kill",))
        assert pinned.settings == {**free.settings, **settings}
        assert (pinned.workload, pinned.rate_hz) == (free.workload, free.rate_hz)


def test_a_seed_is_as_long_as_its_faults_need_and_all_of_them_come() -> None:
    lasts: dict[str, list[float]] = {pace: [] for pace in PACES}
    lengths_s = []
    for seed in SEEDS:
        plan = Plan.simulated(draw(seed, {"moments": 0, "weather": FAIR}), asked_for=False)
        options = paced(plan.spec.pace, plan.spec.settings)
        low_ms, high_ms = options.fault_ms
        lengths_s.append(plan.spec.time_limit_s)
        if plan.faults:
            rest_ms = plan.spec.time_limit_s * 1_000 - plan.faults[-1].at_ms
            need_ms = options.fault_ms[1] + options.tail_ms
            assert need_ms <= rest_ms < need_ms + 100
        shares = [(fault.duration_ms - low_ms) / (high_ms - low_ms) for fault in plan.faults]
        lasts[plan.spec.pace] += shares
    assert 20 < mean(lengths_s) < 26
    for pace, found in lasts.items():
        assert 0.4 < median(found) < 0.6, pace


def test_what_is_asked_for_by_name_comes_in_a_time_that_nobody_gave() -> None:
    names = ("kill", "pause", "power", "stop", "partition-halves", "disk-full")
    for seed in range(30):
        plan = Plan.simulated(draw(seed, {"nemeses": names}))
        assert {fault.nemesis for fault in plan.faults if not fault.late} == set(names)


def test_some_seeds_silence_a_broker_for_longer_than_c12_allows() -> None:
    late_ms = SESSION_MS * 9 // 8 + GRACE_MS
    found = 0
    for seed in range(1_500):
        spec = draw(seed)
        if spec.pace == "lasting" and spec.observers:
            faults = Plan.simulated(spec, asked_for=False).faults
            found += any(
                f.duration_ms > late_ms and f.nemesis in DOWN and _at_brokers(f) for f in faults
            )
    assert found >= 15


def _at_brokers(fault: Fault) -> bool:
    return fault.params["target"] in ("observer", "all")


def test_however_short_a_run_is_there_is_time_for_a_fault() -> None:
    for seed in SEEDS:
        plan = Plan.simulated(draw(seed, {"time_limit_s": 4.0}), asked_for=False)
        assert plan.faults or not plan.nemeses
    assert draw(1, {"time_limit_s": 4.0, "pace": "long"}).pace == "long", "it was asked for"


def test_every_seed_can_be_run() -> None:
    for seed in SEEDS:
        plan = Plan.simulated(draw(seed), asked_for=False)
        assert plan.spec.env == "sim"


def test_what_happened_is_counted_from_events_and_ops() -> None:
    events = {
        "n1": (
            {"t": "start"},
            {"t": "role", "from": "unattached", "to": "prospective"},
            {"t": "start"},
            {"t": "rpc_err", "api": "Fetch", "code": 74},
            {"t": "vote", "pre": True, "ok": False},
            {"t": "vote", "pre": False, "ok": True},
            {"t": "fetch_rx", "res": "diverging"},
            {"t": "snap", "op": "install"},
            {"t": "image", "kind": "full"},
            {"t": "reg", "err": 0},
            {"t": "reg", "err": None},
            {"t": "fence", "fenced": True},
            {"t": "ack"},
            {"t": "no-such-event"},
        )
    }
    ops = [
        Op(0, 0, 1, "invoke", "write", 1, "r"),
        Op(1, 1, 1, "ok", "write", 1, "r"),
        Op(2, 2, NEMESIS, "info", "inject", {"nemesis": "kill"}),
        Op(3, 3, NEMESIS, "info", "inject", {"nemesis": "kill", "outcome": "installed"}),
    ]
    counts = reached(RunData(RunSpec(1), History(ops), events))
    assert counts == {
        "restarted": 1,
        "role unattached->prospective": 1,
        "refused Fetch 74": 1,
        "pre-vote refused": 1,
        "vote granted": 1,
        "fetch diverging": 1,
        "snapshot install": 1,
        "image full": 1,
        "broker registered": 1,
        "broker fenced": 1,
        "write acknowledged": 1,
        "op ok": 1,
        "fault kill installed": 1,
    }
    missing = never(counts)
    assert "snapshot install" not in missing
    assert set(missing) == set(WANTED) - set(counts)


def test_a_system_draws_only_what_fits_it() -> None:
    specs = [draw(seed, {"system": "kafka"}) for seed in range(60)]
    names = {name for spec in specs for name in spec.settings}
    assert {name for name in names if name.startswith("krucible.")} == {"krucible.quorum"}
    assert "controller.quorum.election.timeout.ms" in names
