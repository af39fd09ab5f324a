"""The ``logs`` checker: what final logs decide without any event."""

from __future__ import annotations

from dataclasses import replace

from checkers.logs import logs
from harness.contracts.checker import RunData
from harness.contracts.evidence import LogBatch
from harness.history.ops import History
from harness.spec import RunSpec
from harness.verdict import CheckResult, Valid

LOG = tuple(
    LogBatch(base=n, last=n, epoch=1 + n // 3, crc=n, control=False, records=()) for n in range(6)
)


def judge(voters: int = 3, **of_nodes: tuple[LogBatch, ...]) -> CheckResult:
    spec = RunSpec(1, system="kafka", voters=voters, observers=0)
    return logs(RunData(spec, History(()), logs=of_nodes))


def broken(result: CheckResult) -> set[str]:
    assert result.valid is Valid.INVALID
    return {anomaly.invariant for anomaly in result.anomalies}


def test_logs_that_agree_as_far_as_they_go_are_valid() -> None:
    result = judge(n1=LOG, n2=LOG[:4], n3=LOG[2:])
    assert result.valid is Valid.VALID
    assert result.checked["S7"] == 14
    assert result.stats["batches"] == {"n1": 6, "n2": 4, "n3": 4}
    assert "S2" in result.stats["undecided"], "nobody told whom he voted for"


def test_another_content_at_an_offset_of_the_same_epoch_breaks_log_matching() -> None:
    other = (*LOG[:4], replace(LOG[4], crc=99), LOG[5])
    assert broken(judge(n1=LOG, n2=LOG, n3=other)) == {"S7", "S8"}


def test_a_hole_is_found() -> None:
    assert broken(judge(n1=LOG, n2=(*LOG[:2], *LOG[3:]))) == {"S8"}


def test_epochs_that_fall_are_found() -> None:
    falling = (*LOG[:5], replace(LOG[5], epoch=1))
    assert broken(judge(n1=LOG[:5], n2=falling)) == {"S4"}


def test_one_log_has_nobody_to_agree_with() -> None:
    result = judge(n1=LOG, n2=())
    assert (result.valid, result.reason) == (Valid.UNKNOWN, "1 nodes left a log, want 2")


def test_the_log_of_a_cluster_of_one_is_judged_by_itself() -> None:
    assert judge(voters=1, n1=LOG).valid is Valid.VALID
    assert set(judge(voters=1, n1=LOG).checked) == {"S4", "S7", "S8"}
    assert broken(judge(voters=1, n1=(*LOG[:2], *LOG[3:]))) == {"S8"}
    assert judge(voters=1, n1=()).reason == "0 nodes left a log, want 1"
