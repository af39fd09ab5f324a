"""``docs/design.md``: the design's sentences, and who judges each; made from docs/design.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.pages.docs import REMARK, page, row
from tests.support.places import ROOT

DESIGN = ROOT / "docs" / "design.toml"
_HEAD = """\
Each sentence says what KRaft's design promises, in our words, and where it stands: in a KIP, in the
Raft papers, or in a class of Apache Kafka 4.1. **In a run** names the invariants
([invariants.md](invariants.md)) that judge this very sentence, and the class or function of
`checkers/` that does. **Held by** is a seeded bug ([zoo.md](zoo.md)) that breaks the sentence, or
else the unit test of our node that holds it, `folder/file::name` under `tests/node/`. The sentences
are in `docs/design.toml`; `pytest tests/house/test_design.py` looks for the named judges, bugs and
tests. The page is made by `pytest tests/house/test_docs.py --rewrite`.
"""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of the design; ``run`` are (invariant, class or function) that judge it in a run.

    ``bug`` is a seeded bug that breaks it, ``test`` a test of our node that holds it, as
    ``folder/file::name``; ``why`` is the name of the reason why no run judges it.
    """

    says: str
    source: str
    run: tuple[tuple[str, str], ...] = ()
    bug: str | None = None
    test: str | None = None
    why: str | None = None

    @property
    def place(self) -> tuple[Path, str]:
        """The file and the name of its test, which it must have."""
        assert self.test is not None
        file, _, name = self.test.partition("::")
        folder, _, module = file.rpartition("/")
        return ROOT / "tests" / "node" / folder / f"test_{module}.py", f"test_{name}"


@dataclass(frozen=True, slots=True)
class Design:
    """The sentences by their groups' titles, and the reasons why no run judges some."""

    groups: Mapping[str, Sequence[Sentence]]
    reasons: Mapping[str, str]

    @property
    def sentences(self) -> list[Sentence]:
        """All sentences, in their order."""
        return [sentence for group in self.groups.values() for sentence in group]


def design(path: Path = DESIGN) -> Design:
    """Read the sentences.

    Raises:
        OSError, TOMLDecodeError, KeyError, TypeError: The file is not what it should be.
    """
    found = tomllib.loads(path.read_text(encoding="utf-8"))
    groups = {
        group["title"]: tuple(
            Sentence(**{**each, "run": tuple(map(_judge, each.get("run", ())))})
            for each in group["sentences"]
        )
        for group in found["group"]
    }
    return Design(groups, found["reasons"])


def _judge(text: str) -> tuple[str, str]:
    name, _, who = text.partition(" ")
    return name, who


def design_page() -> str:
    """The page: counts, the reasons, and a table for each group."""
    return page(_lines(design()))


def _lines(told: Design) -> Iterator[str]:
    yield from ("# The design, sentence by sentence", "", REMARK, "")
    yield from _HEAD.splitlines()
    yield from ("", *_sums(told))
    for title, sentences in told.groups.items():
        yield from ("", f"## {title}", "")
        yield from (row(("sentence", "source", "in a run", "held by")), "|---" * 4 + "|")
        yield from (row(_cells(sentence)) for sentence in sentences)


def _sums(told: Design) -> Iterator[str]:
    every = told.sentences
    judged = [each for each in every if each.run]
    seeded = [each for each in judged if each.bug]
    names = {name for each in every for name, _ in each.run}
    tested = [each for each in judged if each.test and not each.bug]
    quiet = len(every) - len(judged)
    yield f"- **{len(every)} sentences**: {len(judged)} judged in a run by {len(names)} invariants."
    yield f"- Of those, {len(seeded)} broken by a seeded bug, {len(tested)} more held by a test."
    yield f"- **{quiet} not judged in a run**: a unit test of our node holds each of them."
    yield from ("", row(("reason", "means", "sentences")), "|---" * 3 + "|")
    for name, means in sorted(told.reasons.items()):
        yield row((name, means, str(sum(each.why == name for each in every))))


def _cells(sentence: Sentence) -> tuple[str, str, str, str]:
    run = ", ".join(f"{name} `{who}`" for name, who in sentence.run)
    held = [f"bug `{sentence.bug}`"] if sentence.bug else []
    held += [f"`{sentence.test}`"] if sentence.test else []
    return (
        sentence.says,
        sentence.source,
        run or f"nobody: {sentence.why}",
        ", ".join(held) or "nobody else",
    )
