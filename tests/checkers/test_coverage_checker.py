"""coverage: an axis of its own, UNKNOWN with a reason for each thing that did not happen."""

from __future__ import annotations

from dataclasses import replace

from checkers.coverage import OK_OPS_MIN, TRIES_MIN, coverage
from harness.verdict import Valid
from tests.support.histories.histories import Tale


def busy() -> Tale:
    tale = Tale()
    for start in range(OK_OPS_MIN):
        tale.op(start, start + 1)
    return tale


def test_all_that_was_asked_for_happened() -> None:
    tale = busy()
    tale.inject(1, 0, "kill", "installed")
    tale.heal(9, 0, "kill")
    result = coverage(tale.run("kill", nemeses=("kill",)))
    assert (result.valid, result.reason) == (Valid.VALID, None)
    assert result.checked == {"faults": 1, "installed": 1, "healed": 1, "ok": OK_OPS_MIN}


def test_a_run_without_faults_asked_for_needs_only_ops() -> None:
    assert coverage(busy().run()).valid is Valid.VALID


def test_a_family_is_covered_by_any_of_its_kinds() -> None:
    tale = busy()
    tale.inject(1, 0, "partition-halves", "installed")
    tale.heal(9, 0, "partition-halves")
    run = tale.run("partition-halves", nemeses=("partition",))
    assert coverage(run).valid is Valid.VALID


def test_too_few_ok_ops() -> None:
    tale = Tale()
    tale.op(0, 1)
    assert coverage(tale.run()).reason == f"only 1 ops were ok, want {OK_OPS_MIN} or more"


def test_a_kind_of_op_that_never_worked() -> None:
    tale = busy()
    for start in range(TRIES_MIN):
        tale.op(start, start + 1, "fail", "read")
    assert coverage(tale.run()).reason == f"none of {TRIES_MIN} read ops was ok"


def test_a_fault_that_was_skipped_failed_or_came_too_late() -> None:
    tale = busy()
    tale.inject(1, 0, "pause", "skipped", reason="no SIGSTOP here")
    tale.inject(1, 1, "kill", "failed", reason="still alive")
    run = tale.run("pause", "kill", "clock")
    result = coverage(run)
    assert result.valid is Valid.UNKNOWN
    assert (result.reason or "").split("; ") == [
        "pause was never installed: skipped, no SIGSTOP here",
        "kill was never installed: failed, still alive",
        "clock was never installed: the run ended before",
    ]


def test_a_kind_installed_once_may_be_skipped_another_time() -> None:
    tale = busy()
    tale.inject(1, 0, "kill", "installed")
    tale.heal(5, 0, "kill")
    tale.inject(7, 1, "kill", "skipped", reason="no majority left")
    assert coverage(tale.run("kill", "kill")).valid is Valid.VALID


def test_installed_without_evidence_does_not_count() -> None:
    tale = busy()
    tale.inject(1, 0, "kill", "installed", evidence=[])
    tale.heal(5, 0, "kill")
    assert coverage(tale.run("kill")).reason == "kill was never installed: it left no evidence"


def test_a_fault_that_was_not_healed_with_evidence() -> None:
    tale = busy()
    tale.inject(1, 0, "kill", "installed")
    tale.inject(2, 1, "kill", "installed")
    tale.heal(5, 1, "kill", evidence={})
    assert coverage(tale.run("kill")).reason == (
        "fault 0 (kill) was never healed; fault 1 (kill) was healed without evidence"
    )


def test_a_requested_nemesis_that_was_never_scheduled() -> None:
    tale = busy()
    tale.inject(1, 0, "kill", "installed")
    tale.heal(2, 0, "kill")
    assert coverage(tale.run(nemeses=("clock", "kill", "pause"))).reason == (
        "clock, pause: requested and never scheduled, as there is no time for them: "
        "give more than --time-limit 30"
    )


def test_a_run_that_was_cut_short_proves_nothing() -> None:
    result = coverage(busy().run(ended=False))
    assert result.valid is Valid.UNKNOWN
    assert result.reason == "the run was cut short: it did not reach the recovery at its end"


def test_an_aborted_run_says_why() -> None:
    tale = busy()
    tale.abort(98, "no leader is known for 15.1 s")
    result = coverage(tale.run())
    assert result.valid is Valid.UNKNOWN
    assert result.reason == "the run was aborted: no leader is known for 15.1 s"


def test_a_system_that_does_not_come_back_is_no_green_run() -> None:
    tale = busy()
    tale.recover(99, recovered=False)
    result = coverage(tale.run())
    assert result.valid is Valid.UNKNOWN
    assert result.reason == "the system did not recover within 0.007 s after the last heal"


def test_a_node_that_is_down_is_named_with_when_and_why() -> None:
    tale = busy()
    tale.recover(99, recovered=False, down={"n2": "pid 17 exited with 3"})
    data = replace(tale.run(), events={"n2": ({"rx_ns": 1_000_000_000}, {"rx_ns": 12_340_000_000})})
    assert coverage(data).reason == (
        "the system did not recover: n2 is down since 12.3 s (pid 17 exited with 3)"
    )


def test_only_kinds_that_were_named_are_owed() -> None:
    """Of ``all`` and of a family as many as fit; but at least one."""
    tale = busy()
    tale.inject(1, 0, "kill", "installed")
    tale.heal(2, 0, "kill")
    tale.inject(3, 1, "partition-halves", "skipped", reason="no majority")
    planned = ("kill", "partition-halves", "clock-jump")
    run = tale.run(*planned, nemeses=planned)
    assert coverage(replace(run, spec=replace(run.spec, asked=("all",)))).valid is Valid.VALID
    asked = replace(run, spec=replace(run.spec, asked=("kill", "partition", "clock-jump")))
    assert (coverage(asked).reason or "").split("; ") == [
        "clock-jump was never installed: the run ended before",
        "no fault of partition was installed (partition-halves: skipped, no majority)",
    ]


def test_of_all_something_must_take_hold() -> None:
    tale = busy()
    tale.inject(3, 1, "partition-halves", "skipped", reason="no majority")
    run = tale.run("partition-halves")
    result = coverage(replace(run, spec=replace(run.spec, asked=("all",))))
    assert result.reason == (
        "no fault of all was installed (partition-halves: skipped, no majority)"
    )
