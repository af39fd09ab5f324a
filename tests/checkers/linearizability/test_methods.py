"""The methods behind the verdict: each right by itself, and the one that is chosen."""

from __future__ import annotations

from math import inf
from random import Random
from time import process_time
from typing import Any

import pytest

from checkers import linearizable
from checkers.limits.budget import Budget, BudgetError
from checkers.linearizability import search as linearizable_search
from checkers.linearizability import texts as linearizable_texts
from checkers.linearizability.calls import calls_of, columns_of, event_places
from checkers.linearizability.chains import by_chains
from checkers.linearizability.fast import history_of as ops_of
from checkers.linearizability.forced import by_forced_order, by_positions
from checkers.linearizability.methods import judge_register
from checkers.linearizability.own import Asked, OwnModel
from checkers.linearizability.search import Outcome
from checkers.linearizability.texts import by_witness
from checkers.linearizability.zones import VALID, by_zones
from checkers.linearizable import Columns, check_columns, check_history, decide
from checkers.models.isr import Isr
from checkers.models.lists import ListAppend, Log
from checkers.models.multi_registers import MultiRegister
from checkers.models.producer_ids import ProducerIds
from checkers.models.registers import CasRegister
from checkers.models.strings import KvAppend
from harness.contracts.model import Model
from harness.errors import HistoryFormatError
from harness.history.formats import Conventions
from harness.history.ops import History, Op
from harness.verdict import Valid
from tests.support.linearizability.brute import history_of, random_history, textbook
from tests.support.linearizability.exhaustive import by_every_order
from tests.support.linearizability.rows import (
    Row,
    append,
    cas,
    columns,
    failed,
    get,
    put,
    read,
    write,
)

# --------------------------------------------------------------------------- the search


def unique_history(rng: Random) -> History:
    """Few ops of which every write and cas has a value of its own."""
    fresh = list(range(1, 12))
    values = [None, 1, 2, 3, 4]
    specs: list[tuple[str, Any, Any, str]] = []
    for _ in range(rng.randint(1, 7)):
        outcome = rng.choice(("ok", "ok", "info"))
        match rng.randrange(6):
            case 0 | 1:
                specs.append(("read", None, rng.choice(values), "ok"))
            case 2:
                specs.append(("write", fresh.pop(0), None, outcome))
            case 3 | 4:
                specs.append(("cas", [rng.choice(values), fresh.pop(0)], None, outcome))
            case _:
                specs.append(("cas", [rng.choice(values), 99], None, "fail"))
    return history_of(overlaps(rng, len(specs)), specs)


def overlaps(rng: Random, n: int) -> list[int]:
    events: list[int] = []
    open_: list[int] = []
    begun, at_once = 0, rng.randint(1, 5)
    while begun < n or open_:
        if begun < n and len(open_) < at_once and (not open_ or rng.random() < 0.55):
            events.append(begun)
            open_.append(begun)
            begun += 1
        else:
            events.append(open_.pop(rng.randrange(len(open_))))
    return events


def test_zones_and_chains_agree_with_the_textbook_where_they_apply() -> None:
    rng, rules = Random(1), Conventions(failed_cas="observation")
    answers = []
    for _ in range(1_500):
        history = unique_history(rng)
        places, _ = event_places(history, rules)
        calls = calls_of(history, CasRegister(), rules, places=places).by_key[None]
        if not calls:
            continue
        table = columns_of(calls)
        found = by_zones(table, None) or by_chains(table, None)
        answers.append(None if found is None else found.linearizable)
        if found is not None:
            expected = textbook(history, CasRegister(), rules)
            assert found.linearizable is expected, list(history)
    assert answers.count(None) < 0.1 * len(answers)
    assert answers.count(True) > 100


# --------------------------------------------------------------------------- zones and chains


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([write(1, 0, 1), read(1, 2, 3)], True),
        ([write(1, 0, 2), read(1, 2, 3)], True),
        ([read(1, 0, 1), write(1, 2, 3)], False),
        ([read(1, 0, 2), write(1, 2, 3)], True),  # equal times are concurrent
        ([read(7, 0, 1)], False),
        ([write(1, 0, 1), read(None, 2, 3)], False),
        ([write(1, 0, 1), read(None, 1, 3)], True),
        ([write(1, 0, 1), write(2, 2, 3), read(1, 4, 5)], False),
        ([write(1, 0, 1), write(2, 2, inf), read(1, 4, 5)], True),
        ([write(1, 0, inf), read(1, 4, 5), read(None, 6, 7)], False),
        ([write(1, 0, 9), write(2, 0, 9), read(1, 1, 2), read(2, 3, 4), read(1, 5, 6)], False),
        ([write(1, 0, 1), write(2, 2, 3), read(1, 1, 9)], True),
        ([write(1, 0, 1), write(2, 3, 4), read(1, 6, 7), read(1, 1, 2)], False),
        ([write(1, 0, 1), read("x", 2, inf)], True),  # nobody saw what it returned
    ],
)
def test_zones(rows: list[Row], expected: bool) -> None:
    found = by_zones(columns(*sorted(rows, key=lambda row: row[3])), None)

    assert found is not None
    assert found.linearizable is expected


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([cas(None, 1, 0, 1), cas(1, 2, 2, 3), read(2, 4, 5)], True),
        ([cas(None, 1, 0, 9), cas(1, 2, 1, 2), read(2, 4, 5)], True),
        ([cas(None, 1, 3, 9), cas(1, 2, 1, 2)], False),  # the first began after the second ended
        ([cas(None, 1, 0, 1), cas(None, 2, 0, 1)], False),  # nil is there once
        ([cas(None, 1, 0, inf), cas(None, 2, 0, 1)], True),  # nobody needs the first
        ([cas(None, 1, 0, inf), cas(None, 2, 0, 1), read(1, 3, 4)], False),
        ([cas(None, 1, 0, inf), cas(1, 2, 0, inf), read(2, 3, 4)], True),
        ([cas(3, 1, 0, 1)], False),
        ([cas(2, 1, 0, 1), cas(1, 2, 0, 1)], False),  # each waits for the other
        ([write(1, 0, 1), cas(1, 2, 2, 3), read(1, 4, 5)], False),
        ([write(1, 0, 1), cas(1, 2, 2, 3), read(1, 2, 5)], True),
        ([write(1, 0, 1), read(1, 2, 3), cas(1, 2, 2, 3), write(3, 0, 9), read(2, 8, 9)], True),
        ([write(1, 0, 1), write(3, 2, 3), cas(1, 2, 4, 5)], False),
        ([write(1, 0, 1), failed(1, 2, 3), read(1, 4, 5)], False),
        ([write(1, 0, 1), failed(1, 1, 3), read(1, 4, 5)], True),
        ([write(1, 0, 1), failed(1, 2, 5), cas(1, 2, 5, 6)], True),
        ([write(1, 0, 1), failed(1, 2, 3), cas(1, 2, 5, 6)], False),
        ([write(1, 0, 1), failed(5, 2, 3)], True),
        ([write(1, 0, 9), write(2, 0, 1), failed(1, 2, 3)], True),
    ],
)
def test_chains(rows: list[Row], expected: bool) -> None:
    table = columns(*sorted(rows, key=lambda row: row[3]))
    found = by_chains(table, None)

    assert by_every_order(table) is expected
    assert found is not None
    assert found.linearizable is expected


def test_two_cas_from_one_value_are_named_and_nothing_else() -> None:
    table = columns(cas(None, 1, 0, 1), cas(None, 2, 0, 1), cas(2, 3, 4, 5), read(1, 6, 7))
    found = by_chains(table, None)

    assert found is not None
    assert found.conflict == (0, 1)


def test_a_failed_cas_that_hangs_on_where_a_block_is_put_is_left_to_the_search() -> None:
    table = columns(write(1, 0, 1), write(2, 2, inf), failed(1, 3, 4))

    assert by_chains(table, None) is None
    assert judge_register(table, None, Budget.of(inf))[0] == "search"
    assert decide(table).valid is Valid.VALID


@pytest.mark.parametrize(
    "rows",
    [
        [write(1, 0, 1), write(1, 2, 3)],
        [write(None, 0, 1)],
    ],
)
def test_zones_do_not_apply_to_a_value_that_is_there_twice(rows: list[Row]) -> None:
    assert by_zones(columns(*rows), None) is None
    assert by_chains(columns(*rows), None) is None


# --------------------------------------------------------------------------- forced order


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([append("a", 0, 1), append("b", 2, 3), get("ab", 4, 5)], True),
        ([append("a", 0, 1), append("b", 2, 3), get("ba", 4, 5)], False),
        ([append("a", 0, 3), append("b", 2, 3), get("ba", 4, 5)], True),
        ([append("a", 0, 1), append("b", 2, 3), get("b", 4, 5)], False),
        ([append("a", 0, 1), append("b", 2, inf), get("a", 4, 5)], True),
        ([append("a", 0, 1), get("ax", 4, 5)], False),
        ([append("a", 0, 1), get("aa", 4, 5)], False),
        ([append("a", 0, 1), put("p", 2, 3), get("p", 4, 5)], True),
        ([append("a", 0, 1), put("p", 2, 3), get("pa", 4, 5)], False),
        ([append("a", 0, 1), put("p", 2, 3), get("a", 4, 5)], False),
        ([append("a", 0, 9), put("p", 2, 3), get("pa", 4, 5), get("p", 3, 5)], True),
        ([put("p", 0, 1), put("q", 0, 1), get("p", 2, 3), get("q", 4, 5)], False),
        ([put("p", 0, 9), put("q", 0, 1), get("q", 2, 3), get("p", 4, 5)], True),
        ([get("p", 0, 1), put("p", 2, 3)], False),
        ([put("p", 0, 1), append("a", 2, 3), get("p", 4, 5)], False),  # seen by nobody, but there
        ([put("p", 0, 1), append("a", 2, 4), get("p", 4, 5)], True),
        ([append("a", 0, 1), append("b", 2, 3), get("ab", 1, 9), get("a", 2, 9)], True),
        ([append("a", 0, 1), append("b", 2, 3), get("ab", 4, 5), get("a", 6, 7)], False),
        ([append("a", 0, 1), get("", 2, 3)], False),
        ([append("a", 0, 9), append("b", 0, 9), get("ab", 10, 11), get("b", 12, 13)], False),
        ([append("a", 0, 9), append("b", 0, 9), get("ab", 10, 11), get("ba", 12, 13)], False),
        ([append(one, 0, inf) for one in "abc"] + [get("a", 1, 2), get("bc", 10, 11)], False),
    ],
)
def test_the_forced_order_of_a_string(rows: list[Row], expected: bool) -> None:
    table = columns(*sorted(rows, key=lambda row: row[3]))
    found = by_forced_order(table, "")

    assert found is not None
    assert found.linearizable is expected
    general = OwnSearch(KvAppend())
    assert general.verdict(table) is expected


class OwnSearch:
    """A model that no special method knows."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def verdict(self, table: Columns) -> bool | None:
        outer = self.model

        def step(state: Any, asked: Asked) -> Any:
            if asked.f in ("get", "read"):
                return state if asked.seen == state else None
            if asked.f == "put":
                return asked.value
            return state + asked.value

        own = OwnModel("", step, fs=sorted(outer.fs))
        lost = {Valid.VALID: True, Valid.INVALID: False, Valid.UNKNOWN: None}
        return lost[decide(table, own).valid]


@pytest.mark.parametrize(
    "rows",
    [
        [append("a", 0, 1), append("ab", 0, 1)],  # "aab" could be read in two ways
        [append("", 0, 1)],
        [append("x" * n, 0, 1) for n in range(1, 11)],
    ],
)
def test_where_a_string_can_be_read_in_two_ways_there_is_no_forced_order(rows: list[Row]) -> None:
    assert by_forced_order(columns(*rows), "") is None


def test_what_was_appended_twice_is_taken_from_the_last_that_had_begun() -> None:
    rows = [append("a", 0, 1), put("p", 2, 3), append("a", 4, 5), get("pa", 6, 7)]

    found = by_forced_order(columns(*rows), "")
    assert found is not None
    assert found.linearizable
    rows = [append("a", 0, 1), get("a", 2, 3), append("a", 4, 5)]
    assert by_forced_order(columns(*rows), "") == VALID
    rows = [append("a", 0, 1), put("p", 2, 3), append("a", 4, 5)]
    assert by_forced_order(columns(*rows, get("ap", 6, 7)), "") is None
    assert decide(columns(*rows, get("ap", 6, 7)), "kv-append").valid is Valid.INVALID


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([append("a", 0, 1), get("a", 2, 3), put("b", 4, 5), get("b", 6, 7)], True),
        ([append("a", 0, 1), get("", 2, 3)], False),  # alone, and wrong
        ([append("a", 0, 1), get("b", 2, inf), get("a", 3, 4)], True),  # nobody saw the b
        ([append("a", 0, 1), get("b", 2, inf)], True),
        ([append("a", 0, 1), get("", 1, 3)], True),  # equal times are concurrent
        ([append("a", 0, 1), append("b", 1, 3), get("ba", 4, 5)], True),
        ([append("a", 0, 1), append("b", 2, 9), append("c", 3, 9), get("acb", 10, 11)], True),
        ([append("a", 0, 1), append("b", 2, 9), append("c", 3, 9), get("cb", 10, 11)], None),
        ([append("a", 0, 1), put("p", 2, 9), append("c", 3, 9), get("pc", 10, 11)], True),
        ([append("a", 0, 1), put("p", 2, 9), append("c", 3, 9), get("ap", 10, 11)], None),
        ([append("a", 0, 1), put("p", 2, 9), append("c", 3, 9), get("p", 10, 11)], True),
        ([append("a", 0, 9), append("b", 0, 9), get("a", 1, 3), get("b", 1, 3)], None),
        ([append("a", 0, 9), append("a", 0, 9), get("aa", 1, 3)], True),
        ([append("a", 0, 9), get("aa", 1, 3)], None),
        ([append("ab", 0, 9), get("a", 1, 3)], None),
        ([put("ab", 0, 9), get("a", 1, 3)], None),
        ([put("p", 0, 1), put("q", 0, 1), get("p", 0, 1), get("", 0, 1)], True),
        ([append("a", 0, 9), append("b", 0, inf), get("a", 1, 3)], True),
        ([append("a", 0, 9), append("b", 0, 2), get("a", 3, 4)], None),  # where was the b?
        ([put("p", 0, 9), append("b", 0, 2), get("p", 3, 4)], True),
        ([put("p", 2, 9), append("b", 0, 2), put("q", 4, 6), get("q", 8, 9), get("p", 3, 5)], True),
        ([put("p", 0, 9), put("q", 3, 6), get("p", 1, 4), get("p", 5, 8)], True),
        ([put("p", 0, 9), put("q", 3, 4), get("p", 1, 2), get("p", 5, 8)], None),
        ([append("", 0, 9), append("a", 0, 9), get("a", 1, 3)], None),
        ([append("x" * n, 0, 99) for n in range(1, 11)], None),
    ],
)
def test_a_guessed_order_of_a_string(rows: list[Row], expected: bool | None) -> None:
    table = columns(*sorted(rows, key=lambda row: row[3]))

    assert by_witness(table, range(len(table)), "") is expected
    assert expected is None or decide(table, "kv-append").valid is VERDICTS[expected]


@pytest.mark.parametrize(("seen", "expected"), [("sa", True), ("s", None), ("a", None)])
def test_a_guessed_order_begins_with_what_was_there(seen: str, expected: bool | None) -> None:
    table = columns(append("a", 0, 2), append("b", 0, inf), get(seen, 3, 4))

    assert by_witness(table, range(len(table)), "s") is expected


VERDICTS = {True: Valid.VALID, False: Valid.INVALID}


@pytest.mark.parametrize("few", [0, 8])
def test_guesses_that_pass_are_right_by_the_textbook(
    monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(linearizable_texts, "BLOCKS_FEW", few)
    rng, model = Random(12), KvAppend()
    rules = Conventions(initial="")
    texts = ("", "a", "b", "ab", "ba", "aa", "aba")
    specs = [
        *(("get", None, v, "ok") for v in texts),
        *((f, v, None, o) for f in ("put", "append") for v in ("a", "b") for o in ("ok", "info")),
    ]
    found = []
    for at in range(1_200):
        if at % 2:
            history = answered(*small(rng, "kv-append"))
        else:
            some = rng.sample(specs, rng.randint(2, 8))
            history = random_history(rng, rng.randint(1, 8), some, rng.randint(1, 6))
        places, _ = event_places(history, rules)
        table = columns_of(calls_of(history, model, rules, places=places).by_key.get(None, []))
        guess = by_witness(table, range(len(table)), "")
        found.append(guess)
        assert guess in (None, textbook(history, model, rules)), list(history)
    assert found.count(True) > 400
    assert found.count(False) > 50


@pytest.mark.parametrize("f", ["append", "put"])
def test_guesses_take_no_more_than_the_length_of_a_history(f: str) -> None:
    n = 20_000
    rows: list[Row] = [
        (
            f,
            "ab" if f == "append" else f"p{at:05}",
            None,
            4 * at,
            4 * at + (5 if at % 99 == 0 else 1),
        )
        for at in range(n)
    ]
    if f == "put":
        rows += [get(f"p{at:05}", 4 * at + 2, 4 * at + 3) for at in range(n) if at % 99]
    table = columns(*sorted(rows, key=lambda row: row[3]))
    began = process_time()

    assert by_witness(table, range(len(table)), "") is True
    assert process_time() - began < 5  # each against each would be a minute


def test_strings_by_key_are_judged_by_the_cheapest_method_that_can() -> None:
    fine = [append("a", 0, 1), get("a", 2, 3)]
    stale = [append("a", 0, 9), append("b", 0, 9), get("ab", 1, 3), get("a", 4, 6)]
    hard = [append("a", 0, 9), append("ab", 0, 9), get("aab", 1, 5)]

    def verdict(*keys: list[Row]) -> linearizable.Decision:
        rows = sorted(
            ((row, key) for key, of_key in enumerate(keys) for row in of_key),
            key=lambda one: one[0][3],
        )
        return decide(columns(*(r for r, _ in rows), key=[k for _, k in rows]), "kv-append")

    assert verdict(fine, hard, fine).valid is Valid.VALID
    assert (verdict(fine, hard, stale).valid, verdict(fine, hard, stale).key) == (Valid.INVALID, 2)
    wrong = [*hard, get("aa", 6, 7)]
    assert (verdict(wrong, fine).valid, verdict(wrong, fine).key) == (Valid.INVALID, 0)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([append("a", 0, 1, 0), append("b", 2, 3, 1), read(("a", "b"), 4, 5)], True),
        ([append("a", 0, 1, 1), append("b", 2, 3, 0)], False),
        ([append("a", 0, 3, 1), append("b", 2, 3, 0)], True),
        ([append("a", 0, 1, 0), append("b", 0, 1, 0)], False),
        ([append("a", 0, 1, 1)], False),
        ([append("a", 0, 1, 0), read(("b",), 2, 3)], False),
        ([append("a", 0, 1, 0), read((), 2, 3)], False),
        ([append("a", 0, 1, 0), read((), 1, 3)], True),
        ([append("a", 0, 1, 0), append("b", 0, inf), read(("a",), 2, 3)], True),
        ([append("a", 0, 1, 1), append("b", 0, inf), read(("b", "a"), 2, 3)], None),
    ],
)
def test_positions_force_the_order_of_a_log(rows: list[Row], expected: bool | None) -> None:
    found = by_positions(columns(*rows), ())

    assert (None if found is None else found.linearizable) is expected
    if expected is None:
        assert decide(columns(*rows), "log").valid is Valid.VALID


def small(rng: Random, model: str) -> tuple[list[int], list[Any]]:
    """Ops of one object and what some order of them answers, at times with an answer changed."""
    values = ["a", "b", "cc", "d", "ee", "f", "g", "h"]
    rng.shuffle(values)
    look = "get" if model == "kv-append" else "read"
    fs = [look, "append", "append", *(["put"] if model == "kv-append" else [])]
    n = rng.randint(1, 7)
    specs: list[Any] = []
    for _ in range(n):
        f = rng.choice(fs)
        outcome = "ok" if f == look else rng.choice(("ok", "ok", "info"))
        specs.append([f, None if f == look else values.pop(), None, outcome])
    events = overlaps(rng, n)
    state: Any = "" if model == "kv-append" else []
    done: set[int] = set()
    for place, op in enumerate(events):
        if op not in events[:place] or op in done:
            continue
        done.add(op)
        f, value, _, outcome = specs[op]
        if outcome == "info" and rng.random() < 0.5:
            continue
        if f == look:
            specs[op][2] = state if isinstance(state, str) else list(state)
        elif f == "put":
            state = value
        else:
            if model == "log" and outcome == "ok":
                specs[op][2] = len(state)
            state = state + value if isinstance(state, str) else [*state, value]
    looks = [spec for spec in specs if spec[0] == look]
    if len(looks) > 1 and rng.random() < 0.5:
        looks[0][2], looks[1][2] = looks[1][2], looks[0][2]
    return events, specs


@pytest.mark.parametrize(
    ("name", "model"), [("kv-append", KvAppend()), ("list", ListAppend()), ("log", Log())]
)
def test_forced_orders_agree_with_the_textbook(name: str, model: Model) -> None:
    rng = Random(9)
    rules = Conventions(initial=model.initial)
    methods = set()
    for _ in range(400):
        events, specs = small(rng, name)
        history = answered(events, specs)
        found = check_history(history, model, conventions=rules)
        expected = textbook(history, model, rules)
        methods |= set(found.stats["methods"])
        assert found.valid is (Valid.VALID if expected else Valid.INVALID), list(history)
    assert "forced order" in methods


def answered(events: list[int], specs: list[Any]) -> History:
    ops: list[Op] = []
    begun: set[int] = set()
    for at, op in enumerate(events):
        f, value, seen, outcome = specs[op]
        kind: Any = outcome if op in begun else "invoke"
        answer = seen if f in ("get", "read") or outcome == "ok" else value
        ops.append(Op(at, at, op, kind, f, answer if op in begun else value))
        begun.add(op)
    return History(ops)


# --------------------------------------------------------------------------- columns


def test_columns_are_judged_in_two_lines() -> None:
    table = linearizable.Columns(["write", "read"], [1, None], [None, 1], [0, 2], [1, 3])
    assert linearizable.check_columns(table).valid is Valid.VALID


def test_a_key_that_fails_is_named_and_explained() -> None:
    table = columns(
        write(1, 0, 1), write(1, 0, 1), write(2, 2, 3), read(1, 4, 5), read(1, 6, 7),
        key=["a", "b", "a", "a", "b"],
    )  # fmt: skip

    found = check_columns(table)

    assert found.valid is Valid.INVALID
    assert "key 'a'" in found.anomalies[0].message
    assert "read -> 1" in found.anomalies[0].message
    assert decide(table).key == "a"
    assert list(decide(table).rows) == [0, 2, 3]


@pytest.mark.parametrize(
    ("table", "what"),
    [
        (Columns(["read"], [None], [None], [0], []), "'end' has 0 rows"),
        (columns(write(1, 2, 3), write(2, 1, 3)), "sort by 'begin'"),
        (columns(write(1, 2, 1)), "row 0 ended at 1"),
        (Columns(["read"], [None], [None], [0], [1], []), "'key' has 0 rows"),
    ],
)
def test_columns_that_are_none_say_why(table: Columns, what: str) -> None:
    with pytest.raises(HistoryFormatError, match=what):
        check_columns(table)


def test_no_rows_decide_nothing() -> None:
    assert check_columns(Columns([], [], [], [], [])).valid is Valid.UNKNOWN


def test_rows_become_ops_in_the_order_of_events() -> None:
    ops = list(ops_of(columns(write(1, 0, 5), cas(1, 2, 3, inf), failed(9, 5, 6))))

    assert [(op.process, op.type, op.f, op.value) for op in ops] == [
        (0, "invoke", "write", 1),
        (1, "invoke", "cas", [1, 2]),
        (2, "invoke", "cas", [9, None]),
        (0, "ok", "write", 1),
        (2, "fail", "cas", [9, None]),
    ]


# --------------------------------------------------------------------------- budgets


def test_a_search_stops_at_three_quarters_of_its_memory() -> None:
    held = [700 << 20]
    budget = Budget(10**9, inf, memory_bytes=1000 << 20, memory=lambda: held[0])

    budget.spend(1, 5_000)
    with pytest.raises(BudgetError, match="memory limit of 1000 MiB"):
        budget.spend(1, 5_000, 60 << 20)
    held[0] = 800 << 20
    budget.spend(1, 100)  # what is small is done whatever else the process holds
    with pytest.raises(BudgetError, match="memory limit"):
        budget.spend(1, 5_000)


def test_time_that_has_run_out_leaves_the_key_and_the_row_undecided() -> None:
    rows = [row for at in range(300) for row in (write(at % 3, at, at + 9), read(1, at, at + 9))]
    table = columns(*rows)

    found = check_columns(table, time_limit_s=0.0)

    assert found.valid is Valid.UNKNOWN
    assert "the time limit" in (found.reason or "")


def test_so_does_the_general_search(monkeypatch: pytest.MonkeyPatch) -> None:
    ops = [Op(at, at, at // 2, "ok" if at % 2 else "invoke", "get", "") for at in range(6)]
    rules = Conventions(initial="")
    places, _ = event_places(History(ops), rules)
    calls = calls_of(History(ops), KvAppend(), rules, places=places).by_key[None]
    died = iter([Outcome(linearizable=False, at=calls[1], cut=True), Outcome(None, at=calls[0])])
    monkeypatch.setattr(linearizable_search, "_walk", lambda *_: next(died))

    found = linearizable_search.search(calls, KvAppend(), [""], Budget.of(inf))

    assert (found.linearizable, found.at) == (None, calls[1])


# --------------------------------------------------------------------------- other models


def verdict_of(model: Model, *ops: tuple[int, str, str, Any]) -> Valid:
    history = History(
        Op(at, at, process, kind, f, value)  # type: ignore[arg-type]
        for at, (process, kind, f, value) in enumerate(ops)
    )
    rules = Conventions(initial=model.initial, failed_cas="observation")
    return check_history(history, model, conventions=rules).valid


def test_several_registers_are_read_at_one_moment() -> None:
    wrote = [["w", "x", 1], ["w", "y", 1]]
    both = [
        (0, "invoke", "txn", wrote),
        (0, "ok", "txn", wrote),
        (1, "invoke", "txn", [["r", "x", None], ["r", "y", None]]),
    ]

    whole = (1, "ok", "txn", [["r", "x", 1], ["r", "y", 1]])
    torn = (1, "ok", "txn", [["r", "x", 1], ["r", "y", None]])
    assert verdict_of(MultiRegister(), *both, whole) is Valid.VALID
    assert verdict_of(MultiRegister(), *both, torn) is Valid.INVALID


def test_blocks_of_ids_are_given_once_and_upwards() -> None:
    first = [(0, "invoke", "allocate", None), (0, "ok", "allocate", [0, 10])]
    asked = (1, "invoke", "allocate", None)

    for block, expected in (([10, 10], True), ([30, 10], True), ([5, 10], False), ([0, 10], False)):
        found = verdict_of(ProducerIds(), *first, asked, (1, "ok", "allocate", block))
        assert found is (Valid.VALID if expected else Valid.INVALID)
    lower = [
        (0, "invoke", "allocate", None),
        (0, "ok", "allocate", [20, 10]),
        asked,
        (1, "ok", "allocate", [0, 10]),
    ]
    assert verdict_of(ProducerIds(), *lower) is Valid.INVALID
    beside = [lower[0], asked, lower[1], lower[3]]
    assert verdict_of(ProducerIds(), *beside) is Valid.VALID


def test_an_isr_changes_once_for_each_epoch() -> None:
    won = [(0, "invoke", "alter", [0, [1, 2]]), (0, "ok", "alter", [0, [1, 2]])]
    again = (1, "invoke", "alter", [0, [1]])
    look = [(2, "invoke", "read", None), (2, "ok", "read", [1, [2, 1]])]

    assert verdict_of(Isr(), *won, *look) is Valid.VALID
    assert verdict_of(Isr(), *won, again, (1, "ok", "alter", [0, [1]])) is Valid.INVALID
    assert verdict_of(Isr(), *won, again, (1, "fail", "alter", [0, [1]]), *look) is Valid.VALID
    early = [again, (1, "fail", "alter", [0, [1]]), *won]
    assert verdict_of(Isr(), *early) is Valid.INVALID


def test_a_model_of_your_own_with_its_own_objects() -> None:
    def step(state: int, asked: Asked) -> int | None:
        if asked.f == "add":
            return state + 1
        return state if not asked.known or asked.seen == state else None

    counter = OwnModel(
        0, step, fs=("add", "get"), partition=lambda op: op.node, describe=lambda asked: asked.f
    )
    ops = [
        Op(0, 0, 0, "invoke", "add", node="n1"),
        Op(1, 1, 0, "ok", "add", node="n1"),
        Op(2, 2, 1, "invoke", "get", node="n2"),
        Op(3, 3, 1, "ok", "get", 0, node="n2"),
    ]

    assert check_history(History(ops), counter).valid is Valid.VALID
    one = OwnModel(0, step, fs=("add", "get"))
    found = check_history(History(ops), one)
    assert found.valid is Valid.INVALID
    assert "get null" in found.anomalies[0].message or "get nil" in found.anomalies[0].message
