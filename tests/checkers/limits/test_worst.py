"""Checks keep within their budgets of time and memory, on the worst histories that we know.

``--long`` judges all of them, at full length. Time is CPU time: a busy host does not count.
"""

from __future__ import annotations

import pytest

from tests.support.histories.worst import WORST, in_a_process

OVER_S, OVER_MEMORY = 2.0, 1.1
MUCH_S, MUCH_MIB = 120.0, 8_192
LIMIT_REACHED = {"set, open adds", "multi-register, open writes", "list-append, lies", "kafka"}
WHOLE = [pytest.param(name, one.ops, marks=pytest.mark.long) for name, one in WORST.items()]


@pytest.mark.parametrize(("name", "ops"), [("set, open adds", 1_000), ("kafka", 60_000), *WHOLE])
def test_time_is_kept(name: str, ops: int) -> None:
    limit_s = 0.25 if ops < WORST[name].ops else 3.0
    took = in_a_process(name, ops, time_s=limit_s, memory_mib=MUCH_MIB)

    assert took.cpu_s <= limit_s + OVER_S, took
    assert took.verdict != "unknown" or "the time limit ran out" in (took.reason or "")
    assert took.verdict == "unknown" or name not in LIMIT_REACHED, "no limit was reached"


@pytest.mark.parametrize(
    ("name", "ops", "limit_mib"),
    [
        ("multi-register, open writes", 1_000, 150),
        ("list-append, lies", 60_000, 150),
        *(pytest.param(*one.values, 500, marks=one.marks) for one in WHOLE),
    ],
)
def test_memory_is_kept(name: str, ops: int, limit_mib: int) -> None:
    took = in_a_process(name, ops, time_s=MUCH_S, memory_mib=limit_mib)

    assert took.peak_mib <= limit_mib * OVER_MEMORY, took
    assert took.verdict != "unknown" or "limit" in (took.reason or ""), "or the time ran out before"
    assert "the memory limit" in (took.reason or "") or name not in LIMIT_REACHED
