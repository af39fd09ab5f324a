"""``docs/invariants.md``: the catalogue of invariants, as ``krucible explain`` tells it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness import catalogue
from harness.catalogue import FAMILIES, Bug, Entry
from krucible.commands.explain import command
from tests.support.pages.docs import REMARK, page, row

TITLES = {
    "S": "Safety: the log and its leaders",
    "C": "The controller and its brokers",
    "L": "Liveness: what must come true in time",
}
OTHERS = "Answers and processes"


def invariants_page() -> str:
    """The page: a section for each family, and in it one for each invariant."""
    return page(_lines())


def _lines() -> Iterator[str]:
    entries = catalogue.entries()
    yield from ("# Invariants", "", REMARK, "")
    yield "Each anomaly names the invariant that it breaks. This page says of each invariant what"
    yield "it promises, why that matters to users of Kafka, where it comes from, who judges it, and"
    yield "which seeded bugs ([zoo.md](zoo.md)) break it. `krucible list invariants` has the names;"
    yield "`krucible explain S3` prints the same. [concepts.md](concepts.md) explains the epochs,"
    yield "the high watermark and other words of Kafka's quorum."
    for family in FAMILIES:
        yield from _section(TITLES[family], [e for n, e in entries.items() if _is_of(family, n)])
    others = [e for n, e in entries.items() if not any(_is_of(f, n) for f in FAMILIES)]
    yield from _section(OTHERS, [entry for entry in others if entry.checkers])
    yield from _of_histories([entry for entry in others if not entry.checkers])


def _of_histories(entries: Sequence[Entry]) -> Iterator[str]:
    yield from ("", "## Transactions and partitions", "")
    yield "What `krucible check` judges histories by, with the model `list-append` or `kafka`."
    yield from ("", row(("name", "promise", "why it matters", "source", "model")), "|---" * 5 + "|")
    for entry in entries:
        meaning = entry.meaning
        name = f"`{meaning.name}` {meaning.title}".rstrip()
        yield row((name, meaning.promise, meaning.why, meaning.source, ", ".join(entry.models)))


def _is_of(family: str, name: str) -> bool:
    return catalogue.place(name)[0] == FAMILIES.index(family)


def _section(title: str, entries: Sequence[Entry]) -> Iterator[str]:
    yield from ("", f"## {title}")
    for entry in entries:
        meaning = entry.meaning
        head = f"{meaning.name}: {meaning.title}" if meaning.title else meaning.name
        yield from ("", f"### {head}", "", meaning.promise, "")
        yield from (f"*Why it matters:* {meaning.why}", "", "| | |", "|---|---|")
        yield row(("source", meaning.source))
        yield row(("judged by", _judges(entry)))
        yield from map(row, _broken_by(entry.bugs))


def _judges(entry: Entry) -> str:
    checkers = [f"`{name}`" for name in entry.checkers]
    checkers += [f"`krucible check --model {name}`" for name in entry.models]
    seen_as = f", as {entry.meaning.seen_as}" if entry.meaning.seen_as else ""
    return ", ".join(checkers) + seen_as


def _broken_by(bugs: Sequence[Bug]) -> Iterator[tuple[str, str]]:
    if not bugs:
        yield "broken by", "no seeded bug yet"
        return
    first, *others = bugs
    yield "broken by", f"`{first.name}`: {first.description}"
    yield "stands for", first.source
    yield "see it", f"`{command(first)}`"
    if others:
        yield "and by", ", ".join(f"`{bug.name}`" for bug in others)
