"""Building kio entities without naming a version: fields a version lacks are left out.

kio has one class per schema, version and nested struct, with the same struct names in all
versions; admin handlers would otherwise be written once per version.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from datetime import timedelta
from functools import cache
from types import ModuleType
from typing import Any, Final, cast

from kio.index import load_payload_module
from kio.static.constants import EntityType
from kio.static.primitive import i32Timedelta

NO_THROTTLE: Final = i32Timedelta.parse(timedelta(0))


@cache
def response_module(api_key: int, version: int) -> ModuleType:
    """The kio module with the response structs of an API version."""
    return load_payload_module(api_key, version, EntityType.response)


@cache
def _builder(module: ModuleType, struct: str) -> tuple[Callable[..., Any], frozenset[str]]:
    cls = getattr(module, struct)
    return cast("Callable[..., Any]", cls), frozenset(f.name for f in fields(cls))


def build(module: ModuleType, struct: str, **values: Any) -> Any:
    """A struct of the module from those values that this version knows."""
    cls, known = _builder(module, struct)
    return cls(**{name: value for name, value in values.items() if name in known})
