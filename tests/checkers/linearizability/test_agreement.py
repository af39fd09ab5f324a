"""Every built-in model, and any other, judged as by trying all orders or by a textbook search.

``--long`` draws a million histories for each built-in model: an hour.
"""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.linearizability import registers, search
from checkers.linearizable import check_history
from checkers.models.registers import CasRegister
from harness.contracts.model import Model
from harness.history.formats import Conventions
from harness.history.ops import History
from harness.verdict import Valid
from tests.support.histories.automaton import Automaton
from tests.support.linearizability.alphabets import ALPHABETS, ANSWERED, PLACED
from tests.support.linearizability.brute import (
    brute_force,
    history_of,
    random_history,
    shapes,
    textbook,
)

FALSE_CAS = Conventions(failed_cas="observation")
MANY = 500_000


def drawn(name: str, rng: Random, n: int, concurrency: int, *, kinds: int | None = None) -> History:
    """A history of a model's ops, of so many kinds of them only."""
    specs: list[Any] = ALPHABETS[name][1]
    some = specs if kinds is None else rng.sample(specs, min(len(specs), kinds))
    told = PLACED if name == "log" else ANSWERED
    return random_history(rng, n, some, concurrency, answered=told)


def assert_judged(history: History, model: Model, rules: Conventions, *, explained: bool) -> None:
    """Nothing may be left open but of a history in which no op says anything."""
    found = check_history(history, model, conventions=rules)
    if found.valid is Valid.UNKNOWN:
        assert all(model.action(one, rules) is None for one in history.intervals())
    else:
        assert (found.valid is Valid.VALID) is explained, (model, list(history))


def judged_alike(history: History, model: Model, rules: Conventions, *, narrow: bool) -> None:
    """As by the textbook; narrowly, so that searches are cut, widened, and tried in windows."""
    explained = textbook(history, model, rules)
    if not narrow:
        assert_judged(history, model, rules, explained=explained)
        return
    with (
        mock.patch.object(registers, "WIDTHS", (1, 2, None)),
        mock.patch.object(registers, "WINDOW_MIN", 1),
        mock.patch.object(search, "_WIDTHS", (1, 2, None)),
    ):
        assert_judged(history, model, rules, explained=explained)


@pytest.mark.parametrize("name", ALPHABETS)
@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32), n=st.integers(1, 6), concurrency=st.integers(1, 6))
def test_short_histories_are_judged_as_by_every_order(
    name: str, seed: int, n: int, concurrency: int
) -> None:
    model = ALPHABETS[name][0]
    rules = Conventions(initial=model.initial, failed_cas="observation")
    history = drawn(name, Random(seed), n, concurrency)

    assert_judged(history, model, rules, explained=brute_force(history, model, rules))


@pytest.mark.parametrize("name", ALPHABETS)
@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    n=st.integers(5, 10),
    concurrency=st.integers(2, 7),
    narrow=st.booleans(),
)
def test_longer_histories_of_few_kinds_of_ops_are_judged_as_by_the_textbook(
    name: str, seed: int, n: int, concurrency: int, narrow: bool
) -> None:
    model = ALPHABETS[name][0]
    rules = Conventions(initial=model.initial, failed_cas="observation")
    rng = Random(seed)
    history = drawn(name, rng, n, concurrency, kinds=rng.randint(2, 7))

    judged_alike(history, model, rules, narrow=narrow)


@pytest.mark.long
@pytest.mark.parametrize("narrow", [False, True], ids=["wide", "narrow"])
@pytest.mark.parametrize("name", ALPHABETS)
def test_a_million_histories_are_judged_as_by_the_textbook(name: str, narrow: bool) -> None:
    model = ALPHABETS[name][0]
    rules = Conventions(initial=model.initial, failed_cas="observation")
    rng = Random(f"{name} {narrow}")
    for _ in range(MANY):
        n, concurrency = rng.randint(1, 10), rng.randint(1, 7)
        history = drawn(name, rng, n, concurrency, kinds=rng.randint(2, 8))
        judged_alike(history, model, rules, narrow=narrow)


@settings(max_examples=400, deadline=None)
@given(seed=st.integers(0, 2**32), n=st.integers(4, 12), concurrency=st.integers(2, 8))
def test_models_drawn_at_random_are_judged_as_by_the_textbook(
    seed: int, n: int, concurrency: int
) -> None:
    rng = Random(seed)
    model = Automaton(rng, rng.randint(2, 6))
    outcomes = ("ok", "ok", "ok", "info")
    specs = [(f, None, None, outcome) for f in sorted(model.fs) for outcome in outcomes]
    history = random_history(rng, n, specs, concurrency)
    rules = Conventions(initial=0)

    assert_judged(history, model, rules, explained=textbook(history, model, rules))


def test_every_history_of_three_ops_is_judged_as_by_every_order() -> None:
    specs = [
        ("read", None, None, "ok"),
        ("read", None, 1, "ok"),
        ("read", None, 2, "ok"),
        ("write", 1, None, "ok"),
        ("write", 2, None, "info"),
        ("cas", [1, 2], None, "ok"),
        ("cas", [1, 2], None, "info"),
        ("cas", [2, 1], None, "fail"),
    ]
    model = CasRegister()
    for chosen in product(specs, repeat=3):
        for shape in shapes(3):
            history = history_of(shape, chosen)
            assert_judged(
                history, model, FALSE_CAS, explained=brute_force(history, model, FALSE_CAS)
            )
