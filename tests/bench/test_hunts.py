"""What mutation benches share: processes that may die, rows that are continued, and the figure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from bench.support import hunts


@dataclass(frozen=True)
class Change:
    operator: str
    place: int


def changes() -> Iterator[Change]:
    return (Change("bound" if place % 2 else "effect", place) for place in count())


def hunt(change: Change) -> dict[str, Any]:
    return {"outcome": ("caught", "survived", "same")[change.place % 3]}


def counts(limit: int) -> Any:
    return lambda rows: hunts.counted(rows, ("caught", "survived")) >= limit


def test_a_hunt_ends_when_enough_count_and_its_rows_are_continued(tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    rows: list[dict[str, Any]] = hunts.stored(out)
    hunts.play(changes(), hunt, rows, out, is_enough=counts(4), jobs=1)
    assert [row["outcome"] for row in rows].count("same") == 1
    assert hunts.stored(out) == rows
    hunts.play(changes(), hunt, rows, out, is_enough=counts(4), jobs=2)
    assert len(out.read_text().splitlines()) == len(rows) == 5
    assert json.loads(out.read_text().splitlines()[0])["mutation"] == {
        "operator": "effect",
        "place": 0,
    }


def test_a_report_has_the_share_and_the_names_of_what_was_not_caught() -> None:
    rows = [{"mutation": {"operator": "bound"}, "outcome": each} for each in "cxxs"]
    told = hunts.report(rows, ("c", "x"), ("s",), lambda row: f"a {row['outcome']}")
    assert "c 1 of 3 (95 %: " in told
    assert told.splitlines()[-2:] == ["not c: a x"] * 2


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ('print(\'{"outcome": "same"}\')', ({"outcome": "same"}, "")),
        ("while True: pass", ({"outcome": "hung"}, "")),
        ("raise SystemExit(3)", (None, "exit 3\n")),
    ],
)
def test_a_process_answers_or_hangs_or_fails(
    code: str, expected: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "prey.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert hunts.in_a_process("prey", {}, 1) == expected
