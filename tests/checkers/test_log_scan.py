"""log-scan: crashes in node output are found, orderly ends are not."""

from __future__ import annotations

import errno

import pytest

from checkers.log_scan import log_scan, scan
from harness.contracts.checker import RunData
from harness.history.ops import History, Op
from harness.spec import RunSpec
from harness.verdict import Anomaly, CheckResult, Valid

TRACEBACK = """\
2026-01-01 10:00:00 INFO started
Traceback (most recent call last):
  File "node/driver/node.py", line 12, in _pump
    self._do(work)
KeyError: 'n2'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "node/driver/node.py", line 14, in _pump
    raise NodeFatalError("no") from error
node.driver.pump.NodeFatalError: no
2026-01-01 10:00:01 INFO closed
"""


def scanned(text: str) -> CheckResult:
    output = {"n1": ("ready",), "n2": tuple(text.splitlines())}
    return log_scan(RunData(RunSpec(seed=1), History([]), output=output))


def only(result: CheckResult) -> Anomaly:
    assert result.valid is Valid.INVALID
    (anomaly,) = result.anomalies
    return anomaly


def test_a_traceback_is_one_finding_with_what_was_raised() -> None:
    found = only(scanned(TRACEBACK))
    assert found.invariant == "crash"
    assert found.message == (
        "n2 printed the sign of a crash, traceback, in line 2: node.driver.pump.NodeFatalError: no"
    )
    assert found.details["node"] == "n2"
    assert found.details["lines"] == [2]
    assert "KeyError: 'n2'" in found.details["context"]


def test_what_a_jvm_logs_is_told_with_the_exception_below_it() -> None:
    logged = "CRITICAL Encountered fatal fault: Unexpected error in raft IO thread"
    raised = "java.lang.IllegalArgumentException: Unexpected acknowledgement from non-voter 3"
    at = "\tat org.apache.kafka.raft.LeaderState.ensureValidVoter(LeaderState.java:881)"
    found = only(scanned("\n".join((logged, raised, at))))
    assert found.message == (
        f"n2 printed the sign of a crash, fatal error, in line 1: {logged}: {raised}"
    )
    assert only(scanned(f"{logged}\n{at}")).message.endswith(f": {logged}")


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("CRITICAL krucible.node fatal: IllegalStateError: leader", "fatal error"),
        ("[2026] FATAL exiting", "fatal error"),
        ("java.lang.IllegalStateException: cannot", "illegal state"),
        ("illegal state: two leaders", "illegal state"),
        ("AssertionError: offset", "failed assertion"),
        ("node: x.c:12: Assertion `a == b' failed.", "failed assertion"),
        ("java.lang.OutOfMemoryError: Java heap space", "out of memory"),
        ("kernel: Out of memory: kill process", "out of memory"),
        ("MemoryError", "out of memory"),
        ("Segmentation fault (core dumped)", "segmentation fault"),
        ("ERROR x: event failed with Y (treated as UnknownServerException)", "internal error"),
        ("ERROR Unexpected error handling request RequestHeader(apiKey=VOTE)", "internal error"),
        (
            "ERROR Encountered nonfatal fault: Error loading metadata log record from offset 64",
            "metadata that cannot be loaded",
        ),
        ("kernel: Killed process 123 (python)", "killed by the kernel"),
        ("WARN Found invalid offset. Deleting the corrupt segment and more", "deleted records"),
    ],
)
def test_signs_of_a_crash(line: str, kind: str) -> None:
    assert [(f.kind, f.number) for f in scan(["fine", line])] == [(kind, 2)]


@pytest.mark.parametrize(
    "line",
    [
        "Terminated",
        "Killed",
        "INFO received SIGTERM, shutting down",
        "WARNING a non-fatal error: connection reset",
        "WARNING not fatal, trying again",
        "INFO settings: fatal=false",
        "ERROR connection refused: ConnectionRefusedError",
        "INFO stop: killed by nemesis",
        "INFO assertion level: none",
        "INFO memory 12 MB",
        "ERROR Encountered nonfatal fault: KRaft snapshot file generation error: no space",
    ],
)
def test_orderly_ends_and_common_errors_are_no_crash(line: str) -> None:
    assert scanned(line).valid is Valid.VALID


def test_an_interrupted_process_prints_a_traceback_that_is_no_crash() -> None:
    text = (
        'Traceback (most recent call last):\n  File "x", line 1, in <module>\nKeyboardInterrupt\n'
    )
    assert scanned(text).valid is Valid.VALID
    assert scanned(text + "fatal: after it").valid is Valid.INVALID


def test_repeats_of_one_kind_are_one_anomaly_that_counts_them() -> None:
    found = only(scanned("FATAL a\nFATAL b\nfine\nFATAL c"))
    assert found.message.endswith("line 1: FATAL a (and 2 more)")
    assert found.details["lines"] == [1, 2, 4]


def test_a_traceback_that_was_cut_off_is_still_one() -> None:
    found = only(scanned('Traceback (most recent call last):\n  File "x", line 1'))
    assert "traceback, in line 1: Traceback (most recent call last):" in found.message


def test_quiet_nodes_are_valid_and_lines_are_counted() -> None:
    result = scanned("a\nb")
    assert (result.valid, result.checked) == (Valid.VALID, {"lines": 3, "nodes": 2})


def test_no_output_is_unknown() -> None:
    result = log_scan(RunData(RunSpec(seed=1), History([])))
    assert (result.valid, result.reason) == (Valid.UNKNOWN, "no node's output was kept")


JAVA = """\
05:53:24.736 ERROR ProcessTerminatingFaultHandler: Encountered fatal fault: in raft IO thread
org.apache.kafka.common.errors.KafkaStorageException: Error while appending in dir /run/n2/data
Caused by: java.io.IOException: No space left on device
\tat java.base/sun.nio.ch.FileDispatcherImpl.write0(Native Method) ~[?:?]
\t... 14 more
05:53:24.740 INFO AppInfoParser: unregistered
"""


@pytest.mark.parametrize(("number", "valid"), [(errno.ENOSPC, Valid.VALID), (errno.EIO, None)])
def test_a_node_may_die_of_the_disk_error_that_a_fault_gave_it(
    number: int, valid: Valid | None
) -> None:
    """As its line says in Python, or the cause below it in Java; of another error it may not."""
    seen = {"saw": "disk", "node": "n2", "errno": number}
    op = Op(0, 0, "nemesis", "info", "inject", {"evidence": [seen]})
    for text in (JAVA, "fatal: [Errno 28] No space left on device: 'log'\n"):
        output = {"n2": tuple(text.splitlines())}
        result = log_scan(RunData(RunSpec(seed=1), History([op]), output=output))
        assert result.valid is (valid or Valid.INVALID)


def test_a_jvm_may_say_what_it_did_behind_the_name_of_the_error() -> None:
    said = "java.io.UncheckedIOException: java.io.IOException: Input/output error (msync failed)"
    output = {"n2": ("ERROR ProcessTerminatingFaultHandler: Encountered fatal fault: of I/O", said)}
    for number, valid in ((errno.EIO, Valid.VALID), (errno.ENOSPC, Valid.INVALID)):
        seen = {"saw": "disk", "node": "n2", "errno": number}
        op = Op(0, 0, "nemesis", "info", "inject", {"evidence": [seen]})
        result = log_scan(RunData(RunSpec(seed=1), History([op]), output=output))
        assert result.valid is valid


@pytest.mark.parametrize(("ops", "valid"), [(1, Valid.VALID), (2, Valid.INVALID)])
def test_a_fault_that_is_being_installed_has_no_evidence_yet(ops: int, valid: Valid) -> None:
    """A simulation stops at its first violation, which may come before the fault was seen."""
    history = [Op(n, n, "nemesis", "info", "inject", {"id": 3}) for n in range(ops)]
    output = {"n2": tuple(JAVA.splitlines())}
    run = RunData(RunSpec(seed=1), History(history), output=output)
    assert log_scan(run).valid is valid


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, None])
def test_what_kafka_says_of_a_folder_whose_disk_gave_an_error_before(number: int | None) -> None:
    offline = "is already offline due to a previous IO exception"
    lines = (
        "06:10:48.258 ERROR ProcessTerminatingFaultHandler: Encountered fatal fault: exception",
        f"org.apache.kafka.common.errors.KafkaStorageException: The log dir /d {offline}.",
    )
    evidence = [] if number is None else [{"saw": "disk", "node": "n2", "errno": number}]
    op = Op(0, 0, "nemesis", "info", "inject", {"evidence": evidence})
    run = RunData(RunSpec(seed=1), History([op]), output={"n2": lines})
    assert log_scan(run).valid is (Valid.INVALID if number is None else Valid.VALID)


@pytest.mark.parametrize(
    "raised",
    [
        "java.lang.InternalError: a fault occurred in a recent unsafe memory access operation in",
        "java.io.UncheckedIOException: vote\nCaused by: java.io.SyncFailedException: sync failed",
        "java.lang.RuntimeException: No readable meta.properties files found.",
    ],
    ids=["mapped", "fsync", "start"],
)
def test_what_a_jvm_says_of_an_eio_without_its_name(raised: str) -> None:
    lines = (
        "06:10:48.258 ERROR ProcessTerminatingFaultHandler: Encountered fatal fault: in raft IO",
        *raised.splitlines(),
        "\tat org.apache.kafka.common.record.FileRecords.batchesFrom(FileRecords.java:426)",
    )
    for number, valid in ((errno.EIO, Valid.VALID), (errno.ENOSPC, Valid.INVALID)):
        seen = {"saw": "disk", "node": "n2", "errno": number}
        op = Op(0, 0, "nemesis", "info", "inject", {"evidence": [seen]})
        run = RunData(RunSpec(seed=1), History([op]), output={"n2": lines})
        assert log_scan(run).valid is valid


def test_kafka_may_refuse_to_start_without_the_snapshots_that_a_fault_took() -> None:
    raised = "java.lang.IllegalStateException: Inconsistent snapshot state: there must be one"
    lines = (
        "09:27:30.005 ERROR SharedServer: [SharedServer id=1] Got exception while starting",
        raised,
        "\tat kafka.raft.KafkaMetadataLog$.recoverSnapshots(KafkaMetadataLog.scala:686)",
        "09:27:30.071 ERROR ProcessTerminatingFaultHandler: Encountered fatal fault: caught it",
        raised,
    )
    seen = {"saw": "damage", "node": "n2", "files": ["1.checkpoint"], "refused": "n2 ended"}

    def verdict(lines: tuple[str, ...], **evidence: object) -> Valid:
        op = Op(0, 0, "nemesis", "info", "inject", {"evidence": [{**seen, **evidence}]})
        run = RunData(RunSpec(seed=1), History([op]), output={"n2": lines})
        return log_scan(run).valid

    assert verdict(lines) is Valid.VALID
    assert verdict(lines, node="n1") is Valid.INVALID, "of another node's disk"
    assert verdict(lines, refused=None) is Valid.INVALID, "it started, and says so later"
    assert verdict(lines, files=[]) is Valid.INVALID, "there were none to lose"
    assert verdict((*lines, "java.lang.IllegalStateException: another")) is Valid.INVALID


def test_a_controller_that_has_an_answer_for_an_exception_has_not_crashed() -> None:
    line = "ERROR Unexpected error handling request RequestHeader(apiKey=CONTROLLER_REGISTRATION)"
    raised = "java.util.concurrent.CompletionException: x.NotControllerException: It is node 3."
    assert list(scan([line, raised])) == []
