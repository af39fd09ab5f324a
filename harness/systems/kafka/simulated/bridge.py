"""JPype, the bridge to Java: optional, and a second to load."""

from __future__ import annotations

import importlib.util
from typing import Any


def is_there() -> bool:
    """Tell whether JPype is installed."""
    return importlib.util.find_spec("jpype") is not None


def bridge() -> Any:
    """The module; it has no types."""
    import jpype  # noqa: PLC0415 - see above

    return jpype
