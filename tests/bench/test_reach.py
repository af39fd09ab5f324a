"""A simulation that does not come to a changed place is not played again, but its time counts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from bench.support import hunting
from bench.support.mutations import Mutation
from bench.support.reach import Played, Source, reaching
from harness.errors import NodeStartError
from harness.explore.search import ROUND, Search
from harness.explore.starting import OURS, load
from harness.verdict import Valid

TEXT = dedent(
    """
    LIMIT = 3

    def size(of):
        if of > 2:
            return max(
                of,
                LIMIT,
            )
        return LIMIT
    """
)
COVER = """
import importlib, json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from bench.support.reach import lines

def play(number):
    importlib.import_module("node.sizes").size(number)

print(json.dumps(lines(play, range(4), Path(sys.argv[1]))))
"""


@pytest.mark.parametrize(
    ("line", "expected"), [(2, (2, 2)), (5, (5, 5)), (7, (6, 9)), (10, (10, 10)), (99, (99, 99))]
)
def test_a_line_is_executed_with_the_innermost_statement_around_it(
    line: int, expected: tuple[int, int]
) -> None:
    around = Source.of(TEXT).around(line)
    assert (around[0], around[-1]) == expected


def test_lines_are_told_of_each_simulation(tmp_path: Path) -> None:
    (tmp_path / "node").mkdir()
    (tmp_path / "node" / "__init__.py").touch()
    (tmp_path / "node" / "sizes.py").write_text(TEXT)
    argv = [sys.executable, "-c", COVER, str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    known, source = json.loads(done.stdout), Source.of(TEXT)

    def bits(line: int) -> int:
        place = Mutation("node/sizes.py", line, "constant", 0, "3", "4")
        return reaching(place, source, known)

    assert bits(5) == 0b1111
    assert bits(8) == 0b1000  # only of 3 is the size more than 2
    assert bits(10) == 0b0111
    assert reaching(Mutation("node/none.py", 1, "constant", 0, "3", "4"), source, known) == 0


@dataclass
class Run:
    """A stand-in for a simulation, with the fields that a hunt reads."""

    trace_sha256: str = "as before"
    verdict: Valid = Valid.VALID
    broken: str | None = None
    judgement: Any = None


@dataclass
class Node:
    """A changed node: returns the given run for each number, and notes which were played."""

    runs: dict[int, Run] = field(default_factory=dict)
    played: list[int] = field(default_factory=list)

    def play(self, number: int, by: str) -> Run:
        assert by == hunting.EXPLORE
        self.played.append(number)
        return self.runs.get(number, Run())


@pytest.fixture
def hunted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[dict[str, Any], list[int]]]:
    """Hunt a node with a budget of 10 s; each run of the unchanged one took 1 s."""

    def hunt(node: Node, *reaches: int) -> tuple[dict[str, Any], list[int]]:
        bits = sum(1 << number for number in reaches)
        known = Played.of_all([(1.0, "as before")] * 15, bits)
        monkeypatch.setattr(hunting, "play", node.play)
        monkeypatch.setattr(hunting, "reached", lambda: bool(set(reaches) & set(node.played)))
        monkeypatch.setattr(hunting, "found", lambda _: {"S1"})
        return hunting.hunt(known, 10.0, hunting.EXPLORE), node.played

    return hunt


def test_what_nobody_comes_to_is_not_played(hunted: Any) -> None:
    assert hunted(Node()) == ({"outcome": "unreached"}, [])


def test_only_runs_that_come_to_a_place_are_played(hunted: Any) -> None:
    outcome, played = hunted(Node({7: Run("another")}), 3, 7, 14)
    assert played == [0, 3, 7]  # the time of others counts: 14 would come too late
    assert (outcome["outcome"], outcome["run"]) == ("survived", 12)


def test_what_changes_no_byte_of_six_that_come_to_it_is_the_same(hunted: Any) -> None:
    outcome, played = hunted(Node(), *range(2, 14))
    assert (outcome["outcome"], played) == ("same", [0, 2, 3, 4, 5, 6, 7])
    outcome, played = hunted(Node(), 4)
    assert (outcome["outcome"], played) == ("same", [0, 4])


def test_a_broken_run_is_caught_or_ours(hunted: Any) -> None:
    outcome, _ = hunted(Node({5: Run("another", Valid.INVALID, None, Judged())}), 2, 5)
    assert (outcome["outcome"], outcome["by"], outcome["why"]) == ("caught", ["S1"], "two leaders")
    outcome, _ = hunted(Node({5: Run("another", broken="of ours")}), 2, 5)
    assert (outcome["outcome"], outcome["run"]) == ("broken", 5)
    dead = Run("another", broken=f"{NodeStartError.__name__}: n2 ended while it started")
    outcome, _ = hunted(Node({5: dead}), 2, 5)
    assert (outcome["outcome"], outcome["by"]) == ("caught", ["start"])
    outcome, _ = hunted(Node({0: Run("another", Valid.INVALID)}), 2, 5)
    assert outcome["outcome"] == "dead"


@dataclass
class Judged:
    """A judgement with one anomaly."""

    anomalies: tuple[Any, ...] = field(default_factory=lambda: (Anomaly(),))


@dataclass
class Anomaly:
    """An anomaly."""

    message: str = "two leaders"


def test_a_hunt_plays_what_a_search_begins_with() -> None:
    """A search that has learnt nothing yet plays the same runs, whatever the node does."""
    search = Search(hunting.SEED, hunting.drawn, load(OURS))
    runs, steps = hunting._begun()
    while len(runs) < 5 * ROUND:
        runs.append(next(steps))
    for place in range(5):
        expected = search.round()
        assert [step.candidate for step in expected] == runs[place * ROUND :][:ROUND]
        for step in expected:
            search.learn(step, {f"of {step.number}": 0})
