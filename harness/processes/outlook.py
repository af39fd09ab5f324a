"""Keeps how many simulations this process will make, so that a JVM can prepare for few or many.

A virtual machine that compiles its code well earns that back only in many.
"""

from __future__ import annotations

_expected = [1]


def expect(simulations: int) -> None:
    """Say that so many are to come, about."""
    _expected[0] = simulations


def expected() -> int:
    """Give what was said last; 1 where nothing was."""
    return _expected[0]
