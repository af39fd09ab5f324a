"""The topics checker: one winner, all or nothing, ids never reused."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.linearizable import check_history
from checkers.models.topics import check_topics
from checkers.topics import topics
from harness.contracts.checker import RunData
from harness.errors import HistoryFormatError, UsageError
from harness.history.ops import History, Op
from harness.registry import checkers, models
from harness.spec import RunSpec
from harness.verdict import CheckResult, Valid

ASKED = {"partitions": 2, "configs": {"retention.ms": "1"}}
OTHER = {"partitions": 3, "configs": {"retention.ms": "2"}}


class Story:
    """Builds a history, one event a call; names are single letters."""

    def __init__(self) -> None:
        self.ops: list[Op] = []

    def _add(
        self, process: int, kind: Any, f: str, value: Any, key: str, error: str | None
    ) -> None:
        n = len(self.ops)
        self.ops.append(Op(n, n * 1000, process, kind, f, value, key, error))

    def begin(self, process: int, f: str, value: Any = None, key: str = "t") -> Story:
        self._add(process, "invoke", f, value, key, None)
        return self

    def end(self, process: int, value: Any = None, *, kind: str = "ok", error: str = "") -> Story:
        last = next(op for op in reversed(self.ops) if op.process == process)
        self._add(process, kind, last.f, value, last.key or "t", error or None)
        return self

    def do(
        self,
        f: str,
        value: Any = None,
        answer: Any = None,
        *,
        key: str = "t",
        kind: str = "ok",
        error: str = "",
    ) -> Story:
        return self.begin(0, f, value, key).end(0, answer, kind=kind, error=error)

    def check(self) -> CheckResult:
        return check_topics(History(self.ops), check_history)


def made(asked: dict[str, Any], topic_id: str) -> dict[str, Any]:
    return {**asked, "id": topic_id}


def invariants(result: CheckResult) -> set[str]:
    return {anomaly.invariant for anomaly in result.anomalies}


def test_a_life_of_a_topic_is_valid() -> None:
    result = (
        Story()
        .do("describe")
        .do("create", ASKED, made(ASKED, "a"))
        .do("describe", None, made(ASKED, "a"))
        .do("create", OTHER, kind="fail", error="topic-already-exists")
        .do("delete")
        .do("delete", kind="fail", error="unknown-topic")
        .do("describe")
        .do("create", OTHER, made(OTHER, "b"))
        .do("describe", None, made(OTHER, "b"))
        .check()
    )

    assert result.valid is Valid.VALID
    assert result.checked["C11"] == 2
    assert result.checked["all-or-nothing"] == 2


def test_two_winners_of_concurrent_creates() -> None:
    story = Story().begin(1, "create", ASKED).begin(2, "create", OTHER)

    result = story.end(1, made(ASKED, "a")).end(2, made(OTHER, "b")).check()

    assert result.valid is Valid.INVALID
    assert invariants(result) == {"linearizability"}
    assert "'t'" in result.anomalies[0].message


def test_the_loser_is_told_that_it_exists() -> None:
    story = Story().begin(1, "create", ASKED).begin(2, "create", OTHER)

    result = (
        story.end(2, kind="fail", error="topic-already-exists").end(1, made(ASKED, "a")).check()
    )

    assert result.valid is Valid.VALID


def test_no_winner_at_all_is_invalid() -> None:
    result = Story().do("create", ASKED, kind="fail", error="topic-already-exists").check()

    assert result.valid is Valid.INVALID


def test_existing_after_ones_own_create_of_unknown_outcome_is_legal() -> None:
    story = Story().begin(1, "create", ASKED).end(1, kind="info", error="request-timed-out")

    result = (
        story.do("create", ASKED, kind="fail", error="topic-already-exists")
        .do("describe", None, made(ASKED, "a"))
        .check()
    )

    assert result.valid is Valid.VALID


def test_other_failures_say_nothing() -> None:
    result = (
        Story()
        .do("create", ASKED, kind="fail", error="invalid-partitions")
        .do("delete", kind="fail", error="not-leader")
        .do("describe", kind="fail", error="timeout")
        .do("describe")
        .check()
    )

    assert result.valid is Valid.VALID


def test_a_deleted_topic_that_is_seen_again() -> None:
    result = (
        Story()
        .do("create", ASKED, made(ASKED, "a"))
        .do("delete")
        .do("describe", None, made(ASKED, "a"))
        .check()
    )

    assert result.valid is Valid.INVALID
    assert "there is no such topic then" in result.anomalies[0].message


def test_a_lost_create() -> None:
    result = Story().do("create", ASKED, made(ASKED, "a")).do("describe").check()

    assert result.valid is Valid.INVALID


def test_half_a_create() -> None:
    seen = {"id": "a", "partitions": 2, "configs": {}}

    result = Story().do("create", ASKED, made(ASKED, "a")).do("describe", None, seen).check()

    assert result.valid is Valid.INVALID
    assert invariants(result) == {"all-or-nothing"}
    assert "retention.ms" in result.anomalies[0].message


def test_half_of_a_create_with_unknown_outcome() -> None:
    story = Story().begin(1, "create", ASKED).end(1, kind="info", error="request-timed-out")

    result = story.do("describe", None, {"id": "a", "partitions": 2, "configs": {}}).check()

    assert result.valid is Valid.INVALID
    assert "all-or-nothing" in invariants(result)


@pytest.mark.parametrize("second", ["t", "u"])
def test_an_id_given_twice(second: str) -> None:
    result = (
        Story()
        .do("create", ASKED, made(ASKED, "a"))
        .do("delete")
        .do("create", OTHER, made(OTHER, "a"), key=second)
        .check()
    )

    assert result.valid is Valid.INVALID
    assert "C11" in invariants(result)


def test_an_id_seen_under_two_names() -> None:
    result = (
        Story()
        .do("create", ASKED, made(ASKED, "a"))
        .do("create", ASKED, kind="info", key="u")
        .begin(1, "describe", key="u")
        .end(1, made(ASKED, "a"))
        .check()
    )

    assert result.valid is Valid.INVALID
    assert "C11" in invariants(result)


def test_an_unfinished_delete_explains_that_it_is_gone_or_not() -> None:
    story = Story().do("create", ASKED, made(ASKED, "a")).begin(1, "delete")

    result = story.do("describe", None, made(ASKED, "a")).do("describe").check()

    assert result.valid is Valid.VALID
    assert story.do("describe", None, made(ASKED, "a")).check().valid is Valid.INVALID


def test_an_invented_topic() -> None:
    result = Story().do("describe", None, made(ASKED, "a")).check()

    assert result.valid is Valid.INVALID


@pytest.mark.parametrize(
    "value", [None, 3, {"partitions": "many"}, {"partitions": 1, "configs": 3}]
)
def test_a_create_that_asks_for_nonsense(value: Any) -> None:
    with pytest.raises(HistoryFormatError, match="op "):
        Story().do("create", value, {"id": "a"}).check()


def test_ops_of_other_workloads_are_refused() -> None:
    with pytest.raises(UsageError, match="'write'"):
        Story().do("write", 3).check()


def test_nothing_to_judge_is_unknown() -> None:
    result = check_topics(History(()), check_history)

    assert result.valid is Valid.UNKNOWN
    assert result.reason


def test_the_run_checker_is_registered_and_skips_other_ops() -> None:
    story = Story().do("create", ASKED, made(ASKED, "a")).do("local-read", None, 3)
    run = RunData(RunSpec(seed=1), History(story.ops))

    result = topics(run)

    assert checkers.get("topics") is topics
    assert result.checker == "topics"
    assert result.valid is Valid.VALID
    assert "topics" in models.names()


def test_a_limit_that_is_reached_is_said() -> None:
    ops = [
        Op(0, 0, 0, "invoke", "create", {"partitions": 1}, key="t"),
        Op(1, 1, 0, "ok", "create", {"partitions": 1, "id": "a"}, key="t"),
    ]
    late = check_topics(History(ops), check_history, time_limit_s=-1.0)
    assert late.valid is Valid.UNKNOWN
    assert late.reason == "the time limit ran out; all 2 events are open"
    assert check_topics(History(ops), check_history).valid is Valid.VALID
