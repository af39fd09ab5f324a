"""JSON that nemeses and checkers leave, in words: evidence, parameters, statistics.

Foreign data: whatever is of an unknown shape is told as ``name value, name value``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from reports.text import clean, listing, seconds

ITEMS_MAX = 6  # of a list
DEPTH_MAX = 3
_OUTCOMES: Final = {"ok": "ok", "fail": "failed", "info": "unknown"}
_UNITS: Final = {"_ms": "ms", "_s": "s", "_bytes": "bytes", "_per_s": "per second"}
Item = Mapping[str, Any]


def outcomes(counts: Mapping[str, int]) -> str:
    """``407 ok, 2 failed, 4 unknown``."""
    return ", ".join(f"{counts.get(name, 0):,} {word}" for name, word in _OUTCOMES.items())


def sentence(item: Any, *, limit: int = 600) -> str:
    """One piece of evidence in words."""
    if isinstance(item, Mapping):
        say = _SAY.get(clean(item.get("saw", ""), limit=40))
        return words(item, limit=limit) if say is None else clean(say(item), limit=limit)
    return clean(words(item), limit=limit)


def words(value: Any, *, depth: int = 0, limit: int = 600) -> str:
    """Any JSON in words; what is empty, zero or false is left out of an object."""
    if isinstance(value, Mapping):
        if value and set(value) <= set(_OUTCOMES) and all(map(_is_count, value.values())):
            return outcomes(value)
        if depth >= DEPTH_MAX:
            return f"{len(value)} entries"
        parts = [_named(str(k), v, depth) for k, v in value.items() if _is_told(v)]
        joint = "; " if any(isinstance(v, Mapping) for v in value.values()) else ", "
        return clean(joint.join(parts), limit=limit)
    if isinstance(value, list | tuple):
        shown = [words(each, depth=depth + 1) for each in value[:ITEMS_MAX]]
        more = len(value) - ITEMS_MAX
        tail = [f"{more} more"] if more > 0 else []
        nested = any(isinstance(each, Mapping) for each in value)
        return clean(("; " if nested else ", ").join([*shown, *tail]) or "none", limit=limit)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.6g}"
    if isinstance(value, int):
        return f"{value:,}"
    return clean("none" if value is None else value, limit=limit)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_told(value: Any) -> bool:
    return value is True or (value is not False and bool(value))


def _named(name: str, value: Any, depth: int) -> str:
    if name.endswith("_ns") and _is_count(value):
        return f"{_plain(name[:-3])} {seconds(value)}"
    if value is True:
        return _plain(name)
    for ending, unit in _UNITS.items():
        if name.endswith(ending) and isinstance(value, int | float):
            return f"{_plain(name.removesuffix(ending))} {words(value)} {unit}"
    sign = ":" if isinstance(value, Mapping) else ""
    return f"{_plain(name)}{sign} {words(value, depth=depth + 1)}"


def _plain(name: str) -> str:
    return clean(name, limit=100).replace("_", " ")


def _of(item: Item, name: str) -> str:
    return words(item.get(name), limit=200)


def _names(value: Any) -> str:
    return listing([clean(name, limit=60) for name in value]) if isinstance(value, list) else "none"


def _rest(item: Item, *told: str) -> str:
    """Give what the sentence has not said yet."""
    more = words({k: v for k, v in item.items() if k not in {"saw", *told}})
    return f" ({more})" if more else ""


def _targets(item: Item) -> str:
    leader = f"; the leader was {_of(item, 'leader')}" if item.get("leader") else ""
    return (
        f"Aimed at {_of(item, 'target')}: {_names(item.get('nodes'))}{leader}"
        f"{_rest(item, 'target', 'nodes', 'leader')}"
    )


def _process(item: Item) -> str:
    gone = "is gone" if item.get("gone") is True else "still runs"
    why = f": {_of(item, 'detail')}" if item.get("detail") else ""
    told = ("node", "gone", "detail", "was")
    return f"{_of(item, 'node')}, {_of(item, 'was')}, {gone}{why}{_rest(item, *told)}"


def _request(item: Item) -> str:
    took = f" after {_of(item, 'elapsed_ms')} ms" if item.get("elapsed_ms") is not None else ""
    told = ("node", "answered", "detail", "elapsed_ms")
    if item.get("answered") is True:
        return f"{_of(item, 'node')} answered{took}{_rest(item, *told)}"
    return f"{_of(item, 'node')} did not answer{took}: {_of(item, 'detail')}{_rest(item, *told)}"


def _probe(item: Item) -> str:
    link = f"{_of(item, 'source')} to {_of(item, 'destination')}"
    told = ("source", "destination", "passed", "detail", "elapsed_ms")
    took = f" in {_of(item, 'elapsed_ms')} ms" if item.get("elapsed_ms") is not None else ""
    if item.get("passed") is True:
        return f"{link}: an answer came{took}{_rest(item, *told)}"
    return f"{link}: nothing passed, {_of(item, 'detail')}{took}{_rest(item, *told)}"


def _cut(item: Item) -> str:
    return f"{_of(item, 'cut_links')} links cut{_rest(item, 'cut_links', 'cut')}"


def _stranger(item: Item) -> str:
    answers = item.get("answers")
    told = words(answers) if isinstance(answers, Mapping) else "nothing"
    return f"{_of(item, 'node')}, in epoch {_of(item, 'epoch')}, answered: {told}"


def _moment(item: Item) -> str:
    event = item.get("event")
    fields = event
    if isinstance(event, Mapping):
        fields = {k: v for k, v in event.items() if k not in _STAMPS}
    return f"its moment, {clean(item.get('when'))}, came at {_of(item, 'node')}: {words(fields)}"


_STAMPS: Final = frozenset({"ts", "seq", "node", "dir", "inc", "rx_ns"})
_SAY: Final[Mapping[str, Callable[[Item], str]]] = {
    "targets": _targets,
    "moment": _moment,
    "process": _process,
    "request": _request,
    "probe": _probe,
    "cut link": _probe,
    "kept link": _probe,
    "grudge": _cut,
    "stranger": _stranger,
}
