"""Tests that the judge says which finding an anomaly is, or may follow from."""

from __future__ import annotations

import pytest

from harness import catalogue
from harness.run.explained import AFTER, FINDING, findings_of, told
from harness.run.judge import ANOMALIES_KEPT_MAX, Judgement, conclude
from harness.systems.kafka.known_crashes import OF_LOSS
from harness.verdict import Anomaly, CheckResult, Known, Valid

LOST = Anomaly("S25", "n1 lost what it had flushed")
BUILT_ON = Anomaly("C8", "the image of n1 is another", time_ns=3)
NEWS = Anomaly("S1", "epoch 4 has two leaders", time_ns=9)
KNOWN = Known("S25", "lost", "docs", red=True, then=(("C8", ""), ("crash", "truncation")))


def judged(*anomalies: Anomaly) -> Judgement:
    results = [CheckResult(each.invariant, Valid.INVALID, (each,)) for each in anomalies]
    return conclude(results, known=[KNOWN])


def test_what_may_follow_from_a_finding_says_so_and_comes_last() -> None:
    judgement = judged(BUILT_ON, LOST, NEWS)
    assert judgement.system is Valid.INVALID
    explained = [(each.invariant, told(each.details)) for each in judgement.anomalies]
    assert explained == [("S1", ""), ("S25", "known: docs"), ("C8", "may follow from docs")]
    assert judgement.known == {"docs": 1}


def test_nothing_follows_from_what_was_not_found() -> None:
    (anomaly,) = judged(BUILT_ON).anomalies
    assert AFTER not in anomaly.details


@pytest.mark.parametrize(("said", "follows"), [("truncation to 3", True), ("a bad key", False)])
def test_only_what_a_finding_names_follows_from_it(said: str, *, follows: bool) -> None:
    crash = Anomaly("crash", f"n2 printed: {said}")
    assert (AFTER in judged(LOST, crash).results[1].anomalies[0].details) is follows


def test_a_run_that_is_judged_again_says_the_same() -> None:
    first = judged(BUILT_ON, LOST)
    again = conclude(first.results, known=[KNOWN])
    assert (again.results, again.anomalies) == (first.results, first.anomalies)


@pytest.mark.parametrize(
    ("anomalies", "explains"),
    [((LOST,), ["docs"]), ((LOST, BUILT_ON), ["docs"]), ((LOST, NEWS), []), ((NEWS,), [])],
)
def test_findings_explain_a_run_only_if_nothing_in_it_is_news(
    anomalies: tuple[Anomaly, ...], explains: list[str]
) -> None:
    assert findings_of(each.to_json() for each in judged(*anomalies).anomalies) == explains


def test_news_is_kept_where_there_is_too_much_that_is_known() -> None:
    many = tuple(Anomaly("S25", f"n1 lost {number}") for number in range(ANOMALIES_KEPT_MAX))
    result = CheckResult("logs", Valid.INVALID, (*many, NEWS))
    judgement = conclude([result], known=[KNOWN])
    assert NEWS in judgement.anomalies
    assert NEWS in judgement.results[0].anomalies
    assert FINDING in judgement.anomalies[-1].details


def test_what_follows_from_a_lost_log_is_named_as_in_the_catalogue() -> None:
    assert {name for name, _ in OF_LOSS} <= set(catalogue.meanings())
