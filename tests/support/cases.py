"""Parameters of tests by their names."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pytest


def cases(values: Mapping[str, Any], long: Collection[str]) -> list[Any]:
    """Make parameters whose ids are the names; those that ``long`` names run with --long alone."""
    return [
        pytest.param(value, id=name, marks=[pytest.mark.long] if name in long else [])
        for name, value in values.items()
    ]
