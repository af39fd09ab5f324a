"""A night tells which premises of invariants came true, and which features were new, over time."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import fromstring

import pytest

from harness.errors import UsageError
from harness.explore.growth import first_shown, kinds, of_last_tenth
from harness.nightly import ledger, outcome, plan, saturation
from harness.nightly.entries import Explore, Sim
from harness.nightly.junit import to_xml
from harness.nightly.ledger import Growth, Ledger, Night
from harness.processes.command import KRUCIBLE
from harness.sessions.reached import WANTED
from harness.verdict import EXIT_UNKNOWN, EXIT_VALID

ENOUGH = outcome.SEEDS_FOR_COVERAGE
WHOLE = plan.Plan(sim=(Sim(name="a"),))
PINNED = plan.Plan(sim=(Sim(name="a", voters=3),))
ALL = dict.fromkeys(WANTED, 1)
Line = dict[str, Any]


def seed(number: int, *new: str, entry: str = "sim:a") -> Line:
    line: Line = {"t": "seed", "entry": entry, "seed": number, "verdict": "valid"}
    return {**line, "invariants": [], "new": list(new)}


def night(runs: int, **premises: list[int]) -> Night:
    """A night that reached all but what is told of premises."""
    found = Night()
    found.take({"t": "begin", "first_seed": 1})
    for number in range(runs):
        found.take(seed(number))
    found.take({"t": "reached", "counts": ALL, "premises": premises})
    return found


@pytest.mark.parametrize(
    ("wanted", "runs", "premises", "missing"),
    [
        (WHOLE, ENOUGH, {"S11": [0, 0, ENOUGH]}, ["S11"]),
        (WHOLE, ENOUGH, {"S11": [9, 2, ENOUGH]}, []),
        (WHOLE, ENOUGH, {"S11": [0, 0, ENOUGH - 1]}, []),  # few runs were watched for it
        (WHOLE, ENOUGH - 1, {"S11": [0, 0, ENOUGH]}, []),  # and few were of the whole swarm
        (PINNED, ENOUGH, {"S11": [0, 0, ENOUGH]}, []),  # nobody knows what its seeds can reach
        (plan.Plan(sim=PINNED.sim, premises=("S11", "L9")), 1, {"L9": [1, 1, 1]}, ["S11"]),
        (plan.Plan(explore=(Explore(name="a"),)), ENOUGH, {"S11": [0, 0, ENOUGH]}, []),
        (WHOLE, ENOUGH, {"L9": [0, 0, ENOUGH], "S2": [0, 0, ENOUGH]}, ["S2", "L9"]),
    ],
)
def test_a_premise_that_never_came_true_counts_where_it_should_have(
    wanted: plan.Plan, runs: int, premises: dict[str, list[int]], missing: list[str]
) -> None:
    """In reasons, exit code, summary, headline and JUnit."""
    its = night(runs, **premises)
    assert outcome.premises_missing(wanted, its) == missing
    code = outcome.exit_code(wanted, its)
    assert code == (EXIT_UNKNOWN if missing else EXIT_VALID)
    told = outcome.summary(wanted, its, Path("/s"), KRUCIBLE, code=code)
    assert told["premises_missing"] == missing
    assert told["premises"] == premises
    assert all(any(name in reason for reason in told["reasons"]) for name in missing)
    assert all(name in told["headline"] for name in missing)
    assert bool(missing) == ("never came true" in told["headline"])
    suites = fromstring(to_xml(outcome.suites(wanted, its, Path("/s"), KRUCIBLE)))
    (case,) = [each for each in suites.iter("testcase") if "premises" in str(each.get("name"))]
    failure = case.findtext("failure")
    assert (failure is not None) == bool(missing)
    assert all(name in str(failure) for name in missing)


def test_a_search_of_the_whole_swarm_answers_for_coverage_too() -> None:
    its = Night()
    for number in range(ENOUGH):
        its.take(seed(number, entry="explore:a"))
    its.take({"t": "reached", "counts": ALL, "premises": {"S11": [0, 0, ENOUGH]}})
    assert outcome.premises_missing(plan.Plan(explore=(Explore(name="a"),)), its) == ["S11"]


@pytest.mark.parametrize("name", ["S999", "linearizability", "C9"])
def test_a_plan_names_premises_that_there_are(name: str) -> None:
    """C9 is judged with C8, and its count stands there."""
    with pytest.raises(UsageError, match="no invariant is called"):
        plan.check(plan.Plan(sim=WHOLE.sim, premises=(name,)))
    plan.check(plan.Plan(sim=WHOLE.sim, premises=("C8", "S11")))


def test_features_belong_to_the_entry_that_showed_them_first(tmp_path: Path) -> None:
    """Also when two processes of a slice tell of one, and when the ledger is read again."""
    book = Ledger(tmp_path)
    book.add({"t": "begin", "plan": "p", "first_seed": 1}, seed(1, "then a", "near b"))
    book.add(seed(2, "then a", "then c", entry="explore:b"), seed(3, "then c"))
    book.add({"t": "spent", "entry": "sim:a", "s": 60.0}, seed(4))
    book.add({"t": "spent", "entry": "explore:b", "s": 40.0})
    book.close()
    told = saturation.told(ledger.read(tmp_path))
    assert told == saturation.told(book.night)
    assert told["known"] == 3
    assert told["by_entry"] == {"sim:a": 2, "explore:b": 1}
    assert told["by_kind"] == {"near": 1, "then": 2}
    assert told["growth"] == [[50.0, 0, 0], [100.0, 4, 3]]
    assert told["late"] == [10.0, 0]


def test_a_night_without_features_tells_of_none() -> None:
    told = saturation.told(night(3))
    assert (told["known"], told["growth"], told["late"]) == (0, [], None)


def test_parts_of_a_night_are_as_long_and_not_too_many() -> None:
    growth = [Growth(10.0 * n, 2 * n, 100 - 100 // n) for n in range(1, 200)]
    found = saturation.parts(growth)
    assert len(found) == saturation.PARTS
    assert (found[-1].used_s, found[-1].histories) == (1990.0, 398)
    assert {round(b.used_s - a.used_s, 6) for a, b in pairwise(found)} == {
        round(1990 / saturation.PARTS, 6)
    }
    assert [g.features for g in found] == sorted(g.features for g in found)


def test_a_long_night_is_judged_by_its_last_hour_a_short_one_by_its_last_tenth() -> None:
    growth = [Growth(600.0 * n, n, 10 * n) for n in range(1, 49)]  # eight hours
    assert saturation.late(growth) == [3600.0, 60]
    assert saturation.late(growth[:10]) == [600.0, 10]


def test_what_the_last_seeds_brought() -> None:
    known = first_shown({"a": 1, "b": 1, "c": 9, "d": 20}, range(1, 21))
    assert known == [2] * 8 + [3] * 11 + [4]
    assert of_last_tenth(known) == 1
    assert of_last_tenth(known[:9]) is None
    assert kinds(["then x", "near y", "then z"]) == {"near": 1, "then": 2}
