"""The order in which each list grew, as its reads tell, and what is wrong without any cycle.

Every element is appended once, so a read names the appends before it and their order: the longest
read of a key is its version order, and all others must be beginnings of it. A key whose elements
are appended more than once is not recoverable: nothing is inferred from it, and that is said.

Source: Kingsbury and Alvaro, "Elle" (VLDB 2020), sections 4 and 6; Adya, "Weak Consistency".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice, pairwise
from typing import Any

from checkers.limits.budget import Budget, watched
from checkers.transactions.txns import FAIL, INFO, OK, Mop, Transactions

_NOTHING: list[Hashable] = []
NOBODY = -1  # the writer of an element that no transaction appended, or only a failed one
READS_EVERY = 64  # reads between two looks at the budget: each may hold very much
_PAIR = 2  # transactions that cannot both have read what was there
SHOWN_MAX = 10  # elements of a list in a sentence, and anomalies of one kind for one key


@dataclass(frozen=True, slots=True)
class Found:
    """One anomaly: its name, one sentence, the transactions in it, and facts for the report."""

    name: str
    message: str
    txns: tuple[int, ...]
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class KeyHistory:
    """The knowledge about one list.

    ``reads`` are (transaction, what it saw, whether that is what others had left there);
    ``order`` is the longest of them, and ``writers[i]`` who appended ``order[i]``.
    """

    appends: dict[Hashable, int] = field(default_factory=dict)
    refused: dict[Hashable, int] = field(default_factory=dict)
    again: set[Hashable] = field(default_factory=set)  # elements appended more than once
    reads: list[tuple[int, list[Any], bool]] = field(default_factory=list)
    several: dict[int, list[Hashable]] = field(default_factory=dict)  # by txns that append twice
    order: list[Any] = field(default_factory=list)
    longest: int = NOBODY  # who read that
    writers: list[int] = field(default_factory=list)
    compatible: list[tuple[int, int]] = field(default_factory=list)  # (txn, length) of reads
    unseen: list[int] = field(default_factory=list)  # who appended what no read shows, for certain
    sound: bool = True  # whether the order can be relied on


@dataclass(slots=True)
class Orders:
    """All lists, the anomalies found on the way, and who is known to have happened."""

    keys: dict[Hashable, KeyHistory]
    found: list[Found]
    committed: bytearray
    unrecoverable: list[Hashable]


def orders_of(
    txns: Transactions, budget: Budget | None = None, found: list[Found] | None = None
) -> Orders:
    """Infer the version orders of a history. O(n), n the elements of all reads together.

    Anomalies go to ``found``, too, as they are met: they stand although the budget runs out.

    Raises:
        BudgetError: The budget has run out.
    """
    committed = bytearray(outcome == OK for outcome in txns.outcomes)
    orders = Orders({}, [] if found is None else found, committed, [])
    for txn, mops in enumerate(watched(txns.mops, budget)):
        if len(mops) == 1 or len({mop[1] for mop in mops}) == len(mops):  # each of its own key
            _note(orders.keys, txn, mops, txns.outcomes[txn], external=True)
        else:
            orders.found += _inside(orders.keys, txns, txn, mops)
    for key, of_key in orders.keys.items():
        _order(key, of_key, orders, txns, budget)
    _unseen(orders)
    for key, of_key in watched(orders.keys.items(), budget):
        if of_key.sound:
            orders.found += _intermediate(key, of_key, txns)
            orders.found += _own_order(key, of_key, orders)
    orders.found += _lost_updates(orders)
    return orders


def _note(
    keys: dict[Hashable, KeyHistory],
    txn: int,
    mops: Iterable[Mop],
    outcome: int,
    *,
    external: bool,
) -> None:
    """Enter micro-ops in the histories of their keys."""
    for append, key, element, seen in mops:
        of_key = keys.get(key)
        if of_key is None:
            of_key = keys[key] = KeyHistory()
        if not append:
            if seen is not None:
                of_key.reads.append((txn, seen, external))
        elif outcome == FAIL:
            of_key.refused[element] = txn
        elif element in of_key.appends:
            of_key.again.add(element)
        else:
            of_key.appends[element] = txn


def _inside(
    keys: dict[Hashable, KeyHistory], txns: Transactions, txn: int, mops: list[Mop]
) -> Iterator[Found]:
    """Tell what a transaction did, and where it contradicts itself."""
    known: dict[Hashable, list[Any]] = {}  # what a key must be, when it was read before
    own: dict[Hashable, list[Hashable]] = {}  # appended since then
    shown: dict[Hashable, list[Any]] = {}  # first read from outside
    changed: set[Hashable] = set()
    for mop in mops:
        key = mop.key
        mine = own.get(key, _NOTHING)
        if mop.append:
            own[key] = [*mine, mop.element]
            changed.add(key)
            if key in shown and mop.element in shown[key]:
                yield Found(
                    "future-read",
                    f"{_show(shown[key])} of {key!r} holds {mop.element!r}, which its reader itself"
                    " appended only later",
                    (txn,),
                )
        elif mop.seen is not None:
            seen = mop.seen
            if key in known:
                if seen != [*known[key], *mine]:
                    want = _show([*known[key], *mine])
                    yield _contradiction(txn, key, want, seen)
            elif mine and mine != seen[-len(mine) :]:
                yield _contradiction(txn, key, f"a list that ends in {_show(mine)}", seen)
            if key not in changed:
                shown[key] = seen
            known[key] = seen
            if mine:
                own[key] = []
        _note(keys, txn, (mop,), txns.outcomes[txn], external=key not in changed)
    if len(changed) < sum(mop.append for mop in mops) and txns.outcomes[txn] != FAIL:
        for key in changed:
            all_mine = [mop.element for mop in mops if mop.append and mop.key == key]
            if len(all_mine) > 1:
                keys[key].several[txn] = all_mine


def _contradiction(txn: int, key: Hashable, want: str, seen: list[Any]) -> Found:
    message = f"its own transaction makes {key!r} {want}, but it read {_show(seen)}"
    return Found("internal", message, (txn,))


def _order(
    key: Hashable, of_key: KeyHistory, orders: Orders, txns: Transactions, budget: Budget | None
) -> None:
    """Take the longest read for the order of a key, and see what does not go with it."""
    if of_key.again:
        orders.unrecoverable.append(key)
        of_key.sound = False
        return
    sizes = [len(seen) for _, seen, _ in of_key.reads]
    if sizes:
        of_key.longest, of_key.order, _ = of_key.reads[sizes.index(max(sizes))]
    order = of_key.order
    appends = of_key.appends
    of_key.writers = [appends.get(element, NOBODY) for element in order]
    if len(set(order)) < len(order):
        of_key.sound = False
        twice = [element for element, times in Counter(order).items() if times > 1]
        orders.found += [
            Found(
                "duplicate-elements",
                f"{key!r} holds {element!r} {order.count(element)} times",
                (_first(of_key, element), *_writer(of_key, element)),
                {"key": key, "element": element},
            )
            for element in twice[:SHOWN_MAX]
        ]
    lengths: list[tuple[int, int]] = []
    forks: list[tuple[int, list[Any]]] = []
    for txn, seen, external in watched(of_key.reads, budget, READS_EVERY):
        if order[: len(seen)] != seen:
            forks.append((txn, seen))
        elif external:
            lengths.append((txn, len(seen)))
    of_key.compatible = lengths
    for txn, seen in forks[:SHOWN_MAX]:
        orders.found.append(
            Found(
                "incompatible-order",
                f"{key!r} was read as {_show(order)} and as {_show(seen)}",
                (of_key.longest, txn),
                {"key": key, "reads": len(forks)},
            )
        )
    writers = {*of_key.writers, *(appends.get(e, NOBODY) for _, seen in forks for e in seen)}
    for writer in writers:
        if writer != NOBODY and txns.outcomes[writer] == INFO:
            orders.committed[writer] = True
    if NOBODY in writers:
        shown = chain(order, *(seen for _, seen in forks))
        nobodys = dict.fromkeys(element for element in shown if element not in appends)
        refused = [element for element in nobodys if element in of_key.refused]
        invented = [element for element in nobodys if element not in of_key.refused]
        for element in (*refused[:SHOWN_MAX], *invented[:SHOWN_MAX]):
            orders.found += _strange(key, of_key, element)


def _strange(key: Hashable, of_key: KeyHistory, element: Hashable) -> Iterator[Found]:
    """An element that nobody appended, or only a transaction that failed."""
    reader = _first(of_key, element)
    details = {"key": key, "element": element}
    if element not in of_key.refused:
        message = f"{key!r} holds {element!r}, which nobody appended"
        yield Found("garbage-read", message, (reader,), details)
        return
    failed = of_key.refused[element]
    message = f"{key!r} holds {element!r}, whose append was refused"
    yield Found("G1a", message, (failed, reader), details)
    place = of_key.order.index(element) if element in of_key.order else len(of_key.order)
    for behind, writer in zip(of_key.order[place + 1 :], of_key.writers[place + 1 :], strict=True):
        if writer != NOBODY:
            message = f"{key!r} has {behind!r} appended to {element!r}, which was refused"
            yield Found("dirty-update", message, (failed, writer, of_key.longest), details)
            return


def _unseen(orders: Orders) -> None:
    """Tell who appended what no read shows; that comes behind all that was read."""
    for of_key in orders.keys.values():
        somebodys = len(of_key.writers) - of_key.writers.count(NOBODY)
        if of_key.sound and len(of_key.appends) > somebodys:
            known = set(of_key.order)
            behind = (t for element, t in of_key.appends.items() if element not in known)
            of_key.unseen = list(dict.fromkeys(t for t in behind if orders.committed[t]))


def _intermediate(key: Hashable, of_key: KeyHistory, txns: Transactions) -> Iterator[Found]:
    """G1b: a read that ends in what its writer had not finished with."""
    if not of_key.several:
        return
    halfway = {e: txn for txn, mine in of_key.several.items() for e in mine[:-1]}
    for txn, seen, _ in of_key.reads:
        writer = halfway.get(seen[-1], txn) if seen else txn
        if writer != txn and txns.outcomes[txn] == OK:
            after = of_key.several[writer][-1]
            message = f"{key!r} was read as {_show(seen)}, before its writer had appended {after!r}"
            yield Found("G1b", message, (writer, txn), {"key": key, "element": seen[-1]})


def _own_order(key: Hashable, of_key: KeyHistory, orders: Orders) -> Iterator[Found]:
    """Appends of one transaction that do not stand in its own order."""
    if not of_key.several:
        return
    places = {element: place for place, element in enumerate(of_key.order)}
    for txn, mine in of_key.several.items():
        if not orders.committed[txn]:
            continue
        for before, after in pairwise(mine):
            if places.get(before, len(places)) > places.get(after, len(places)):
                message = (
                    f"{key!r} is {_show(of_key.order)}, but one transaction appended {before!r} "
                    f"before {after!r}"
                )
                yield Found("incompatible-order", message, (txn, of_key.longest), {"key": key})
                break


def _lost_updates(orders: Orders) -> Iterator[Found]:
    """Transactions that read one version of a key and all appended to it."""
    for key, of_key in orders.keys.items():
        if not of_key.sound:
            continue
        updates: dict[int, dict[int, None]] = {}
        appenders = set(of_key.appends.values())
        for txn, length in of_key.compatible:
            if txn in appenders:
                updates.setdefault(length, {})[txn] = None
        for length, together in updates.items():
            if len(together) > 1:
                seen = _show(of_key.order[:length])
                message = f"{len(together)} transactions read {seen} of {key!r} and all appended"
                first = tuple(islice(together, _PAIR))
                message += " to it" + (", these first" if len(together) > _PAIR else "")
                yield Found("lost-update", message, first, {"key": key})


def _first(of_key: KeyHistory, element: Hashable) -> int:
    """The first transaction that saw an element."""
    return next(txn for txn, seen, _ in of_key.reads if element in seen)


def _writer(of_key: KeyHistory, element: Hashable) -> tuple[int, ...]:
    return (of_key.appends[element],) if element in of_key.appends else ()


def _show(seen: list[Any]) -> str:
    return str(seen) if len(seen) <= SHOWN_MAX else f"[..., {str(seen[-SHOWN_MAX:])[1:]}"
