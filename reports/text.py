"""Foreign data made safe to show: what nodes and histories say is hostile input.

Escaping for HTML is the template's work (autoescape); here is what escaping does not cover:
control characters, text direction overrides, broken UTF-8, values that are no JSON, values
without an end.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

TEXT_CHARS_MAX = 4000
DEPTH_MAX = 12
ITEMS_MAX = 200

UNKNOWN = "\u2013"  # shown for what is not known
_NS_PER_S = 1_000_000_000
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\ufffe\uffff]"
)


def clean(text: object, *, limit: int = TEXT_CHARS_MAX) -> str:
    """``text`` with everything invisible made visible, cut to ``limit`` characters.

    C0 controls become control pictures (``␛``), lone surrogates U+FFFD, other controls and
    direction overrides ``⟨U+202E⟩``. Tab and newline stay.
    """
    raw = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
    cut = raw[:limit]
    shown = _UNSAFE.sub(_visible, cut)
    rest = len(raw) - len(cut)
    return f"{shown}… (+{rest:,} characters)" if rest else shown


def _visible(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:  # noqa: PLR2004 - the C0 controls
        return chr(0x2400 + code)
    if code == 0x7F:  # noqa: PLR2004 - DEL
        return "\u2421"
    if 0xD800 <= code <= 0xDFFF:  # noqa: PLR2004 - surrogates: bytes that were no UTF-8
        return "\ufffd"
    return f"⟨U+{code:04X}⟩"


def plain(value: Any, *, depth: int = 0) -> Any:
    """``value`` as JSON of bounded size, every string cleaned; what is no JSON becomes text."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, str | bytes):
        return clean(value)
    if depth >= DEPTH_MAX:
        return "…"
    if isinstance(value, Mapping):
        items = [(clean(k, limit=200), plain(v, depth=depth + 1)) for k, v in value.items()]
        items.sort(key=lambda item: item[0])
        return dict(_bounded(items, ("…", f"+{len(items) - ITEMS_MAX:,} entries")))
    if isinstance(value, list | tuple):
        return _bounded(
            [plain(v, depth=depth + 1) for v in value[: ITEMS_MAX + 1]],
            f"… +{len(value) - ITEMS_MAX:,} items",
        )
    if isinstance(value, set | frozenset):
        return plain(sorted(value, key=repr), depth=depth)
    return clean(value)


def _bounded(items: list[Any], rest: Any) -> list[Any]:
    return items if len(items) <= ITEMS_MAX else [*items[:ITEMS_MAX], rest]


def compact(value: Any, *, limit: int = 400) -> str:
    """``value`` as one line of JSON with sorted keys, at most ``limit`` characters."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    text = json.dumps(plain(value), ensure_ascii=False, sort_keys=True, separators=(", ", ": "))
    return clean(text, limit=limit)


def pretty(value: Any) -> str:
    """``value`` as indented JSON with sorted keys."""
    text = json.dumps(plain(value), ensure_ascii=False, sort_keys=True, indent=2)
    return clean(text, limit=20_000)


def seconds(time_ns: int | None) -> str:
    """A time since the run's start: ``12.345 s``; a dash when not known."""
    return UNKNOWN if time_ns is None else f"{time_ns / _NS_PER_S:.3f} s"


def duration(ns: int | float | None) -> str:
    """A length of time in the unit that suits it: ``850 µs``, ``3.20 ms``, ``1.50 s``."""
    if ns is None:
        return UNKNOWN
    for size, unit in ((_NS_PER_S, "s"), (1_000_000, "ms")):
        if ns >= size:
            return f"{ns / size:.2f} {unit}"
    return f"{ns / 1000:.0f} µs"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """``1 fault``, ``4,210 ops``, ``no anomaly`` when there is none."""
    if number == 0:
        return f"no {noun}"
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def listing(names: list[str]) -> str:
    """``n1``, ``n1 and n2``, ``n1, n2 and n3``."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def integer(value: Any) -> int | None:
    """``value`` when it is a real integer that JavaScript can hold, else None."""
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 2**53:
        return None
    return value
