"""An anomaly of topics names a few ops that have it alone, and none of them can be left out."""

from __future__ import annotations

import os
from collections import Counter
from functools import partial
from itertools import chain
from random import Random
from typing import Any

from checkers.linearizable import check_history
from checkers.models.topics import check_topics
from harness.history.ops import History, Interval, Op
from harness.verdict import Anomaly, Valid

INVALID = int(os.environ.get("KRUCIBLE_EXPLAINED", "100"))  # histories
NAMES = ("t", "u")
ASKED: list[dict[str, Any]] = [{"partitions": n, "configs": {}} for n in (1, 2)]
check = partial(check_topics, by_states=check_history)


def random_topics(rng: Random, ops: int) -> History:
    """Creates, deletes and looks at two names, three at a time, some answered wrongly."""
    topics: dict[str, Any] = dict.fromkeys(NAMES)
    past: list[dict[str, Any]] = []
    lies = rng.choice((0.0, 0.1, 0.3))
    open_: dict[int, tuple[str, str, Any]] = {}
    crew, fresh, told = [0, 1, 2], 3, list[Op]()

    def note(process: int, kind: Any, f: str, key: str, value: Any, error: str | None) -> None:
        told.append(Op(len(told), len(told), process, kind, f, value, key, error))

    while len(told) < 2 * ops:
        process = rng.choice(crew)
        if process not in open_:
            f, key = rng.choice(("create", "delete", "describe")), rng.choice(NAMES)
            asked = rng.choice(ASKED) if f == "create" else None
            open_[process] = f, key, asked
            note(process, "invoke", f, key, asked, None)
            continue
        f, key, asked = open_.pop(process)
        there = topics[key] if rng.random() >= lies or not past else rng.choice(past)[key]
        outcome, value, error = "ok", None, None
        if f == "describe":
            value = there
            if there is not None and rng.random() < lies:
                value = {**there, "partitions": rng.choice((1, 2))}
        elif f == "create" and there is not None:
            outcome, error = "fail", "topic-already-exists"
        elif f == "delete" and there is None:
            outcome, error = "fail", "unknown-topic"
        elif f == "create":
            number = rng.randrange(len(told)) if rng.random() < lies else len(told)
            value = topics[key] = {**asked, "id": f"id{number}"}
        else:
            topics[key] = None
        past.append(dict(topics))
        if rng.random() < 0.15:
            outcome, value, error = "info", asked, "timed-out"
            crew[crew.index(process)] = fresh
            fresh += 1
        note(process, outcome, f, key, value, error)
    return History(told)


def ops_of(intervals: list[Interval]) -> History:
    both = chain.from_iterable((i.invocation, i.completion) for i in intervals)
    return History(sorted((op for op in both if op is not None), key=lambda op: op.index))


def assert_core(anomaly: Anomaly, whole: History) -> None:
    """Alone the ops have the same anomaly; without any one of them that is not told any more."""
    intervals = list(whole.intervals())
    named = [i for i in intervals if i.invocation.index in anomaly.ops]
    assert {op.index for op in ops_of(named)} == set(anomaly.ops)
    alone = check(ops_of(named))
    assert alone.valid is Valid.INVALID, anomaly
    assert anomaly.invariant in {found.invariant for found in alone.anomalies}, (anomaly, alone)
    if anomaly.invariant == "linearizability":
        assert anomaly.details["minimal"]
        return
    assert anomaly.message in {found.message for found in alone.anomalies}
    for out in named:
        rest = check(ops_of([i for i in named if i != out]))
        assert anomaly.message not in {found.message for found in rest.anomalies}, (anomaly, out)


def test_ops_that_are_named_have_their_anomaly_alone_and_none_can_be_left_out() -> None:
    rng, seen, names = Random("cores"), 0, Counter[str]()
    for _ in range(50 * INVALID):
        whole = random_topics(rng, rng.randint(2, 12))
        result = check(whole)
        for anomaly in result.anomalies:
            assert_core(anomaly, whole)
            names[anomaly.invariant] += 1
        seen += result.valid is Valid.INVALID
        if seen == INVALID:
            break
    assert seen == INVALID, f"{seen} invalid histories drawn"
    assert set(names) == {"linearizability", "C11", "all-or-nothing"}
