"""The events inside a replica name, for each thing that happens, the handlers that hear of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from node.core.roles import Leader


@dataclass(slots=True)
class Events:
    """The listeners of each event are called in the order in which they stand here.

    ``node.core.assembly`` sets them once, when all handlers are built.
    """

    left: tuple[Callable[[Leader], None], ...] = ()  # this replica leads no more
    committed: tuple[Callable[[Leader, int], None], ...] = ()  # a leader's high watermark grew
    voters_changed: tuple[Callable[[], None], ...] = ()  # another voter set is in force
