"""A workload brings ops, a client that does them, and the checkers that judge them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from harness.contracts.clients import Client
from harness.contracts.system import System

LOCAL: Final = "local-"  # begins the name of an op that one node answers from its own image


@dataclass(frozen=True, slots=True)
class Workload:
    """Ops, how to do them, and which checkers judge them; made by ``factory(spec)``.

    ``client`` builds the prototype client from the system and raises EnvError when the system
    lacks the ability. ``generator`` runs while faults do; ``final_generator`` after the heal.
    ``reads`` are ops that its client also does as ``local-`` ops, which are all that a system has
    whose reads have no barrier.
    """

    client: Callable[[System], Client]
    generator: Any  # harness.generators.generator.Generator
    final_generator: Any | None
    checkers: tuple[str, ...]
    model: str | None = None
    reads: frozenset[str] = frozenset()
