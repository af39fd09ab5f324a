"""The checker for registers, held against brute force on every small history.

``--long`` adds those of five ops, and of four with compare-and-set: some minutes.
"""

from __future__ import annotations

from itertools import islice
from math import inf

import pytest

from checkers.limits.budget import Budget
from checkers.linearizability import registers
from checkers.linearizability.methods import judge_register
from checkers.linearizability.registers import search_register
from tests.support.linearizability.exhaustive import by_every_order, histories, interval_orders

PARTS = 8  # of a size that only --long takes, for workers side by side


def test_there_are_as_many_interval_orders_as_there_should_be() -> None:
    assert [len(interval_orders(n)) for n in (1, 2, 3, 4)] == [1, 2, 5, 15]  # Fishburn's numbers


@pytest.mark.parametrize("narrow", [False, True], ids=["wide", "narrow"])
@pytest.mark.parametrize(
    ("cas", "n", "part"),
    [
        *((False, n, (0, 1)) for n in (1, 2, 3, 4)),
        *((True, n, (0, 1)) for n in (1, 2, 3)),
        *(pytest.param(False, 5, (at, PARTS), marks=pytest.mark.long) for at in range(PARTS)),
        *(pytest.param(True, 4, (at, PARTS), marks=pytest.mark.long) for at in range(PARTS)),
    ],
    ids=str,
)
def test_every_small_history_is_judged_as_by_brute_force(
    monkeypatch: pytest.MonkeyPatch, narrow: bool, cas: bool, n: int, part: tuple[int, int]
) -> None:
    """By the method that a check chooses and by the search, whatever it was that was chosen.

    The narrowest of searches tries windows and widening, too.
    """
    if narrow:
        monkeypatch.setattr(registers, "WIDTHS", (1, 2, None))
        monkeypatch.setattr(registers, "WINDOW_MIN", 1)
    budget = Budget.of(inf)
    for one in islice(histories(n, cas=cas), part[0], None, part[1]):
        expected = by_every_order(one)
        assert judge_register(one, None, budget)[1].linearizable is expected, one
        assert search_register(one, None, budget).linearizable is expected, one
