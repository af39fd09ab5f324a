"""Splittable seeds: from one seed, any number of independent ones, each by its path of labels.

A draw depends on the seed and on labels only (which child, which op number), never on how many
draws others made before or on when they made them. That is what keeps a generator's ops the same
for a seed whatever the timing of a run.

Source: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators" (OOPSLA 2014), the
64-bit mixing function of SplitMix.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from random import Random

_MASK = 0xFFFF_FFFF_FFFF_FFFF
_GAMMA = 0x9E37_79B9_7F4A_7C15
_UNIT = 1.0 / (1 << 53)


def split(seed: int, *labels: int | str) -> int:
    """A 64-bit seed for the part of ``seed`` that the labels name; equal input, equal output."""
    state = seed & _MASK
    for label in labels:
        number = label if isinstance(label, int) else _number(label)
        state = _mix((state + _GAMMA * (2 * number + 1)) & _MASK)
    return state


def unit(seed: int, *labels: int | str) -> float:
    """A number in [0, 1) for the part of ``seed`` that the labels name."""
    return (split(seed, *labels) >> 11) * _UNIT


def rng(seed: int, *labels: int | str) -> Random:
    """A fresh stream of random numbers for the part of ``seed`` that the labels name."""
    return Random(split(seed, *labels))


def _mix(z: int) -> int:
    z = ((z ^ (z >> 30)) * 0xBF58_476D_1CE4_E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D0_49BB_1331_11EB) & _MASK
    return z ^ (z >> 31)


@lru_cache(maxsize=1024)
def _number(label: str) -> int:
    return int.from_bytes(hashlib.blake2b(label.encode(), digest_size=8).digest(), "big")
