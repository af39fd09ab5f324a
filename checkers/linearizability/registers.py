"""The search for one register: just-in-time linearization of reads, writes and compare-and-set.

The method and its reductions are those of ``linearizable_search``, told of registers alone, where
more can be said and each step costs less:

- What a configuration's state explains by itself (reads of it, comparisons with another value) is
  not written down until the state is left.
- A write that nobody is there to see is tried only where a pending cas starts from its value.
- Where a narrow search dies, nobody knows whether a wide one would. Then the stretch before its
  death is searched alone, from any value and with all that was in flight free to have happened
  or not: what fails even so fails for good. Only else is everything searched with more width.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from math import inf

from checkers.limits.budget import Budget, BudgetError
from checkers.linearizability.columns import Columns
from checkers.linearizability.layers import Layers

Config = tuple[Hashable, int, int]  # the value, bits of calls done, bits of optional mutators
WIDTHS: tuple[int | None, ...] = (8, 64, 1024, None)  # configurations in a layer; None: all
_PAIRWISE_MAX = 64
_SORT_BYTES = 160  # for each configuration, while a layer is sorted
WINDOW_MIN = 4  # windows: this many times the calls in flight, then doubled
_WINDOW_WIDTH = 20_000  # configurations that a window may hold
_CLOCK_EVERY = 256
_ALONE_MAX = 100_000  # calls that overlap with no other, between two looks at the budget
_FEW = 8
_RIVALS_A_MOVE = 16  # compared in the time of one move


@dataclass(slots=True)
class Found:
    """The result of a search; ``linearizable`` is None when the budget ran out at ``row``."""

    linearizable: bool | None
    row: int | None = None  # whose return nothing explains
    conflict: tuple[int, ...] = ()  # rows that zones found to exclude each other
    reason: str | None = None
    layer_max: int = 1


def search_register(columns: Columns, start: Hashable, budget: Budget) -> Found:
    """Decide whether the calls of one register have an order, beginning with ``start``."""
    order, end = _returns(columns), columns.end
    found = Found(linearizable=True)
    reached: int | None = None  # the row at which the walk died that got furthest
    for width in WIDTHS:
        walk = Walk(columns, budget, width)
        found = walk.run(order, [(start, 0, 0)], 0)
        if reached is None or (found.row is not None and end[found.row] > end[reached]):
            reached = found.row
        if found.linearizable is not False or not walk.cut:
            break
        window = _window(columns, order, start, found, budget)
        if window:
            break
    if found.linearizable is None:
        found.row = reached  # what came before has an order
    return found


def _returns(columns: Columns) -> list[int]:
    """The rows in the order in which they returned; those after the last doubt are left out."""
    end = columns.end
    order = sorted([row for row, e in enumerate(end) if e != inf], key=end.__getitem__)
    f = columns.f
    while order and f[order[-1]] == "write":
        order.pop()  # legal whatever came before, and nobody looks any more
    return order


def _window(
    columns: Columns, order: Sequence[int], start: Hashable, found: Found, budget: Budget
) -> bool:
    """Tell whether some stretch that ends where the search died fails by itself."""
    assert found.row is not None  # noqa: S101
    died = order.index(found.row)
    values = {start, *columns.value}
    begin, end = columns.begin, columns.end
    flight = sum(1 for row in order[died:] if begin[row] <= end[found.row]) + 1
    length = WINDOW_MIN * flight
    while length < died:
        first = died - length
        since = end[order[first]]
        walk = Walk(columns, budget.part(_WINDOW_WIDTH), None)
        try:
            free = walk.open(row for row in range(len(begin)) if begin[row] <= since < end[row])
            layer: list[Config] = [(value, 0, free) for value in values]
            after = walk.run(order[: died + 1], layer, first + 1)
        finally:
            budget.used += walk.budget.used
        if after.linearizable is None:
            return False
        if after.linearizable is False:
            return True
        length *= 4
    return False


class Walk(Layers):
    """The calls in flight, and how a layer changes when one of them returns."""

    def __init__(self, columns: Columns, budget: Budget, width: int | None) -> None:
        super().__init__()
        self.budget = budget
        self.cut = False
        self._columns = columns
        self._width = width
        self._free: list[int] = []
        self._used = 0
        self._bits: dict[int, int] = {}  # by row, of the calls in flight
        self._reads: dict[Hashable, int] = {}  # bits by the value seen
        self._nots: dict[Hashable, int] = {}  # bits by the value it was not
        self._any_not = 0
        # (end, row, bit) in the order in which they return
        self._writes: dict[Hashable, list[tuple[float, int, int]]] = {}
        self._cas: dict[Hashable, dict[Hashable, list[tuple[float, int, int]]]] = {}
        self._blind = 0  # bits of the writes that will return

    def open(self, rows: Iterable[int]) -> int:
        """Take up calls in flight of which nobody knows what is done; the optional ones' bits."""
        optional = 0
        for row in rows:
            if self._columns.f[row] in ("write", "cas"):
                optional |= self._begin(row)
        return optional & ~self._unknown

    def run(  # noqa: C901, PLR0912, PLR0915 - the hot loop: a call costs more than its body
        self, order: Sequence[int], layer: list[Config], at: int
    ) -> Found:
        """Walk through the returns from place ``at`` on; the calls before are done or open."""
        columns, budget = self._columns, self.budget
        begin, end, n = columns.begin, columns.end, len(columns.begin)
        f, seen, value_of = columns.f, columns.seen, columns.value
        bits, reads, free = self._bits, self._reads, self._free
        layer_max = 1
        target: int | None = None
        row = 0
        if at:
            since = end[order[at - 1]]
            while row < n and begin[row] <= since:
                row += 1
        place, places, clock = at, len(order), at + _CLOCK_EVERY
        try:
            while place < places:
                target = order[place]
                now = end[target]
                if place >= clock:
                    budget.spend(place - clock + _CLOCK_EVERY, len(layer))
                    clock = place + _CLOCK_EVERY
                place += 1
                if target == row and not bits and (row + 1 == n or now < begin[row + 1]):
                    if len(layer) == 1:
                        more = min(places - place, _ALONE_MAX)
                        row, state = self._one_by_one(row, layer[0][0], more)
                        if state is _NEVER:
                            return Found(linearizable=False, row=row, layer_max=layer_max)
                        place += row - target
                        layer = [(state, 0, 0)]
                    else:
                        layer = self._alone(row, layer)
                        if not layer:
                            return Found(linearizable=False, row=row, layer_max=layer_max)
                    row += 1
                    continue
                while row < n and begin[row] <= now:
                    if f[row] != "read":
                        self._begin(row)
                    elif end[row] != inf:  # else nobody saw anything
                        if free:
                            bit = free.pop()
                        else:
                            bit = 1 << self._used
                            self._used += 1
                        value = seen[row]
                        reads[value] = reads.get(value, 0) | bit
                        self._seeing |= bit
                        bits[row] = bit
                    row += 1
                bit = bits.pop(target, 0)
                if not bit:
                    continue  # it was in flight when the window began, and may be done
                state, done, optional = layer[0]
                if len(layer) == 1 and done & bit:
                    layer = [(state, done ^ bit, optional)]
                    self._retire(target, bit)
                elif f[target] == "read":
                    value = seen[target]
                    if len(layer) > 1 or state != value:
                        layer = self._read(value, bit, layer)
                    rest = reads[value] ^ bit
                    if rest:
                        reads[value] = rest
                    else:
                        del reads[value]
                    self._seeing ^= bit
                    free.append(bit)
                else:
                    if len(layer) == 1 and not self._seeing and not self._cas:  # writes alone
                        layer = [(value_of[target], done, (optional | self._blind) & ~(done | bit))]
                        if optional & bit and (other := (state, done, optional ^ bit)) != layer[0]:
                            layer.append(other)
                    else:
                        layer = self._finish(target, bit, layer)
                    self._retire(target, bit)
                if len(layer) > 1:
                    layer = self._prune(layer)
                    layer_max = max(layer_max, len(layer))
                elif not layer:
                    return Found(linearizable=False, row=target, layer_max=layer_max)
        except BudgetError as error:
            return Found(None, target, (), error.reason, layer_max)
        return Found(linearizable=True, layer_max=layer_max)

    def _one_by_one(self, row: int, state: Hashable, more: int) -> tuple[int, Hashable]:
        """Walk on from a row as long as calls overlap with no other, through ``more`` at most.

        Gives the last such row, and the value after it; or the row that nothing explains, and
        ``_NEVER``.
        """
        columns = self._columns
        f, value, seen = columns.f, columns.value, columns.seen
        begin, end, last, stop = columns.begin, columns.end, len(columns.f) - 1, row + more
        while True:
            kind = f[row]
            if kind == "write":
                state = value[row]
            elif kind == "not":
                if seen[row] == state:
                    return row, _NEVER
            elif seen[row] != state:
                return row, _NEVER
            elif kind == "cas":
                state = value[row]
            row += 1
            if row > stop or (row < last and end[row] >= begin[row + 1]):
                return row - 1, state

    def _alone(self, row: int, layer: list[Config]) -> list[Config]:
        """The layer after a call that overlapped with no other."""
        f, seen = self._columns.f[row], self._columns.seen[row]
        if f == "write":
            return [(self._columns.value[row], 0, 0)]
        if f == "not":
            return [config for config in layer if config[0] != seen]
        for config in layer:
            if config[0] == seen:
                return [config if f == "read" else (self._columns.value[row], 0, 0)]
        return []

    def _begin(self, row: int) -> int:
        columns = self._columns
        if self._free:
            bit = self._free.pop()
        else:
            bit = 1 << self._used
            self._used += 1
        f, end = columns.f[row], columns.end[row]
        if f == "write":
            value = columns.value[row]
            same = self._writes.get(value)
            if same is None:
                self._writes[value] = [(end, row, bit)]
            else:
                insort(same, (end, row, bit))
            if end != inf:
                self._blind |= bit
        elif f == "cas":
            to = self._cas.setdefault(columns.seen[row], {})
            insort(to.setdefault(columns.value[row], []), (end, row, bit))
        else:
            seen = columns.seen[row]
            self._nots[seen] = self._nots.get(seen, 0) | bit
            self._any_not |= bit
            self._seeing |= bit
        if end == inf:
            self._unknown |= bit
        self._bits[row] = bit
        return bit

    def _read(self, seen: Hashable, bit: int, layer: list[Config]) -> list[Config]:
        """The layer after a read returned: in every configuration it is done by then."""
        after: set[Config] = set()
        todo: list[Config] = []
        for config in layer:
            state, done, optional = config
            if done & bit:
                after.add((state, done ^ bit, optional))
            elif state == seen:
                after.add(config)
            else:
                todo.append(config)
        if todo:
            self._expand(todo, bit, after)
        return list(after)

    def _finish(self, row: int, bit: int, layer: list[Config]) -> list[Config]:
        """The layer after another call returned."""
        is_not = self._columns.f[row] == "not"
        seen = self._columns.seen[row]
        after: set[Config] = set()
        todo: list[Config] = []
        for config in layer:
            state, done, optional = config
            if done & bit:
                after.add((state, done ^ bit, optional))
            elif is_not and state != seen:
                after.add(config)
            else:
                if optional & bit:
                    after.add((state, done, optional ^ bit))
                todo.append(config)
        if todo:
            self._expand(todo, bit, after)
        return list(after)

    def _retire(self, row: int, bit: int) -> None:
        columns = self._columns
        self._free.append(bit)
        f = columns.f[row]
        if f == "write":
            value = columns.value[row]
            same = self._writes[value]
            if len(same) > 1:
                same.remove((columns.end[row], row, bit))
            else:
                del self._writes[value]
            self._blind &= ~bit
        elif f == "cas":
            to = self._cas[columns.seen[row]]
            alike = to[columns.value[row]]
            alike.remove((columns.end[row], row, bit))
            if not alike:
                del to[columns.value[row]]
                if not to:
                    del self._cas[columns.seen[row]]
        else:
            table = self._reads if f == "read" else self._nots
            seen = columns.seen[row]
            table[seen] ^= bit
            if not table[seen]:
                del table[seen]
            self._seeing ^= bit
            self._any_not &= ~bit

    def _expand(  # noqa: C901, PLR0912, PLR0915 - the hot loop: a call costs more than its body
        self, todo: list[Config], target: int, after: set[Config]
    ) -> None:
        """Linearize calls in flight, fewest first, until ``target`` is done."""
        reads, nots, any_not = self._reads, self._nots, self._any_not
        writes, cas = self._writes, self._cas
        blind, unknown = self._blind, self._unknown
        queue: list[tuple[Config, bool]] = [(config, False) for config in todo]
        known: dict[tuple[Hashable, int, int, bool], list[int]] = {}
        at = work = 0
        while at < len(queue):
            (state, done, optional), unneeded = queue[at]
            at += 1
            if work > _CLOCK_EVERY:
                self.budget.spend(work, len(queue) + len(after))
                work = 0
            done |= reads.get(state, 0)
            if any_not:
                done |= any_not & ~nots.get(state, 0)
            moves: list[tuple[Hashable, int, bool]] = []
            if not unneeded:
                for value, same in writes.items():
                    for _, _, bit in same:
                        if not done & bit:
                            if (
                                value != state
                                or bit == target
                                or (cas and blind & ~(done | optional | bit))
                            ):
                                moves.append((value, bit, True))
                            break
            for value, alike in cas.get(state, _NONE).items():
                for _, _, bit in alike:
                    if not done & bit:
                        moves.append((value, bit, False))
                        if not optional & bit:
                            break
            work += len(moves) + 1
            for value, bit, is_blind in moves:
                now = done | bit
                sees = reads.get(value, 0)
                if any_not:
                    sees |= any_not & ~nots.get(value, 0)
                if is_blind:
                    options = (optional | blind) & ~now
                else:
                    options = optional
                    for _, _, same_bit in writes.get(state, ()):
                        options |= same_bit
                    options &= ~now & ~unknown
                if bit == target or sees & target:
                    after.add((value, now & ~sees & ~target, options & ~target))
                    continue
                unseen = not sees & ~now and (is_blind or bool(bit & unknown))
                if unseen and value not in cas:
                    continue  # nobody is there to see it
                used = now & unknown
                rivals = known.setdefault((value, (now ^ used) & ~sees, options, unseen), [])
                if any(not rival & ~used for rival in rivals):
                    continue
                work += len(rivals) // _RIVALS_A_MOVE
                rivals.append(used)
                queue.append(((value, now & ~sees, options), unseen))
        self.budget.used += work

    def _prune(self, after: list[Config]) -> list[Config]:
        """Drop configurations that another one of the same value can stand for."""
        few = min(_FEW, self._width or _FEW)
        if len(after) <= few and len({config[0] for config in after}) == len(after):
            return after
        if len(after) > _CLOCK_EVERY:
            self.budget.spend(0, len(after), _SORT_BYTES * len(after))
        by_state: dict[Hashable, list[Config]] = {}
        for config in after:
            by_state.setdefault(config[0], []).append(config)
        kept: list[Config] = []
        for configs in by_state.values():
            if len(configs) > 1:
                configs.sort(key=self.options, reverse=True)
                best = len(kept)
                for at, config in enumerate(configs):
                    if at % _CLOCK_EVERY == _CLOCK_EVERY - 1:
                        self.budget.spend(0, len(after))
                    rivals = kept[best : best + _PAIRWISE_MAX]
                    if not any(self.stands_for(rival, config) for rival in rivals):
                        kept.append(config)
            else:
                kept.append(configs[0])
        if self._width is not None and len(kept) > self._width:
            self.cut = True
            kept.sort(key=self.options, reverse=True)
            del kept[self._width :]
        return kept


_NEVER: Hashable = object()  # no value: no order explains what a call saw
_NONE: dict[Hashable, list[tuple[float, int, int]]] = {}
