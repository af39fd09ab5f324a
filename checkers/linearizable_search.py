"""The search: just-in-time linearization over one key, exact for every model.

The events of a key are walked once. A *configuration* is a state and, of the calls in flight,
which are linearized already; a *layer* is the set of configurations that explain everything so
far, so memory is one layer, not the history. Only when a call returns must it have been
linearized; configurations that have not are expanded by calls in flight until they have. When
none is left the history is not linearizable.

Reductions, each proved by comparison with brute force over every small history:

- A call that only observes is linearized as soon as the state allows it: it changes nothing, so
  having it done is never worse.
- A mutator is linearized only when a call that returns needs it.
- Of equal actions in flight only the one that returns first is tried.
- A blind write that nobody observes can be hidden right before the next blind write, and any
  mutator where it would leave the state as it is. It is then *optional*: when it returns it may
  count as done, and until then it may still be used. So overlapping writes do not multiply
  configurations.
- A configuration is dropped when another one of the same state has every option it has: calls of
  unknown outcome still unused, observers already done, optional instead of done or not done.

Source: Wing and Gong 1993; Lowe, "Testing for linearizability", 2017 (just-in-time).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from time import monotonic

from checkers.linearizable_calls import Call
from checkers.models import Action, Illegal, Model, State

Config = tuple[int, int, int]  # state number, bits of calls done, bits of optional mutators
_CLOCK_EVERY = 512  # expansions between two looks at the clock
_PAIRWISE_MAX = 64  # configurations of one state that are compared with each other


class BudgetError(Exception):
    """Raised inside the search when a limit is reached; ``reason`` says which."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(slots=True)
class Budget:
    """What a check may use: time over all its keys, configurations at any one moment.

    A configuration held takes some 300 bytes, so their number bounds the memory.
    """

    configurations_max: int
    deadline_s: float  # by ``clock``
    clock: Callable[[], float] = monotonic
    used: int = 0  # configurations looked at, in all

    def spend(self, looked_at: int, held: int) -> None:
        """Count configurations; raises BudgetError when a limit is passed."""
        self.used += looked_at
        if held > self.configurations_max:
            raise BudgetError(f"more than {self.configurations_max} configurations at once")
        if self.clock() > self.deadline_s:
            raise BudgetError("the time limit")


@dataclass(slots=True)
class Outcome:
    """What a search found: ``linearizable`` None when the budget ran out, at call ``at``."""

    linearizable: bool | None
    at: Call | None = None
    reason: str | None = None
    layers: list[tuple[int, list[State]]] = field(default_factory=list)  # place, possible states
    configurations: int = 0
    layer_max: int = 0


class Steps:
    """A model's transitions with states and actions as numbers, each computed once."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.states: list[State] = []
        self._numbers: dict[State, int] = {}
        self._rows: list[dict[int, int]] = []
        self.actions: list[Action] = []
        self._action_numbers: dict[Action, int] = {}

    def state(self, state: State) -> int:
        """The number of a state."""
        number = self._numbers.get(state)
        if number is None:
            number = self._numbers[state] = len(self.states)
            self.states.append(state)
            self._rows.append({})
        return number

    def action(self, action: Action) -> int:
        """The number of an action."""
        number = self._action_numbers.get(action)
        if number is None:
            number = self._action_numbers[action] = len(self.actions)
            self.actions.append(action)
        return number

    def step(self, state: int, action: int) -> int:
        """The number of the next state, or -1 when illegal."""
        row = self._rows[state]
        to = row.get(action)
        if to is None:
            after = self._model.step(self.states[state], self.actions[action])
            to = row[action] = -1 if isinstance(after, Illegal) else self.state(after)
        return to


def search(
    calls: Sequence[Call],
    model: Model,
    starts: Sequence[State],
    budget: Budget,
    *,
    record: bool = False,
) -> Outcome:
    """Decide whether the calls of one key can be put in one order from any of the ``starts``.

    Exponential in the number of calls in flight at worst, linear in their number otherwise.
    With ``record`` the outcome has the possible states after every return.
    """
    walk = _Walk(Steps(model), budget)
    outcome = Outcome(linearizable=True)
    layer = {(walk.steps.state(start), 0, 0) for start in starts}
    before = budget.used
    at: Call | None = None
    try:
        for place, is_return, call in _events(calls):
            if not is_return:
                walk.begin(call)
                continue
            at = call
            layer = walk.finish(call, layer)
            budget.spend(len(layer), len(layer))
            outcome.layer_max = max(outcome.layer_max, len(layer))
            if not layer:
                outcome.linearizable = False
                outcome.at = call
                break
            if record:
                states = sorted({state for state, _, _ in layer})
                outcome.layers.append((place, [walk.steps.states[state] for state in states]))
    except BudgetError as error:
        outcome.linearizable = None
        outcome.reason = error.reason
        outcome.at = at
    outcome.configurations = budget.used - before
    return outcome


def _events(calls: Sequence[Call]) -> list[tuple[int, bool, Call]]:
    events = [(call.begin, False, call) for call in calls]
    events += [(call.end, True, call) for call in calls if call.end is not None]
    events.sort(key=lambda event: event[0])
    return events


class _Walk:
    """The calls in flight, and how a layer changes when one of them returns."""

    def __init__(self, steps: Steps, budget: Budget) -> None:
        self.steps = steps
        self._budget = budget
        self._free: list[int] = []
        self._bits_used = 0
        self._bit: dict[int, int] = {}  # of each call in flight, by the place where it began
        # in flight, by bit -> action number; mutators in the order in which they return
        self._observers: dict[int, int] = {}
        self._mutators: list[tuple[float, int, int]] = []  # (end, bit, action number)
        self._live: dict[int, int] = {}  # mutators that will return: bit -> action number
        self._blind = 0  # bits of those of them that are blind
        self._unknown = 0  # bits
        self._seeing = 0  # bits
        self._fresh = False  # calls began since the last return
        self._done_at: dict[int, int] = {}  # state -> observers legal there
        self._same_at: dict[int, int] = {}  # state -> mutators that would not change it

    def begin(self, call: Call) -> None:
        """A call is in flight from now on."""
        if self._free:
            bit = self._free.pop()
        else:
            bit = 1 << self._bits_used
            self._bits_used += 1
        self._bit[call.begin] = bit
        action = self.steps.action(call.action)
        if call.action.observes:
            self._observers[bit] = action
            self._seeing |= bit
            self._fresh = True
            return
        insort(self._mutators, (inf if call.end is None else call.end, bit, action))
        if call.end is None:
            self._unknown |= bit
            return
        self._live[bit] = action
        self._fresh = True
        if call.action.blind:
            self._blind |= bit

    def finish(self, call: Call, layer: set[Config]) -> set[Config]:
        """The layer after a call returned: in every configuration it is done by then."""
        bit = self._bit.pop(call.begin)
        self._done_at.clear()
        self._same_at.clear()
        if self._fresh:
            layer = {self._arrive(*config) for config in layer}
            self._fresh = False
        after: set[Config] = set()
        todo: list[Config] = []
        for config in layer:
            state, done, optional = config
            if done & bit:
                after.add((state, done ^ bit, optional))
                continue
            if optional & bit:
                after.add((state, done, optional ^ bit))
            todo.append(config)
        if todo:
            self._expand(todo, bit, after)
        self._retire(bit)
        return self._prune(after) if len(after) > 1 else after

    def _retire(self, bit: int) -> None:
        self._free.append(bit)
        if self._observers.pop(bit, None) is None:
            del self._live[bit]
            self._blind &= ~bit
            self._mutators = [entry for entry in self._mutators if entry[1] != bit]
        else:
            self._seeing &= ~bit

    def _arrive(self, state: int, done: int, optional: int) -> Config:
        """Take at once what costs nothing in this state."""
        sees = self._done_at.get(state)
        if sees is None:
            step = self.steps.step
            sees = sum(bit for bit, a in self._observers.items() if step(state, a) >= 0)
            self._done_at[state] = sees
            self._same_at[state] = sum(
                bit for bit, a in self._live.items() if step(state, a) == state
            )
        return state, done | sees, optional | (self._same_at[state] & ~done)

    def _expand(self, todo: list[Config], target: int, after: set[Config]) -> None:
        """Linearize calls in flight, depth first, until ``target`` is done."""
        step = self.steps.step
        # a configuration, and whether the last call on the way was a write nobody saw
        stack = [(config, False) for config in todo]
        visited = set(stack)
        expanded = 0
        while stack:
            (state, done, optional), unseen = stack.pop()
            expanded += 1
            if expanded % _CLOCK_EVERY == 0:
                self._budget.spend(_CLOCK_EVERY, len(visited) + len(after))
            tried: set[int] = set()
            for _, bit, action in self._mutators:
                if done & bit or action in tried:
                    continue
                tried.add(action)
                is_blind = self.steps.actions[action].blind
                if unseen and is_blind:
                    continue  # the write before this one was for nothing: it is optional here
                to = step(state, action)
                if to < 0 or (to == state and bit != target):
                    continue
                options = (optional | self._blind) if is_blind else optional
                config = self._arrive(to, done | bit, options & ~(done | bit))
                if config[1] & target:
                    after.add((to, config[1] ^ target, config[2]))
                    continue
                useless = config[1] == done | bit and (is_blind or bool(bit & self._unknown))
                entry = (config, useless)
                if entry not in visited:
                    visited.add(entry)
                    stack.append(entry)
        self._budget.spend(expanded % _CLOCK_EVERY, len(after))

    def _prune(self, layer: set[Config]) -> set[Config]:
        """Drop configurations that another one of the same state can stand for."""
        by_state: dict[int, list[Config]] = {}
        for config in layer:
            by_state.setdefault(config[0], []).append(config)
        kept: set[Config] = set()
        for configs in by_state.values():
            if len(configs) > 1:
                configs.sort(key=self._options, reverse=True)
            for at, config in enumerate(configs):
                rivals = configs[: min(at, _PAIRWISE_MAX)]
                if not any(self._stands_for(rival, config) for rival in rivals):
                    kept.add(config)
        return kept

    def _options(self, config: Config) -> tuple[int, int]:
        _, done, optional = config
        better = optional.bit_count() + (done & self._seeing).bit_count()
        return better - (done & self._unknown).bit_count(), done

    def _stands_for(self, one: Config, other: Config) -> bool:
        """Whether ``one`` can do whatever ``other`` can."""
        _, done, optional = one
        _, done_other, optional_other = other
        if optional_other & ~optional:
            return False
        differ = done ^ done_other
        if differ & ~(optional | self._seeing | self._unknown):
            return False
        if differ & self._seeing & done_other:
            return False
        return not differ & self._unknown & done
