"""``refusals``: what clients were refused with, against what their requests can deserve.

A workload knows what its clients ask for: settings that are right, topics of one partition, brokers
that support all levels. So it says which errors of Kafka's may be a right answer
(``WorkloadTraits.refusals``); any other one refuses what is due. No event is needed, so that it
holds of whatever answers clients. Whether an error that may be right is right then, others judge by
the log. That nobody leads, or a request is lost, is no answer of a controller to what was asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from checkers.invariants.controller_answers import C17
from harness.contracts.checker import RunData
from harness.contracts.traits import LINEARIZABLE
from harness.errors import UsageError
from harness.history.ops import Interval
from harness.kafka.errors import ERRORS
from harness.registry import checkers, systems, workloads
from harness.systems.attached.planning import ATTACHED
from harness.verdict import Anomaly, CheckResult, Valid

NAME = "refusals"
DEFINITE: Final = frozenset(each.name for each in ERRORS.values() if each.definite)
# Of a controller that leads no more: where reads have no barrier, nor have refusals.
STALE: Final = frozenset({"topic-already-exists", "unknown-topic", "unknown-topic-id"})
# Of who makes a topic while too few brokers are in service, or registered.
AWAY: Final = frozenset({"invalid-replication-factor", "invalid-replica-assignment"})


@checkers.register(NAME, judges=(C17,))
def refusals(run: RunData) -> CheckResult:
    """Clients are refused only with errors that what they ask for can deserve. O(n).

    Clusters that are not ours may have rules of their own, and are not judged.
    """
    allowed = _allowed(run)
    if allowed is None:
        return CheckResult(NAME, Valid.VALID, checked={C17.name: 0})
    answered = [each for each in run.history.intervals() if each.outcome in ("ok", "fail")]
    anomalies = tuple(_undeserved(answered, allowed))
    return CheckResult(
        NAME,
        Valid.INVALID if anomalies else Valid.VALID,
        anomalies,
        checked={C17.name: len(answered)},
    )


def _allowed(run: RunData) -> frozenset[str] | None:
    """Give the errors that this workload's clients may deserve; None: nobody knows."""
    if run.spec.env == ATTACHED:
        return None
    try:
        allowed = workloads.traits(run.spec.workload).refusals
        reads = systems.traits(run.spec.system).of(run.spec).reads
    except UsageError:  # it is not there any more
        return None
    return allowed if allowed is None or reads == LINEARIZABLE else allowed | STALE


def _undeserved(answered: list[Interval], allowed: frozenset[str]) -> Iterator[Anomaly]:
    """Tell of the first op of each kind that was refused with each such error."""
    seen: dict[tuple[str, str], list[Interval]] = {}
    for each in answered:
        end = each.completion
        error = "" if end is None or each.outcome == "ok" else str(end.error)
        code = error.rpartition(": ")[2]
        if code in DEFINITE - AWAY - allowed:
            seen.setdefault((each.invocation.f, error), []).append(each)
    for (f, error), ops in seen.items():
        first, end = ops[0].invocation, ops[0].completion
        assert end is not None  # noqa: S101 - it was refused
        yield Anomaly(
            C17.name,
            f"{len(ops)} {f} op(s) were refused with {error}, which nothing that such an op asks"
            f" for deserves; the first is op {first.index}",
            ops=(first.index, end.index),
            time_ns=end.time_ns,
        )
