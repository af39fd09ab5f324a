"""Which invariants each checker of a run has really judged, beside those that it says it judges."""

from __future__ import annotations

from collections.abc import Iterator

from harness import catalogue
from harness.registry import checkers
from harness.run.judge import Judgement


def judged(judgement: Judgement) -> Iterator[tuple[str, set[str], set[str]]]:
    """(checker, the invariants that it counted or found broken, those that it says it judges)."""
    known = catalogue.meanings().keys()
    for result in judgement.results:
        named = {anomaly.invariant for anomaly in result.anomalies} | (
            result.checked.keys() & known
        )
        yield result.checker, named, {each.name for each in checkers.judges(result.checker)}
