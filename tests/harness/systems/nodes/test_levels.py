"""Finalised levels: what may be raised, and which nodes may still be there."""

from __future__ import annotations

import pytest

from harness.contracts.abilities import Change
from harness.errors import EnvError
from harness.systems.nodes.levels import Levels

A, B = "metadata.version", "kraft.version"


def test_a_level_is_raised_as_far_as_the_node_that_knows_least() -> None:
    levels = Levels({A: 21, B: 0})
    known = [{A: 27, B: 1}, {A: 23, B: 1}]
    assert levels.raisable(known) == {A: (22, 23), B: (1,)}
    assert levels.raisable([*known, {A: 21}]) == {}
    with pytest.raises(EnvError, match=r"metadata\.version cannot be raised to 24 now"):
        levels.ask(A, 24, known)


def test_once_a_level_was_asked_for_no_node_is_permitted_that_does_not_know_it() -> None:
    levels = Levels({A: 21})
    known = [{A: 27}]
    assert levels.permits({A: 21})
    levels.ask(A, 25, known)
    assert not levels.permits({A: 24}), "nobody knows whether it will be done"
    assert levels.permits({A: 25, B: 1})
    levels.told(A, 25, Change(done=False, detail="timed-out"))
    assert levels.raisable(known) == {A: (22, 23, 24, 25, 26, 27)}, "it may be asked for again"
    levels.ask(A, 23, known)
    levels.told(A, 23, Change(done=True, detail="committed"))
    assert levels.raisable(known) == {A: (24, 25, 26, 27)}
    assert not levels.permits({A: 23}), "the first request may still be carried out"
