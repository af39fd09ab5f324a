"""Partitions as graphs: which directed links remain, and so which ones a fault must cut.

Each topology is a networkx ``DiGraph`` whose edges are the links that *stay*; the grudge is the
set of all other links. Graphs can be drawn, compared and reasoned about; sets of pairs cannot.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import permutations

import networkx as nx

from harness.contracts.environment import Link


def complete(nodes: Iterable[str]) -> nx.DiGraph[str]:
    """Everybody hears everybody."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(nodes)
    graph.add_edges_from(permutations(list(graph.nodes), 2))
    return graph


def components(groups: Iterable[Collection[str]]) -> nx.DiGraph[str]:
    """Everybody hears the members of the own group and nobody else."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    for group in groups:
        graph.add_nodes_from(group)
        graph.add_edges_from(complete(group).edges)
    return graph


def isolate(nodes: Iterable[str], alone: str) -> nx.DiGraph[str]:
    """One node hears nobody and is heard by nobody."""
    return components([[alone], [node for node in nodes if node != alone]])


def bridge(left: Sequence[str], middle: str, right: Sequence[str]) -> nx.DiGraph[str]:
    """Two sides that meet only in one node, which hears both."""
    graph = components([left, right, [middle]])
    for side in (left, right):
        graph.add_edges_from(complete([*side, middle]).edges)
    return graph


def deaf(nodes: Iterable[str], node: str) -> nx.DiGraph[str]:
    """One node hears nobody, and is heard by everybody."""
    graph = complete(nodes)
    graph.remove_edges_from(list(graph.in_edges(node)))
    return graph


def mute(nodes: Iterable[str], node: str) -> nx.DiGraph[str]:
    """One node hears everybody, and is heard by nobody."""
    graph = complete(nodes)
    graph.remove_edges_from(list(graph.out_edges(node)))
    return graph


def grudge(graph: nx.DiGraph[str]) -> frozenset[Link]:
    """The directed links to cut, so that exactly the graph's edges stay."""
    return frozenset(nx.complement(graph).edges)


def kept(graph: nx.DiGraph[str]) -> frozenset[Link]:
    """The links over which a request gets an answer: those that stay both ways."""
    return frozenset((a, b) for a, b in graph.edges if graph.has_edge(b, a))
