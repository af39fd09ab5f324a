"""This module makes plain values: classes whose fields nobody sets after the object is made.

The type checker enforces that, and nothing does at run time: a really frozen dataclass takes three
times as long to make, and a node makes a few dozen messages, inputs and effects for each record
that it commits.
"""

from __future__ import annotations

import dataclasses
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def value(cls: type[T]) -> type[T]:
    """Make ``cls`` a dataclass with slots that compares and hashes by its fields."""
    return dataclasses.dataclass(slots=True, unsafe_hash=True)(cls)


@dataclass_transform(frozen_default=True, order_default=True, field_specifiers=(dataclasses.field,))
def ordered_value(cls: type[T]) -> type[T]:
    """Make ``cls`` a value that also sorts by its fields."""
    return dataclasses.dataclass(slots=True, unsafe_hash=True, order=True)(cls)
