"""A night as Markdown: for the summary of a job on GitHub, for chats and for mails."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from harness.catalogue import full_name
from harness.nightly.headline import colour, length

Told = Mapping[str, Any]  # a night's summary.json

SHOWN_MAX: Final = 12  # ways to fail
_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>#|~])")


def to_markdown(told: Told) -> str:
    """Write a night's page: the headline, ways to fail with their commands, entries, canaries."""
    return "\n".join([*_lines(told), ""])


def _lines(told: Told) -> Iterator[str]:
    mark = {"green": "✅", "red": "❌"}[colour(told)]
    yield f"## {mark} krucible: {_plain(told['headline'])}"
    yield ""
    began = f"first seed {told['first_seed']}, night `{told['folder']}`"
    yield f"Exit code {told['exit_code']}, {began}."
    for failing in told["failing"][:SHOWN_MAX]:
        yield from _failing(failing)
    if len(told["failing"]) > SHOWN_MAX:
        yield from ("", f"And {len(told['failing']) - SHOWN_MAX} more ways to fail.")
    others = [reason for reason in told["reasons"] if not _is_told(reason, told["failing"])]
    if others:
        yield from ("", "### Also", "", *(f"- {_plain(reason)}" for reason in others))
    yield from ("", "### Histories", "")
    yield from _table(("entry", "runs", "verdicts", "time"), _entries(told))
    if told["known"]:
        yield from ("", "### What systems are known to do", "")
        yield from _table(("finding", "runs", "times"), _known(told))
    if told["canaries"]:
        yield from ("", "### Seeded bugs", "")
        yield from _table(("bug", "", "seed", "time"), _canaries(told))


def _failing(failing: Told) -> Iterator[str]:
    """Tell one way to fail, and how to see it again."""
    names = ", ".join(map(full_name, failing["invariants"])) or failing["verdict"]
    times = f", {failing['times']} times" if failing["times"] > 1 else ""
    yield from ("", f"### {_plain(names)}: {_plain(failing['entry'])}{times}", "")
    yield _plain(failing["message"])
    if failing.get("findings"):
        yield from ("", f"Known: {_plain('; '.join(failing['findings']))}")
    if failing["commands"]:
        yield from ("", "```", *failing["commands"], "```")


def _is_told(reason: str, failing: Sequence[Told]) -> bool:
    return any(
        reason.startswith(each["entry"]) and reason.endswith(each["message"]) for each in failing
    )


def _entries(told: Told) -> Iterator[tuple[str, ...]]:
    for name, entry in told["entries"].items():
        verdicts = ", ".join(f"{count} {each}" for each, count in sorted(entry["verdicts"].items()))
        yield name, f"{entry['runs']:,}", verdicts, length(entry["used_s"])
    for name, reason in told["skipped"].items():
        yield name, "0", reason, ""


def _known(told: Told) -> Iterator[tuple[str, ...]]:
    for finding, (runs, times) in told["known"].items():
        yield _plain(finding), f"{runs:,}", f"{times:,}"


def _canaries(told: Told) -> Iterator[tuple[str, ...]]:
    for name, canary in told["canaries"].items():
        how = f"caught by {', '.join(canary['by'])}" if canary["caught"] else "**not caught**"
        seed = "" if canary["seed"] is None else str(canary["seed"])
        yield name, how, seed, length(canary["elapsed_s"])


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', '/') for cell in row)} |"


def _plain(text: str) -> str:
    """Escape what Markdown would take for its own."""
    return _SPECIAL.sub(r"\\\1", text.replace("\n", " "))
