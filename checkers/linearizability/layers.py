"""Decides which configurations of a layer stand for others; both just-in-time searches use it.

A configuration is ``(state, done, optional)``, the last two as bits of the calls in flight: those
linearized, and those that could as well be. See ``linearizable_search``.
"""

from __future__ import annotations

from typing import Any

Config = tuple[Any, int, int]


class Layers:
    """Knows which of the calls in flight only look, and whose outcome is unknown."""

    def __init__(self, seeing: int = 0, unknown: int = 0) -> None:
        self._seeing = seeing  # bits
        self._unknown = unknown  # bits

    def options(self, config: Config) -> tuple[int, int]:
        """Tell how much a configuration leaves open: one that stands for another has no less."""
        _, done, optional = config
        better = optional.bit_count() + (done & self._seeing).bit_count()
        return better - (done & self._unknown).bit_count(), done

    def stands_for(self, one: Config, other: Config) -> bool:
        """Tell whether ``one`` can do whatever ``other`` can."""
        _, done, optional = one
        _, done_other, optional_other = other
        if optional_other & ~optional:
            return False
        differ = done ^ done_other
        if differ & ~(optional | self._seeing | self._unknown):
            return False
        if differ & self._seeing & done_other:
            return False
        return not differ & self._unknown & done
