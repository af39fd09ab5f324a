"""The search of ``linearizable_registers`` for a history of few ops, where set-up is what costs.

The same method and reductions, in one loop. Each call has one bit for good, given in the order of
returns, so of equal writes the one that returns first has the lowest bit, those of unknown outcome
have the highest, and no bit has to be taken back: at the return of bit ``b`` all lower ones are
done. Layers are whole; where one grows beyond what is small the answer is None.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Sequence
from math import inf

from checkers.linearizability.columns import Columns
from checkers.linearizability.layers import Layers
from checkers.linearizability.registers import Found

Config = tuple[Hashable, int, int]  # the value, bits of calls done, bits of optional mutators
SMALL = 256  # rows
LAYER_MAX = 64
WORK_MAX = 20_000  # moves, in all
FEW = 8
HEAD = 48  # rows that are put in order first


def search_small(  # noqa: C901, PLR0912, PLR0915 - one loop: a call costs more than its body
    columns: Columns, start: Hashable
) -> Found | None:
    """Decide whether up to ``SMALL`` calls of one register have an order; None: not found out."""
    f, value, seen, end = columns.f, columns.value, columns.seen, columns.end
    if len(end) > SMALL:
        return None
    begin = [*columns.begin, inf]
    # calls that have begun: bits by value
    reads: dict[Hashable, int] = {}
    nots: dict[Hashable, int] = {}
    writes: dict[Hashable, int] = {}
    cas: dict[Hashable, dict[Hashable, int]] = {}
    any_not = blind = unknown = past = 0
    layer: list[Config] = [(start, 0, 0)]
    layer_max = bit = 1
    work = row = 0
    for target in _returns(begin, end):
        now = end[target]
        if now == inf:
            break
        while begin[row] <= now:
            kind = f[row]
            if kind == "read":
                saw = seen[row]
                reads[saw] = reads[saw] | bit if saw in reads else bit
            elif kind == "write":
                made = value[row]
                writes[made] = writes[made] | bit if made in writes else bit
                if end[row] == inf:
                    unknown |= bit
                else:
                    blind |= bit
            elif kind == "cas":
                to = cas.setdefault(seen[row], {})
                made = value[row]
                to[made] = to.get(made, 0) | bit
                if end[row] == inf:
                    unknown |= bit
            else:
                saw = seen[row]
                nots[saw] = nots.get(saw, 0) | bit
                any_not |= bit
            row += 1
            bit += bit
        wanted = 1 << target
        past |= wanted
        kind = f[target]
        if len(layer) == 1:
            state, done, _ = layer[0]
            if done & wanted:
                if kind == "cas":
                    _retire(cas, seen[target], value[target], wanted)
                continue
            if kind == "read":
                if state == seen[target]:
                    continue
            elif kind == "not" and state != seen[target]:
                continue
        todo: list[tuple[Hashable, int, int, bool]] = []
        after: set[Config] = set()
        saw = seen[target]
        for state, done, optional in layer:
            if done & wanted or (
                state == saw if kind == "read" else kind == "not" and state != saw
            ):
                after.add((state, done & ~past, optional & ~past))
            else:
                if optional & wanted:
                    after.add((state, done & ~past, optional & ~past))
                todo.append((state, done, optional, False))
        if todo:
            live = blind & ~past
            known: dict[tuple[Hashable, int, int, bool], list[int]] = {}
            earlier = past ^ wanted
            for state, done, optional, unneeded in todo:
                done |= earlier  # noqa: PLW2901
                if state in reads:
                    done |= reads[state]  # noqa: PLW2901
                if any_not:
                    done |= any_not & ~nots.get(state, 0)  # noqa: PLW2901
                free = ~done
                moves: list[tuple[Hashable, int, bool]] = []
                if not unneeded:
                    for made, same in writes.items():
                        one = same & free
                        if one:
                            if one & (one - 1):
                                one = _first(one, unknown, end)
                            if (
                                made != state
                                or one == wanted
                                or (cas and live & ~(done | optional | one))
                            ):
                                moves.append((made, one, True))
                if state in cas:
                    for made, same in cas[state].items():
                        same &= free  # noqa: PLW2901
                        while same:
                            one = _first(same, unknown, end)
                            moves.append((made, one, False))
                            if not optional & one:
                                break
                            same ^= one  # noqa: PLW2901
                work += len(moves)
                for made, one, is_blind in moves:
                    taken = done | one
                    sees = reads.get(made, 0)
                    if any_not:
                        sees |= any_not & ~nots.get(made, 0)
                    if is_blind:
                        options = (optional | live) & ~taken
                    else:
                        options = (optional | writes.get(state, 0)) & ~(taken | unknown)
                    if (taken | sees) & wanted:
                        after.add((made, taken & ~(sees | past), options & ~past))
                        continue
                    unseen = not sees & ~taken and (is_blind or bool(one & unknown))
                    if unseen and made not in cas:
                        continue  # nobody is there to see it
                    taken &= ~sees
                    used = taken & unknown
                    rivals = known.setdefault((made, taken ^ used, options, unseen), [])
                    if not any(not rival & ~used for rival in rivals):
                        rivals.append(used)
                        todo.append((made, taken, options, unseen))
            if work > WORK_MAX:
                return None
        if kind == "cas":
            _retire(cas, saw, value[target], wanted)
        layer = list(after)
        if len(layer) > 1:
            if len(layer) > FEW or len({config[0] for config in layer}) < len(layer):
                seeing = any_not
                for same in reads.values():
                    seeing |= same
                layer = _best(layer, Layers(seeing, unknown))
            if len(layer) > layer_max:
                layer_max = len(layer)
                if layer_max > LAYER_MAX:
                    return None
        elif not layer:
            return Found(linearizable=False, row=target, layer_max=layer_max)
    return Found(linearizable=True, layer_max=layer_max)


def _returns(begin: Sequence[float], end: Sequence[float]) -> Iterator[int]:
    """The rows in the order in which they returned; most of those that fail do so early."""
    n = len(end)
    rest: Sequence[int] = range(n)
    if n > HEAD:
        head = sorted(range(HEAD), key=end.__getitem__)
        early = bisect_left(head, begin[HEAD], key=end.__getitem__)
        yield from head[:early]
        rest = [*head[early:], *range(HEAD, n)]
    yield from sorted(rest, key=end.__getitem__)


def _first(bits: int, unknown: int, end: Sequence[float]) -> int:
    """Of some calls the one that returns first."""
    rest = bits & ~unknown
    if not rest:
        return bits & -bits
    first = rest & -rest
    rest ^= first
    while rest:
        one = rest & -rest
        rest ^= one
        if end[one.bit_length() - 1] < end[first.bit_length() - 1]:
            first = one
    return first


def _retire(
    cas: dict[Hashable, dict[Hashable, int]], seen: Hashable, value: Hashable, bit: int
) -> None:
    """A cas has returned: what is there only for those in flight no longer counts it."""
    to = cas[seen]
    if to[value] != bit:
        to[value] ^= bit
        return
    del to[value]
    if not to:
        del cas[seen]


def _best(layer: list[Config], layers: Layers) -> list[Config]:
    """The layer without those that another one of the same value can stand for."""
    layer.sort(key=layers.options, reverse=True)
    kept: dict[Hashable, list[Config]] = {}
    for config in layer:
        best = kept.setdefault(config[0], [])
        if not any(layers.stands_for(rival, config) for rival in best):
            best.append(config)
    return [config for best in kept.values() for config in best]
