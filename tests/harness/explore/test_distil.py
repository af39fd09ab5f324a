"""Distilling: the greedy choice, and how near to the best it is."""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from math import e
from random import Random

import pytest

from harness.explore.distil import DECAY, START_COST, Shown, distilled
from harness.shrink.moves import Candidate
from harness.spec import RunSpec


def shown(number: int, features: str, events: int = 0) -> Shown:
    return Shown(Candidate(RunSpec(number), ()), tuple(features), events)


def drawn(rng: Random, *, same_cost: bool = False) -> list[Shown]:
    return [
        shown(
            number,
            "".join(sorted(rng.sample("abcdefgh", rng.randint(0, 5)))),
            0 if same_cost else rng.randrange(9_000),
        )
        for number in range(8)
    ]


def worth(runs: Sequence[Shown]) -> float:
    """Each feature counts one, and half of what it did for each run more that shows it."""
    counts = Counter(name for run in runs for name in run.features)
    return sum(DECAY**nth for count in counts.values() for nth in range(count))


def by_hand(runs: Sequence[Shown], budget: int) -> list[Shown]:
    """The same choice, with all gains computed anew each time."""
    chosen: list[Shown] = []
    left = [run for run in runs if run.features]
    while left := [run for run in left if run.cost <= budget]:
        best = max(left, key=lambda run: (worth([*chosen, run]) - worth(chosen)) / run.cost)
        left.remove(best)
        chosen.append(best)
        budget -= best.cost
    return chosen


@pytest.mark.parametrize("seed", range(60))
def test_bounds_change_nothing(seed: int) -> None:
    rng = Random(seed)
    runs, budget = drawn(rng), rng.randrange(40_000)
    chosen = distilled(runs, budget)
    assert worth(chosen) == pytest.approx(worth(by_hand(runs, budget)))
    assert sum(run.cost for run in chosen) <= budget
    assert distilled(runs, budget) == chosen


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_it_is_near_the_best(seed: int, count: int) -> None:
    """Of runs that cost the same: at least 1 - 1/e of the best (Nemhauser et al., 1978)."""
    runs = drawn(Random(seed), same_cost=True)
    best = max(map(worth, combinations(runs, count)))
    assert worth(distilled(runs, count * START_COST)) >= (1 - 1 / e) * best - 1e-9


def test_the_cheaper_of_equals_comes_first_and_what_is_rare_before_what_is_known() -> None:
    runs = [shown(0, "abc", 5_000), shown(1, "abc", 100), shown(2, "ab", 50), shown(3, "z", 50)]
    chosen = distilled(runs, 1_000_000)
    assert [run.candidate.spec.seed for run in chosen[:2]] == [1, 2]
    few = distilled(runs, runs[1].cost + runs[3].cost)
    assert [run.candidate.spec.seed for run in few] == [1, 2]
    assert len(chosen) == len(runs)


def test_what_shows_nothing_or_costs_too_much_is_left_out() -> None:
    runs = [shown(0, ""), shown(1, "abc", 10_000), shown(2, "a")]
    assert [run.candidate.spec.seed for run in distilled(runs, 3_000)] == [2]
    assert distilled(runs, START_COST - 1) == []
