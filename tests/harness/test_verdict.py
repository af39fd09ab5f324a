"""Verdicts: the lattice and the exit codes."""

from __future__ import annotations

import itertools

import pytest

from harness.verdict import Anomaly, CheckResult, Valid, exit_code, merge

V, U, I = Valid.VALID, Valid.UNKNOWN, Valid.INVALID  # noqa: E741 - read as a table


def test_the_worst_wins() -> None:
    assert merge([]) is V
    assert merge([V, V]) is V
    assert merge([V, U, V]) is U
    assert merge([U, I, V]) is I


def test_merge_is_a_lattice() -> None:
    for a, b, c in itertools.product((V, U, I), repeat=3):
        assert merge([a, b]) is merge([b, a])
        assert merge([a, merge([b, c])]) is merge([merge([a, b]), c])
        assert merge([a, a]) is a


@pytest.mark.parametrize(
    ("system", "coverage", "harness_ok", "code"),
    [
        (V, V, True, 0),
        (I, V, True, 1),
        (I, U, False, 1),  # what was found counts, even when we broke
        (V, V, False, 255),
        (U, U, False, 255),
        (U, V, True, 2),
        (V, U, True, 2),
        (V, I, True, 2),
    ],
)
def test_exit_codes(system: Valid, coverage: Valid, harness_ok: bool, code: int) -> None:
    assert exit_code(system=system, coverage=coverage, harness_ok=harness_ok) == code


def test_results_are_json() -> None:
    anomaly = Anomaly("S1", "two leaders in epoch 3", ops=(1, 2), time_ns=5)
    result = CheckResult("consensus", I, (anomaly,), {"S1": 4})
    text = result.to_json()
    assert text["valid"] == "invalid"
    assert text["anomalies"][0]["ops"] == [1, 2]
    assert text["checked"] == {"S1": 4}
