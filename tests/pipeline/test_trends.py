"""Trends from one time to the next: days, weeks and months."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from pipeline.trends import periods


def _days(count: int, first: date = date(2026, 11, 24)) -> list[dict[str, object]]:
    return [{"day": (first + timedelta(n)).isoformat(), "runs": 1, "ms": 0.5} for n in range(count)]


def test_few_days_are_told_one_by_one_in_their_order() -> None:
    found = periods(reversed(_days(3)))
    assert found == [
        {"period": "2026-11-24", "runs": 1, "ms": 0.5},
        {"period": "2026-11-25", "runs": 1, "ms": 0.5},
        {"period": "2026-11-26", "runs": 1, "ms": 0.5},
    ]


@pytest.mark.parametrize(
    ("count", "first", "last"),
    [
        (31, "2026-11-24", "2026-12-24"),
        (32, "2026-W48", "2026-W52"),
        (180, "2026-W48", "2027-W20"),
        (365, "2026-11", "2027-11"),
        (3650, "2026-11", "2036-11"),
    ],
)
def test_many_days_are_weeks_or_months_and_nothing_is_lost(
    count: int, first: str, last: str
) -> None:
    found = periods(_days(count))
    assert [found[0]["period"], found[-1]["period"]] == [first, last]
    assert sum(period["runs"] for period in found) == count
    assert sum(period["ms"] for period in found) == count / 2
    assert len(found) <= max(31, count // 28)


def test_a_week_belongs_to_the_year_that_has_most_of_it() -> None:
    found = periods(_days(40, date(2026, 12, 1)))
    assert "2026-W53" in [period["period"] for period in found]


def test_a_day_that_is_none_stays_as_it_is() -> None:
    found = periods([{"day": "run--", "runs": 2}, *_days(1)])
    assert [period["period"] for period in found] == ["2026-11-24", "run--"]
    assert periods([]) == []
