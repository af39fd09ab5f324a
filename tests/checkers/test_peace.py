"""The checker ``peace``: real nodes at rest, on a machine that may be busy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from checkers.peace import JUDGED, peace
from harness.registry import workloads
from harness.sessions.plan import checkers_of
from harness.spec import RunSpec
from harness.verdict import CheckResult, Valid
from tests.support.histories.peaceful import PeacefulRun


class Run(PeacefulRun):
    """All nodes hear of a commit each half second, from 9 s to 16 s."""

    def __init__(self) -> None:
        super().__init__()
        for tick in range(15):
            for node in self.events:
                self.commit(node, 9 + tick / 2, 21 + tick)

    def commit(self, node: str, at_s: float, v: int) -> None:
        as_: dict[str, Any] = {"as": "leader" if node == "n1" else "follower"}
        self.tell(node, at_s, "hwm", v=v, **as_)

    def delay(self, node: str, by_s: float, times: int) -> None:
        """It hears late of so many of the commits of peace."""
        before = [e for e in self.events[node] if e["t"] == "hwm" and e["v"] > 20]
        self.events[node] = [e for e in self.events[node] if e not in before]
        for event in before:
            at_s = event["rx_ns"] / 1e9
            late = 25 <= event["v"] < 25 + times
            self.commit(node, at_s + by_s * late, event["v"])

    def judged(self) -> CheckResult:
        return peace(self.data())

    def found(self) -> dict[str, str]:
        return {a.invariant: a.message for a in self.judged().anomalies}


@pytest.fixture
def run() -> Run:
    return Run()


def test_a_cluster_at_rest_is_valid_and_all_is_judged(run: Run) -> None:
    result = run.judged()
    assert (result.valid, result.anomalies) == (Valid.VALID, ())
    assert set(result.checked) == {each.name for each in JUDGED}


def test_without_a_time_of_peace_nothing_is_known(run: Run) -> None:
    del run.windows["settle"]
    assert run.judged().valid is Valid.UNKNOWN


def test_an_election_in_peace(run: Run) -> None:
    run.tell("n2", 13.1, "role", ep=4, to="candidate", leader=None, why="timeout")
    assert run.found() == {
        "L3": "n2 became candidate in epoch 4 (timeout) although nothing was wrong any more"
    }


@pytest.mark.parametrize("node", ["n1", "n3", "n4"])
def test_an_election_after_a_node_stood_still_is_the_machines(run: Run, node: str) -> None:
    run.tell("n2", 13.1, "role", ep=4, to="candidate", leader=None, why="timeout")
    run.events[node] = [e for e in run.events[node] if not 11.2e9 < e["rx_ns"] < 12.9e9]
    result = run.judged()
    assert "L3" not in run.found()
    assert "L3" not in result.checked
    assert result.stats["silent"] == [node]


def test_a_leader_that_does_not_commit(run: Run) -> None:
    run.events["n1"] = [e for e in run.events["n1"] if e["t"] != "hwm" or e["rx_ns"] < 11e9]
    assert "n1 leads and has committed nothing in 5 s of peace" in run.found()["L2"]


@pytest.mark.parametrize(("times", "late"), [(0, False), (4, False), (6, True), (10, True)])
def test_most_commits_must_be_late(run: Run, times: int, late: bool) -> None:
    """Ten commits of peace are due; a busy machine delays some of them."""
    run.delay("n3", 0.45, times)
    found: dict[str, Any] = run.found()
    assert set(found) == ({"L8"} if late else set())
    if late:
        assert found["L8"] == f"n3 did not hear in 0.3 s of peace of {times} of 10 commits of n1"


def test_few_commits_say_nothing(run: Run) -> None:
    run.events = {
        n: [e for e in of if e["t"] != "hwm" or e["v"] < 28] for n, of in run.events.items()
    }
    run.delay("n3", 0.45, 10)
    assert "L8" not in run.found()


@pytest.mark.parametrize(
    ("env", "settle_s", "judges"),
    [("local", 10.0, True), ("local", 0.0, False), ("sim", 10.0, False)],
)
def test_who_asked_for_peace_has_it_judged(env: str, settle_s: float, judges: bool) -> None:
    spec = replace(RunSpec(1), env=env, settle_s=settle_s)
    assert ("peace" in checkers_of(spec, workloads.get("register")(spec))) is judges


def test_the_spec_tells_of_it_where_there_is_one() -> None:
    assert "settle_s" not in RunSpec(1).to_json()
    spec = RunSpec(1, settle_s=7.5)
    assert RunSpec.from_json(spec.to_json()) == spec
