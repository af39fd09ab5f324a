"""``krucible explain``: an invariant in words, who judges it, and a bug that breaks it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from textwrap import wrap
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from harness import catalogue
from harness.catalogue import Bug, Entry
from krucible.console import Json, out, print_json

WIDTH_MAX = 80  # of a text that is read, however wide the terminal
INDENT = 12  # of the texts: the longest label, and a gap
WORDS_MIN = 20  # of a text, however narrow the terminal
Row = tuple[str, str]


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        name="explain",
        help="Explain an invariant: what it promises, why that matters to users of Kafka, where it "
        "comes from, who judges it, and a seeded bug that breaks it.",
        short_help="Explain what an invariant promises, and why it matters.",
        epilog="Example: krucible explain S3",
    )(explain)


def explain(
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAME...", help="As 'krucible list invariants' has them: S3."),
    ],
    json: Json = False,
) -> int:
    """Print what the catalogue has of each invariant."""
    found = list({e.meaning.name: e for e in map(catalogue.entry, names)}.values())
    if json:
        print_json([asdict(entry) for entry in found])
        return 0
    console = out()
    for number, entry in enumerate(found):
        if number:
            console.print()
        _print(console, entry)
    return 0


def _print(console: Console, entry: Entry) -> None:
    console.print(Text(entry.meaning.full_name, style="bold"))
    width = max(min(console.width, WIDTH_MAX) - INDENT, WORDS_MIN)
    for label, text in rows(entry):
        for number, line in enumerate(wrap(text, width, break_on_hyphens=False)):
            head = Text((label if number == 0 else "").ljust(INDENT), style="dim")
            console.print(head + Text(line, style="not dim"))


def rows(entry: Entry) -> Iterator[Row]:
    """Give everything that is known of an invariant, as (label, text)."""
    meaning = entry.meaning
    yield "promise", meaning.promise
    yield "why", meaning.why
    yield "source", meaning.source
    yield "judged by", judges(entry)
    if not entry.bugs:
        yield "broken by", "no seeded bug yet"
        return
    first, *others = entry.bugs
    yield "broken by", f"the seeded bug {first.name}: {first.description}"
    yield "stands for", first.source
    yield "see it", command(first)
    if others:
        yield "and by", ", ".join(bug.name for bug in others)


def judges(entry: Entry) -> str:
    """Name everything that judges the invariant: checkers of runs, models of histories."""
    parts = [
        *_some("checker", entry.checkers),
        *(f"krucible check --model {name}" for name in entry.models),
    ]
    seen_as = f", as {entry.meaning.seen_as}" if entry.meaning.seen_as else ""
    return "; ".join(parts) + seen_as


def _some(kind: str, names: Sequence[str]) -> Iterator[str]:
    if names:
        yield f"{kind}{'s' if len(names) > 1 else ''} {', '.join(names)}"


def command(bug: Bug) -> str:
    """The command that plants a seeded bug and looks whether it is caught."""
    return f"krucible zoo --only {bug.name} --arm directed"
