"""stats and availability: figures of a run, against histories counted by hand."""

from __future__ import annotations

import pytest

from checkers.availability import availability, outages
from checkers.stats import percentile, stats
from checkers.timeline.windows import fault_windows
from harness.verdict import Valid
from tests.support.histories.histories import MS, Tale


def test_counts_by_f_and_outcome() -> None:
    tale = Tale()
    tale.op(0, 1)
    tale.op(1, 2, "fail")
    tale.op(2, 3, "info")
    tale.op(3, None)
    tale.op(4, 5, "ok", "read")
    result = stats(tale.run())
    assert result.valid is Valid.VALID
    assert result.stats["counts"] == {
        "read": {"ok": 1, "fail": 0, "info": 0},
        "write": {"ok": 1, "fail": 1, "info": 2},
    }
    assert result.checked == {"ops": 5}


def test_latencies_inside_and_outside_of_fault_windows() -> None:
    tale = Tale()
    tale.op(0, 2)
    tale.inject(10, 0, "kill", "installed")
    tale.op(9, 39)  # overlaps the fault
    tale.op(20, 60, "fail")  # not an ok op
    tale.heal(40, 0, "kill")
    tale.op(50, 54)
    tale.inject(60, 1, "kill", "skipped")
    tale.op(61, 67)
    latency = stats(tale.run()).stats["latency_ms"]
    assert latency["all"]["write"] == {
        "count": 4,
        "p50": 4.0,
        "p95": 30.0,
        "p99": 30.0,
        "max": 30.0,
    }
    assert latency["in_faults"]["all"]["count"] == 1
    assert latency["outside_faults"]["all"] == {
        "count": 3,
        "p50": 4.0,
        "p95": 6.0,
        "p99": 6.0,
        "max": 6.0,
    }


def test_throughput_is_ok_ops_over_the_time_they_took() -> None:
    tale = Tale()
    for start in range(0, 1000, 100):
        tale.op(start, start + 100)
    assert stats(tale.run()).stats["throughput_ok_per_s"] == 10.0


def test_an_empty_history_has_no_figures() -> None:
    result = stats(Tale().run())
    assert (result.valid, result.stats["counts"]) == (Valid.VALID, {})
    assert result.stats["throughput_ok_per_s"] == 0.0
    assert availability(Tale().run()).stats["outages"] == []


@pytest.mark.parametrize(
    ("share", "value"), [(0.0, 1), (0.5, 5), (0.51, 6), (0.95, 10), (0.9, 9), (1.0, 10)]
)
def test_percentile_is_the_nearest_rank(share: float, value: int) -> None:
    assert percentile(list(range(1, 11)), share) == value


# ---------------------------------------------------------------------- availability


def spans(tale: Tale) -> list[tuple[float, float]]:
    return [(a / MS, b / MS) for a, b in outages(tale.history().intervals(), 1_000)]


def test_an_outage_is_a_time_without_an_ok_op_though_some_were_tried() -> None:
    tale = Tale()
    tale.op(0, 10)
    tale.op(5, 2_500, "info")
    tale.op(2_000, 3_000)
    assert spans(tale) == [(10, 3_000)]


def test_a_pause_of_the_workload_is_no_outage() -> None:
    tale = Tale()
    tale.op(0, 10)
    tale.op(5_000, 5_010)
    assert spans(tale) == []


def test_an_outage_begins_with_the_first_try_after_a_pause() -> None:
    tale = Tale()
    tale.op(0, 10)
    tale.op(3_000, 4_000, "fail")
    tale.op(4_200, 4_500)
    assert spans(tale) == [(3_000, 4_500)]


def test_an_outage_may_last_to_the_end_or_from_the_beginning() -> None:
    tale = Tale()
    tale.op(0, 1_500, "fail")
    assert spans(tale) == [(0, 1_500)]


def test_outages_name_their_faults_and_recovery_counts_from_the_heal() -> None:
    tale = Tale()
    tale.op(0, 10)
    tale.inject(20, 7, "kill", "installed")
    tale.op(30, 1_800, "fail")
    tale.heal(1_500, 7, "kill")
    tale.op(1_600, 2_100)
    tale.op(1_700, 1_900)  # the soonest ok op of those tried after the heal
    tale.op(5, 1_850, "ok", "local-read")  # says nothing of the quorum
    tale.inject(3_000, 8, "pause", "installed")
    found = availability(tale.run()).stats
    assert [(o["duration_ms"], o["faults"]) for o in found["outages"]] == [(1_870.0, [7])]
    assert found["unavailable_ms"] == 1_870.0
    assert [(r["fault"], r["recovery_ms"]) for r in found["recoveries"]] == [(7, 400.0)]
    assert found["recovery_ms_max"] == 400.0


def test_a_system_that_never_recovers_has_no_recovery_time() -> None:
    tale = Tale()
    tale.inject(0, 1, "kill", "installed")
    tale.heal(10, 1, "kill")
    tale.op(20, 30, "fail")
    (recovery,) = availability(tale.run()).stats["recoveries"]
    assert recovery["recovery_ms"] is None


def test_windows_ignore_what_is_no_fault() -> None:
    tale = Tale()
    tale.op(0, 1)
    tale.heal(5, 9, "kill")  # of a fault that was never injected
    assert fault_windows(tale.history()) == []
