"""docs/design.toml: what judges, breaks and holds the design's sentences exists, and fits."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from checkers.monitor.catalogue import INVARIANTS
from harness import catalogue
from harness.catalogue import FAMILIES
from node import mutants
from tests.support.pages.design import DESIGN, Sentence, design
from tests.support.places import ROOT

TOLD = design()
EVERY = pytest.mark.parametrize("sentence", TOLD.sentences, ids=lambda each: each.says[:60])
CLASSES = {each.__name__: each.name for each in INVARIANTS}
DEFINED = {
    name
    for path in (ROOT / "checkers").rglob("*.py")
    for name in re.findall(r"^(?:class|def) (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
}


@EVERY
def test_its_judges_exist_and_judge_what_they_are_said_to(sentence: Sentence) -> None:
    for name, who in sentence.run:
        assert name in catalogue.entries()
        assert who in DEFINED, f"checkers/ has no {who}"
        assert CLASSES.get(who, name) == name, f"{who} judges {CLASSES.get(who)}"


@EVERY
def test_its_seeded_bug_breaks_an_invariant_that_judges_it(sentence: Sentence) -> None:
    if sentence.bug is not None:
        judges = {name for name, _ in sentence.run}
        assert judges & set(mutants.get(sentence.bug).breaks)


@EVERY
def test_its_unit_test_exists(sentence: Sentence) -> None:
    if sentence.test is not None:
        path, name = sentence.place
        assert f"def {name}(" in path.read_text(encoding="utf-8"), sentence.test


@EVERY
def test_nobody_judges_it_only_for_a_reason(sentence: Sentence) -> None:
    assert bool(sentence.run) == (sentence.why is None)
    assert sentence.why is None or sentence.why in TOLD.reasons
    assert sentence.run or sentence.test, "neither a run nor a test holds it"
    assert sentence.source
    assert sentence.says.endswith(".")


def test_every_invariant_judges_a_sentence() -> None:
    judges = {name for each in TOLD.sentences for name, _ in each.run}
    families = {n for n in catalogue.entries() if re.fullmatch(rf"[{''.join(FAMILIES)}]\d+", n)}
    assert not families - judges
    assert set(CLASSES) <= {who for each in TOLD.sentences for _, who in each.run}


def test_no_sentence_stands_twice_and_each_reason_is_one_of_a_sentence() -> None:
    says = [each.says for each in TOLD.sentences]
    pairs = [(group, each.says) for group, of in TOLD.groups.items() for each in of]
    assert len(pairs) == len(set(pairs)) == len(says)
    assert set(TOLD.reasons) == {each.why for each in TOLD.sentences} - {None}


def test_a_sentence_of_another_shape_is_refused(tmp_path: Path) -> None:
    broken = tmp_path / DESIGN.name
    text = DESIGN.read_text(encoding="utf-8")
    broken.write_text(text.replace("says=", "sais=", 1), encoding="utf-8")
    with pytest.raises(TypeError):
        design(broken)
