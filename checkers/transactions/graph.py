"""Keeps the order of transactions as a graph on integer arrays; finds its strong components.

Nodes below ``Graph.txns`` are transactions; the others are virtual and stand for many edges at
once: a moment in time (all that ended before it came before all that began after it), or "what
nobody read" of a list. An edge into a virtual node has the kind of the edges it stands for; edges
out of one are ``ON``, and go on with the same.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from checkers.limits.budget import EVERY, Budget, watched
from checkers.transactions.doubt import KEYS_EVERY, doubtful
from checkers.transactions.orders import NOBODY, KeyHistory, Orders
from checkers.transactions.txns import FAIL, NEVER, OK, Transactions

WW, WR, RW, PROCESS, REALTIME, ON = 1, 2, 4, 8, 16, 32
DEPENDENCIES = WW | WR | RW
KINDS = {WW: "ww", WR: "wr", RW: "rw", PROCESS: "process", REALTIME: "realtime"}
_NODE_BYTES, _EDGE_BYTES = 48, 12  # of memory, while edges are sorted


@dataclass(slots=True)
class Graph:
    """Edges by source: those of node ``n`` are ``starts[n]`` to ``starts[n + 1]``."""

    txns: int
    starts: array[int]
    targets: array[int]
    kinds: bytearray

    @property
    def nodes(self) -> int:
        """Tell how many nodes there are, virtual ones and all."""
        return len(self.starts) - 1


class Edges:
    """Edges as they are found; ``graph`` sorts them by source. O(edges).

    ``within[n]`` is true for the transactions whose edges count; None: all.
    """

    def __init__(self, txns: int, within: bytearray | None = None) -> None:
        self.txns = txns
        self.nodes = txns
        self.within = within
        self.sources = array("q")
        self.targets = array("q")
        self.kinds = bytearray()

    def add(self, source: int, target: int, kind: int) -> None:
        """One edge; an edge of a node to itself says nothing and is left out."""
        within = self.within
        if source != target and (within is None or (within[source] and within[target])):
            self.sources.append(source)
            self.targets.append(target)
            self.kinds.append(kind)

    def extend(self, pairs: Iterable[tuple[int, int]], kind: int) -> None:
        """Many edges of one kind."""
        before = len(self.sources)
        sources, targets = self.sources.append, self.targets.append
        within = self.within
        for source, target in pairs:
            if source != target and (within is None or (within[source] and within[target])):
                sources(source)
                targets(target)
        self.kinds += bytes((kind,)) * (len(self.sources) - before)

    def node(self) -> int:
        """A new virtual node."""
        self.nodes += 1
        if self.within is not None:
            self.within.append(True)
        return self.nodes - 1

    def graph(self, budget: Budget | None = None) -> Graph:
        """Sort the edges by source into a graph; raises BudgetError where they would not fit."""
        if budget is not None:
            budget.look(0, _NODE_BYTES * self.nodes + _EDGE_BYTES * len(self.sources))
        counts = [0] * (self.nodes + 1)
        for source in self.sources:
            counts[source + 1] += 1
        place = list(accumulate(counts))
        starts = array("q", place)
        targets = array("q", bytes(8 * len(self.targets)))
        kinds = bytearray(len(self.kinds))
        edges = zip(self.sources, self.targets, self.kinds, strict=True)
        for source, target, kind in watched(edges, budget):
            at = place[source]
            place[source] = at + 1
            targets[at] = target
            kinds[at] = kind
        return Graph(self.txns, starts, targets, kinds)


def graph_of(txns: Transactions, orders: Orders, kinds: int, budget: Budget | None = None) -> Graph:
    """Give the edges of the given kinds between transactions that may lie on a cycle. O(n log n).

    Raises:
        BudgetError: The budget has run out.
    """
    within = doubtful(txns, orders, budget)
    if not within:
        return Edges(0).graph()
    committed = [took and may for took, may in zip(orders.committed, within, strict=True)]
    edges = Edges(len(txns), within)
    for of_key in watched(orders.keys.values(), budget, KEYS_EVERY):
        if of_key.sound:
            _add_key(edges, of_key)
    add_order(edges, txns, committed, kinds, budget)
    return edges.graph(budget)


def add_order(
    edges: Edges,
    txns: Transactions,
    committed: Sequence[int],
    kinds: int,
    budget: Budget | None = None,
) -> None:
    """The edges of processes and of time, as far as ``kinds`` has them, between what happened."""
    if kinds & PROCESS:
        _add_processes(edges, txns)
    if kinds & REALTIME:
        _add_time(edges, txns, committed, budget)


def _add_key(edges: Edges, of_key: KeyHistory) -> None:
    """Versions in their order, who read them, and who overwrote what was read."""
    writers = of_key.writers
    before, after = writers, writers
    if NOBODY in writers:  # as they would be without what nobody should have appended
        before = _carried(writers)
        after = _carried(writers[::-1])[::-1]
    somebody = before if NOBODY not in writers else [w for w in writers if w != NOBODY]
    edges.extend(pairwise(somebody), WW)
    reads = of_key.compatible
    edges.extend(((before[n - 1], txn) for txn, n in reads if n and before[n - 1] != NOBODY), WR)
    over = len(after)
    while over and after[over - 1] == NOBODY:
        over -= 1
    edges.extend(((txn, after[n]) for txn, n in reads if n < over), RW)
    whole = [txn for txn, n in reads if n >= over] if of_key.unseen else []
    if of_key.unseen:
        _add_unseen(edges, of_key.unseen, before[-1] if before else NOBODY, whole)


def _carried(writers: Sequence[int]) -> list[int]:
    """Each writer that is nobody replaced by the last that was somebody."""
    carried: list[int] = []
    last = NOBODY
    for writer in writers:
        last = last if writer == NOBODY else writer
        carried.append(last)
    return carried


def _add_unseen(edges: Edges, unseen: list[int], last: int, whole: list[int]) -> None:
    """Tell what no read shows comes behind all that was read, in whatever order.

    ``last`` appended the last element that was read, ``whole`` read it. A virtual node stands for
    all of ``unseen`` but those that are themselves in ``whole`` (those follow each other in a
    ring: each overwrote what the others had read) and ``last``.
    """
    among = set(unseen)
    readers = [txn for txn in dict.fromkeys(whole) if txn in among and txn != last]
    ring = set(readers)
    outside = [txn for txn in dict.fromkeys(whole) if txn not in ring and txn != last]
    others = [txn for txn in unseen if txn not in ring and txn != last]
    if last in among:
        for txn in (*outside, *readers):
            edges.add(txn, last, RW)
    first = readers[0] if readers else None
    if len(readers) > 1:
        for one, other in pairwise((*readers, readers[0])):
            edges.add(one, other, RW)
    behind = edges.node() if len(others) > 1 else (others or [NOBODY])[0]
    if len(others) > 1:
        for txn in others:
            edges.add(behind, txn, ON)
    for txn, kind in (
        *((txn, RW) for txn in (*outside, *readers)),
        *([(last, WW)] if last != NOBODY else []),
    ):
        if behind != NOBODY:
            edges.add(txn, behind, kind)
        if first is not None and txn not in ring:
            edges.add(txn, first, kind)


def _add_processes(edges: Edges, txns: Transactions) -> None:
    """Each process does one thing after the other."""
    last: dict[Hashable, int] = {}
    for txn, (process, outcome) in enumerate(zip(txns.processes, txns.outcomes, strict=True)):
        if outcome == OK:
            if process in last:
                edges.add(last[process], txn, PROCESS)
            last[process] = txn


def _add_time(
    edges: Edges, txns: Transactions, committed: Sequence[int], budget: Budget | None
) -> None:
    """Tell what ended before something else began came before it, by way of a chain of moments."""
    none = 1 << 62
    events = [none] * (2 * len(txns) + 1)  # by place
    for txn, (begin, end) in enumerate(zip(txns.begins, txns.ends, strict=True)):
        if txns.outcomes[txn] == FAIL or not committed[txn]:
            continue
        if begin != NEVER:
            events[begin] = txn
        if end != NEVER:
            events[end] = ~txn
    ends: list[tuple[int, int]] = []
    begins: list[tuple[int, int]] = []
    moment = NOBODY
    fresh = True  # whether something began since the last moment
    for txn in watched(events, budget):
        if txn == none:
            continue
        if txn >= 0:
            if moment != NOBODY:
                begins.append((moment, txn))
            fresh = True
            continue
        if fresh:
            following = edges.node()
            if moment != NOBODY:
                begins.append((moment, following))
            moment, fresh = following, False
        ends.append((~txn, moment))
    edges.extend(ends, REALTIME)
    edges.extend(begins, ON)


def cyclic(graph: Graph, budget: Budget | None = None) -> bytearray:
    """Mark the nodes that may lie on a cycle: those left when all without predecessor are removed.

    Cheaper than components, and for a history without anomaly all that is needed. O(edges).

    Raises:
        BudgetError: The budget has run out.
    """
    starts, targets = graph.starts, graph.targets
    waiting = [0] * graph.nodes
    for target in targets:
        waiting[target] += 1
    free = [node for node, count in enumerate(waiting) if not count]
    left = bytearray(b"\1") * graph.nodes
    seen = 0
    while free:
        node = free.pop()
        seen += 1
        if budget is not None and not seen % EVERY:
            budget.look(EVERY)
        left[node] = 0
        for target in targets[starts[node] : starts[node + 1]]:
            waiting[target] -= 1
            if not waiting[target]:
                free.append(target)
    return left


def components(
    graph: Graph, mask: int, within: Sequence[int], budget: Budget | None = None
) -> list[list[int]]:
    """The strongly connected components of two nodes or more, by edges of the kinds in ``mask``.

    ``within[n]`` is true for the nodes to look at. Tarjan's algorithm (SIAM J. Comput. 1, 1972),
    without recursion. O(nodes + edges).

    Raises:
        BudgetError: The budget has run out.
    """
    starts, targets, kinds = graph.starts, graph.targets, graph.kinds
    mask |= ON
    nodes = graph.nodes
    number = [0] * nodes  # in order of visit, from 1; 0: not visited
    low = [0] * nodes
    edge = starts[:-1]  # the next edge of each node to follow
    stacked = bytearray(nodes)
    stack: list[int] = []
    found: list[list[int]] = []
    count = 0
    for root in range(nodes):
        if number[root] or not within[root]:
            continue
        path = [root]
        while path:
            node = path[-1]
            if not number[node]:
                count += 1
                if budget is not None and not count % EVERY:
                    budget.look(EVERY)
                number[node] = low[node] = count
                stack.append(node)
                stacked[node] = 1
            at, stop = edge[node], starts[node + 1]
            while at < stop:
                target = targets[at]
                at += 1
                if not kinds[at - 1] & mask or not within[target]:
                    continue
                if not number[target]:
                    path.append(target)
                    break
                if stacked[target] and number[target] < low[node]:
                    low[node] = number[target]
            edge[node] = at
            if path[-1] != node:
                continue
            path.pop()
            if path and low[node] < low[path[-1]]:
                low[path[-1]] = low[node]
            if low[node] == number[node]:
                component = _pop(stack, stacked, node)
                if len(component) > 1:
                    found.append(component)
    return found


def _pop(stack: list[int], stacked: bytearray, root: int) -> list[int]:
    """Take a whole component from the stack."""
    at = len(stack) - 1
    while stack[at] != root:
        at -= 1
    component = stack[at:]
    del stack[at:]
    for node in component:
        stacked[node] = 0
    return component
