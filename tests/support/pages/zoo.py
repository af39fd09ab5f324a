"""The pages about seeded bugs, made from what ``krucible zoo --json`` printed: docs/zoo.jsonl."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from node import mutants
from node.catalogue.impossible import PENDING, ROWS
from node.catalogue.rows import NAMES, row_of
from node.mutants import Mutant
from tests.support.pages.docs import REMARK, page, row
from tests.support.places import ROOT

EVIDENCE = ROOT / "docs" / "zoo.jsonl"
BEGIN, END = (
    "<!-- zoo: made by `pytest tests/house/test_docs.py --rewrite` -->",
    "<!-- end of zoo -->",
)
ARMS = ("directed", "exploratory")
# Lines of the evidence say so themselves; what is measured anew does not.
SHORT = "; measured when seeds still shortened their faults until every kind of fault fitted"
Hunts = Mapping[tuple[str, str], dict[str, Any]]  # by mutant and arm


def hunts() -> Hunts:
    """What became of each bug in each arm; of what was hunted more than once the last."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for line in EVIDENCE.read_text(encoding="utf-8").splitlines():
        result = json.loads(line)
        if result.get("arm") in ARMS:
            found[result["mutant"], result["arm"]] = result
    return found


def zoo_page() -> str:
    """``docs/zoo.md``: every seeded bug, and how it was caught."""
    return page(_zoo(hunts()))


def readme_page() -> str:
    """The README with its part about the zoo as it should be."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin, f"README.md lacks {BEGIN}"
    assert end, f"README.md lacks {END}"
    return "".join([before, begin, "\n\n", *(f"{x}\n" for x in _part(hunts())), "\n", end, after])


def _zoo(found: Hunts) -> Iterator[str]:
    yield from ("# The zoo", "", REMARK, "")
    yield "Real bugs of KRaft and of other Raft systems, each seeded into our node as one small"
    yield "file of `node/mutants/`. **Directed**: in a scenario of its own. **Exploratory**: in the"
    yield "generic swarm, which does not know which bug is in; seeds are tried from 1 on. Only a"
    yield "catch by an invariant that the bug breaks counts. Times are wall clock, one core each."
    yield ""
    yield "    krucible zoo --arm directed --json > docs/zoo.jsonl"
    yield "    krucible zoo --arm exploratory --budget 10m --json >> docs/zoo.jsonl"
    yield ""
    yield "This page is made from that file by `pytest tests/house/test_docs.py --rewrite`."
    yield ""
    yield from _sums(found)
    yield ""
    yield from _table(found)
    yield from ("", "## Rows that our node cannot have", "")
    yield from (row(("row", "bug", "why")), "|---" * 3 + "|")
    for number, why in sorted({**ROWS, **PENDING}.items()):
        pending = "not yet: it wants " if number in PENDING else ""
        yield row((str(number), ", ".join(NAMES[number]), f"{pending}{why}"))


def _part(found: Hunts) -> Iterator[str]:
    yield from _sums(found)
    yield ""
    yield "All of them, what caught each, and the rows that cannot exist here:"
    yield "[docs/zoo.md](docs/zoo.md)."


def _sums(found: Hunts) -> Iterator[str]:
    for arm in ARMS:
        of_arm = [hunt for (name, of), hunt in found.items() if of == arm and name in _known()]
        if of_arm:
            caught = [hunt["elapsed_s"] for hunt in of_arm if hunt["caught"]]
            slowest = f", the slowest in {_seconds(max(caught))}" if caught else ""
            missed = [hunt["elapsed_s"] for hunt in of_arm if not hunt["caught"]]
            given_up = f"; the others given up after {_seconds(min(missed))}" if missed else ""
            short = SHORT if any(hunt.get("short_faults") for hunt in of_arm) else ""
            yield f"- **{arm}**: {len(caught)} of {len(of_arm)} caught{slowest}{given_up}{short}"


def _known() -> Mapping[str, Mutant]:
    return mutants.load()


def _table(found: Hunts) -> Iterator[str]:
    head = ("row", "source", "mutant", "caught by", "directed", "exploratory")
    yield row(head)
    yield "|---" * len(head) + "|"
    for bug in sorted(_known().values(), key=_place):
        number = row_of(bug.source)
        directed, swarm = (found.get((bug.name, arm)) for arm in ARMS)
        caught = sorted({n for hunt in (directed, swarm) if hunt for n in hunt["caught_by"]})
        name = f"`{bug.name}`: {bug.description}"
        cells = (_directed(directed), _swarm(swarm))
        yield row((str(number or "ours"), bug.source, name, ", ".join(caught), *cells))


def _place(bug: Mutant) -> tuple[int, str]:
    return row_of(bug.source) or max(NAMES) + 1, bug.name


def _directed(hunt: dict[str, Any] | None) -> str:
    if hunt is None:
        return "not run"
    return f"seed {hunt['seed']}, {_seconds(hunt['elapsed_s'])}" if hunt["caught"] else "**no**"


def _swarm(hunt: dict[str, Any] | None) -> str:
    if hunt is None:
        return ""
    many = f"{hunt['tried']} seed{'s' if hunt['tried'] != 1 else ''}, {_seconds(hunt['elapsed_s'])}"
    return many if hunt["caught"] else f"**no** ({many})"


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds:.0f} s"
