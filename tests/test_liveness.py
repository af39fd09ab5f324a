"""The liveness checker: what must come true after the last heal, and in peace."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from checkers.liveness import EVENTS_PER_S_MAX, SNAPSHOT_SETTING, liveness
from harness.history import NEMESIS, History, Op
from harness.protocols import LogBatch, LogSnapshot, RunData
from harness.spec import RunSpec
from harness.verdict import CheckResult, Valid

S = 1_000_000_000


class Run:
    """Three voters and a broker that recover at 10 s, and have 5 s of peace from 11 s on."""

    def __init__(self) -> None:
        self.recovered = True
        self.events: dict[str, list[dict[str, Any]]] = {f"n{i}": [] for i in range(1, 5)}
        self.windows: dict[str, tuple[int, int]] = {"recovery": (9, 10), "settle": (11, 16)}
        for node in self.events:
            self.tell(node, 0, "start")
            leads = "leader" if node == "n1" else "follower"
            self.tell(node, 1, "role", to=leads, leader=1, why="test")
            self.tell(node, 12, "hwm", v=20)
        self.tell("n4", 12, "hb", err=0, fenced=False)

    def tell(self, node: str, at_s: float, type_: str, ep: int = 3, **fields: Any) -> None:
        event = {"t": type_, "ep": ep, "rx_ns": round(at_s * S), **fields}
        self.events[node] = sorted([*self.events[node], event], key=lambda e: e["rx_ns"])

    def judged(self) -> CheckResult:
        return liveness(self.data())

    def data(self) -> RunData:
        ops: list[Op] = []
        for f, (begin_s, end_s) in self.windows.items():
            end: dict[str, Any] = {"seconds": end_s - begin_s}
            if f == "recovery":
                end = {"recovered": self.recovered, "elapsed_ms": 1000}
            ops.append(Op(len(ops), begin_s * S, NEMESIS, "info", f, {}))
            ops.append(Op(len(ops), end_s * S, NEMESIS, "info", f, end))
        return RunData(
            RunSpec(1),
            History(ops),
            {node: tuple(events) for node, events in self.events.items()},
            voters=("n1", "n2", "n3"),
            observers=("n4",),
        )

    def found(self) -> dict[str, str]:
        return {a.invariant: a.message for a in self.judged().anomalies}


@pytest.fixture
def run() -> Run:
    return Run()


def test_a_healthy_end_is_valid(run: Run) -> None:
    result = run.judged()
    assert (result.valid, result.anomalies) == (Valid.VALID, ())
    assert set(result.checked) == {"L1", "L2", "L3", "L7", "L8", "L10", "L12"}


def test_a_run_that_was_cut_short_is_unknown(run: Run) -> None:
    run.windows.clear()
    assert run.judged().valid is Valid.UNKNOWN


def test_nobody_leads(run: Run) -> None:
    run.recovered = False
    run.tell("n1", 9.5, "role", to="resigned", leader=None, why="check-quorum")
    assert "nobody leads: n1 resigned in epoch 3" in run.found()["L1"]


def test_a_leader_that_does_not_get_on(run: Run) -> None:
    run.recovered = False
    assert "n1 leads and does not get on" in run.found()["L2"]


def test_a_node_that_does_not_catch_up(run: Run) -> None:
    run.recovered = False
    run.tell("n1", 9, "hwm", v=30)
    assert "n2 at -1" in run.found()["L8"]


def test_an_election_in_peace(run: Run) -> None:
    run.tell("n2", 13, "role", ep=4, to="candidate", leader=None, why="fetch timeout")
    result = run.judged()
    assert run.found() == {
        "L3": "n2 became candidate in epoch 4 (fetch timeout) although nothing was wrong any more"
    }
    assert result.anomalies[0].time_ns == 13 * S


def test_what_happens_when_all_is_stopped_is_no_election_in_peace(run: Run) -> None:
    run.tell("n1", 16, "role", to="resigned", leader=None, why="shutdown")
    run.tell("n1", 16, "stop")
    assert run.found() == {}


def test_a_node_stuck_in_pre_votes(run: Run) -> None:
    run.tell("n3", 12, "role", to="prospective", leader=None, why="timeout")
    assert "n3 is still prospective after 5 s" in run.found()["L7"]


def test_a_node_that_stays_behind_in_peace(run: Run) -> None:
    run.tell("n1", 15, "hwm", v=22)
    assert "n2 at high watermark 20" in run.found()["L8"]
    run.tell("n1", 15.5, "hwm", v=21)
    assert run.found() == {}, "one step behind is on its way"


def test_a_broker_that_stays_fenced(run: Run) -> None:
    run.tell("n4", 14, "hb", err=0, fenced=True)
    run.tell("n4", 15, "hb", err=None, fenced=None)
    assert "broker n4 is still fenced" in run.found()["L10"]


def test_a_node_that_spins(run: Run) -> None:
    run.events["n2"] += [
        {"t": "fetch_tx", "ep": 3, "rx_ns": 13 * S + i} for i in range(5 * EVENTS_PER_S_MAX)
    ]
    assert "n2 told" in run.found()["L12"]


def test_a_leader_that_commits_nothing_in_peace_does_not_get_on(run: Run) -> None:
    run.events["n1"] = [e for e in run.events["n1"] if e["t"] != "hwm"]
    run.tell("n1", 8, "hwm", v=20)
    assert "n1 leads and has committed nothing in 5 s of peace" in run.found()["L2"]


@pytest.mark.parametrize(("after_s", "late"), [(0.1, False), (0.5, True)])
def test_who_hears_of_a_commit_only_with_the_next_one_is_late(
    run: Run, after_s: float, late: bool
) -> None:
    for node in run.events:
        as_: dict[str, Any] = {"as": "leader" if node == "n1" else "follower"}
        run.tell(node, 13 if node != "n3" else 13 + after_s, "hwm", v=21, **as_)
    assert ("L8" in run.found()) is late


@pytest.mark.parametrize(("due_bytes", "late"), [(200, True), (400, False)])
def test_a_log_that_outgrows_its_snapshot_is_overdue(due_bytes: int, late: bool) -> None:
    log = tuple(
        LogBatch(base=i, last=i, epoch=1, crc=i, control=False, records=()) for i in range(20)
    )
    told = Run().data()
    spec = RunSpec(1, settings={SNAPSHOT_SETTING: str(due_bytes)})
    snapshots = {"n1": (LogSnapshot(end=10, epoch=1, records=()),)}
    result = liveness(replace(told, spec=spec, logs={"n1": log}, snapshots=snapshots))
    assert [a.invariant for a in result.anomalies] == ["L11"] * late
