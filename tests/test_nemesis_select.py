"""Names and families of ``--nemesis``."""

from __future__ import annotations

from random import Random

import pytest

from harness.errors import UsageError
from harness.nemeses import select
from harness.registry import nemeses
from nemesis.targets import WEIGHTS

PARTITIONS = [
    "partition-bridge",
    "partition-halves",
    "partition-isolate-leader",
    "partition-isolate-one",
    "partition-one-way",
]


def test_names_families_and_all_are_expanded_once_and_sorted() -> None:
    assert names(["pause", "kill", "kill"]) == ["kill", "pause"]
    assert set(PARTITIONS) <= set(names(["partition"]))
    assert names(["partition", "partition-bridge"]) == names(["partition"])
    assert names(["all"]) == nemeses.names()
    assert names(["none"]) == names([]) == []


def test_a_misspelt_name_says_what_was_meant() -> None:
    with pytest.raises(UsageError, match="no nemesis is called 'partitoin': did you mean"):
        select(["partitoin"])


def test_none_goes_with_nothing_else() -> None:
    with pytest.raises(UsageError, match="'none' goes with nothing else, found kill, none"):
        select(["kill", "none"])


def test_params_are_the_same_for_the_same_seed_and_name_no_node() -> None:
    for name, nemesis in select(["kill", "pause", "partition"]):
        drawn = [dict(nemesis.params(Random(seed))) for seed in range(50)]
        assert drawn == [dict(nemesis.params(Random(seed))) for seed in range(50)], name
        assert {p["target"] for p in drawn if "target" in p} <= set(WEIGHTS), name


def names(wanted: list[str]) -> list[str]:
    return [name for name, _ in select(wanted)]
