"""``log-scan``: what nodes printed, searched for the signs of a crash."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.contracts.checker import RunData
from harness.contracts.meaning import Meaning
from harness.registry import checkers
from harness.verdict import Anomaly, CheckResult, Valid

NAME = "log-scan"
INVARIANT = "crash"
CRASH = Meaning(
    "crash",
    promise=(
        "No node prints signs of a crash: a traceback, a fatal error, an illegal state, a failed "
        "assertion, that memory ran out, an exception that its controller has no answer for, that "
        "it cannot load committed metadata, or that it throws a part of its log away."
    ),
    why=(
        "A node stops by itself when it finds its own state to be impossible. Each such line is a "
        "bug, and each dead controller is one failure less that the quorum survives."
    ),
    source="ProcessTerminatingFaultHandler; KIP-859; KAFKA-12181; KAFKA-12331",
)
CONTEXT_LINES = 8
LINE_CHARS_MAX = 400

TRACEBACK = re.compile(r"^\s*(?:\+ )?(?:Exception Group )?Traceback \(most recent call last\):")
# An exception's own line, at the left edge: "ValueError: text", "node.errors.NodeFatalError".
_RAISED = re.compile(r"^(?P<name>[A-Za-z_][\w.]*)(?::|$)")
ORDERLY = frozenset({"KeyboardInterrupt", "SystemExit", "asyncio.exceptions.CancelledError"})
# What a JVM says of EIO without its name: a page that is mapped into its memory cannot be read
# (SIGBUS), an fsync has failed; and Kafka, whose reason was logged before.
_EIO = (
    "unsafe memory access operation",
    "java.io.SyncFailedException: sync failed",
    "No readable meta.properties files found",
)
# What Kafka says of whatever a disk gave it before.
_OFFLINE = "is already offline due to a previous IO exception"
_DISK_ERRORS = (errno.ENOSPC, errno.EIO)
# What Kafka says when it must not start: its log begins above 0, and there is no snapshot.
_NO_SNAPSHOT = "Inconsistent snapshot state"
_CHAINED = ("The above exception was", "During handling of the above")
SIGNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("fatal error", re.compile(r"(?<!non-)(?<!not )\bfatal\b(?![=:]?\s*(?:false|none|0)\b)", re.I)),
    ("illegal state", re.compile(r"\billegal[ _-]?state", re.I)),
    ("failed assertion", re.compile(r"\bAssertionError\b|\bassertion [`'\"(\w].*failed", re.I)),
    (
        "out of memory",
        re.compile(r"\bout of memory\b|\boom[-_ ]kill|OutOfMemory|\bMemoryError\b", re.I),
    ),
    (
        "segmentation fault",
        re.compile(r"\bsegmentation fault\b|\bsegfault\b|\bcore dumped\b", re.I),
    ),
    (
        "internal error",
        # Of others it says so of what it has an answer for, such as NotControllerException.
        re.compile(
            r"\btreated as UnknownServerException\b|\bUnexpected error handling request"
            r" RequestHeader\(apiKey=(?:FETCH_SNAPSHOT|VOTE|BEGIN_QUORUM_EPOCH|END_QUORUM_EPOCH)\b"
        ),
    ),
    (
        "metadata that cannot be loaded",  # a broker goes on with an old image (KIP-859)
        re.compile(r"\bnonfatal fault: (?:Error (?:loading|generating)|Unhandled error)\b"),
    ),
    ("killed by the kernel", re.compile(r"\bKilled process \d+")),
    ("deleted records", re.compile(r"\bDeleting the corrupt segment\b")),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One sign of a crash: its kind and line number, from 1; ``why`` is the Java trace below."""

    kind: str
    number: int
    line: str
    why: tuple[str, ...] = ()


@checkers.register(NAME, needs=("output",), judges=(CRASH,))
def log_scan(run: RunData) -> CheckResult:
    """Tracebacks, fatal errors, illegal states, failed assertions, out of memory in node output.

    A process that is told to stop, or killed, prints none of these. One whose disk a fault had
    refuse things (ENOSPC, EIO), or lose its snapshots, may say that it dies of just that. O(lines).
    """
    refused, bare = _refused(run), _without_snapshots(run)
    if not run.output:
        return CheckResult(NAME, Valid.UNKNOWN, reason="no node's output was kept")
    anomalies = [
        _anomaly(node, lines, found)
        for node, lines in sorted(run.output.items())
        for found in _by_kind(
            [
                f
                for f in scan(lines)
                if not _is_of(f, refused.get(node, ())) and not (node in bare and _is_bare(f))
            ]
        )
    ]
    return CheckResult(
        NAME,
        Valid.INVALID if anomalies else Valid.VALID,
        tuple(anomalies),
        checked={"lines": sum(map(len, run.output.values())), "nodes": len(run.output)},
    )


def _refused(run: RunData) -> dict[str, list[int]]:
    """Tell which errors the disks of nodes gave because of a fault: errno by node.

    A fault that was being installed when the run ended may have given any of them to any node.
    """
    maybe = _DISK_ERRORS if _is_installing(run) else ()
    found = {node: list(maybe) for node in run.output or {}}
    for seen in _evidence(run, "disk"):
        if isinstance(seen.get("errno"), int):
            found.setdefault(seen["node"], []).append(seen["errno"])
    return found


def _is_installing(run: RunData) -> bool:
    """Tell whether the run ended, as at a violation, before a fault had its evidence."""
    values = [op.value for op in run.history.nemesis() if op.f == "inject"]
    begun = [each["id"] for each in values if isinstance(each, Mapping) and "id" in each]
    return any(begun.count(each) == 1 for each in begun)


def _without_snapshots(run: RunData) -> frozenset[str]:
    """The nodes that a fault has left without snapshots, and that have refused to start so."""
    damaged = _evidence(run, "damage")
    return frozenset(seen["node"] for seen in damaged if seen.get("files") and seen.get("refused"))


def _evidence(run: RunData, what: str) -> Iterator[Mapping[str, Any]]:
    """List the evidence of that kind which was seen when faults were installed."""
    for op in run.history.nemesis():
        value = op.value if isinstance(op.value, Mapping) else {}
        for seen in value.get("evidence", ()) if op.f == "inject" else ():
            if seen.get("saw") == what:
                yield seen


def _is_bare(finding: Finding) -> bool:
    """Tell whether it says, itself or by its cause, that a snapshot is missing."""
    return any(_NO_SNAPSHOT in line for line in (finding.line, *finding.why))


def _is_of(finding: Finding, errors: Sequence[int]) -> bool:
    """Tell whether a finding names one of these errors, in Python's words or in Java's."""
    if any(f"[Errno {number}]" in finding.line for number in errors):
        return True
    names = tuple(f": {os.strerror(number)}" for number in errors)
    said = (
        *(f"{name} (" for name in names),
        *(_EIO if errno.EIO in errors else ()),
        *((_OFFLINE,) if errors else ()),
    )
    return any(line.endswith(names) or any(text in line for text in said) for line in finding.why)


def scan(lines: Sequence[str]) -> Iterator[Finding]:
    """Every sign of a crash in some output; a traceback is one sign, however long it is."""
    number = 0
    while number < len(lines):
        line = lines[number]
        if TRACEBACK.match(line):
            raised, end = _traceback(lines, number)
            if raised.partition(":")[0].strip() not in ORDERLY:
                yield Finding("traceback", number + 1, raised or line)
            number = end
            continue
        kind = next((kind for kind, sign in SIGNS if sign.search(line)), None)
        if kind is not None:
            yield Finding(kind, number + 1, line, tuple(_java_trace(lines, number + 1)))
        number += 1


def _java_trace(lines: Sequence[str], start: int) -> Iterator[str]:
    """Matches what a JVM prints below a line that it logs: an exception, its place, its cause."""
    for number in range(start, len(lines)):
        line = lines[number]
        raised = number == start and _RAISED.match(line) is not None
        if not raised and not line.startswith(("\tat ", "\t... ", "Caused by: ")):
            return
        yield line


def _traceback(lines: Sequence[str], start: int) -> tuple[str, int]:
    """(what was raised in the end, the line after the traceback)."""
    number, raised = start + 1, ""
    while number < len(lines):
        line = lines[number]
        if line.startswith((" ", "\t")) or not line.strip() or line.startswith(_CHAINED):
            number += 1
        elif TRACEBACK.match(line):
            number, raised = number + 1, ""
        elif not raised and _RAISED.match(line):
            number, raised = number + 1, line
        else:
            break
    return raised, number


def _by_kind(findings: list[Finding]) -> Iterator[list[Finding]]:
    for kind in dict.fromkeys(finding.kind for finding in findings):
        yield [finding for finding in findings if finding.kind == kind]


def _anomaly(node: str, lines: Sequence[str], found: list[Finding]) -> Anomaly:
    first = found[0]
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    raised = [line for line in first.why[:1] if _RAISED.match(line)]
    text = ": ".join(line.strip()[:LINE_CHARS_MAX] for line in (first.line, *raised))
    low = max(0, first.number - 1 - CONTEXT_LINES // 2)
    return Anomaly(
        INVARIANT,
        f"{node} printed the sign of a crash, {first.kind}, in line {first.number}: {text}{more}",
        details={
            "node": node,
            "lines": [finding.number for finding in found[:CONTEXT_LINES]],
            "context": [line[:LINE_CHARS_MAX] for line in lines[low : low + 2 * CONTEXT_LINES]],
        },
    )
