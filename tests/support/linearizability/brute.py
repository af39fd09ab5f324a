"""Linearizability by trying every order: slow, obvious, and the judge of the real search."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import permutations, product
from math import inf
from random import Random
from typing import Any

from harness.contracts.model import ILLEGAL, Action, Model
from harness.history.formats import Conventions
from harness.history.ops import History, Op

Spec = tuple[str, Any, Any, str]  # f, argument, result, outcome


LOOKS = frozenset(("read", "get"))  # ops whose result is what they saw


def history_of(
    events: Sequence[int], specs: Sequence[Spec], answered: frozenset[str] = LOOKS
) -> History:
    """Build a history: each number in ``events`` is an op; its first place begins, its second ends.

    An op that comes only once stays open. Process = number of the op.
    """
    ops: list[Op] = []
    begun: set[int] = set()
    for at, number in enumerate(events):
        f, argument, result, outcome = specs[number]
        if number in begun:
            value = result if f in answered and outcome == "ok" else argument
            ops.append(Op(at, at, number, outcome, f, value))  # type: ignore[arg-type]
        else:
            begun.add(number)
            ops.append(Op(at, at, number, "invoke", f, argument))
    return History(ops)


def brute_force(history: History, model: Model, conventions: Conventions) -> bool:
    """Whether some order of all known and some unknown ops is legal and agrees with time."""
    known: list[Any] = []
    unknown: list[Any] = []
    for interval in history.intervals():
        action = model.action(interval, conventions)
        if action is None:
            continue
        end = interval.completion
        if end is None or end.type == "info":
            unknown.append((interval.invocation.index, None, action))
        else:
            known.append((interval.invocation.index, end.index, action))
    for chosen in product((False, True), repeat=len(unknown)):
        calls = known + [call for call, taken in zip(unknown, chosen, strict=True) if taken]
        if any(_legal(order, model, conventions) for order in permutations(calls)):
            return True
    return False


def _legal(order: Iterable[Any], model: Model, conventions: Conventions) -> bool:
    state: Any = model.start(conventions.initial)
    latest_begin = -1
    for begin, end, action in order:
        if end is not None and end < latest_begin:
            return False  # a call that began after this one had returned comes before it
        latest_begin = max(latest_begin, begin)
        state = model.step(state, action)
        if state is ILLEGAL:
            return False
    return True


def textbook(history: History, model: Model, conventions: Conventions) -> bool:
    """Wing and Gong's search as it is in the book, for histories too long for all orders."""
    calls: list[tuple[int, float, Action]] = []
    for interval in history.intervals():
        action = model.action(interval, conventions)
        if action is not None:
            end = interval.completion
            known = end is not None and end.type != "info"
            calls.append((interval.invocation.index, end.index if known and end else inf, action))
    everything = frozenset(range(len(calls)))
    must = frozenset(n for n in everything if calls[n][1] < inf)
    stack: list[tuple[frozenset[int], Any]] = [(frozenset(), model.start(conventions.initial))]
    visited = set(stack)
    while stack:
        done, state = stack.pop()
        if must <= done:
            return True
        rest = everything - done
        bound = min(calls[n][1] for n in rest)
        for n in rest:
            to = model.step(state, calls[n][2])
            entry = (done | {n}, to)
            if calls[n][0] < bound and to is not ILLEGAL and entry not in visited:
                visited.add(entry)
                stack.append(entry)
    return False


def shapes(n: int) -> list[tuple[int, ...]]:
    """Every way in which n ops can overlap, up to renaming; all of them end."""
    found: list[tuple[int, ...]] = []

    def grow(events: tuple[int, ...], begun: int, open_: frozenset[int]) -> None:
        if len(events) == 2 * n:
            found.append(events)
            return
        if begun < n:
            grow((*events, begun), begun + 1, open_ | {begun})
        for number in sorted(open_):
            grow((*events, number), begun, open_ - {number})

    grow((), 0, frozenset())
    return found


def random_history(
    rng: Random,
    n: int,
    specs: Sequence[Spec],
    concurrency: int,
    *,
    answered: frozenset[str] = LOOKS,
) -> History:
    """Ops drawn from ``specs``, with at most so many in flight."""
    drawn = [rng.choice(specs) for _ in range(n)]
    events: list[int] = []
    open_: list[int] = []
    begun = 0
    while begun < n or open_:
        if begun < n and len(open_) < concurrency and (not open_ or rng.random() < 0.55):
            events.append(begun)
            open_.append(begun)
            begun += 1
        else:
            events.append(open_.pop(rng.randrange(len(open_))))
    return history_of(events, drawn, answered)
