"""Builds kio entities without writing each version: fields that a version lacks are left out.

kio has one class per struct and version, with the same names in all versions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import fields
from datetime import timedelta
from functools import cache
from typing import Any, Final, cast

from kio.static.primitive import i32Timedelta

NO_THROTTLE: Final = i32Timedelta.parse(timedelta(0))


def build(payload: type, struct: str | None = None, **values: Any) -> Any:
    """The payload itself, or the named struct beside it, from those values that it knows.

    Values are taken as they are: the wire's bounds are checked when the entity is encoded.
    """
    make, known = _builder(payload, struct)
    return make(**{name: value for name, value in values.items() if name in known})


def knows(payload: type, struct: str | None, field: str) -> bool:
    """Tell whether this version's struct has that field."""
    return field in _builder(payload, struct)[1]


@cache
def _builder(payload: type, struct: str | None) -> tuple[Callable[..., Any], frozenset[str]]:
    cls = payload if struct is None else getattr(sys.modules[payload.__module__], struct)
    return cast("Callable[..., Any]", cls), frozenset(f.name for f in fields(cls))
