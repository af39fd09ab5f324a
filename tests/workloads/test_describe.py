"""The ``describe`` workload and its checker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from checkers.describe import describe
from harness.contracts.checker import RunData
from harness.history.ops import History, Op
from harness.sessions.simulated import simulate
from harness.sessions.zoo import plan_of
from harness.spec import SIM, RunSpec
from harness.verdict import CheckResult, Valid
from node.catalogue.scenario import Scenario, fault

SPEC = RunSpec(seed=4, env=SIM, workload="describe", voters=3)
DIRS = {n: f"{n:032x}" for n in (1, 2, 3, 4)}
KEYS = [[n, DIRS[n]] for n in (1, 2, 3)]
HEALTHY: dict[str, Any] = {
    "epoch": 2,
    "leader": 1,
    "hwm": 6,
    "voters": KEYS,
    "ends": [[1, 8], [2, 7], [3, 6]],
}


def event(at_ns: int, t: str, **fields: Any) -> dict[str, Any]:
    base = {"rx_ns": at_ns, "ts": at_ns, "node": 1, "dir": DIRS[1], "inc": 1, "ep": 2, "t": t}
    return base | fields


def fetch(at_ns: int, node: int, off: int, res: str = "ok") -> dict[str, Any]:
    return event(at_ns, "fetch_rx", **{"from": node}, from_dir=DIRS[node], off=off, res=res)


# Asked from 100 to 200: what came before is known, what came after is not.
EVENTS: list[dict[str, Any]] = [
    event(10, "elected", es=5, voters=KEYS),
    event(11, "append", base=5, last=5, bep=2, h=1, src="leader"),
    fetch(20, 2, 6),
    event(21, "hwm", v=6, **{"as": "leader"}),
    event(30, "append", base=6, last=7, bep=2, h=2, src="leader"),
    fetch(40, 3, 6),
    fetch(110, 2, 7),
    fetch(120, 2, 8, "diverging"),
    event(150, "hwm", v=7, **{"as": "leader"}),
    event(210, "append", base=8, last=8, bep=2, h=3, src="leader"),
    fetch(220, 3, 9),
]
TRACE = {"n1": tuple(each | {"seq": seq} for seq, each in enumerate(EVENTS, start=1))}


def judge(trace: Mapping[str, tuple[dict[str, Any], ...]] = TRACE, **changes: Any) -> CheckResult:
    told = [HEALTHY | changes]
    ops = [
        Op(0, 100, 0, "invoke", "describe-quorum", None),
        Op(1, 200, 0, "ok", "describe-quorum", told),
    ]
    return describe(RunData(SPEC, History(ops), events=trace))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"hwm": 7},
        {"ends": [[1, 8], [2, 6], [3, 6]]},
        {"voters": [[n, None] for n in (3, 2, 1)]},
        {"ends": [[1, 8], [2, 7], [3, 6], [4, None]]},
    ],
    ids=["as it was", "new meanwhile", "old still", "static", "who never fetched"],
)
def test_what_was_so_at_some_time_meanwhile_is_true(changes: dict[str, Any]) -> None:
    result = judge(**changes)
    assert result.anomalies == ()
    assert (result.valid, result.checked) == (Valid.VALID, {"S34": 1})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hwm": 5}, "high watermark 5: it was 6 to 7"),
        ({"hwm": 8}, "high watermark 8: it was 6 to 7"),
        ({"hwm": None}, "high watermark None: it was 6 to 7"),
        ({"ends": [[1, 7], [2, 7], [3, 6]]}, "log end 7: it was 8 to 8"),
        ({"ends": [[1, 9], [2, 7], [3, 6]]}, "log end 9: it was 8 to 8"),
        ({"ends": [[1, 8], [2, 8], [3, 6]]}, "that n2 is at 8, of [6, 7]"),
        ({"ends": [[1, 8], [2, 7], [3, None]]}, "that n3 is at None, of [6]"),
        ({"ends": [[1, 8], [2, 7], [3, 6], [4, 8]]}, "that n4 is at 8, of [None]"),
        ({"voters": KEYS[:2]}, "the voters [n1, n2]: they were [n1, n2, n3]"),
        ({"voters": [*KEYS[:2], [3, DIRS[4]]]}, "the voters [n1, n2, n3]"),
        ({"leader": 2}, "which it never led"),
        ({"epoch": 3}, "which it never led"),
    ],
)
def test_what_was_never_so_is_found(changes: dict[str, Any], message: str) -> None:
    result = judge(**changes)
    assert result.valid is Valid.INVALID
    assert {a.invariant for a in result.anomalies} == {"S34"}
    assert message in result.anomalies[0].message
    assert result.anomalies[0].ops == (0, 1)


MORE = event(80, "append", base=8, last=8, bep=2, h=3, src="leader")


@pytest.mark.parametrize(
    ("told", "later", "is_true"),
    [
        (8, (), True),
        (3, (), True),
        (7, (), False),
        (8, (MORE,), True),
        (8, (*EVENTS[-2:-1], fetch(230, 2, 3)), True),
        (8, (MORE, fetch(90, 2, 3)), False),
    ],
    ids=["waits", "repeated", "neither", "answered", "later", "over"],
)
def test_a_fetch_that_waits_is_read_again_when_it_is_answered(
    told: int, later: tuple[dict[str, Any], ...], is_true: bool
) -> None:
    """A Fetch of before, which the network repeats, is in between (seeds 5114, 5242 of 4.3.1)."""
    waits, repeated = fetch(50, 2, 8) | {"end": 8}, fetch(60, 2, 3) | {"end": 8}
    events = sorted([*EVENTS[:6], waits, repeated, *later], key=lambda each: int(each["rx_ns"]))
    trace = {"n1": tuple(each | {"seq": seq} for seq, each in enumerate(events, start=1))}
    ends = [[1, 9 if MORE in events else 8], [2, told], [3, 6]]
    result = judge(trace, ends=ends, hwm=6)
    assert (result.valid is Valid.VALID) is is_true, result.anomalies


def test_without_an_answer_nothing_is_judged() -> None:
    ops = [
        Op(0, 100, 0, "invoke", "describe-quorum", None),
        Op(1, 200, 0, "fail", "describe-quorum", None, error="no node says that it leads"),
    ]
    result = describe(RunData(SPEC, History(ops), events=TRACE))
    assert result.valid is Valid.UNKNOWN
    assert result.reason == "no leader told of its quorum: nothing was judged"


def test_a_trace_that_lacks_events_proves_nothing() -> None:
    events = {"n1": TRACE["n1"][:3] + TRACE["n1"][4:]}
    result = describe(RunData(SPEC, History(()), events=events))
    assert (result.valid, result.reason) == (Valid.UNKNOWN, "events n1 seq 4 to 4 are missing")


def test_leaders_tell_the_truth_while_voters_go_and_come() -> None:
    changes = Scenario(
        workload="describe",
        observers=1,
        faults=(
            fault("membership", 1, 1, target="leader"),
            fault("kill", 3, 0.5, target="leader"),
        ),
        time_limit_s=4.0,
        rate_hz=40.0,
        settings={"krucible.quorum": "dynamic"},
    )
    run = simulate(plan_of(changes.to_json(), 1, None, ()))
    assert run.verdict is Valid.VALID, run.judgement.reasons
    told = [op.value for op in run.data.history if op.f == "describe-quorum" and op.type == "ok"]
    assert len({view["epoch"] for views in told for view in views}) > 1
    assert len({len(view["voters"]) for views in told for view in views}) > 1
