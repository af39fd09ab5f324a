"""Names and families of ``--nemesis``."""

from __future__ import annotations

from random import Random

import pytest

from harness.contracts.nemesis import NamedOnly
from harness.errors import UsageError
from harness.faults.choice import plan, select
from harness.registry import nemeses
from harness.spec import SIM, RunSpec
from nemesis.common.targets import WEIGHTS

PARTITIONS = [
    "partition-bridge",
    "partition-halves",
    "partition-isolate-leader",
    "partition-isolate-one",
    "partition-one-way",
]


def test_names_families_and_all_are_expanded_once_and_sorted() -> None:
    ordinary = [name for name, each in nemeses if not isinstance(each, NamedOnly)]
    assert names(["pause", "kill", "kill"]) == ["kill", "pause"]
    assert set(PARTITIONS) <= set(names(["partition"]))
    assert names(["partition", "partition-bridge"]) == names(["partition"])
    assert [*names(["all"]), *names(["requests"])] == [*ordinary, "odd-requests"]
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


SEEDS = range(40)


@pytest.mark.parametrize("env", ["local", SIM])
def test_of_all_and_of_families_as_many_come_as_there_is_time_for(env: str) -> None:
    for wanted in (("all",), ("partition", "lifecycle", "clock"), ("disk",)):
        seen = set[str]()
        for seed in SEEDS:
            spec = RunSpec(seed, env=env, nemeses=wanted, time_limit_s=20.0)
            chosen, faults = plan(spec)
            assert {f.nemesis for f in faults} == {name for name, _ in chosen}
            assert not any(fault.late for fault in faults)
            seen |= {name for name, _ in chosen}
        spec = RunSpec(1, env=env, nemeses=wanted)
        assert seen == {name for name, _ in select(wanted, spec)}


def test_what_is_named_itself_comes_and_so_does_something_of_each_family() -> None:
    wanted = ("kill", "pause", "partition", "clock", "lifecycle")
    for seed in SEEDS:
        _, faults = plan(RunSpec(seed, nemeses=wanted, time_limit_s=6.0))
        kinds = {fault.nemesis for fault in faults}
        families = {nemesis.family for name, nemesis in select(kinds)}
        assert families == set(wanted)
        assert len(kinds) == len(wanted)
        assert sum(not fault.late for fault in faults) == 1


def test_what_was_only_drawn_never_comes_late() -> None:
    for seed in SEEDS:
        spec = RunSpec(seed, env=SIM, nemeses=("kill", "pause", "power"), time_limit_s=5.0)
        chosen, faults = plan(spec, asked_for=False)
        assert len(chosen) == len(faults) == 1
        assert not faults[0].late


def test_how_many_kinds_fit_shortens_no_fault() -> None:
    one, many = (
        plan(RunSpec(5, nemeses=wanted, time_limit_s=60.0))[1] for wanted in (("kill",), ("all",))
    )
    assert [(f.at_ms, f.duration_ms) for f in one] == [(f.at_ms, f.duration_ms) for f in many]


def names(wanted: list[str]) -> list[str]:
    return [name for name, _ in select(wanted)]
