"""Fault schedules: complete, sequential, reproducible, and readable back."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.contracts.nemesis import Fault, Nemesis
from harness.errors import HarnessError, UsageError
from harness.faults import schedule
from harness.faults.schedule import PACES, ScheduleOptions, about, build, length_s, paced, room
from tests.support.live.kernel import FakeNemesis

NEMESES: list[tuple[str, Nemesis]] = [(n, FakeNemesis()) for n in ("kill", "pause", "partition")]


@given(seed=st.integers(0, 2**63), count=st.integers(1, 6), limit_s=st.floats(0, 120))
def test_faults_come_one_after_another_within_the_time(
    seed: int, count: int, limit_s: float
) -> None:
    options = ScheduleOptions()
    names = [(f"f{i}", FakeNemesis()) for i in range(count)]
    faults = build(seed, names, limit_s, options)
    assert [fault.id for fault in faults] == list(range(len(faults)))
    reached = options.lead_ms - options.gap_ms[0]
    for fault in faults:
        assert options.fault_ms[0] <= fault.duration_ms <= options.fault_ms[1]
        assert 0 <= fault.draw < 1
        assert fault.params["target"] in ("leader", "minority")
        if fault.late:
            assert fault.at_ms == int(limit_s * 1_000)
            continue
        assert fault.at_ms - reached >= options.gap_ms[0]
        reached = fault.at_ms + fault.duration_ms
        assert reached <= limit_s * 1000 - options.tail_ms
    assert {fault.nemesis for fault in faults} == {name for name, _ in names}
    in_time = [fault for fault in faults if not fault.late]
    assert len(in_time) == room(seed, limit_s, options)
    assert len(in_time) == len(faults) or len(faults) == count


def test_a_seed_gives_one_schedule() -> None:
    assert build(5, NEMESES, 60) == build(5, NEMESES, 60)
    assert build(5, NEMESES, 60) != build(6, NEMESES, 60)
    short, long = build(5, NEMESES, 40), build(5, NEMESES, 80)
    assert long[: len(short)] == short  # more time only adds faults


def test_each_comes_once_before_any_comes_again() -> None:
    for seed in range(20):
        assert {f.nemesis for f in build(seed, NEMESES, 60)[:3]} == {"kill", "pause", "partition"}
    firsts = Counter(build(seed, NEMESES, 60)[0].nemesis for seed in range(60))
    assert min(firsts.values()) > 8


def test_weights_decide_what_comes_more_often() -> None:
    options = ScheduleOptions(weights={"kill": 8.0})
    counts = Counter(f.nemesis for f in build(1, NEMESES, 3_000, options))
    assert counts["kill"] > 4 * counts["pause"]


def test_no_nemesis_gives_no_faults() -> None:
    assert build(1, [], 60) == []


def test_what_there_is_no_time_for_comes_late_and_at_full_length() -> None:
    faults = build(1, NEMESES, 7.0)
    assert [fault.late for fault in faults] == [False] * room(1, 7.0) + [True] * (3 - room(1, 7.0))
    assert room(1, 7.0) == 1
    assert [fault.duration_ms for fault in faults] == [
        fault.duration_ms for fault in build(1, NEMESES, 60.0)[:3]
    ]


@pytest.mark.parametrize("pace", sorted(PACES))
@pytest.mark.parametrize("kinds", [1, 30])
@pytest.mark.parametrize("time_s", [20.0, 30.0, 60.0])
def test_faults_last_as_long_as_their_pace_says(pace: str, kinds: int, time_s: float) -> None:
    names = [(f"f{n}", FakeNemesis()) for n in range(kinds)]
    options = paced(pace)
    low_ms, high_ms = options.fault_ms
    lasts = [f.duration_ms for seed in range(600) for f in build(seed, names, time_s, options)]
    shares = sorted((ms - low_ms) / (high_ms - low_ms) for ms in lasts)
    assert 0.45 < median(shares) < 0.55
    for percent in (1, 10, 25, 75, 90, 99):
        assert abs(shares[len(shares) * percent // 100] - percent / 100) < 0.05, percent


@given(seed=st.integers(0, 2**63), count=st.integers(1, 30), pace=st.sampled_from(sorted(PACES)))
def test_a_length_has_room_for_just_so_many_faults(seed: int, count: int, pace: str) -> None:
    options = paced(pace)
    limit_s = length_s(seed, count, options)
    assert room(seed, limit_s, options) >= count
    assert room(seed, limit_s - 0.1, options) < count


@pytest.mark.parametrize("pace", sorted(PACES))
def test_as_many_faults_as_take_about_a_time_take_about_that_time(pace: str) -> None:
    options = paced(pace)
    lengths_s = [length_s(seed, about(60.0, options), options) for seed in range(100)]
    assert 50 < median(lengths_s) < 75


@pytest.mark.parametrize(
    "options",
    [{"fault_ms": (5, 1)}, {"gap_ms": (-1, 1)}, {"lead_ms": -1}, {"weights": {"kill": 0.0}}],
)
def test_options_that_cannot_be_drawn_from_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(HarnessError):
        ScheduleOptions(**options)  # type: ignore[arg-type]


def test_save_and_load(tmp_path: Path) -> None:
    path = tmp_path / "schedule.jsonl"
    faults = build(1, NEMESES, 60)
    schedule.save(path, faults)
    assert schedule.load(path) == faults
    assert [p.name for p in tmp_path.iterdir()] == ["schedule.jsonl"]
    schedule.save(path, [])
    assert schedule.load(path) == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nonsense", ":2: not a fault: JSON"),
        ("[]", "want an object, found list"),
        ('{"id":1}', "at_ms is None"),
        ('{"id":-1,"nemesis":"kill","at_ms":0,"duration_ms":1}', "id is -1"),
        ('{"id":1,"nemesis":"kill","at_ms":true,"duration_ms":1}', "at_ms is True"),
        ('{"id":1,"nemesis":"","at_ms":0,"duration_ms":1}', "nemesis is ''"),
        ('{"id":1,"nemesis":"kill","at_ms":0,"duration_ms":1,"draw":1}', r"draw is 1, want"),
        ('{"id":1,"nemesis":"kill","at_ms":0,"duration_ms":1,"params":[]}', "params is "),
        ('{"id":1,"nemesis":"kill","at_ms":0,"duration_ms":1,"at":3}', r"unknown fields \['at'\]"),
        ('{"id":0,"nemesis":"kill","at_ms":0,"duration_ms":1}', r"ids \[0\] occur more than once"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text('{"id":0,"nemesis":"kill","at_ms":0,"duration_ms":1}\n' + line + "\n")
    with pytest.raises(UsageError, match=message) as error:
        schedule.load(path)
    assert "s.jsonl" in str(error.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.jsonl: cannot read the schedule"):
        schedule.load(tmp_path / "none.jsonl")


def test_summary_counts_overlap_once() -> None:
    faults = [Fault(0, "kill", 0, 100), Fault(1, "pause", 50, 100), Fault(2, "kill", 300, 10)]
    assert schedule.summary(faults) == {
        "faults": 3,
        "by_nemesis": {"kill": 2, "pause": 1},
        "fault_ms": 160,
        "end_ms": 310,
    }


@pytest.mark.parametrize("pace", sorted(PACES))
def test_every_pace_keeps_to_its_spans_and_its_lanes(pace: str) -> None:
    options = paced(pace)
    seen = 0
    for seed in range(30):
        faults = [f for f in build(seed, NEMESES, 90.0, options) if not f.late]
        assert faults == build(seed, NEMESES, 90.0, options)
        assert [fault.id for fault in faults] == list(range(len(faults)))
        assert [fault.at_ms for fault in faults] == sorted(fault.at_ms for fault in faults)
        for fault in faults:
            assert options.fault_ms[0] <= fault.duration_ms <= options.fault_ms[1]
            assert fault.at_ms + fault.duration_ms <= 89_000
            at_once = [f for f in faults if f.at_ms <= fault.at_ms < f.at_ms + f.duration_ms]
            seen = max(seen, len(at_once))
    assert seen == options.lanes


def test_an_overlapping_schedule_has_a_turn_for_twice_as_many_nemeses() -> None:
    options = paced("overlapping")
    one_lane = replace(options, lanes=1)
    rooms = [(room(seed, 60.0, options), room(seed, 60.0, one_lane)) for seed in range(50)]
    assert all(1.5 * one < two < 2.5 * one for two, one in rooms)
    faults = build(7, NEMESES, 30.0, options)
    assert {fault.nemesis for fault in faults[: len(NEMESES)]} == {name for name, _ in NEMESES}


def test_a_pace_that_there_is_not_is_told_with_what_was_meant() -> None:
    with pytest.raises(UsageError, match="no pace is called 'steadi': did you mean 'steady'"):
        paced("steadi")
