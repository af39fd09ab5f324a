"""Changes of one value of a request, by its place: ``topics.0.partitions.0.replica_id = own``.

A request is one of kio's entities: frozen dataclasses, tuples of these, and values. Each field says
its type on the wire, and by that which values are at the edges of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import Field, fields, is_dataclass, replace
from datetime import timedelta
from types import NoneType
from typing import Any, Final, get_args
from uuid import UUID

from kio.static.primitive import i32Timedelta

NONE, EMPTY, TWICE, OTHER, NOT = "none", "empty", "twice", "other", "not"
OWN, LEADER, MOST, LEAST = "own", "leader", "most", "least"
_BITS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "timedelta_i32": 32}
_UNSIGNED: Final = {"uint16": 16}
ITEMS: Final = 2  # of a list are changed: those behind are like these
MS: Final = timedelta(milliseconds=1)
_TEXT: Final = "somebody-else"
_UUID: Final = UUID(int=0x0DD << 64 | 0x0DD)


class NoPlaceError(ValueError):
    """A request has no such place, or no such value fits there: another version has another."""


def places(entity: Any, prefix: str = "") -> Iterator[tuple[str, Sequence[str]]]:
    """Give all places of a request, and the names of the values that may be put there.

    Args:
        entity: The request, or a part of it.
        prefix: The place of that part, with a dot behind.
    """
    for field in fields(entity):
        at, value = f"{prefix}{field.name}", getattr(entity, field.name)
        kind = field.metadata.get("kafka_type")
        if isinstance(value, tuple):
            yield at, (EMPTY, TWICE) if value else ()
            for index, item in enumerate(value[:ITEMS]):
                if is_dataclass(item):
                    yield from places(item, f"{at}.{index}.")
                elif names := _names(kind, field, item):
                    yield f"{at}.{index}", names
        elif is_dataclass(value) and not isinstance(value, type):
            yield from places(value, f"{at}.")
        elif names := _names(kind, field, value):
            yield at, names


def _names(kind: str | None, field: Field[Any], value: Any) -> Sequence[str]:
    if value is None and "tuple" in str(field.type):
        return ()
    if kind in _BITS:
        of_nodes = (OWN, LEADER) if field.name.endswith("_id") else ()
        now = value // MS if isinstance(value, timedelta) else value
        edges = [n for n in ("-1", "0", MOST, LEAST) if _number(kind, n, own=0, leader=0) != now]
        return (*edges, *of_nodes)
    if kind in _UNSIGNED:
        return ("0", MOST)
    if kind == "bool":
        return (NOT,)
    nothing = (NONE,) if NoneType in get_args(field.type) and value is not None else ()
    if kind == "string":
        return (*((EMPTY,) if value else ()), OTHER, *nothing)
    if kind == "uuid":
        return (OTHER, *nothing)
    return (EMPTY, *nothing) if kind == "bytes" else ()


def changed(entity: Any, place: str, name: str, *, own: int, leader: int) -> Any:
    """Give a request with another value at a place.

    Args:
        entity: The request.
        place: A place that ``places`` gives.
        name: Of a value that it gives for that place.
        own: The id of the node that is asked.
        leader: The id of the leader.

    Raises:
        NoPlaceError: There is no such place, or that value does not fit.
    """
    head, _, rest = place.partition(".")
    at = next((f for f in fields(entity) if f.name == head), None)
    if at is None:
        raise NoPlaceError(f"{type(entity).__name__} has no {head}")
    old, kind = getattr(entity, head), at.metadata.get("kafka_type")

    def value(of: Any, below: str) -> Any:
        if below:
            return changed(of, below, name, own=own, leader=leader)
        return _value(of, kind, name, own=own, leader=leader)

    if not isinstance(old, tuple):
        return replace(entity, **{head: value(old, rest)})
    if not rest:
        return replace(entity, **{head: _list(old, name)})
    index, _, below = rest.partition(".")
    if not index.isdigit() or int(index) >= len(old):
        raise NoPlaceError(f"{head} of {type(entity).__name__} has no item {index}")
    items = list(old)
    items[int(index)] = value(items[int(index)], below)
    return replace(entity, **{head: tuple(items)})


def _list(old: tuple[Any, ...], name: str) -> tuple[Any, ...]:
    if name == EMPTY:
        return ()
    if name == TWICE:
        return old + old
    raise NoPlaceError(f"a list is never {name!r}")


def _value(old: Any, kind: str | None, name: str, *, own: int, leader: int) -> Any:
    if kind in _BITS or kind in _UNSIGNED:
        number = _number(kind, name, own=own, leader=leader)
        if kind == "timedelta_i32":
            return i32Timedelta.parse(number * MS)
        return number
    if kind == "bool" and name == NOT:
        return not old
    if name == NONE:
        return None
    if kind == "uuid" and name == OTHER:
        return _UUID
    if kind == "string" and name in (EMPTY, OTHER):
        return "" if name == EMPTY else _TEXT
    if kind == "bytes" and name == EMPTY:
        return b""
    raise NoPlaceError(f"a value of type {kind} is never {name!r}")


def _number(kind: str, name: str, *, own: int, leader: int) -> int:
    bits, signed = _BITS.get(kind, _UNSIGNED.get(kind, 0)), kind in _BITS
    most = (1 << bits - signed) - 1
    known = {MOST: most, LEAST: -most - 1 if signed else 0, OWN: own, LEADER: leader}
    try:
        return known[name] if name in known else int(name)
    except ValueError:
        raise NoPlaceError(f"a number is never {name!r}") from None
