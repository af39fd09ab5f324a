"""``reads``: what clients read was committed, and the images of nodes are prefixes that only grow.

Whether reads at a leader are linearizable is for the checkers of the workloads to say. The reads
of a system without a barrier, which are ``local-`` ops, are judged here, by node.
"""

from __future__ import annotations

from collections.abc import Mapping

from checkers.committed.pruning import readback
from checkers.committed.reference import Reference
from checkers.committed.topics import Versions
from checkers.invariants.images import C8
from checkers.invariants.liveness import L8
from checkers.invariants.local_reads import (
    CommitTimes,
    LocalReads,
    Starts,
    Written,
    judge_dirty_reads,
    looks_of,
)
from checkers.invariants.reads import ReadsConfirmed
from checkers.invariants.write_order import judge_write_order, placed
from checkers.replay.clocks import clock_of, kept_time
from checkers.watches.invariants import known_log, told_meanwhile, watched
from harness.contracts.checker import RunData
from harness.contracts.traits import BY_NODE
from harness.registry import checkers, systems
from harness.spec import SIM
from harness.verdict import CheckResult, Valid

NAME = "reads"
LIVE_SLACK_NS = 100_000_000  # events of a process arrive, and are dated, late by no more than this


@checkers.register(NAME, needs=("events", "records"), judges=(C8, L8, ReadsConfirmed.meaning))
def reads(run: RunData) -> CheckResult:
    """Reads show what is committed (S34); those of a node's own image never go back (C8).

    Where the system says that it has recovered, they show all that was committed by then (L8), if
    its traits promise that. Writes lie in the log in the order of real time (S34). O(n log n).
    UNKNOWN without events. Of a simulation that was stopped only what is known is judged.
    """
    monitor = watched(run)
    if not monitor.events:
        return CheckResult(NAME, Valid.UNKNOWN, reason="no node left any event to judge")
    stopped = run.history.stopped is not None
    known = known_log(run, monitor)
    whole = known.end >= monitor.world.commits.end
    intervals = run.history.intervals()
    written = Written(known if whole or not stopped else Reference(), intervals, stopped=stopped)
    clock = clock_of(run)
    looks = looks_of(intervals, Starts(monitor.told("starts"), clock))
    commits = CommitTimes(monitor.told("commits"), clock)
    timed, slack_ns = kept_time(run), 0 if run.spec.env == SIM else LIVE_SLACK_NS
    local = LocalReads(
        written,
        Versions(known, {look.wanted for look in looks}),
        commits if timed else None,
        slack_ns,
        recovered_of(run, commits),
    )
    anomalies = [*local.judge(looks)]
    if timed:
        anomalies += judge_dirty_reads(intervals, written, commits, slack_ns)
    anomalies += told_meanwhile(run, anomalies, "S34")
    writes = [] if stopped else placed(intervals, readback(run.logs, run.voters))
    anomalies += judge_write_order(writes)
    reason = (
        "no read of a node's own image could be judged" if looks and not local.checked else None
    )
    verdict = Valid.UNKNOWN if reason else Valid.VALID
    return CheckResult(
        NAME,
        Valid.INVALID if anomalies else verdict,
        tuple(anomalies),
        checked={"S34": len(writes), "C8": local.checked, "L8": local.late},
        reason=reason,
    )


def recovered_of(run: RunData, commits: CommitTimes) -> tuple[int, int] | None:
    """When a system recovered whose reads show all from then on, and what was committed before."""
    if systems.traits(run.spec.system).of(run.spec).reads != BY_NODE:
        return None
    began_ns = 0
    for op in run.history.nemesis():
        if op.f == "recovery" and isinstance(op.value, Mapping):
            if op.value.get("recovered") is True:
                return op.time_ns, commits.end(began_ns)
            began_ns = op.time_ns
    return None
