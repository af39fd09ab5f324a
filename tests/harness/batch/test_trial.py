"""``added_up`` sums up the results of many seeds."""

from __future__ import annotations

from typing import Any

from harness.batch.trial import added_up


def result(seed: int, **more: Any) -> dict[str, Any]:
    """The result of a valid seed that reached nothing."""
    empty: dict[str, Any] = {"anomalies": [], "harness_reasons": [], "reached": {}, "premises": {}}
    told = {"verdict": "valid", "same_bytes": None, "events": 1, "simulated_s": 1.0, "store": None}
    return {"seed": seed, **empty, **told, **more}


def test_what_a_system_is_known_to_do_is_counted_by_finding() -> None:
    seeds = [result(4), result(5, known={"a": 2, "b": 7}), result(6, known={"a": 1})]
    assert added_up(seeds)["known"] == {
        "a": {"seeds": 2, "times": 3, "first": 5},
        "b": {"seeds": 1, "times": 7, "first": 5},
    }
