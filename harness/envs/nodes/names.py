"""Names of nodes: what they may be, and what there is under one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from harness.errors import EnvError

T = TypeVar("T")


def known(nodes: Mapping[str, T], node: str) -> T:
    """Look a node up; raises EnvError, which names the nodes that exist."""
    check_known(nodes, node)
    return nodes[node]


def check_known(nodes: Iterable[str], *names: str) -> None:
    """Raise EnvError for the first name that no node has."""
    there = tuple(nodes)
    for name in names:
        if name not in there:
            others = ", ".join(there) or "none before setup"
            raise EnvError(f"no node is called {name!r}; there are: {others}")


def check_names(
    nodes: Sequence[str], environment: str, most: int, reserved: Iterable[str] = ()
) -> None:
    """Raise EnvError for too many nodes, or names that hosts, files and rules could not have.

    Args:
        nodes: Their names.
        environment: What it is called.
        most: How many it takes.
        reserved: Names that others have.
    """
    if not 0 < len(nodes) <= most:
        raise EnvError(f"{len(nodes)} nodes: the {environment} environment takes 1 to {most}")
    for node in nodes:
        if not node.isalnum() or nodes.count(node) > 1 or node in reserved:
            raise EnvError(f"bad node name {node!r}: want letters and digits, each name once")
