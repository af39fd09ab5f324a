"""Plain values: frozen dataclasses for whoever reads and checks the code, quick ones at run time.

To set the fields of a really frozen dataclass takes three times as long, and a node makes a few
dozen messages, inputs and effects for each record that it commits.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def dataclass(*, frozen: bool, slots: bool, order: bool = False) -> Callable[[type[T]], type[T]]:
    """As ``dataclasses.dataclass``; that nobody sets a frozen field is left to the type checker."""
    return dataclasses.dataclass(slots=slots, order=order, unsafe_hash=frozen)
