"""Says which finding an anomaly of a run is, or may follow from.

A system that has lost committed records breaks many promises more, by every record that was built
on them. Such anomalies stay, and the run stays invalid; but what nothing explains is told first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from harness.verdict import Anomaly, CheckResult, Known

# In the details of an anomaly: the finding that it is, as it is known and red; or the one of the
# same run that it may follow from.
FINDING: Final = "finding"
AFTER: Final = "after"


def rank(details: Mapping[str, Any]) -> int:
    """Order anomalies: those that nothing explains, then findings, then what may follow from one.

    Takes the details of an anomaly.
    """
    if FINDING in details:
        return 1
    return 2 if AFTER in details else 0


def told(details: Mapping[str, Any]) -> str:
    """Say in words what explains an anomaly with these details; empty where nothing does."""
    if FINDING in details:
        return f"known: {details[FINDING]}"
    return f"may follow from {details[AFTER]}" if AFTER in details else ""


def findings_of(anomalies: Iterable[Mapping[str, Any]]) -> list[str]:
    """Name the findings that explain the anomalies of a run, as JSON objects; none twice.

    None at all where one anomaly has no explanation: that is news, whatever else is known.
    """
    details = [anomaly.get("details", {}) for anomaly in anomalies]
    if not all(map(rank, details)):
        return []
    return list(dict.fromkeys(each[FINDING] for each in details if each.get(FINDING)))


def following(results: Sequence[CheckResult], known: Sequence[Known]) -> list[CheckResult]:
    """Mark what may follow from findings of the same run: ``known`` says from which, and what."""
    seen = {each.details.get(FINDING) for result in results for each in result.anomalies}
    causes = [each for each in known if each.then and each.finding in seen]
    return [_marked(result, causes) for result in results] if causes else list(results)


def _marked(result: CheckResult, causes: Sequence[Known]) -> CheckResult:
    marked = tuple(_mark(anomaly, causes) for anomaly in result.anomalies)
    return replace(result, anomalies=marked)


def _mark(anomaly: Anomaly, causes: Sequence[Known]) -> Anomaly:
    if rank(anomaly.details):
        return anomaly
    finding = next((each.finding for each in causes if each.may_cause(anomaly)), None)
    if finding is None:
        return anomaly
    return replace(anomaly, details={**anomaly.details, AFTER: finding})
