"""Chooses the method that judges one key: the cheapest that is sound for its history.

Zones where every value is written once, with chains of compare-and-set; the forced order where
answers tell the order of all appends; else a search, for registers or for any model. A method
that does not apply says so and the next one takes over.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from checkers.limits.budget import Budget
from checkers.linearizability.calls import Call, columns_of
from checkers.linearizability.chains import by_chains
from checkers.linearizability.columns import Columns
from checkers.linearizability.forced import by_forced_order, by_positions
from checkers.linearizability.registers import Found, search_register
from checkers.linearizability.search import Outcome, search
from checkers.linearizability.texts import by_witness
from checkers.linearizability.zones import VALID, by_zones
from checkers.models.lists import ListAppend, Log
from checkers.models.registers import Register
from checkers.models.strings import KvAppend
from harness.contracts.model import Illegal, Model, Ranks, State

EXPLAIN_S = 5.0  # to find what to say about one key
_EXPLAIN_CONFIGURATIONS = 50_000
_MAKE = ("write", "cas")
_UNIQUE = 128  # values that are looked at
_STRETCHES = (8, 64, 512, 4096)  # returns before the one that failed


def judge_register(columns: Columns, start: Hashable, budget: Budget) -> tuple[str, Found]:
    """Judge one register: the method's name, and what it found."""
    name, zones = "zones", by_zones(columns, start)
    if zones is None and _unique(columns):
        name, zones = "chains", by_chains(columns, start)
    if zones is None:
        return "search", search_register(columns, start, budget)
    if zones.linearizable:
        return name, Found(linearizable=True)
    return name, Found(linearizable=False, conflict=zones.conflict)


def _unique(columns: Columns) -> bool:
    """Tell whether it is worth a try: the first values that were written all differ."""
    made: set[Hashable] = set()
    for f, value in zip(columns.f, columns.value, strict=False):
        if f in _MAKE:
            if value in made:
                return False
            made.add(value)
            if len(made) == _UNIQUE:
                break
    return True


def judge(calls: Sequence[Call], model: Model, start: State, budget: Budget) -> tuple[str, Outcome]:
    """Judge the calls of one key: the method's name, and what it found."""
    name, found = judge_columns(columns_of(calls), model, start, budget)
    if found is None and isinstance(model, Ranks):
        found = by_rank(calls, model, start)
        name = "forced order"
    if found is None:
        outcome = search(calls, model, [start], budget)
        if outcome.linearizable is not False:
            outcome.calls = ()
        return "search", outcome
    if found.linearizable is None:
        at = None if found.row is None else calls[found.row]
        return name, Outcome(None, at, found.reason, layer_max=found.layer_max)
    if found.linearizable:
        return name, Outcome(linearizable=True, layer_max=found.layer_max)
    return name, _failed(calls, model, start, found, budget)


def judge_columns(
    columns: Columns, model: Model, start: State, budget: Budget
) -> tuple[str, Found | None]:
    """Judge by the methods that need no model; None where only the general search can tell."""
    if isinstance(model, Register):
        return judge_register(columns, start, budget)
    zones = None
    name = "forced order"
    if isinstance(model, Log):
        zones = by_positions(columns, start)
    elif isinstance(model, KvAppend) and by_witness(columns, range(len(columns)), start):
        zones = VALID
    elif isinstance(model, KvAppend | ListAppend):
        zones = by_forced_order(columns, start)
    if zones is None:
        return "search", None
    return name, Found(zones.linearizable, conflict=zones.conflict)


def by_rank(calls: Sequence[Call], model: Model, start: State) -> Found | None:
    """Judge calls that have one order only; None where the outcome of one is unknown."""
    assert isinstance(model, Ranks)  # noqa: S101
    if any(call.end is None for call in calls):
        return None
    rows = sorted(range(len(calls)), key=lambda row: model.rank(calls[row].action))
    state, latest, before = start, -1, -1
    for row in rows:
        to = model.step(state, calls[row].action)
        late = latest >= 0 and (calls[row].end or 0) < calls[latest].begin
        if isinstance(to, Illegal) or late:
            other = latest if late else before
            return Found(linearizable=False, conflict=tuple(sorted({row, max(other, 0)})))
        state, before = to, row
        if latest < 0 or calls[row].begin > calls[latest].begin:
            latest = row
    return Found(linearizable=True)


def judge_calls(calls: Sequence[Call], model: Model, start: State, budget: Budget) -> Found:
    """The verdict of the general search alone."""
    if isinstance(model, Ranks) and (found := by_rank(calls, model, start)) is not None:
        return found
    outcome = search(calls, model, [start], budget)
    row = None if outcome.at is None else outcome.at.index
    return Found(outcome.linearizable, row, (), outcome.reason, outcome.layer_max)


def _failed(
    calls: Sequence[Call], model: Model, start: State, found: Found, budget: Budget
) -> Outcome:
    """The stretch of a history that is not linearizable, as the general search sees it.

    Without one the outcome has no calls: then there is nothing to show but the verdict.
    """
    limit = Budget.of(min(EXPLAIN_S, budget.left_s() + 1), budget.memory_bytes)
    if found.conflict:
        few = [calls[row] for row in found.conflict]
        outcome = search(few, model, [start], limit.part(_EXPLAIN_CONFIGURATIONS))
        if outcome.linearizable is False:
            return outcome
    elif found.row is not None:
        stuck = calls[found.row]
        starts = [start, *dict.fromkeys(call.action.value for call in calls)]
        returns = sorted(c.end for c in calls if c.end is not None and c.end <= (stuck.end or 0))
        for length in _STRETCHES:
            if length >= len(returns):
                break
            few = until(calls, returns[-length - 1], stuck)
            outcome = search(few, model, starts, limit.part(_EXPLAIN_CONFIGURATIONS))
            if outcome.linearizable is False:
                outcome.starts = starts
                return outcome
    outcome = search(calls, model, [start], limit)
    if outcome.linearizable is False:
        return outcome
    assert outcome.linearizable is None, "search and method disagree"  # noqa: S101
    return Outcome(linearizable=False, at=None if found.row is None else calls[found.row])


def until(calls: Sequence[Call], after: int, stuck: Call) -> list[Call]:
    """The calls in flight after a place and before ``stuck`` returned."""
    end = stuck.end
    assert end is not None  # noqa: S101
    return [
        call if call.end is None or call.end <= end else call.open_ended()
        for call in calls
        if call.begin < end and (call.end is None or call.end > after)
    ]
