"""``logs``: what the logs on the disks say by themselves, of nodes that tell no events.

For systems that are seen from outside only. Which invariants were decided is in ``checked``; what
only events could show (who voted for whom, when something was committed) is named in ``stats``.
"""

from __future__ import annotations

from checkers.invariants.elections import MonotonicEpoch
from checkers.invariants.logs import LogMatching, RecordIdentity
from checkers.monitor.catalogue import invariants_for
from checkers.monitor.monitor import Monitor
from harness.catalogue import place
from harness.contracts.checker import RunData
from harness.registry import checkers
from harness.verdict import CheckResult, Valid

NAME = "logs"


JUDGED = (MonotonicEpoch.meaning, RecordIdentity.meaning, LogMatching.meaning)


@checkers.register(NAME, needs=("records",), judges=JUDGED)
def logs(run: RunData) -> CheckResult:
    """Final logs match, have no holes, and their epochs rise. O(n log n).

    UNKNOWN when less than two nodes left a log (one, in a cluster of one), or the invariants had
    nothing to compare.
    """
    found = {node: log for node, log in run.logs.items() if log}
    wanted = min(2, run.spec.voters + run.spec.observers)  # one has nobody to agree with
    if len(found) < wanted:
        reason = f"{len(found)} nodes left a log, want {wanted}"
        return CheckResult(NAME, Valid.UNKNOWN, reason=reason)
    monitor = Monitor(invariants_for(run.spec.settings))
    anomalies = monitor.finish(run.logs)
    checked = {name: count for name, count in monitor.checked.items() if count}
    return CheckResult(
        NAME,
        Valid.INVALID if anomalies else Valid.VALID,
        tuple(anomalies),
        checked={name: checked[name] for name in sorted(checked, key=place)},
        stats={
            "batches": {node: len(log) for node, log in sorted(found.items())},
            "undecided": [name for name in monitor.checked if name not in checked],
        },
    )
