"""docs/releases.md, made from what ``krucible zoo --arm releases --json`` printed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from harness.contracts.released import ReleasedBug
from harness.sessions.released.quarry import ARM
from harness.systems.kafka import bugs
from tests.support.pages.docs import REMARK, page, row
from tests.support.places import ROOT

EVIDENCE = ROOT / "docs" / "releases.jsonl"
_PLACE = re.compile(r" \((?:op \d+|n\d+ seq \d+)\)")
_INTRO = (
    "Bugs of Apache Kafka's raft, metadata and controller that were released and fixed, found",
    "again in the [simulator](kafka.md#in-the-simulator) in Kafka's own classes. Each seed is",
    "simulated twice, with the release that has the bug and with the one that has it fixed: the",
    "same options, faults and ops, as the generic swarm draws them, or a narrowed one where the",
    "row says so. Seeds are tried from 1 on. The bug is caught when the first release breaks an",
    "invariant that it should; the other must break none of those on the same seeds (green).",
    "",
    "    krucible zoo --arm releases --budget 10m --jobs 1 --json > docs/releases.jsonl",
    "",
    "This page is made from that file by `pytest tests/house/test_docs.py --rewrite`. A row is a",
    "file of `harness/systems/kafka/bugs/`. Times are of the CPU, for both releases.",
    "",
)
Chases = Mapping[tuple[str, str, str | None], dict[str, Any]]  # by bug and its two releases


def chases() -> Chases:
    """Read the outcome of each bug; of one that was hunted more than once the last."""
    found: dict[tuple[str, str, str | None], dict[str, Any]] = {}
    for line in EVIDENCE.read_text(encoding="utf-8").splitlines():
        told = json.loads(line)
        if told.get("arm") == ARM:
            found[told["mutant"], told["affected"], told["fixed"]] = told
    return found


def key(bug: ReleasedBug) -> tuple[str, str, str | None]:
    """The key of a bug's evidence: it is of these releases, and no others."""
    return bug.name, bug.affected, bug.fixed


def releases_page() -> str:
    """``docs/releases.md``: bugs of releases, and how they were found again."""
    return page(_page(chases(), bugs.load()))


def _page(found: Chases, every: tuple[ReleasedBug, ...]) -> Iterator[str]:
    yield from ("# Bugs of releases", "", REMARK, "")
    yield from _INTRO
    hunted = [bug for bug in every if bug.is_hunted]
    caught = [bug for bug in hunted if (told := found.get(key(bug))) and told["caught"]]
    yield f"{len(caught)} of {len(hunted)} caught."
    yield ""
    head = ("bug", "release", "caught by", "fixed in", "there", "setting", "seeds", "CPU")
    yield row(head)
    yield "|---" * len(head) + "|"
    for bug in hunted:
        yield row(_cells(bug, found.get(key(bug))))
    missed = [bug for bug in hunted if bug.missed]
    if missed:
        yield from ("", "**Why a hunt ends in vain, and what it would take:**", "")
        yield from (f"- `{bug.name}`: {bug.missed}." for bug in missed)
    yield from ("", "## Bugs that are not hunted", "")
    yield from (
        row(("bug", "release", "fixed in", "why not, and what it would take")),
        "|---" * 4 + "|",
    )
    for bug in every:
        if not bug.is_hunted:
            yield row((_named(bug), bug.affected, bug.fixed or "no release", bug.cannot))


def _named(bug: ReleasedBug) -> str:
    return f"`{bug.name}`: {bug.source}"


def _cells(bug: ReleasedBug, told: Mapping[str, Any] | None) -> Iterator[str]:
    yield _named(bug)
    yield bug.affected
    if told is None:
        yield from ("not run", str(bug.fixed), "", bug.narrowed or "the generic swarm", "", "")
        return
    yield f"{', '.join(told['caught_by'])}: {_said(told)}" if told["caught"] else "**no**"
    yield str(bug.fixed)
    yield ", ".join(f"**{name}** ({times})" for name, times in told["alarms"].items()) or "green"
    yield bug.narrowed or "the generic swarm"
    yield str(told["tried"])
    yield f"{told['cpu_s']:.0f} s"


def _said(told: Mapping[str, Any]) -> str:
    """Give the message of the first anomaly, without the places of events and ops."""
    return _PLACE.sub("", str(told["said"]))
