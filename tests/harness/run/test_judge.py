"""The judge: one process per checker, whatever that checker does, and one answer."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.contracts.checker import Checker, RunData
from harness.errors import UnknownPluginError
from harness.history.ops import History, Op
from harness.registry import checkers
from harness.run.judge import (
    ANOMALIES_KEPT_MAX,
    STANDARD,
    Judgement,
    conclude,
    distinct,
    judge,
)
from harness.spec import RunSpec
from harness.verdict import Anomaly, CheckResult, Known, Sighting, Valid


def run_data() -> RunData:
    return RunData(RunSpec(seed=1), History([Op(0, 5, 0, "invoke", "read")]))


def judged(made: dict[str, Callable[[RunData], CheckResult]], **options: Any) -> Judgement:
    def lookup(name: str) -> Checker:
        return made[name]

    return judge(run_data(), list(made), lookup=lookup, **options)


def says(valid: Valid, *anomalies: Anomaly, reason: str | None = None) -> Checker:
    return lambda run: CheckResult(
        "x", valid, anomalies, reason=reason, checked={"ops": len(run.history)}
    )


BAD = Anomaly("S1", "epoch 7 has two leaders", time_ns=50)


def test_all_valid() -> None:
    judgement = judged({"a": says(Valid.VALID), "coverage": says(Valid.VALID)})
    assert (judgement.system, judgement.coverage, judgement.exit_code) == ("valid", "valid", 0)
    assert [(r.checker, r.checked) for r in judgement.results] == [
        ("a", {"ops": 1}),
        ("coverage", {"ops": 1}),
    ]


@pytest.mark.parametrize(
    ("system", "coverage", "harness", "code"),
    [
        (Valid.INVALID, Valid.UNKNOWN, "broke", 1),
        (Valid.VALID, Valid.VALID, "broke", 255),
        (Valid.UNKNOWN, Valid.VALID, None, 2),
        (Valid.VALID, Valid.UNKNOWN, None, 2),
    ],
)
def test_exit_code_of_the_three_axes(
    system: Valid, coverage: Valid, harness: str | None, code: int
) -> None:
    bad = (BAD,) if system is Valid.INVALID else ()
    judgement = judged(
        {"a": says(system, *bad, reason="why"), "coverage": says(coverage, reason="few ops")},
        harness_reason=harness,
    )
    assert (judgement.system, judgement.coverage, judgement.exit_code) == (system, coverage, code)


def test_results_keep_the_order_of_the_names_not_of_the_finish(tmp_path: Path) -> None:
    def last(_: RunData) -> CheckResult:
        while not (tmp_path / "done").exists():
            time.sleep(0.01)
        return CheckResult("last", Valid.VALID)

    def first(_: RunData) -> CheckResult:
        (tmp_path / "done").touch()
        return CheckResult("first", Valid.VALID)

    judgement = judged({"last": last, "a": says(Valid.VALID), "first": first}, jobs=3)
    assert [r.checker for r in judgement.results] == ["last", "a", "first"]


def test_a_checker_that_raises_is_unknown_with_what_it_raised() -> None:
    def broken(_: RunData) -> CheckResult:
        raise ValueError("no such epoch\nsecond line")

    judgement = judged({"broken": broken, "a": says(Valid.VALID)})
    result = judgement.results[0]
    assert (result.valid, result.reason) == (
        Valid.UNKNOWN,
        "the checker broke: ValueError: no such epoch",
    )
    assert "ValueError: no such epoch" in result.stats["traceback"]
    assert judgement.results[1].valid is Valid.VALID
    assert judgement.exit_code == 2


def test_a_checker_that_breaks_its_contract_is_unknown() -> None:
    (result,) = judged({"a": lambda _: CheckResult("a", Valid.INVALID)}).results
    assert result.valid is Valid.UNKNOWN
    assert "says invalid but names no anomaly" in (result.reason or "")


def test_a_result_that_cannot_be_sent_is_unknown() -> None:
    stats: dict[str, Any] = {"f": lambda: None}
    judgement = judged({"a": lambda _: CheckResult("a", Valid.VALID, stats=stats)})
    assert judgement.results[0].valid is Valid.UNKNOWN


def test_a_checker_that_dies_is_unknown() -> None:
    def dies(_: RunData) -> CheckResult:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("not reached")

    assert judged({"a": dies}).results[0].reason == "the checker's process was killed by signal 9"


def test_a_checker_that_takes_too_long_is_killed_and_unknown(tmp_path: Any) -> None:
    alive = tmp_path / "pid"

    def endless(_: RunData) -> CheckResult:
        alive.write_text(str(os.getpid()))
        while True:
            pass

    judgement = judged({"endless": endless, "a": says(Valid.VALID)}, time_limit_s=0.4)
    assert judgement.results[0].reason == ("the checker did not end within 0.4 s and was stopped")
    assert judgement.results[1].valid is Valid.VALID
    with pytest.raises(ProcessLookupError):
        os.kill(int(alive.read_text()), 0)


def test_no_checker_is_no_verdict() -> None:
    judgement = judged({"coverage": says(Valid.VALID)})
    assert judgement.system is Valid.UNKNOWN
    assert judgement.reasons["system"] == ["no checker looked at the system"]


def test_unknown_name_is_refused_before_anything_runs() -> None:
    with pytest.raises(UnknownPluginError, match="no checker is called 'consensu'"):
        judge(run_data(), ["consensu"])


def test_anomalies_are_distinct_in_order_of_time_and_capped() -> None:
    many = [Anomaly("S9", f"number {n}", time_ns=1_000 - n) for n in range(ANOMALIES_KEPT_MAX + 9)]
    late = Anomaly("C8", "no time")
    judgement = judged({"a": says(Valid.INVALID, BAD, late, *many), "b": says(Valid.INVALID, BAD)})
    assert judgement.anomalies_total == len(many) + 2
    assert len(judgement.anomalies) == ANOMALIES_KEPT_MAX
    assert judgement.anomalies[0] == BAD
    assert len(judgement.results[0].anomalies) == ANOMALIES_KEPT_MAX
    assert judgement.results[0].stats["anomalies_total"] == len(many) + 2
    assert distinct([late, BAD, BAD]) == [BAD, late]


def test_json_says_why() -> None:
    found = judged(
        {"a": says(Valid.INVALID, BAD), "coverage": says(Valid.UNKNOWN, reason="few ops")},
        harness_reason="EnvError: no relay",
    ).to_json()
    assert {k: found[k] for k in ("system", "coverage", "harness", "exit_code")} == {
        "system": "invalid",
        "coverage": "unknown",
        "harness": "broken",
        "exit_code": 1,
    }
    assert found["coverage_reasons"] == ["few ops"]
    assert found["harness_reasons"] == ["EnvError: no relay"]
    assert found["anomalies"] == [BAD.to_json()]
    assert found["results"][0]["anomalies"] == [BAD.to_json()]


def test_the_registered_checkers_judge_an_empty_run_without_breaking() -> None:
    names = [*STANDARD, "consensus", "observers"]
    assert set(names) <= set(checkers.names())
    judgement = judge(run_data(), names)
    assert [r.checker for r in judgement.results] == names
    assert not any("broke" in (r.reason or "") for r in judgement.results)
    assert (judgement.system, judgement.coverage) == ("unknown", "unknown")


def test_what_is_known_of_a_system_counts_apart() -> None:
    known = (Known("S1", "has two leaders", "docs"), Known("S2", "leaders", "elsewhere"))
    other = Anomaly("S1", "epoch 8 has no leader")
    results = [CheckResult("a", Valid.INVALID, (BAD,)), CheckResult("b", Valid.INVALID, (other,))]
    assert conclude(results[:1], known=known).system is Valid.VALID
    judgement = conclude(results, known=known)
    assert (judgement.system, judgement.anomalies) == (Valid.INVALID, (other,))
    assert judgement.known == {"docs": 1} == judgement.to_json()["known"]
    assert "known" not in conclude(results).to_json()


def test_a_result_tells_where_and_how_often_it_saw_what_is_known() -> None:
    known = (Known("S1", "leaders", "docs"), Known("S2", "voted", "elsewhere", red=True))
    found = (
        replace(BAD, time_ns=9),
        Anomaly("S1", "epoch 8 has two leaders", time_ns=4),
        Anomaly("S2", "n1 voted twice"),
    )
    first = conclude([CheckResult("a", Valid.INVALID, found)], known=known)
    told = (
        Sighting("S1", "docs", red=False, times=2, message="epoch 8 has two leaders", time_ns=4),
        Sighting("S2", "elsewhere", red=True, times=1, message="n1 voted twice", time_ns=None),
    )
    assert first.results[0].known == told
    assert first.known == {"docs": 2, "elsewhere": 1}
    assert first.to_json()["results"][0]["known"] == [each.to_json() for each in told]
    again = conclude(first.results, known=known)  # as of a simulation that could not go on
    assert (again.results, again.known) == (first.results, first.known)


def test_a_doubt_stays_where_all_else_is_known() -> None:
    known = (Known("S1", "has two leaders", "docs"),)
    doubtful = CheckResult("a", Valid.INVALID, (BAD,), reason="undecided: S2")
    assert conclude([doubtful], known=known).system is Valid.UNKNOWN


def test_what_is_known_and_red_stays_and_names_its_finding() -> None:
    known = (Known("S1", "has two leaders", "docs", red=True),)
    judgement = conclude([CheckResult("a", Valid.INVALID, (BAD,))], known=known)
    assert judgement.system is Valid.INVALID
    assert judgement.known == {"docs": 1}
    (anomaly,) = judgement.anomalies
    assert (anomaly.message, anomaly.details["finding"]) == (BAD.message, "docs")
    assert conclude([CheckResult("a", Valid.INVALID)]).system is Valid.INVALID
