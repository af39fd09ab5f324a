"""Incarnations of brokers that clients play: the id says whether the one before stopped in order.

A broker that dies may have lost the end of its logs. Nothing in the metadata says that it did, and
whoever judges the metadata has to know it: so the id of such an incarnation ends with a mark.
"""

from __future__ import annotations

from random import Random
from typing import Final
from uuid import UUID

from node.log.meta_properties import random_id

_MARK_BITS: Final = 48  # so many that no id drawn at random ends like that
_MARK: Final = 0xD1ED_0F_A1_0000


def next_incarnation(rng: Random, *, unclean: bool = False) -> UUID:
    """Draw the id of a new incarnation; ``unclean``: the one before has died."""
    drawn = random_id(rng)
    if not unclean:
        return drawn
    return UUID(int=drawn.int >> _MARK_BITS << _MARK_BITS | _MARK)


def came_back_unclean(incarnation: UUID | None) -> bool:
    """Tell whether an incarnation says of itself that the one before has died."""
    return incarnation is not None and incarnation.int & (1 << _MARK_BITS) - 1 == _MARK
