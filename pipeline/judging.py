"""One run judged as a whole, by the checkers that judged it in the first place.

Checkers that judge key by key, and invariants that are DataFrame transforms, are left to those.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checkers.replay.trace import Whole
from checkers.watches.invariants import give_trace
from harness.run.judge import judge_here
from harness.sessions.live import as_told, judges
from harness.store.reading import StoredRun
from harness.verdict import Anomaly, CheckResult
from pipeline.keyed import KEYED

CONSENSUS = "consensus"


@dataclass(frozen=True, slots=True)
class Judged:
    """The results of the checkers of whole runs, and the checkers left to judge key by key."""

    results: tuple[CheckResult, ...]
    keyed: tuple[str, ...]
    anomalies: tuple[tuple[str, Anomaly], ...]  # each with its checker

    def stats(self, checker: str) -> Mapping[str, Any]:
        """The figures of one checker."""
        return next((each.stats for each in self.results if each.checker == checker), {})


def judge_whole(stored: StoredRun, trace: Whole, transformed: Collection[str]) -> Judged:
    """Judge a run but for what is judged elsewhere.

    Args:
        stored: The run.
        trace: Its events in their order.
        transformed: Invariants of ``consensus`` that DataFrame transforms judge.
    """
    wanted = judges(stored)
    here = [name for name in wanted if name not in KEYED]
    give_trace(stored.data, trace, transformed)
    results = list(judge_here(stored.data, here).results)
    results += as_told(stored)
    return Judged(
        tuple(results),
        tuple(name for name in wanted if name in KEYED),
        tuple((result.checker, anomaly) for result in results for anomaly in result.anomalies),
    )


def _stored_results(stored: StoredRun) -> Sequence[Mapping[str, Any]]:
    return (stored.results or {}).get("results") or ()


def stored_columns(stored: StoredRun) -> dict[str, Any]:
    """Tell what ``results.json`` says, as columns of RUNS."""
    results = stored.results
    if results is None:
        return {}
    found = {a["invariant"] for each in _stored_results(stored) for a in each["anomalies"]}
    return {
        "stored": results["system"],
        "stored_coverage": results["coverage"],
        "stored_invariants": sorted(found),
        "stored_checked": [
            {"checker": each["checker"], "valid": each["valid"], "reason": each["reason"]}
            for each in _stored_results(stored)
        ],
    }
