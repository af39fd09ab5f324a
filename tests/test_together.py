"""Actions side by side: their results in order, and no failure is lost."""

from __future__ import annotations

import threading

import pytest

from pipeline.together import AT_A_TIME, together, together_by_name


def test_results_are_in_the_order_of_the_works_and_these_overlap() -> None:
    met = threading.Barrier(AT_A_TIME, timeout=30)

    def work() -> int:
        return met.wait()

    assert sorted(together([work] * AT_A_TIME)) == list(range(AT_A_TIME))
    assert together([lambda: "a", lambda: "b"]) == ["a", "b"]
    assert together_by_name({"x": lambda: 1, "y": lambda: 2}) == {"x": 1, "y": 2}


def test_a_failure_is_raised_when_all_are_over() -> None:
    done = []

    def fail() -> None:
        raise ValueError("no such table")

    with pytest.raises(ValueError, match="no such table"):
        together([fail, lambda: done.append(1), lambda: done.append(2)])
    assert sorted(done) == [1, 2]
