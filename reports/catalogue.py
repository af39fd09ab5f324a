"""The words of the invariants for a report, as the catalogue has them."""

from __future__ import annotations

from harness import catalogue
from harness.contracts.meaning import Meaning


def meaning(invariant: str) -> Meaning:
    """Find what an invariant promises, and why that matters; empty when nobody here judges it."""
    found = catalogue.meanings().get(invariant)
    return Meaning(invariant, "", "", "") if found is None else found
