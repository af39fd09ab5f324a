"""Run options: there and back."""

from __future__ import annotations

import json

import pytest

from harness.spec import RunSpec


def test_a_spec_survives_json() -> None:
    spec = RunSpec(seed=7, nemeses=("kill", "pause"), mutant="m", settings={"a": "b"})
    text = json.loads(json.dumps(spec.to_json()))
    assert text["version"] == 1
    assert RunSpec.from_json(text) == spec


@pytest.mark.parametrize("ops", [None, (), (3, 5)])
def test_the_ops_that_are_done_are_kept_with_it(ops: tuple[int, ...] | None) -> None:
    spec = RunSpec(seed=7, only_ops=ops)
    text = json.loads(json.dumps(spec.to_json()))
    assert RunSpec.from_json(text) == spec
    assert ("only_ops" in text) == (ops is not None), "a run that does all is stored as ever"


@pytest.mark.parametrize("luck", [0, 3])
def test_other_luck_is_kept_with_it(luck: int) -> None:
    spec = RunSpec(seed=7, luck=luck)
    text = json.loads(json.dumps(spec.to_json()))
    assert RunSpec.from_json(text) == spec
    assert ("luck" in text) == bool(luck), "a run of the seed's first luck is stored as ever"


def test_what_is_missing_or_unknown_is_refused() -> None:
    whole = RunSpec(seed=7).to_json()
    with pytest.raises(TypeError, match="colour"):
        RunSpec.from_json({**whole, "colour": "red"})
    with pytest.raises(KeyError, match="nemeses"):
        RunSpec.from_json({"seed": 1})
