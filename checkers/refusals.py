"""``refusals``: what clients were refused with, against what their requests can deserve.

A workload knows what its clients ask for: settings that are right, topics of one partition, brokers
that support all levels. So it says which errors of Kafka's may be a right answer
(``WorkloadTraits.refusals``); any other one refuses what is due. No event is needed, so that it
holds of whatever answers clients. Whether an error that may be right is right then, others judge by
the log. That nobody leads, or a request is lost, is no answer of a controller to what was asked.

An answer that cannot be read, or does not fit the request, is wrong in every workload.

It knows, too, which values its settings can take (``WorkloadTraits.right_settings``): wrong ones
must be refused, and right ones may not be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from checkers.invariants.controller_answers import C17
from harness.contracts.checker import RunData
from harness.contracts.traits import LINEARIZABLE
from harness.errors import UsageError
from harness.history.ops import Interval, Op
from harness.kafka.errors import BAD_ANSWER, ERRORS
from harness.registry import checkers, systems, workloads
from harness.systems.attached.planning import ATTACHED
from harness.verdict import Anomaly, CheckResult, Valid

NAME = "refusals"
DEFINITE: Final = frozenset(each.name for each in ERRORS.values() if each.definite)
# Of a controller that leads no more: where reads have no barrier, nor have refusals.
STALE: Final = frozenset({"topic-already-exists", "unknown-topic", "unknown-topic-id"})
# Of who makes a topic while too few brokers are in service, or registered.
NO_SUCH_VALUE: Final = "invalid-config"
TOLD: Final = "told"  # in the value of an op for which any answer is a result: the error
AWAY: Final = frozenset({"invalid-replication-factor", "invalid-replica-assignment"})


@checkers.register(NAME, judges=(C17,))
def refusals(run: RunData) -> CheckResult:
    """Clients are refused only with errors that what they ask for can deserve. O(n).

    Clusters that are not ours may have rules of their own, and are not judged.
    """
    if run.spec.env == ATTACHED:
        return CheckResult(NAME, Valid.VALID, checked={C17.name: 0})
    allowed, right = _allowed(run), _right_settings(run)
    answered = [each for each in run.history.intervals() if each.outcome in ("ok", "fail")]
    anomalies = list(_no_answers(run.history.intervals()))
    checked = 0
    if allowed is not None:
        checked += len(answered)
        anomalies += _undeserved(answered, allowed)
    if right is not None:
        known = [(each, right(each.invocation)) for each in answered]
        checked += sum(is_right is not None for _, is_right in known)
        anomalies += _by_values(known)
    return CheckResult(
        NAME,
        Valid.INVALID if anomalies else Valid.VALID,
        tuple(anomalies),
        checked={C17.name: checked},
    )


def _allowed(run: RunData) -> frozenset[str] | None:
    """Give the errors that this workload's clients may deserve; None: nobody knows."""
    try:
        allowed = workloads.traits(run.spec.workload).refusals
        reads = systems.traits(run.spec.system).of(run.spec).reads
    except UsageError:  # it is not there any more
        return None
    return allowed if allowed is None or reads == LINEARIZABLE else allowed | STALE


def _right_settings(run: RunData) -> Callable[[Op], bool | None] | None:
    """Give what tells right settings from wrong ones; None: nothing does."""
    try:
        return workloads.traits(run.spec.workload).right_settings
    except UsageError:  # it is not there any more
        return None


def _by_values(known: list[tuple[Interval, bool | None]]) -> Iterator[Anomaly]:
    """Tell of the first op with wrong settings that was granted, and with right ones refused."""
    granted = [each for each, right in known if right is False and not _code(each)]
    if granted:
        yield _told(
            granted, "op(s) were granted, though they set a value that their setting cannot have"
        )
    refused = [each for each, right in known if right and _code(each) == NO_SUCH_VALUE]
    if refused:
        yield _told(
            refused, f"op(s) were refused with {NO_SUCH_VALUE}, though all their values are right"
        )


def _code(each: Interval) -> str:
    """Name the error that an op failed with, or was told as its answer; empty where none was."""
    end = each.completion
    if end is None:
        return ""
    if each.outcome == "ok":
        return str((end.value.get(TOLD) if isinstance(end.value, Mapping) else None) or "")
    return str(end.error).rpartition(": ")[2]


def _told(ops: list[Interval], what: str) -> Anomaly:
    """Tell how many ops were answered wrongly, and which was the first."""
    first, end = ops[0].invocation, ops[0].completion
    assert end is not None  # noqa: S101 - it was answered
    return Anomaly(
        C17.name,
        f"{len(ops)} {what}; the first is op {first.index}",
        ops=(first.index, end.index),
        time_ns=end.time_ns,
    )


def _no_answers(ops: Iterable[Interval]) -> Iterator[Anomaly]:
    """Report the ops whose answer could not be read, or did not fit the request."""
    seen: dict[tuple[str, str], list[Interval]] = {}
    for each in ops:
        error = str(each.completion.error or "") if each.completion is not None else ""
        if error.startswith(BAD_ANSWER):
            seen.setdefault((each.invocation.f, error), []).append(each)
    for (f, error), those in seen.items():
        yield _told(those, f"{f} op(s) got no answer to what they asked ({error})")


def _undeserved(answered: list[Interval], allowed: frozenset[str]) -> Iterator[Anomaly]:
    """Tell of the first op of each kind that was refused with each such error."""
    seen: dict[tuple[str, str], list[Interval]] = {}
    for each in answered:
        end, code = each.completion, _code(each)
        if end is not None and code in DEFINITE - AWAY - allowed:
            seen.setdefault((each.invocation.f, end.error or code), []).append(each)
    for (f, error), ops in seen.items():
        due = "which nothing that such an op asks for deserves"
        yield _told(ops, f"{f} op(s) were refused with {error}, {due}")
