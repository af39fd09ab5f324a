"""A reader of EDN, the notation Clojure programs write their data in: text in, Python values out.

Jepsen's and Porcupine's histories are EDN. The format fits in one tokenizer and one loop, and the
reader on PyPI (``edn_format`` 0.8) takes some fifteen times as long for an op of a history (470 us,
this one 31 us on the same machine), so this one is ours. It is tolerant where
a history gains from it (unknown tags keep their value, a map may repeat a key) and strict where
silence would hide a loss (an unclosed bracket or a stray character is an error with its line).

It reads a file form by form and never recurses: deep nesting is a clean error.

Values: maps are ``dict``, vectors and lists ``list``, sets ``EdnSet``, keywords ``Keyword`` and
symbols ``Symbol`` (both are ``str``), ``nil`` None, tagged values the value without its tag.

Source: github.com/edn-format/edn.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator
from typing import Any

DEPTH_MAX = 128  # brackets within brackets; histories have fewer than ten
FORM_CHARS_MAX = 64 * 1024 * 1024  # one string; more is not a history


class EdnError(ValueError):
    """Text that is not EDN; ``line`` is where."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


class Keyword(str):
    """A keyword, without its colon."""

    __slots__ = ()


class Symbol(str):
    """A symbol."""

    __slots__ = ()


class EdnSet(list[Any]):
    """The members of a set, in the order they were written."""


_TOKEN = re.compile(
    r"""[\s,\ufeff]+                        # blanks; a comma is one
      | ;[^\n]*                             # a comment
      | (?P<open>\#?\{|\[|\(|\#:[^\s{]*\{)  # the last is a map with a namespace for its keys
      | (?P<close>[\]})])
      | (?P<string>"(?:[^"\\]|\\.)*")
      | (?P<cut>"(?:[^"\\]|\\.)*\\?\Z)      # a string that goes on in the next line
      | (?P<discard>\#_)
      | (?P<meta>\^)
      | (?P<char>\\(?:[a-zA-Z0-9]+|.))
      | (?P<number>\#\#(?:-?Inf|NaN)(?![^\s,;()\[\]{}"])
          |[+-]?[0-9][^\s,;()\[\]{}"]*)
      | (?P<tag>\#[a-zA-Z][^\s,;()\[\]{}"]*)
      | (?P<name>[^\s,;()\[\]{}"\\#][^\s,;()\[\]{}"\\]*)
    """,
    re.VERBOSE | re.DOTALL,
)
_INTEGER = re.compile(r"[+-]?\d+N?")
_FLOAT = re.compile(r"[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?M?")
_RATIO = re.compile(r"([+-]?\d+)/(\d+)")
_CLOSES = {"[": "]", "(": ")", "{": "}", "#{": "}"}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\\": "\\", '"': '"'}
_CONSTANTS = {"nil": None, "true": True, "false": False}
_CHARACTERS = {"newline": "\n", "space": " ", "tab": "\t", "return": "\r"}
_SPECIAL = {"##Inf": float("inf"), "##-Inf": float("-inf"), "##NaN": float("nan")}
_SWALLOW = frozenset(("#_", "^"))  # metadata says something about a value and is none itself
_DIGITS_MAX = 400  # int() of a very long literal is quadratic, and refused by Python itself


class _Frame:
    """An open bracket, what is in it so far, and the prefixes that wait for a value."""

    __slots__ = ("closer", "items", "line", "opener", "prefixes")

    def __init__(self, opener: str, line: int) -> None:
        self.opener = opener
        self.closer = _CLOSES.get(opener, "}")
        self.line = line
        self.items: list[Any] = []
        self.prefixes: list[str] = []


def read_forms(lines: Iterable[str]) -> Iterator[tuple[int, Any]]:
    """Yield each top-level form with the number of the line it began on. O(n).

    Raises:
        EdnError: What is not EDN, nested deeper than ``DEPTH_MAX``, or not closed at the end.
    """
    return _forms(lines, flatten=False)


def read_records(lines: Iterable[str]) -> Iterator[tuple[int, Any]]:
    """Like ``read_forms``, but yield the elements of a top-level vector or list one by one.

    So a history is read in the same way, one op at a time, whether it has one map a line or one
    big vector of maps.
    """
    return _forms(lines, flatten=True)


def _forms(lines: Iterable[str], *, flatten: bool) -> Iterator[tuple[int, Any]]:
    root = _Frame("", 0)
    root.closer = ""
    stack = [root]
    began = line = 0
    record_depth = 1 + flatten  # brackets around a record, and its own
    for line, kind, text in _tokens(lines):
        top = stack[-1]
        depth = len(stack)
        if kind == "open":
            if depth > DEPTH_MAX:
                raise EdnError(line, f"nested deeper than {DEPTH_MAX} brackets")
            began = line if depth <= record_depth else began
            stack.append(_Frame(text, line))
            continue
        if kind in ("discard", "tag", "meta"):
            if len(top.prefixes) >= DEPTH_MAX:
                raise EdnError(line, f"more than {DEPTH_MAX} tags in a row")
            top.prefixes.append(text)
            continue
        if kind == "close":
            value = _close(stack, text, line)
            top = stack[-1]
        else:
            value = _atom(kind, text, line)
            began = line if depth <= record_depth else began
        if not _add(top, value):
            continue
        if len(stack) == 1:
            top.items.clear()
            if not (flatten and kind == "close" and text in ")]"):
                yield began, value
        elif len(stack) == record_depth > 1 and top.opener in ("[", "("):
            top.items.clear()
            if not _SWALLOW.intersection(root.prefixes):
                yield began, value
    for frame in stack[1:]:
        raise EdnError(frame.line, f"{frame.opener!r} is never closed: is the file cut short?")
    if root.prefixes:
        raise EdnError(line, f"{root.prefixes[-1]!r} has nothing behind it")


def _add(frame: _Frame, value: Any) -> bool:
    """Apply the waiting prefixes, innermost first; False when they swallowed the value."""
    while frame.prefixes:
        prefix = frame.prefixes.pop()
        if prefix in _SWALLOW:
            return False
    frame.items.append(value)
    return True


def _close(stack: list[_Frame], text: str, line: int) -> Any:
    frame = stack[-1]
    if len(stack) == 1:
        raise EdnError(line, f"{text!r} closes nothing")
    if frame.closer != text:
        raise EdnError(
            line,
            f"{text!r} cannot close {frame.opener!r} of line {frame.line}: want {frame.closer!r}",
        )
    if frame.prefixes:
        raise EdnError(line, f"{frame.prefixes[-1]!r} has nothing behind it")
    stack.pop()
    if text != "}":
        return frame.items
    if frame.opener == "#{":
        return EdnSet(frame.items)
    if len(frame.items) % 2:
        raise EdnError(line, f"the map of line {frame.line} has a key without a value")
    keys = iter(frame.items)
    return {_key(key): value for key, value in zip(keys, keys, strict=True)}


def _key(key: Any) -> Hashable:
    """A map key that Python can hash: collections become tuples."""
    if isinstance(key, list):
        return tuple(_key(item) for item in key)
    if isinstance(key, dict):
        return tuple((_key(k), _key(v)) for k, v in key.items())
    return key  # type: ignore[no-any-return]


def _tokens(lines: Iterable[str]) -> Iterator[tuple[int, str, str]]:
    """Yield (line, kind, text); a string may go over several lines."""
    number = 0
    parts: list[str] = []  # of a string not closed yet
    size = began = 0
    for text in lines:
        number += 1
        at = 0
        if parts:
            parts.append(text)
            size += len(text)
            if size > FORM_CHARS_MAX:
                raise EdnError(began, f"a string of more than {FORM_CHARS_MAX} characters")
            end = _string_end(text)
            if end is None:
                continue
            whole = "".join(parts)
            at = end
            yield began, "string", whole[: len(whole) - len(text) + end]
            parts = []
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise EdnError(number, f"cannot read {text[at : at + 20].rstrip()!r}")
            at = match.end()
            kind = match.lastgroup
            if kind == "cut":
                parts, size, began = [match.group()], len(match.group()), number
            elif kind is not None:
                yield number, kind, match.group()
    if parts:
        raise EdnError(began, "a string is never closed: is the file cut short?")


def _string_end(text: str) -> int | None:
    """Tell where a string that began in an earlier line ends in this one (past its quote)."""
    match = re.match(r'(?:[^"\\]|\\.)*"', text, re.DOTALL)
    return None if match is None else match.end()


def _atom(kind: str, text: str, line: int) -> Any:
    match kind:
        case "string":
            return _unescape(text, line)
        case "number":
            return _number(text, line)
        case "char":
            name = text[1:]
            return name if len(name) == 1 else _character(name, line)
        case _:
            return _name(text, line)


def _name(text: str, line: int) -> Any:
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text.startswith(":"):
        if len(text) == 1:
            raise EdnError(line, "a colon without a name")
        return Keyword(text.lstrip(":"))
    return Symbol(text)


def _unescape(text: str, line: int) -> str:
    body = text[1:-1]
    if "\\" not in body:
        return body

    def replace(match: re.Match[str]) -> str:
        code = match.group(1)
        if code in _ESCAPES:
            return _ESCAPES[code]
        if code[0] == "u" and code[1:]:
            return chr(int(code[1:], 16))
        raise EdnError(line, f"a string has the unknown escape \\{code}")

    return _ESCAPE.sub(replace, body)


def _number(text: str, line: int) -> Any:
    if text in _SPECIAL:
        return _SPECIAL[text]
    if len(text) > _DIGITS_MAX:
        raise EdnError(line, f"a number of {len(text)} digits")
    if _INTEGER.fullmatch(text):
        return int(text.rstrip("N"))
    if _FLOAT.fullmatch(text):
        return float(text.rstrip("M"))
    ratio = _RATIO.fullmatch(text)
    if ratio is not None and int(ratio[2]):
        return int(ratio[1]) / int(ratio[2])
    raise EdnError(line, f"{text!r} is not a number")


def _character(name: str, line: int) -> str:
    if name in _CHARACTERS:
        return _CHARACTERS[name]
    if re.fullmatch(r"u[0-9a-fA-F]{4}", name):
        return chr(int(name[1:], 16))
    raise EdnError(line, f"\\{name} is not a character")
