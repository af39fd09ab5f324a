"""One name for one way to fail: an anomaly without what differs from run to run."""

from __future__ import annotations

import re
from typing import Final

MESSAGE_MAX: Final = 160  # characters of a signature
_CHANGES: Final = (
    (re.compile(r"'[^']*'|\"[^\"]*\""), "'…'"),
    (re.compile(r"\b[0-9a-fA-F]{8,}\b"), "…"),
    (re.compile(r"\bn\d+(?:(?:, | and )n\d+)*\b"), "n#"),
    (re.compile(r"\d+(?:[.,]\d+)*"), "#"),
    (re.compile(r"#(?:(?:, ?|\.\.| \.\. | and )#)+"), "#"),
    (re.compile(r"\s+"), " "),
)


def signature(invariant: str, message: str) -> str:
    """The invariant and the message without numbers, nodes, ids and quoted values."""
    for pattern, text in _CHANGES:
        message = pattern.sub(text, message)
    return f"{invariant}: {message.strip()[:MESSAGE_MAX]}"
