"""Tells how the features of a night grew, and whether more time would bring more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from harness.explore.growth import kinds
from harness.nightly.ledger import Growth, Night

PARTS: Final = 24  # of the night's work: as many as bars fit on a phone
HOUR_S: Final = 3_600.0
LONG: Final = 2  # hours from which on a night is judged by its last one; else by its last tenth
LAST_SHARE: Final = 0.1


def told(night: Night) -> dict[str, Any]:
    """The features of a night as a JSON object.

    ``growth`` has a ``[seconds of work, simulated histories, features]`` for each part of the
    night; ``late`` says what the last hour or tenth brought: ``[seconds, features]``, or None when
    there were no features.
    """
    return {
        "known": len(night.features),
        "by_kind": kinds(night.features),
        "by_entry": dict(Counter(night.features.values())),
        "growth": [[round(g.used_s, 3), g.histories, g.features] for g in parts(night.growth)],
        "late": late(night.growth),
    }


def parts(growth: Sequence[Growth], most: int = PARTS) -> list[Growth]:
    """Give what was known at the end of each part of the night; all parts are as long."""
    if not growth:
        return []
    end_s = growth[-1].used_s
    count = min(most, len(growth))
    found = []
    for number in range(1, count + 1):
        until_s = end_s * number / count
        found.append(Growth(until_s, *_known(growth, until_s)))
    return found


def late(growth: Sequence[Growth]) -> list[float] | None:
    """Tell what the last hour, or of a short night the last tenth, brought."""
    if not growth:
        return None
    end_s = growth[-1].used_s
    span_s = HOUR_S if end_s >= LONG * HOUR_S else end_s * LAST_SHARE
    _, before = _known(growth, end_s - span_s)
    return [round(span_s, 3), growth[-1].features - before]


def _known(growth: Sequence[Growth], until_s: float) -> tuple[int, int]:
    """Tell how many histories there were by then, and how many features were known."""
    slack_s = 1e-6  # a sum of seconds is not exact
    last = next((g for g in reversed(growth) if g.used_s <= until_s + slack_s), None)
    return (0, 0) if last is None else (last.histories, last.features)
