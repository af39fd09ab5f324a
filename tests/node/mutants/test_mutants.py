"""Seeded bugs: each says what it breaks, changes one part, and touches nothing of the healthy."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness import catalogue
from node import mutants
from node.config import ConfigError
from node.driver.parts import NodeParts
from node.mutants import Mutant
from tests.support.nodes.part_classes import classes

FOLDER = Path(mutants.__file__).parent
ALL = mutants.load()

everyone = pytest.mark.parametrize("mutant", ALL.values(), ids=ALL.keys())


def changed(mutant: Mutant) -> dict[str, tuple[type, type]]:
    """The parts that the mutant replaces: healthy and sick class by name."""
    healthy, sick = classes(NodeParts()), classes(mutant.apply(NodeParts()))
    assert healthy.keys() == sick.keys()
    pairs = {name: (healthy[name], sick[name]) for name in healthy}
    return {name: pair for name, pair in pairs.items() if pair[0] is not pair[1]}


def members(owner: type | ModuleType) -> dict[str, Any]:
    return dict(vars(owner))


def test_every_file_of_the_folder_registers_exactly_one() -> None:
    files = {path.stem for path in FOLDER.glob("*.py")} - {"__init__"}
    homes = [mutant.apply.__module__.rpartition(".")[2] for mutant in ALL.values()]
    assert sorted(homes) == sorted(files)


@everyone
def test_it_says_what_it_is(mutant: Mutant) -> None:
    """A name, that of its file; a sentence; where the real bug was seen; invariants that exist."""
    assert re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", mutant.name)
    assert mutant.apply.__module__.rpartition(".")[2] == mutant.name.replace("-", "_")
    assert mutant.description[0].isupper()
    assert mutant.description.endswith(".")
    assert len(mutant.description) > 20
    assert mutant.source
    assert mutant.breaks
    assert set(mutant.breaks) <= catalogue.meanings().keys()


@everyone
def test_it_replaces_one_part_to_three_by_small_subclasses(mutant: Mutant) -> None:
    parts = changed(mutant)
    assert 1 <= len(parts) <= 3
    for healthy, sick in parts.values():
        assert issubclass(sick, healthy)
        assert sick.__module__ == mutant.apply.__module__
        own = {n for n, what in vars(sick).items() if callable(what) or isinstance(what, property)}
        assert own, "a mutant overrides something"
        for name in own:
            assert hasattr(healthy, name), f"{name} is nothing of {healthy.__name__}: never called"


@everyone
def test_it_leaves_the_healthy_parts_as_they_were(mutant: Mutant) -> None:
    before = {
        cls: members(cls)
        for part in classes(NodeParts()).values()
        for cls in part.__mro__
        if cls is not object
    }
    mutant.apply(NodeParts())
    assert NodeParts() == NodeParts()
    for cls, was in before.items():
        assert members(cls) == was


@everyone
def test_it_goes_on_top_of_what_is_there(mutant: Mutant) -> None:
    """Parts that it does not replace are handed through, whatever they are."""

    class Other(NodeParts().controller):  # type: ignore[misc]
        pass

    sick = mutant.apply(NodeParts(controller=Other))
    assert sick.controller is Other or "controller" in changed(mutant)


def test_none_is_in_unless_asked_for() -> None:
    for field in fields(NodeParts):
        assert not getattr(NodeParts(), field.name).__module__.startswith("node.mutants")


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError) as caught:
        mutants.get("forgoten-vote")
    assert str(caught.value).startswith(
        "no mutant is called 'forgoten-vote': did you mean forgotten-vote"
    )
    with pytest.raises(ConfigError) as caught:
        mutants.get("zzz")
    assert str(caught.value) == f"no mutant is called 'zzz': there are: {', '.join(ALL)}"


def test_one_without_a_docstring_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutants, "_MUTANTS", {})
    with pytest.raises(AssertionError, match="'dumb' has no docstring"):

        @mutants.mutant("dumb", breaks=("S1",), source="nowhere")
        def dumb(parts: NodeParts) -> NodeParts:
            return parts
