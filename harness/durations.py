"""Lengths of time as people write them: ``30`` or ``30s``, ``10m``, ``8h``."""

from __future__ import annotations

import re

PATTERN = r"\d+(\.\d+)?\s*(s|m|h)?"  # of a plan's fields, too
EXAMPLE = "30, 90s, 10m or 8h"
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h|)")
_UNITS_S = {"": 1, "s": 1, "m": 60, "h": 3600}


def seconds(text: str) -> float:
    """The seconds of a length of time; without a unit they are seconds.

    Raises:
        ValueError: It is no length of time.
    """
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no length of time; want one as in {EXAMPLE}")
    return float(match[1]) * _UNITS_S[match[2]]


def told(length_s: float) -> str:
    """A length of time as it could have been written: ``90s`` is ``90s``, 7200 s are ``2h``."""
    for unit, size_s in (("h", 3600), ("m", 60)):
        if length_s >= size_s and length_s % size_s == 0:
            return f"{length_s / size_s:g}{unit}"
    return f"{length_s:g}s"
