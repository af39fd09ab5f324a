"""Lengths of time are written the same way in every option and in a plan."""

from __future__ import annotations

import pytest

from harness.durations import seconds, told


@pytest.mark.parametrize(
    ("text", "length_s"),
    [("30", 30), ("0.5", 0.5), ("90s", 90), ("1.5 m", 90), ("10m", 600), (" 8h ", 28_800)],
)
def test_a_length_of_time_has_a_unit_or_is_seconds(text: str, length_s: float) -> None:
    assert seconds(text) == length_s
    assert seconds(told(length_s)) == length_s


@pytest.mark.parametrize("text", ["", "x", "-1s", "1d", "1h30m", "1e3", "nan", "10 minutes"])
def test_anything_else_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match="want one as in 30, 90s, 10m or 8h"):
        seconds(text)


def test_a_length_is_told_in_the_unit_that_fits() -> None:
    assert [told(s) for s in (30, 90, 60, 600, 7200, 0.5)] == [
        "30s",
        "90s",
        "1m",
        "10m",
        "2h",
        "0.5s",
    ]
