"""Explains why a history is not linearizable: ops that contradict, and how far one gets with them.

The ops are a minimal core: they fail alone, from the start, and whatever the others did. Where the
limits leave no time for one it is a window: the shortest stretch of the key's ops that fails though
it may begin in any state that was still possible there, with every op then in flight free to come
anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from checkers.limits.budget import Budget
from checkers.linearizability.calls import Call
from checkers.linearizability.core import Core, find_core
from checkers.linearizability.search import Outcome, search
from harness.contracts.model import Illegal, Model, State, show

TIME_LIMIT_S = 5.0  # to find the window of one key, and as much for the core
CONFIGURATIONS_MAX = 50_000  # at once, in one try
STATES_MAX = 500  # that a window may begin in
PARTIAL_CONFIGURATIONS_MAX = 5_000
PARTIAL_OPS_MAX = 200  # a longer window has no partial orders listed
PARTIALS_MAX = 3
LISTED_MAX = 60  # ops listed in full
_GROWTH = 4  # of the stretch behind the call that failed, each time
NAMED_MAX = 8  # ops named in the sentence


@dataclass(frozen=True, slots=True)
class Explanation:
    """An explanation: one sentence, the ops it is about, and the data behind it as JSON."""

    sentence: str
    ops: tuple[int, ...]
    details: dict[str, Any]


@dataclass(slots=True)
class _Partial:
    """An order of some of the window's calls, and the state it ends in."""

    order: tuple[Call, ...]
    state: State
    known: int = 0  # calls of known outcome in it
    rest: list[Call] = field(default_factory=list)


def explain(
    calls: Sequence[Call],
    model: Model,
    starts: Sequence[State],
    outcome: Outcome,
    whole: tuple[Sequence[Call], State],
    time_limit_s: float = TIME_LIMIT_S,
) -> Explanation:
    """Explain the failed search of one key's calls; ``outcome.at`` is the call that failed.

    ``starts``: the states that the first of the calls may have found. ``whole``: all calls of the
    key, and the state at the start.
    """
    stuck = outcome.at
    assert stuck is not None and stuck.end is not None  # noqa: S101, PT018
    window, starts = _window(calls, model, starts, outcome, time_limit_s)
    all_calls, start = whole
    core = _core(all_calls, window, stuck.end, model, start, time_limit_s)
    if core is not None:
        window, starts = list(core.calls), [start]
        # Where the search looked ahead, the call at which it stopped need not be among them.
        begins = {call.begin for call in window}
        named = [call for call in all_calls if call.begin in begins and call.end is not None]
        stuck = max(named, key=lambda call: call.end or 0)
    partials, complete = _partials(window, model, starts)
    states = _last_states(partials)
    known = [call for call in window if call.end is not None]
    shown = sorted(window, key=lambda call: (call.end is None, call.begin))[:LISTED_MAX]
    details = {
        "stuck": _call(stuck, model),
        "minimal": core is not None and core.minimal,
        "window": {
            "first_op": min(call.index for call in window),
            "last_op": _last_op(stuck),
            "ops": len(known),
            "ops_of_unknown_outcome": len(window) - len(known),
            "start_states": [show(state) for state in starts[:LISTED_MAX]],
        },
        "ops": [_call(call, model) for call in sorted(shown, key=lambda call: call.begin)],
        "partials": [_partial(partial, model) for partial in partials],
        "partials_complete": complete,
    }
    return Explanation(
        _sentence(stuck, window, partials, model, states, alone=core is not None),
        tuple(sorted({i for call in shown for i in _indices(call)} | set(_indices(stuck)))),
        details,
    )


def _core(
    calls: Sequence[Call],
    window: Sequence[Call],
    end: int,
    model: Model,
    start: State,
    time_limit_s: float,
) -> Core | None:
    """The core among the calls up to a place, or to a later one: some methods look ahead."""
    budget = Budget.of(time_limit_s, configurations_max=CONFIGURATIONS_MAX)
    later = sorted(call.end for call in calls if call.end is not None and call.end > end)
    steps = [_GROWTH**n for n in range(len(later)) if _GROWTH**n < len(later)]
    for each in (end, *(later[step - 1] for step in steps), *later[-1:]):
        core = find_core(_prefix(calls, each), window, model, start, budget)
        if core is not None:
            return core
    return None


def _prefix(calls: Sequence[Call], end: int) -> list[Call]:
    return _cut([call for call in calls if call.begin < end], -1, end)


def _window(
    calls: Sequence[Call],
    model: Model,
    first: Sequence[State],
    outcome: Outcome,
    time_limit_s: float,
) -> tuple[list[Call], list[State]]:
    """The shortest failing stretch that ends with the stuck call, and the states it may begin in.

    First from any state that came up lately, so that the stretch shows all it takes; then from
    the states that were possible just there; else everything from the start.
    """
    stuck = outcome.at
    assert stuck is not None and stuck.end is not None  # noqa: S101, PT018
    prefix = [call for call in calls if call.begin < stuck.end]
    budget = Budget.of(time_limit_s, configurations_max=CONFIGURATIONS_MAX)
    anywhere = list(dict.fromkeys(s for _, states in outcome.layers for s in states))
    tries = [(place, [*anywhere, *first]) for place, _ in reversed(outcome.layers)]
    if len(anywhere) > STATES_MAX:
        tries = []
    for place, starts in [*tries, *reversed(outcome.layers)]:
        window = _cut(prefix, place, stuck.end)
        found = search(window, model, starts, budget)
        if found.linearizable is False:
            return window, starts
    return _cut(prefix, -1, stuck.end), list(first)


def _cut(calls: Sequence[Call], after: int, end: int) -> list[Call]:
    """Calls in flight after a place; those that return later than ``end`` are open there."""
    return [
        call if call.end is None or call.end <= end else call.open_ended()
        for call in calls
        if call.end is None or call.end > after
    ]


def _partials(
    window: Sequence[Call], model: Model, starts: Sequence[State]
) -> tuple[list[_Partial], bool]:
    """The longest legal orders, one for each state that they end in; False when cut short."""
    if len(window) > PARTIAL_OPS_MAX:
        return [], False
    best: dict[State, _Partial] = {}
    stack: list[tuple[frozenset[int], _Partial]] = [
        (frozenset(), _Partial((), state)) for state in reversed(starts)
    ]
    visited = {(taken, partial.state) for taken, partial in stack}
    looked_at = 0
    while stack and looked_at < PARTIAL_CONFIGURATIONS_MAX:
        taken, partial = stack.pop()
        looked_at += 1
        rival = best.get(partial.state)
        if rival is None or (partial.known, -len(partial.order)) > (rival.known, -len(rival.order)):
            best[partial.state] = partial
        for call in _next(window, taken):
            to = model.step(partial.state, call.action)
            after = taken | {call.begin}
            if isinstance(to, Illegal) or (after, to) in visited:
                continue
            visited.add((after, to))
            known = partial.known + (call.end is not None)
            stack.append((after, _Partial((*partial.order, call), to, known)))
    longest = max(partial.known for partial in best.values())
    found = [partial for partial in best.values() if partial.known == longest]
    found.sort(key=lambda partial: len(partial.order))
    for partial in found[:PARTIALS_MAX]:
        done = {call.begin for call in partial.order}
        partial.rest = [call for call in window if call.begin not in done]
    return found[:PARTIALS_MAX], not stack


def _next(window: Sequence[Call], taken: frozenset[int]) -> list[Call]:
    """The calls that time allows next: nothing outside ``taken`` returned before they began."""
    rest = [call for call in window if call.begin not in taken]
    bound = min((call.end for call in rest if call.end is not None), default=None)
    return [call for call in rest if bound is None or call.begin < bound]


def _last_states(partials: Sequence[_Partial]) -> list[State]:
    return list(dict.fromkeys(partial.state for partial in partials))


def _sentence(
    stuck: Call,
    window: Sequence[Call],
    partials: Sequence[_Partial],
    model: Model,
    states: list[State],
    *,
    alone: bool,
) -> str:
    op = stuck.interval.invocation
    what = model.describe(stuck.action)
    text = f"{what} (op {op.index}, process {op.process}) cannot be linearized"
    illegal = [
        model.obstacle(state, stuck.action)
        for state in states
        if isinstance(model.step(state, stuck.action), Illegal)
    ]
    if illegal and any(stuck in partial.rest for partial in partials):
        text += f": {illegal[0]}"
    if not alone:
        first, known = min(c.index for c in window), sum(c.end is not None for c in window)
        return f"{text}; the {known} ops from {first} to {_last_op(stuck)} show it"
    if len(window) == 1:
        return f"{text}: no op can have led to it"
    named = _listing([c.index for c in sorted(window, key=lambda c: c.begin)])
    return f"{text}; ops {named} contradict each other"


def _listing(indices: Sequence[int]) -> str:
    """List the indices as in ``3, 5 and 8``, only the first ones of many."""
    if len(indices) > NAMED_MAX:
        shown = ", ".join(map(str, indices[:NAMED_MAX]))
        return f"{shown} and {len(indices) - NAMED_MAX} more"
    *most, last = map(str, indices)
    return f"{', '.join(most)} and {last}"


def _call(call: Call, model: Model) -> dict[str, Any]:
    op, end = call.interval.invocation, call.interval.completion
    return {
        "op": op.index,
        "completion": None if end is None else end.index,
        "process": op.process,
        "f": op.f,
        "what": model.describe(call.action),
        "outcome": call.interval.outcome,
        "began_ns": op.time_ns,
        "ended_ns": None if end is None else end.time_ns,
    }


def _partial(partial: _Partial, model: Model) -> dict[str, Any]:
    done = frozenset(call.begin for call in partial.order)
    allowed = {call.begin for call in _next([*partial.order, *partial.rest], done)}
    return {
        "order": [call.index for call in partial.order],
        "what": [model.describe(call.action) for call in partial.order],
        "state": show(partial.state),
        "cannot_follow": [
            {"op": call.index, "what": model.describe(call.action), "why": why}
            for call in partial.rest[:LISTED_MAX]
            for why in [_why(call, partial, model, allowed)]
        ],
    }


def _why(call: Call, partial: _Partial, model: Model, allowed: set[int]) -> str:
    if call.begin not in allowed:
        first = min(
            (c for c in partial.rest if c.end is not None and c.end < call.begin),
            key=lambda c: c.end or 0,
        )
        return f"it began after op {first.index} had returned, which has no place yet"
    if isinstance(model.step(partial.state, call.action), Illegal):
        return model.obstacle(partial.state, call.action)
    return "it could come next, but nothing then explains the rest"


def _indices(call: Call) -> list[int]:
    end = call.interval.completion
    return [call.index] if end is None else [call.index, end.index]


def _last_op(stuck: Call) -> int:
    end = stuck.interval.completion
    return stuck.index if end is None else end.index
