"""Frees the Java objects and files of simulated Kafka processes that have ended.

A killed process cannot free them itself. Until somebody does, neither Python nor the JVM can: each
has objects that refer to the other's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self


class Held:
    """Lets go for each process that is over; a context that ends with its simulation."""

    def __init__(self) -> None:
        self._holders: dict[str, Callable[[], None]] = {}  # by node

    def begin(self, node: str, let_go: Callable[[], None]) -> None:
        """Take note of a new process of a node; the one before it, which is over, lets go."""
        self._let_go(node)
        self._holders[node] = let_go

    def _let_go(self, node: str) -> None:
        if (let_go := self._holders.pop(node, None)) is not None:
            let_go()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for node in list(self._holders):
            self._let_go(node)
