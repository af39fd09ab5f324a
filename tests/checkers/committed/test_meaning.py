"""The meaning of committed logs, and which differences are explained."""

from __future__ import annotations

from dataclasses import replace

import pytest

from checkers.committed.meaning import Difference, Meaning, differences, meaning_of
from checkers.watches.invariants import watched
from harness.contracts.checker import RunData
from harness.history.ops import History, Op
from harness.sessions.plan import Plan
from harness.sessions.simulated import simulate
from harness.spec import RunSpec

SPEC = RunSpec(
    seed=1, env="sim", workload="register", voters=3, nemeses=("none",), time_limit_s=2.0
)
NAMES = "one", "other"


@pytest.fixture(scope="module")
def run() -> RunData:
    return simulate(Plan.simulated(replace(SPEC, time_limit_s=2.0))).data


@pytest.fixture(scope="module")
def meaning(run: RunData) -> Meaning:
    return meaning_of(run, watched(run).world.commits)


def compared(run: RunData, one: Meaning, other: Meaning, again: RunData | None = None) -> list[str]:
    """What differs, with ``?`` behind what nothing explains."""
    found: list[Difference] = [*differences((run, one), (again or run, other), NAMES)]
    return [each.what if each.why else f"{each.what}?" for each in found]


def test_a_meaning_has_the_last_writes(run: RunData, meaning: Meaning) -> None:
    last: dict[str, str] = {}
    for interval in run.history.intervals():
        op = interval.invocation
        if op.f == "write" and op.key is not None and interval.outcome == "ok":
            last[op.key] = str(op.value)
    assert meaning.registers.keys() == last.keys()
    assert {f"register-{key}" for key in last} <= meaning.topics
    assert meaning.voters == {1, 2, 3}
    assert (meaning.brokers, meaning.blocks) == (frozenset(), 0)


def test_a_run_differs_from_itself_in_nothing(run: RunData, meaning: Meaning) -> None:
    assert compared(run, meaning, meaning) == []


def test_a_lost_write_is_explained_by_nothing(run: RunData) -> None:
    early, late = written(0, "5", at=(10, 20)), written(1, "6", at=(30, 40))
    both = replace(run, history=History([*early, *late]))
    one, other = (of_register(value) for value in ("6", "5"))
    assert compared(both, one, other) == ["register r0 is 6 and 5?"]


def test_writes_at_the_same_time_may_end_in_either_order(run: RunData) -> None:
    ops = [*written(0, "5", at=(10, 40)), *written(1, "6", at=(30, 50))]
    both = replace(run, history=History(sorted(ops, key=lambda op: op.time_ns)))
    assert compared(both, of_register("6"), of_register("5")) == ["register r0 is 6 and 5"]


def test_a_write_that_ended_otherwise_explains_its_register(run: RunData) -> None:
    early, late = written(0, "5", at=(10, 20)), written(1, "6", at=(30, 40))
    failed = [late[0], late[1].with_(type="fail")]
    one, other = (replace(run, history=History([*early, *each])) for each in (late, failed))
    assert compared(one, of_register("6"), of_register("5"), other) == ["register r0 is 6 and 5"]


def test_other_voters_are_explained_by_nothing(run: RunData, meaning: Meaning) -> None:
    other = replace(meaning, voters=frozenset({1, 2}))
    assert compared(run, meaning, other) == ["the voters are [1, 2, 3] and [1, 2]?"]


def test_other_topics_and_ids_want_other_outcomes(run: RunData, meaning: Meaning) -> None:
    other = replace(meaning, topics=meaning.topics | {"more"}, blocks=2)
    told = ["only one has the topics more", "0 and 2 blocks of producer ids are given"]
    assert compared(run, meaning, other) == [f"{each}?" for each in told]
    again = replace(run, history=History(list(run.history)[: len(run.history) // 2]))
    assert compared(run, meaning, other, again) == told


def of_register(value: str) -> Meaning:
    return Meaning({"r0": value}, frozenset(), frozenset(), 0, frozenset({1}))


def written(process: int, value: str, at: tuple[int, int]) -> list[Op]:
    """A write of r0 that is ok."""
    asked = Op(
        index=at[0],
        time_ns=at[0],
        process=process,
        type="invoke",
        f="write",
        value=int(value),
        key="r0",
    )
    return [asked, asked.with_(index=at[1], time_ns=at[1], type="ok")]
