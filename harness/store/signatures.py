"""One name for one way to fail: an anomaly without what differs from run to run.

A run fails in the way of what it broke first. Nights, the fleet report and the pipeline all name
ways to fail by ``signature``.
"""

from __future__ import annotations

import re
from typing import Final

MESSAGE_MAX: Final = 160  # characters of a message in a signature
# Patterns and what stands in their place; Python's and Java's regular expressions agree on these.
CHANGES: Final = (
    (r"'[^']*'|\"[^\"]*\"", "'…'"),
    (r"\b[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}\b", "…"),
    (r"\b[0-9a-fA-F]{8,}\b", "…"),
    (r"\bn[0-9]+(?:(?:, | and )n[0-9]+)*\b", "n#"),
    (r"\b[a-z][0-9]+\b", "k#"),  # a key: workloads name theirs by a letter and a number
    (r"[0-9]+(?:[.,][0-9]+)*", "#"),
    (r"#(?:(?:, ?|\.\.| \.\. | and )#)+", "#"),
    (r"[ \t\n]+", " "),
)
_CHANGES: Final = tuple((re.compile(pattern), text) for pattern, text in CHANGES)


def signature(invariant: str, message: str) -> str:
    """The invariant and the message without numbers, nodes, keys, ids and quoted values."""
    for pattern, text in _CHANGES:
        message = pattern.sub(text, message)
    return f"{invariant}: {message[:MESSAGE_MAX]}"


def of_doubt(reason: str) -> str:
    """Give the signature of a run that broke nothing and is in doubt for that reason."""
    return signature("in doubt", reason)
