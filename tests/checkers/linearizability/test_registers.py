"""The search for one register: right as it is, and as narrow as can be."""

from __future__ import annotations

from math import inf
from random import Random
from typing import Any

import pytest

from checkers.limits.budget import Budget
from checkers.linearizability import registers
from checkers.linearizability.calls import calls_of, columns_of, event_places
from checkers.linearizability.columns import Columns
from checkers.linearizability.registers import Found, Walk, search_register
from checkers.linearizable import decide
from checkers.models.registers import CasRegister
from harness.history.formats import Conventions
from harness.history.ops import History
from harness.verdict import Valid
from tests.support.linearizability.brute import random_history, textbook
from tests.support.linearizability.exhaustive import by_every_order
from tests.support.linearizability.rows import Row, cas, columns, failed, read, write


@pytest.mark.parametrize("narrow", [False, True])
def test_longer_random_histories_agree_with_the_textbook(
    monkeypatch: pytest.MonkeyPatch, narrow: bool
) -> None:
    if narrow:
        monkeypatch.setattr(registers, "WIDTHS", (1, 2, None))
        monkeypatch.setattr(registers, "WINDOW_MIN", 1)
    rng, values = Random(6), (None, 1, 2)
    rules = Conventions(failed_cas="observation")
    specs = [
        *(("read", None, v, "ok") for v in values),
        *(("write", v, None, o) for v in values for o in ("ok", "info")),
        *(("cas", [a, b], None, o) for a in values for b in values for o in ("ok", "info", "fail")),
    ]
    for _ in range(400):
        some = rng.sample(specs, rng.randint(2, 8))
        history = random_history(rng, rng.randint(4, 14), some, rng.randint(2, 7))
        expected = textbook(history, CasRegister(), rules)
        table = register_columns(history, rules)
        whole = search_register(table, None, Budget.of(inf))
        assert whole.linearizable is expected, list(history)


def register_columns(history: History, rules: Conventions) -> Columns:
    places, _ = event_places(history, rules)
    return columns_of(calls_of(history, CasRegister(), rules, places=places).by_key[None])


def test_searches_take_equal_times_as_concurrent_and_ops_that_are_alone_at_once() -> None:
    rng, values = Random(3), (None, 1, 2)
    valid = 0
    for _ in range(1_500):
        spread = rng.choice((3, 6, 12))
        rows: list[Row] = []
        for _ in range(rng.randint(2, 6)):
            begin = rng.randrange(spread)
            end = begin + rng.randrange(3)
            a, b = rng.sample(values, 2)
            maker = (write(a, begin, end), write(a, begin, inf), cas(a, b, begin, end))
            rows.append(rng.choice((*maker, read(a, begin, end), failed(a, begin, end))))
        table = columns(*sorted(rows, key=lambda row: row[3]))
        expected = by_every_order(table)
        valid += expected
        assert search_register(table, None, Budget.of(inf)).linearizable is expected, table
    assert valid > 300


def test_calls_that_are_alone_are_judged_from_every_value_that_may_be_there() -> None:
    rng, values = Random(4), (None, 1, 2)
    valid = 0
    for _ in range(1_500):
        rows: list[Row] = [write(a, 0, 1) for a in values[: rng.randrange(4)]]
        for at in range(2, 2 * rng.randint(2, 5), 2):
            a, b = rng.sample(values, 2)
            alone = (write(a, at, at + 1), cas(a, b, at, at + 1), read(a, at, at + 1))
            rows.append(rng.choice((*alone, failed(a, at, at + 1))))
        table = columns(*rows)
        expected = by_every_order(table)
        valid += expected
        assert search_register(table, None, Budget.of(inf)).linearizable is expected, table
    assert 300 < valid < 1_200


def test_a_window_proves_what_a_narrow_search_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registers, "WIDTHS", (1, None))
    monkeypatch.setattr(registers, "WINDOW_MIN", 1)
    rng = Random(2)
    rows = [
        write(rng.randrange(3), at, at + 4 + rng.random())
        if at % 2
        else read(rng.randrange(3), at, at + 4 + rng.random())
        for at in range(400)
    ]
    table = columns(*rows)
    found = search_register(table, None, Budget.of(inf))

    monkeypatch.setattr(registers, "WIDTHS", (None,))
    whole = search_register(table, None, Budget.of(inf))
    assert found.linearizable is whole.linearizable
    assert found.row == whole.row


def test_a_wide_search_that_ran_out_early_leaves_open_what_a_narrow_one_did(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = columns(*(read(at, at, at) for at in range(9)))
    died = iter([Found(linearizable=False, row=5), Found(None, row=3), Found(None, row=2)])

    class Died(Walk):
        def run(self, *_: Any) -> Found:
            self.cut = True
            return next(died)

    monkeypatch.setattr(registers, "Walk", Died)
    monkeypatch.setattr(registers, "_window", lambda *_: False)
    found = search_register(table, None, Budget.of(inf))
    assert (found.linearizable, found.row) == (None, 5)
    assert search_register(table, None, Budget.of(inf)).row == 2


def test_a_register_from_zero_with_thousands_of_ops_and_unknown_outcomes() -> None:
    rng, rows, state, time = Random(4), [read(0, 0, 1)], 0, 0
    for _ in range(4_000):
        time += 3
        old, new = rng.randrange(5), rng.randrange(5)
        lost = rng.random() < 0.02
        match rng.randrange(3):
            case 0:
                rows.append(read(state, time, time + 4))
            case 1:
                rows.append(write(new, time, inf if lost else time + 1))
                state = state if lost and rng.random() < 0.5 else new
            case _ if old == state:
                rows.append(cas(old, new, time, time + 1) if old != new else read(old, time, time))
                state = new
            case _:
                rows.append(failed(old, time, time + 1))
    table = columns(*rows)

    assert decide(table, initial=0).valid is Valid.VALID
    assert decide(table, initial=7).valid is Valid.INVALID


def answered(rng: Random, n: int, in_flight: int, values: list[int | None]) -> list[Row]:
    """What clients of a register see, many at a time; now and then one of them saw another value.

    A cas that found another value compared false. A tenth of the writes and cas never return.
    """
    rows: list[list[Any]] = []
    waiting: list[int] = []  # rows that have not taken effect
    done: list[int] = []  # rows that have, and have not returned
    state: int | None = None
    time = 0
    while len(rows) < n or waiting or done:
        time += 1
        if len(rows) < n and len(waiting) + len(done) < in_flight and rng.random() < 0.6:
            old, new = rng.sample(values, 2)
            drawn = (read(None, time, inf), write(new, time, inf), *[cas(old, new, time, inf)] * 2)
            waiting.append(len(rows))
            rows.append(list(rng.choice(drawn)))
        elif waiting and rng.random() < 0.5:
            at = waiting.pop(rng.randrange(len(waiting)))
            done.append(at)
            row = rows[at]
            if row[0] == "read":
                row[2] = state
            elif row[0] == "write" or state == row[2]:
                state = row[1]
            else:
                row[0], row[1] = "not", None
        elif done:
            row = rows[done.pop(rng.randrange(len(done)))]
            if row[0] in ("read", "not") or rng.random() < 0.9:
                row[4] = time
    reads = [row for row in rows if row[0] == "read"]
    if reads and rng.random() < 0.3:
        rng.choice(reads)[2] = rng.choice(values)
    return [(f, value, seen, begin, end) for f, value, seen, begin, end in rows]


@pytest.mark.parametrize(
    "tries", [2_000, pytest.param(400_000, marks=pytest.mark.long)], ids=["few", "many"]
)
@pytest.mark.parametrize("widths", [(1, None), (1, 2, None)], ids=str)
def test_windows_of_longer_histories_are_judged_as_by_brute_force(
    monkeypatch: pytest.MonkeyPatch, widths: tuple[int | None, ...], tries: int
) -> None:
    """The narrowest search dies often, and windows say whether a wider one would."""
    monkeypatch.setattr(registers, "WIDTHS", widths)
    monkeypatch.setattr(registers, "WINDOW_MIN", 1)
    rng = Random(f"{widths}")
    wrong = 0
    for _ in range(tries):
        values: list[int | None] = [None, 1, 2][: rng.randint(2, 3)]
        table = columns(*answered(rng, rng.randint(6, 16), rng.randint(2, 6), values))
        expected = by_every_order(table)
        wrong += not expected
        assert search_register(table, None, Budget.of(inf)).linearizable is expected, table
    assert 0.05 * tries < wrong < 0.2 * tries


@pytest.mark.parametrize(
    ("widths", "rows"),
    [
        # one of two equal cas in flight when a window begins was done; the other one is needed
        (
            (1, None),
            [
                failed(1, 1, 4),
                cas(None, 1, 3, 6),
                cas(1, None, 7, 22),
                failed(1, 11, 33),
                failed(1, 14, 19),
                write(1, 15, 24),
                read(1, 16, 30),
                cas(1, None, 20, 38),
                cas(None, 1, 23, 27),
                cas(1, None, 26, 39),
                read(None, 28, 37),
                failed(None, 31, 35),
            ],
        ),
        # of two ways to one place, that found first uses up an op of unknown outcome
        (
            (1, 2, None),
            [
                write(None, 4, 12),
                cas(None, 1, 5, inf),
                failed(None, 6, 19),
                cas(None, 1, 8, 21),
                cas(1, None, 13, 16),
                read(1, 14, 22),
                cas(1, None, 20, 24),
            ],
        ),
    ],
    ids=["window", "rivals"],
)
def test_histories_for_which_a_small_change_of_the_search_finds_no_order(
    monkeypatch: pytest.MonkeyPatch, widths: tuple[int | None, ...], rows: list[Row]
) -> None:
    """One in a hundred thousand is such a history."""
    monkeypatch.setattr(registers, "WIDTHS", widths)
    monkeypatch.setattr(registers, "WINDOW_MIN", 1)

    assert search_register(columns(*rows), None, Budget.of(inf)).linearizable is True
