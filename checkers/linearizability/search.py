"""The search: just-in-time linearization over one key, exact for every model.

The events of a key are walked once. A *configuration* is a state and, of the calls in flight,
which are linearized already; a *layer* is the set of configurations that explain everything so
far, so memory is one layer, not the history. Only when a call returns must it have been
linearized; configurations that have not are expanded by calls in flight until they have. When
none is left the history is not linearizable.

Reductions, each held against brute force over every small history, against models drawn at random,
and against what correct objects answer:

- A call that only observes is linearized as soon as the state allows it: it changes nothing, so
  having it done is never worse.
- A mutator is linearized only when a call that returns needs it.
- Of equal actions in flight only the one that returns first is tried, and the first that is not
  optional.
- A blind write that nobody observes can be hidden right before the next blind write, and any
  mutator where it would leave the state as it is. It is then *optional*: when it returns it may
  count as done, and until then it may still be used. So overlapping writes do not multiply
  configurations.
- Once only calls are left that are legal in every state, there is nothing left to decide.
- A model may know that a state has no future (a string that is not the beginning of what the next
  get saw), which forces the order of overlapping appends.
- A configuration is dropped when another one of the same state has every option it has: calls of
  unknown outcome still unused, observers already done, optional instead of done or not done.

Source: Wing and Gong 1993; Lowe, "Testing for linearizability", 2017 (just-in-time).
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import inf

from checkers.limits.budget import Budget, BudgetError
from checkers.linearizability.calls import Call
from checkers.linearizability.layers import Layers
from harness.contracts.model import Action, Foresees, Illegal, Model, Outlook, State

Groups = dict[int, list[int]]  # bits by action number
Config = tuple[int, int, int]  # state number, bits of calls done, bits of optional mutators
_CLOCK_EVERY = 256  # expansions between two looks at the clock
_SORT_BYTES = 160  # for each configuration, while a layer is sorted
_PAIRWISE_MAX = 64  # configurations of one state that are compared with each other
_WIDTHS = (32, 1024, None)  # configurations in a layer; None: all
_LAYERS_KEPT = 64  # for the explanation, those that are not too wide
_KEPT_WIDTH_MAX = 4096
_STATES_MAX = 1024  # remembered beyond those of the layer; a state may be a long string
_WAYS_SHARE = 16  # part of a layer's width that may differ in the unknown calls used alone


@dataclass(slots=True)
class Outcome:
    """The result of a search; ``linearizable`` is None when the budget ran out, at call ``at``."""

    linearizable: bool | None
    at: Call | None = None
    reason: str | None = None
    calls: Sequence[Call] = ()  # what was searched
    # of the last returns before ``at``: their place, and the states that were possible after it
    layers: list[tuple[int, list[State]]] = field(default_factory=list)
    configurations: int = 0
    layer_max: int = 0
    starts: Sequence[State] = ()  # that the first of ``calls`` may have found, where not the start
    cut: bool = False  # some layer was too wide and lost configurations


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

    def forget(self, layer: set[Config]) -> set[Config]:
        """Drop every state that is not of the layer, and number the rest anew."""
        old = self.states
        self.states, self._numbers, self._rows = [], {}, []
        return {(self.state(old[state]), done, optional) for state, done, optional in layer}

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
) -> Outcome:
    """Decide whether the calls of one key can be put in one order from any of the ``starts``.

    Exponential in the number of calls in flight at worst, linear in their number otherwise.
    Layers are kept narrow at first: what is found in a narrow layer is a proof, and only when
    the search dies after a layer was cut is it begun again with a wider one.
    """
    before = budget.used
    events = _events(calls)
    outcome = Outcome(None)
    outlook = None
    furthest: Call | None = None
    if isinstance(model, Foresees):
        outlook = model.outlook([(call.begin, call.end, call.action) for call in calls])
    for width in _WIDTHS:
        outcome = _walk(events, _Walk(Steps(model), budget, width, outlook), starts)
        if furthest is None or (outcome.at is not None and _end(outcome.at) > _end(furthest)):
            furthest = outcome.at
        if outcome.linearizable is not False or not outcome.cut:
            break
    if outcome.linearizable is None:
        outcome.at = furthest  # what came before has an order
    outcome.calls = calls
    outcome.configurations = budget.used - before
    return outcome


def _end(call: Call) -> float:
    return inf if call.end is None else call.end


def _walk(
    events: Sequence[tuple[int, bool, Call]],
    walk: _Walk,
    starts: Sequence[State],
) -> Outcome:
    outcome = Outcome(linearizable=True)
    latest: deque[tuple[int, set[Config], list[State]]] = deque(maxlen=_LAYERS_KEPT)
    layer = {(walk.steps.state(start), 0, 0) for start in starts}
    at: Call | None = None
    try:
        for place, is_return, call in events:
            if not is_return:
                walk.begin(call)
                continue
            at = call
            layer = walk.finish(call, layer)
            outcome.layer_max = max(outcome.layer_max, len(layer))
            if not layer:
                outcome.linearizable = False
                outcome.at = call
                outcome.layers = [
                    (place, [states[n] for n in sorted({config[0] for config in old})])
                    for place, old, states in latest
                ]
                break
            if len(layer) <= _KEPT_WIDTH_MAX:
                latest.append((place, layer, walk.steps.states))
            if len(walk.steps.states) > max(_STATES_MAX, 4 * len(layer)):
                layer = walk.steps.forget(layer)
    except BudgetError as error:
        outcome.linearizable = None
        outcome.reason = error.reason
        outcome.at = at
    outcome.cut = walk.cut
    return outcome


def _events(calls: Sequence[Call]) -> list[tuple[int, bool, Call]]:
    events = [(call.begin, False, call) for call in calls]
    events += [(call.end, True, call) for call in calls if call.end is not None]
    events.sort(key=lambda event: event[0])
    while events and (not events[-1][1] or events[-1][2].action.total):
        events.pop()  # at the end, what is legal everywhere can come in any order
    return events


def _candidates(
    groups: Groups, actions: Sequence[Action], done: int, optional: int
) -> Iterator[tuple[int, int, bool]]:
    """List, of equal actions, the one that returns first and the first one that is not optional.

    Using up an optional one leaves the others with their duty to be done, so either may be
    better; but not where they are blind, since the one used then hides the others.
    """
    for action, bits in groups.items():
        is_blind = actions[action].blind
        for bit in bits:
            if not done & bit:
                yield action, bit, is_blind
                if is_blind or not optional & bit:
                    break


class _Walk(Layers):
    """The calls in flight, and how a layer changes when one of them returns."""

    def __init__(
        self, steps: Steps, budget: Budget, width: int | None, outlook: Outlook | None
    ) -> None:
        super().__init__()
        self.steps = steps
        self._outlook = outlook
        self._hopeless: dict[int, bool] = {}  # by state, at the return at hand
        self.cut = False
        self._budget = budget
        self._width = width
        self._free: list[int] = []
        self._bits_used = 0
        self._bit: dict[int, int] = {}  # of each call in flight, by the place where it began
        # in flight, by bit -> action number; mutators in the order in which they return
        self._observers: dict[int, int] = {}
        self._mutators: list[tuple[float, int, int, int]] = []  # (end, begin, bit, action)
        self._live: dict[int, int] = {}  # mutators that will return: bit -> action number
        self._blind = 0  # bits of those of them that are blind
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
        end = inf if call.end is None else call.end
        insort(self._mutators, (end, call.begin, bit, action))
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
        self._hopeless.clear()
        self._budget.spend(0, len(layer))
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
            self._expand(todo, bit, call.end or 0, after)
        self._budget.spend(len(after), len(after))
        kept = self._prune(after) if len(after) > 1 else after
        if self._width is not None and len(kept) > self._width:
            self.cut = True
            kept = set(sorted(kept, key=self.options, reverse=True)[: self._width])
        self._retire(bit)
        return kept

    def _retire(self, bit: int) -> None:
        self._free.append(bit)
        if self._observers.pop(bit, None) is None:
            del self._live[bit]
            self._blind &= ~bit
            self._mutators = [entry for entry in self._mutators if entry[2] != bit]
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

    def _expand(self, todo: list[Config], target: int, place: int, after: set[Config]) -> None:
        """Linearize calls in flight, fewest first, until ``target`` is done."""
        step, actions = self.steps.step, self.steps.actions
        # a configuration, and whether the last call on the way was one nobody needed
        queue = [(config, False) for config in todo]
        seen: dict[tuple[int, int, int, bool], list[int]] = {}
        groups = self._by_action()
        mixed = not all(actions[action].blind for action in groups)
        at = work = 0
        while at < len(queue):
            (state, done, optional), unneeded = queue[at]
            at += 1
            for action, bit, is_blind in _candidates(groups, actions, done, optional):
                work += 1
                if work % _CLOCK_EVERY == 0:
                    held = len(queue) + len(after) + len(self.steps.states)
                    self._budget.spend(_CLOCK_EVERY, held)
                if unneeded and is_blind:
                    continue  # the one before was for nothing: hidden here, or not done at all
                to = step(state, action)
                if to < 0 or self._no_future(to, place):
                    continue
                if (
                    to == state
                    and bit != target
                    and not (
                        # it changes nothing here, but others can hide before it, which is of
                        # use when the next one is not blind (a blind one hides them as well)
                        is_blind and mixed and self._blind & ~(done | optional | bit)
                    )
                ):
                    continue
                options = ((optional | self._blind) if is_blind else optional) & ~(done | bit)
                config = self._arrive(to, done | bit, options)
                if config[1] & target:
                    after.add((to, config[1] ^ target, config[2]))
                    continue
                gained = (config[1] ^ (done | bit)) | (config[2] & ~options & ~self._blind)
                unseen = not gained and (is_blind or bool(bit & self._unknown))
                if self._is_new(config, unseen, seen):
                    queue.append((config, unseen))
        self._budget.spend(work % _CLOCK_EVERY, len(after))

    def _no_future(self, state: int, place: int) -> bool:
        if self._outlook is None:
            return False
        hopeless = self._hopeless.get(state)
        if hopeless is None:
            hopeless = not self._outlook(self.steps.states[state], place)
            self._hopeless[state] = hopeless
        return hopeless

    def _by_action(self) -> Groups:
        """Bits of the mutators in flight by action, each in the order in which they return."""
        groups: Groups = {}
        for _, _, bit, action in self._mutators:
            groups.setdefault(action, []).append(bit)
        return groups

    def _is_new(
        self, config: Config, unseen: bool, seen: dict[tuple[int, int, int, bool], list[int]]
    ) -> bool:
        """Tell whether no configuration on the way was the same with fewer unknown calls used."""
        state, done, optional = config
        used = done & self._unknown
        rivals = seen.setdefault((state, done ^ used, optional, unseen), [])
        if any(not rival & ~used for rival in rivals):
            return False
        if self._width is not None and len(rivals) * _WAYS_SHARE >= self._width:
            self.cut = True
            return False
        rivals.append(used)
        return True

    def _prune(self, layer: set[Config]) -> set[Config]:
        """Drop configurations that another one of the same state can stand for."""
        self._budget.spend(0, len(layer), _SORT_BYTES * len(layer))
        by_state: dict[int, list[Config]] = {}
        for config in layer:
            by_state.setdefault(config[0], []).append(config)
        kept: set[Config] = set()
        for configs in by_state.values():
            if len(configs) > 1:
                configs.sort(key=self.options, reverse=True)
            for at, config in enumerate(configs):
                if at % _CLOCK_EVERY == _CLOCK_EVERY - 1:
                    self._budget.spend(0, len(layer))
                rivals = configs[: min(at, _PAIRWISE_MAX)]
                if not any(self.stands_for(rival, config) for rival in rivals):
                    kept.add(config)
        return kept
