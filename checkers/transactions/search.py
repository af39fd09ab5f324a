"""Finds the cycles of a graph, each by its name and as short as a bounded search finds it.

That there is a cycle of a kind is decided exactly and in linear time, by strongly connected
components: of the edges a kind may have, and for cycles without two rw edges in a row of a graph
in which each node stands twice (reached by an rw edge, or not: Cerone and Gotsman, "Analysing
Snapshot Isolation", 2016). Only how short the one shown is depends on the bound.

Names: Adya's, as Elle writes them; ``-process`` and ``-realtime`` when the order within a process,
or of time, is needed to close the cycle.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

import networkx as nx

from checkers.limits.budget import EVERY, Budget, watched
from checkers.transactions.graph import (
    DEPENDENCIES,
    ON,
    PROCESS,
    REALTIME,
    RW,
    WR,
    WW,
    Edges,
    Graph,
    components,
    cyclic,
)

SHOWN_MAX = 20  # cycles of one name
TRIES_MAX = 50  # edges of a component through which the shortest cycle is looked for
STEPS_MAX = 3_000_000  # edges followed by all searches that only look for something shorter
NETWORKX_MAX = 200  # nodes; in larger components it takes too long
NETWORKX_COST = 10  # an edge that it follows, in edges that we follow
SHORTEST = 2  # transactions of a cycle
TIERS = ((0, ""), (PROCESS, "-process"), (PROCESS | REALTIME, "-realtime"))

Precedes = Callable[[int, int], bool]  # whether one transaction ended before another began


@dataclass(frozen=True, slots=True)
class Cycle:
    """Steps ``(txn, kind of edge, next txn)``, the last of which leads back to the first."""

    steps: tuple[tuple[int, int, int], ...]

    @property
    def name(self) -> str:
        """Tell what a cycle of such edges is called."""
        kinds = [kind for _, kind, _ in self.steps]
        rws = kinds.count(RW)
        if not rws:
            base = "G1c" if WR in kinds else "G0"
        elif rws == 1:
            base = "G-single"
        else:
            adjacent = any(one == other == RW for one, other in pairwise([kinds[-1], *kinds]))
            base = "G2-item" if adjacent else "G-nonadjacent"
        if REALTIME in kinds:
            return base + "-realtime"
        return base + ("-process" if PROCESS in kinds else "")


def find_cycles(
    graph: Graph,
    kinds: int,
    precedes: Precedes,
    budget: Budget | None = None,
    found: list[Cycle] | None = None,
) -> list[Cycle]:
    """Cycles of the dependencies and of the other ``kinds``, at most ``SHOWN_MAX`` of a name.

    Empty exactly when there is no cycle; and when there is one that a consistency model forbids,
    there is one among them that it forbids. They go to ``found``, too, as they are met: they stand
    although the budget runs out.

    Raises:
        BudgetError: The budget has run out.
    """
    found = [] if found is None else found
    left = cyclic(graph, budget)
    if any(left):
        search = _Search(graph, precedes, budget, found)
        for extra, _ in TIERS:
            if extra & ~kinds == 0:
                search.tier(extra, left)
    return found


class _Search:
    """One search, of all tiers."""

    def __init__(
        self, graph: Graph, precedes: Precedes, budget: Budget | None, found: list[Cycle]
    ) -> None:
        self._graph = graph
        self._precedes = precedes
        self._budget = budget
        self._steps = STEPS_MAX
        self._seen: set[tuple[str, frozenset[int]]] = set()
        self._counts: dict[str, int] = {}
        self._met: set[int] = set()  # transactions of cycles of fewer than two rw edges
        self.found = found

    def tier(self, extra: int, left: Sequence[int]) -> None:
        """All kinds of cycles of dependencies and ``extra``; only nodes ``left`` lie on any."""
        whole = components(self._graph, DEPENDENCIES | extra, left, self._budget)
        if not whole:
            return
        inside = bytearray(self._graph.nodes)
        for component in whole:
            for node in component:
                inside[node] = 1
        for mask, through in ((WW, WW), (WW | WR, WR)):
            parts = components(self._graph, mask | extra, inside, self._budget)
            self._each(parts, through, mask | extra, TRIES_MAX)
        self._each(whole, RW, WW | WR | extra, self._graph.nodes)
        met = self._met
        plain = [component for component in whole if met.isdisjoint(component)]
        for cycle in islice(self._nonadjacent(plain, extra), SHOWN_MAX):
            self._add(cycle)
        self._each(whole, RW, DEPENDENCIES | extra, TRIES_MAX)

    def _each(self, parts: list[list[int]], through: int, mask: int, tries: int) -> None:
        """The shortest cycle of each component, until enough are found."""
        found = 0
        for component in parts:
            cycle = self._shortest(component, through, mask, tries)
            if cycle is not None:
                self._add(cycle)
                self._met.update(txn for txn, _, _ in cycle.steps)
                found += 1
            if found >= SHOWN_MAX:
                return

    def _add(self, cycle: Cycle) -> None:
        key = (cycle.name, frozenset(txn for txn, _, _ in cycle.steps))
        if key not in self._seen and self._counts.get(cycle.name, 0) < SHOWN_MAX:
            self._seen.add(key)
            self._counts[cycle.name] = self._counts.get(cycle.name, 0) + 1
            self.found.append(cycle)

    def _shortest(self, component: list[int], through: int, mask: int, tries: int) -> Cycle | None:
        """The shortest cycle that begins with an edge ``through`` and goes on with ``mask``."""
        ways = _Ways(self._graph, component, mask, self._budget)
        edges = list(watched(self._edges(component, ways.inside, through), self._budget))
        for edge in watched(edges if mask & REALTIME else (), self._budget):
            direct = self._direct(*edge)
            if direct is not None:
                return direct
        best: Cycle | None = None
        for tried, (source, target, kind) in enumerate(edges):
            if tried and (self._steps <= 0 or tried >= tries):
                break
            way = ways.shortest(target, source, None if best is None else len(best.steps) - 1)
            self._steps -= ways.followed
            if way is not None:
                best = _cycle(self._graph.txns, [(source, kind), *way])
                if len(best.steps) == SHORTEST:
                    break
        return best

    def _edges(
        self, component: list[int], inside: set[int], through: int
    ) -> Iterator[tuple[int, int, int]]:
        graph = self._graph
        for source in component:
            for at in range(graph.starts[source], graph.starts[source + 1]):
                if graph.kinds[at] & through and graph.targets[at] in inside:
                    yield source, graph.targets[at], graph.kinds[at]

    def _direct(self, source: int, target: int, kind: int) -> Cycle | None:
        """A cycle of two: the other ended before the one began."""
        graph = self._graph
        behind: Sequence[int] = (target,)
        if target >= graph.txns:
            first, stop = graph.starts[target], graph.starts[target + 1]
            behind = graph.targets[first : min(stop, first + TRIES_MAX)]
        for other in behind:
            if other < graph.txns and other != source and self._precedes(other, source):
                return Cycle(((source, kind, other), (other, REALTIME, source)))
        return None

    def _nonadjacent(self, whole: list[list[int]], extra: int) -> Iterator[Cycle]:
        """A cycle without two rw edges in a row for each component that has one."""
        for component in whole:
            doubled = _doubled(self._graph, component, extra, self._budget)
            every = bytearray(b"\1") * doubled.nodes
            for twice in components(doubled, WW | RW, every, self._budget):
                start = min(twice)
                ways = _Ways(doubled, twice, WW | RW, self._budget)
                for target, _ in ways.steps(start):
                    way = ways.shortest(target, start, None)
                    if way is not None:
                        yield self._undoubled(component, [start, *(node for node, _ in way)], extra)
                        break
                break

    def _undoubled(self, component: list[int], walk: list[int], extra: int) -> Cycle:
        """The cycle of transactions behind a walk over doubled nodes."""
        nodes = [component[node // 2] for node in walk]
        rws = [walk[(at + 1) % len(walk)] % 2 for at in range(len(walk))]
        steps = [
            (node, self._kind(node, nodes[(at + 1) % len(nodes)], extra, rw=bool(rws[at])))
            for at, node in enumerate(nodes)
        ]
        return _cycle(self._graph.txns, _simple(steps))

    def _kind(self, source: int, target: int, extra: int, *, rw: bool) -> int:
        graph = self._graph
        places = range(graph.starts[source], graph.starts[source + 1])
        kinds = [graph.kinds[at] for at in places if graph.targets[at] == target]
        allowed = RW | ON if rw else WW | WR | ON | extra
        return min(kind for kind in kinds if kind & allowed)


class _Ways:
    """Shortest ways within one component, by edges of some kinds; going ``ON`` costs nothing."""

    def __init__(
        self, graph: Graph, component: list[int], mask: int, budget: Budget | None
    ) -> None:
        self._graph = graph
        self._budget = budget
        self._mask = mask | ON
        self.inside = set(component)
        self.followed = 0  # edges, by the last search
        self._small: Any = None
        self._is_small = len(component) <= NETWORKX_MAX

    def steps(self, node: int) -> Iterator[tuple[int, int]]:
        """The edges out of a node: (target, kind)."""
        graph = self._graph
        for at in range(graph.starts[node], graph.starts[node + 1]):
            if graph.kinds[at] & self._mask and graph.targets[at] in self.inside:
                yield graph.targets[at], graph.kinds[at]

    def shortest(self, source: int, target: int, limit: int | None) -> list[tuple[int, int]] | None:
        """The way as (node, kind of edge to the next), without ``target`` itself.

        None when there is none that is shorter than ``limit``.
        """
        if self._budget is not None:
            self._budget.look()
        if self._is_small:
            return self._by_networkx(source, target, limit)
        return self._by_queue(source, target, limit)

    def _by_networkx(
        self, source: int, target: int, limit: int | None
    ) -> list[tuple[int, int]] | None:
        if self._small is None:
            self._small = nx.DiGraph()
            self._small.add_nodes_from(self.inside)
            for node in self.inside:
                for other, kind in self.steps(node):
                    known = self._small.get_edge_data(node, other)
                    if known is None or kind < known["kind"]:
                        self._small.add_edge(node, other, kind=kind, cost=int(kind != ON))
        self.followed = NETWORKX_COST * self._small.number_of_edges()
        try:
            nodes = nx.dijkstra_path(self._small, source, target, weight="cost")
        except nx.NetworkXNoPath:
            return None
        cost = nx.path_weight(self._small, nodes, weight="cost")
        if limit is not None and cost >= limit:
            return None
        return [(one, self._small.edges[one, other]["kind"]) for one, other in pairwise(nodes)]

    def _by_queue(
        self, source: int, target: int, limit: int | None
    ) -> list[tuple[int, int]] | None:
        cost = {source: 0}
        came: dict[int, tuple[int, int]] = {}
        queue = deque([source])
        done: set[int] = set()
        self.followed = 0
        while queue:
            node = queue.popleft()
            if node in done:
                continue
            done.add(node)
            if self._budget is not None and not len(done) % EVERY:
                self._budget.look(EVERY)
            if node == target:
                return _way_back(came, source, target)
            if limit is not None and cost[node] >= limit:
                return None
            for other, kind in self.steps(node):
                self.followed += 1
                far = cost[node] + (kind != ON)
                if far < cost.get(other, far + 1):
                    cost[other] = far
                    came[other] = (node, kind)
                    (queue.append if kind != ON else queue.appendleft)(other)
        return None


def _way_back(came: dict[int, tuple[int, int]], source: int, target: int) -> list[tuple[int, int]]:
    way: list[tuple[int, int]] = []
    node = target
    while node != source:
        step = came[node]
        way.append(step)
        node = step[0]
    return way[::-1]


def _doubled(graph: Graph, component: list[int], extra: int, budget: Budget | None = None) -> Graph:
    """The component with each node twice, reached by an rw edge (odd) or not (even).

    From an odd one no rw edge goes on, so that a cycle has no two in a row.
    """
    places = {node: place for place, node in enumerate(component)}
    edges = Edges(2 * len(component))
    for node, place in watched(places.items(), budget):
        for at in range(graph.starts[node], graph.starts[node + 1]):
            other, kind = places.get(graph.targets[at]), graph.kinds[at]
            if other is None:
                continue
            if kind == ON:
                edges.add(2 * place, 2 * other, WW)
                edges.add(2 * place + 1, 2 * other + 1, WW)
            elif kind == RW:
                edges.add(2 * place, 2 * other + 1, RW)
            elif kind & (WW | WR | extra):
                edges.add(2 * place, 2 * other, WW)
                edges.add(2 * place + 1, 2 * other, WW)
    return edges.graph(budget)


def _simple(steps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """A part of a closed walk that meets no node twice, and has no two rw edges in a row either.

    Where a walk without two in a row meets itself, one of its two halves has none either.
    """
    while True:
        at: dict[int, int] = {}
        for place, (node, _) in enumerate(steps):
            if node in at:
                inner, outer = steps[at[node] : place], steps[: at[node]] + steps[place:]
                steps = outer if _adjacent(inner) else inner
                break
            at[node] = place
        else:
            return steps


def _adjacent(steps: list[tuple[int, int]]) -> bool:
    kinds = [kind for _, kind in steps if kind != ON]
    return any(one == other == RW for one, other in pairwise([kinds[-1], *kinds]))


def _cycle(txns: int, steps: Sequence[tuple[int, int]]) -> Cycle:
    """The cycle without its virtual nodes."""
    first = next(at for at, (node, _) in enumerate(steps) if node < txns)
    real = [(node, kind) for node, kind in (*steps[first:], *steps[:first]) if node < txns]
    nodes = [node for node, _ in real]
    return Cycle(
        tuple(
            (node, kind, following)
            for (node, kind), following in zip(real, [*nodes[1:], nodes[0]], strict=True)
        )
    )
