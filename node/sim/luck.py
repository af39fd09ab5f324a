"""Random numbers of moments: what a link draws depends on when it draws, not on what came before.

A run that differs in one early op or fault soon has the same messages at the same moments again.
With one stream of random numbers for all it would nevertheless go another way for ever, for it is
at another place of the stream; with numbers of moments it finds its way back. So a failure that
needs some luck is still there when what it does not need is left out, and can be shrunk.

Source: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators" (OOPSLA 2014).
"""

from __future__ import annotations

from typing import Final

MOMENT_NS: Final = 1_000_000
_MASK: Final = 0xFFFF_FFFF_FFFF_FFFF
_GAMMA: Final = 0x9E37_79B9_7F4A_7C15
_MOMENT: Final = 0xD134_2543_DE82_EF95  # odd, and no small multiple of the other


class Luck:
    """The numbers of one link; those of one millisecond follow each other."""

    __slots__ = ("_moment", "_seed", "_state")

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._moment = -1
        self._state = seed

    def at(self, now_ns: int) -> None:
        """Draw the numbers of this moment from now on."""
        moment = now_ns // MOMENT_NS
        if moment != self._moment:
            self._moment = moment
            self._state = (self._seed + moment * _MOMENT) & _MASK

    def below(self, end: int) -> int:
        """A number from 0 to just below ``end``, for ends far below 2**64."""
        self._state = state = (self._state + _GAMMA) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58_476D_1CE4_E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D0_49BB_1331_11EB) & _MASK
        return ((state ^ (state >> 31)) * end) >> 64

    def share(self) -> float:
        """A number in [0, 1)."""
        return self.below(1 << 53) / (1 << 53)
