"""Options that are numbers or lengths of time: what is wrong with one is said with value and range.

Each takes its help text first; its range or its default is added to it.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isfinite
from typing import Any

import typer

from harness import durations

LARGE = 10**9  # a bound above it is no news to anybody


def whole(help_: str, *names: str, least: int = 0, most: int | None = None) -> Any:
    """An option that is a whole number, as metadata of its annotation."""
    wanted = f"a whole number {_range(least, most)}"

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise typer.BadParameter(f"{text!r}: want {wanted}, as in {max(least, 1)}") from None
        if not least <= number <= (inf if most is None else most):
            raise typer.BadParameter(f"{number}: want {wanted}")
        return number

    return _option(help_, names, parse, "N", _bounds(least, most))


def number(help_: str, *names: str, least: float, most: float) -> Any:
    """An option that is a number, as metadata of its annotation."""
    wanted = f"a number {_range(least, most)}"

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = inf
        if not isfinite(value):
            raise typer.BadParameter(f"{text!r}: want {wanted}, as in {max(least, 1):g}")
        if not least <= value <= most:
            raise typer.BadParameter(f"{text}: want {wanted}")
        return value

    return _option(help_, names, parse, "NUMBER", _bounds(least, most))


def duration(help_: str, *names: str, least_s: float, most_s: float, default_s: float = 0) -> Any:
    """An option that is a length of time, in seconds; as metadata of its annotation.

    ``default_s`` is what its default is shown as.
    """
    wanted = f"a time from {durations.told(least_s)} to {durations.told(most_s)}"

    def parse(text: str) -> float:
        try:
            length_s = durations.seconds(str(text))
        except ValueError:
            length_s = -1.0
        if not least_s <= length_s <= most_s:
            example = durations.told(max(least_s, 30.0))
            raise typer.BadParameter(
                f"{text!r}: want {wanted}, as in {example}; units are s, m and h"
            )
        return length_s

    default = f"default: {durations.told(default_s)}" if default_s else ""
    return _option(help_, names, parse, "TIME", default, show_default=False)


def _option(
    help_: str,
    names: tuple[str, ...],
    parse: Callable[[str], Any],
    metavar: str,
    more: str,
    *,
    show_default: bool = True,
) -> Any:
    text = f"{help_.removesuffix('.')} ({more})." if more else help_
    return typer.Option(*names, help=text, parser=parse, metavar=metavar, show_default=show_default)


def _range(least: float, most: float | None) -> str:
    return f"of {least:g} or more" if most is None else f"from {least:g} to {_told(most)}"


def _bounds(least: float, most: float | None) -> str:
    return "" if most is None or most > LARGE else f"{least:g} to {_told(most)}"


def _told(bound: float) -> str:
    return str(bound) if isinstance(bound, int) else f"{bound:g}"
