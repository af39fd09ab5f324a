"""refusals: errors that nothing a workload's clients ask for can deserve (C17)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.refusals import AWAY, DEFINITE, refusals
from harness.contracts.checker import RunData
from harness.history.ops import History, Op
from harness.registry import workloads
from harness.spec import RunSpec
from harness.verdict import Valid

MS = 1_000_000
DECLARED = [name for name, _ in workloads if workloads.traits(name).refusals is not None]


def run(*ends: tuple[str, str | None], workload: str = "register", **of_spec: Any) -> RunData:
    """A run of writes that ended so: type and error."""
    ops = []
    for n, (type_, error) in enumerate(ends):
        ops.append(Op(2 * n, 2 * n * MS, n, "invoke", "write", n, "r0"))
        ops.append(Op(2 * n + 1, (2 * n + 1) * MS, n, type_, "write", n, "r0", error=error))  # type: ignore[arg-type]
    return RunData(RunSpec(seed=1, workload=workload, **of_spec), History(ops))


def test_a_right_setting_is_not_refused_as_a_wrong_one() -> None:
    """Nothing was written in runs in which a controller did so, and no checker minded."""
    result = refusals(run(("ok", None), *[("fail", "invalid-config")] * 3))
    [anomaly] = result.anomalies
    assert (result.valid, result.checked) == (Valid.INVALID, {"C17": 4})
    assert anomaly.message.startswith("3 write op(s) were refused with invalid-config")
    assert (anomaly.invariant, anomaly.ops, anomaly.time_ns) == ("C17", (2, 3), 3 * MS)


@pytest.mark.parametrize(
    ("workload", "error", "is_due"),
    [
        ("producer-ids", "register: unsupported-version", False),
        ("producer-ids", "register: not-controller", True),
        ("brokers", "unsupported-version", False),
        ("brokers", "duplicate-broker-registration", True),
        ("topics", "topic-already-exists", True),
        ("topics", "invalid-topic", False),
        ("isr", "look: create-topic: invalid-replica-assignment", True),
        ("isr", "invalid-request", False),
        ("register", "connect-failed", True),
        ("register", "create-topic: invalid-replication-factor", True),
    ],
)
def test_which_errors_a_workload_can_deserve(workload: str, error: str, is_due: bool) -> None:
    result = refusals(run(("fail", error), workload=workload))
    assert (result.valid is Valid.VALID) is is_due


@pytest.mark.parametrize("end", ["fail", "info"])
@pytest.mark.parametrize("error", ["bad-answer", "bad-answer: more than 100 pages"])
def test_an_answer_that_says_nothing_is_none(end: str, error: str) -> None:
    """An answer that cannot be read is wrong in any workload."""
    result = refusals(run(("ok", None), *[(end, error)] * 2, workload="views"))
    (anomaly,) = result.anomalies
    assert f"2 write op(s) got no answer to what they asked ({error}); the first" in anomaly.message


def test_what_is_not_known_or_not_ours_is_not_judged() -> None:
    wrong = ("fail", "invalid-config")
    assert workloads.traits("admin").refusals is None
    assert refusals(run(wrong, workload="admin")).checked == {"C17": 0}
    assert refusals(run(wrong, workload="none-of-ours")).valid is Valid.VALID
    ours = run(wrong)
    theirs = replace(ours, spec=replace(ours.spec, env="attached"))
    assert refusals(theirs).valid is Valid.VALID


@pytest.mark.parametrize(("system", "is_due"), [("kraft", False), ("kafka", True)])
def test_a_controller_that_leads_no_more_may_not_know_a_topic_yet(
    system: str, is_due: bool
) -> None:
    data = run(("fail", "unknown-topic"), system=system, env="local")
    assert (refusals(data).valid is Valid.VALID) is is_due


@given(st.sampled_from(DECLARED), st.lists(st.sampled_from(sorted(DEFINITE))))
def test_each_refusal_is_told_unless_it_may_be_right(workload: str, errors: list[str]) -> None:
    told = {
        a.message.split(" with ")[1].split(",")[0]
        for a in refusals(run(*[("fail", each) for each in errors], workload=workload)).anomalies
    }
    assert told == set(errors) - AWAY - (workloads.traits(workload).refusals or set())


def changed(*ends: tuple[list[Any], str, str | None], kind: int = 2) -> RunData:
    """A run of changes of settings that ended so: [name, change, value], type and error."""
    ops = []
    for n, (change, type_, error) in enumerate(ends):
        asked = {"kind": kind, "of": "t1", "changes": [change], "only": False}
        ops.append(Op(2 * n, 2 * n * MS, n, "invoke", "configure", asked))
        failed, answer = (None, {**asked, "told": error}) if type_ == "ok" else (error, asked)
        ops.append(Op(2 * n + 1, (2 * n + 1) * MS, n, type_, "configure", answer, error=failed))  # type: ignore[arg-type]
    return RunData(RunSpec(seed=1, workload="admin"), History(ops))


RIGHT, WRONG = ["cleanup.policy", 0, "compact"], ["min.insync.replicas", 0, "0"]


def test_a_value_that_a_setting_cannot_have_is_refused() -> None:
    result = refusals(changed((RIGHT, "ok", None), (WRONG, "ok", None), (WRONG, "ok", None)))
    [anomaly] = result.anomalies
    assert (result.valid, result.checked) == (Valid.INVALID, {"C17": 3})
    assert (anomaly.invariant, anomaly.ops) == ("C17", (2, 3))
    assert anomaly.message.startswith("2 op(s) were granted, though they set a value")


def test_a_value_that_a_setting_can_have_is_not_refused_for_it() -> None:
    result = refusals(changed((WRONG, "ok", "invalid-config"), (RIGHT, "ok", "invalid-config")))
    [anomaly] = result.anomalies
    assert (anomaly.invariant, anomaly.ops) == ("C17", (2, 3))
    assert "invalid-config, though all their values are right" in anomaly.message


@pytest.mark.parametrize(
    "end",
    [
        (RIGHT, "fail", "unknown-topic"),
        (WRONG, "fail", "invalid-config"),
        (WRONG, "ok", "unknown-topic"),
        (WRONG, "info", "timeout"),
        (["cleanup.policy", 2, "burn"], "ok", None),  # appended: to what is there
        (["cleanup.policy", 1, None], "ok", None),
    ],
)
def test_what_depends_on_more_than_the_op_is_left_to_others(end: tuple[Any, str, Any]) -> None:
    assert refusals(changed(end)).valid is Valid.VALID


def test_settings_of_brokers_have_any_name() -> None:
    assert refusals(changed((WRONG, "ok", None), kind=4)).checked == {"C17": 0}


def test_the_settings_of_a_new_topic_are_judged_too() -> None:
    asked = {"topic": "t1", "partitions": 1, "factor": 1, "settings": {"cleanup.policy": "burn"}}
    ops = [Op(0, 0, 1, "invoke", "create", asked), Op(1, MS, 1, "ok", "create", asked)]
    run_ = RunData(RunSpec(seed=1, workload="admin"), History(ops))
    assert refusals(run_).valid is Valid.INVALID
