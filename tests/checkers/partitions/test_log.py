"""Records sent to and polled from partitions: anomalies in the words of Jepsen's kafka workload."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from checkers.partitions.log import check_log
from harness.errors import HistoryFormatError, UsageError
from harness.history.formats import Conventions
from harness.history.ops import History, Op
from harness.registry import models
from harness.verdict import CheckResult, Valid

Step = tuple[int, str, str, Any]


def send(key: str, value: Any, offset: int | None = None) -> list[Any]:
    return ["send", key, value if offset is None else [offset, value]]


def poll(**keys: list[tuple[int, Any]]) -> list[Any]:
    return ["poll", {key: [list(record) for record in records] for key, records in keys.items()}]


def done(process: int, *mops: list[Any], f: str = "txn", end: str = "ok") -> list[Step]:
    """An op from its invocation to its end."""
    asked = [
        ["poll"]
        if mop[0] == "poll"
        else [*mop[:2], mop[2][1] if isinstance(mop[2], list) else mop[2]]
        for mop in mops
    ]
    return [(process, "invoke", f, asked), (process, end, f, [list(mop) for mop in mops])]


def other(process: int, f: str, *keys: str) -> list[Step]:
    return [(process, "invoke", f, list(keys)), (process, "ok", f, list(keys))]


def judge(*ops: list[Step]) -> CheckResult:
    steps = [step for op in ops for step in op]
    return check_log(
        History(Op(n, n, p, t, f, v) for n, (p, t, f, v) in enumerate(steps))  # type: ignore[arg-type]
    )


def found(*ops: list[Step]) -> set[str]:
    return set(judge(*ops).stats["anomalies"])


ALL = [(0, "a"), (1, "b"), (2, "c")]
SENT = [*done(0, send("x", "a", 0)), *done(0, send("x", "b", 1)), *done(0, send("x", "c", 2))]

POLLED = done(2, poll(x=ALL))


def test_all_that_was_sent_is_polled_in_order() -> None:
    result = judge(SENT, done(1, poll(x=ALL[:1])), done(1, poll(x=ALL[1:])), done(1, poll(x=[])))
    assert result.valid is Valid.VALID, result.anomalies
    assert result.checked == {"records polled": 3, "partitions": 1}


def test_holes_in_the_offsets_are_no_skips() -> None:
    ops = [done(0, send("x", v, 10 * n)) for n, v in enumerate("abc")]
    assert judge(*ops, done(1, poll(x=[(0, "a"), (10, "b"), (20, "c")]))).valid is Valid.VALID


@pytest.mark.parametrize(
    ("ops", "name"),
    [
        ([SENT, done(1, poll(x=[(0, "a"), (2, "c")]))], "lost-write"),
        ([SENT, done(1, poll(x=ALL)), done(2, poll(x=[(1, "z")]))], "inconsistent-offsets"),
        ([SENT, done(1, poll(x=[*ALL, (3, "a")]))], "duplicate"),
        ([done(0, send("x", "a"), end="fail"), done(1, poll(x=ALL[:1]))], "aborted-read"),
        ([done(0, send("x", "a", 0), poll(x=ALL[:1]))], "precommitted-read"),
        ([done(1, poll(x=ALL[:1]))], "garbage-read"),
        ([SENT, done(1, poll(x=ALL[:2]))], "unseen"),
        ([SENT, POLLED, done(1, poll(x=[ALL[0], ALL[2]]))], "int-poll-skip"),
        ([SENT, POLLED, done(1, poll(x=ALL[:1]), poll(x=ALL[2:]))], "int-poll-skip"),
        ([SENT, POLLED, done(1, poll(x=[ALL[1], ALL[0]]))], "int-nonmonotonic-poll"),
        ([SENT, POLLED, done(1, poll(x=[ALL[1], ALL[1]]))], "int-nonmonotonic-poll"),
        ([SENT, POLLED, done(1, poll(x=ALL[:1])), done(1, poll(x=ALL[2:]))], "poll-skip"),
        ([SENT, done(1, poll(x=ALL)), done(1, poll(x=ALL[2:]))], "nonmonotonic-poll"),
        ([SENT, done(1, poll(x=ALL)), done(1, poll(x=ALL[:1]))], "nonmonotonic-poll"),
        (
            [done(0, send("x", "b", 1)), done(0, send("x", "a", 0)), done(1, poll(x=ALL[:2]))],
            "nonmonotonic-send",
        ),
        (
            [done(0, send("x", "b", 1), send("x", "a", 0)), done(1, poll(x=ALL[:2]))],
            "int-nonmonotonic-send",
        ),
        ([done(1, poll(x=ALL[:1])), done(0, send("x", "a", 0))], "G1c-realtime"),
    ],
)
def test_each_anomaly_is_called_by_its_name(ops: list[list[Step]], name: str) -> None:
    result = judge(*ops)
    assert name in result.stats["anomalies"]
    assert result.valid is Valid.INVALID
    assert all(a.message.startswith(f"{a.invariant}: ") for a in result.anomalies)


def test_information_in_a_circle_is_found() -> None:
    one = done(0, send("x", "a", 0), poll(y=[(0, "b")]))
    two = done(1, send("y", "b", 0), poll(x=[(0, "a")]))
    result = judge([one[0], two[0], one[1], two[1]])
    assert [a.invariant for a in result.anomalies] == ["G1c"]
    assert "op 2 sent what was polled by op 3" in result.anomalies[0].message


def test_a_lost_write_names_what_was_polled_behind_it() -> None:
    result = judge(SENT, done(1, poll(x=[ALL[0], ALL[2]])))
    (lost,) = [a for a in result.anomalies if a.invariant == "lost-write"]
    assert "lost 'b' at offset 1: nobody polled it, but 'c' at offset 2" in lost.message
    assert set(lost.ops) == {2, 3, 6, 7}


def test_what_lies_behind_all_that_was_polled_is_unseen_not_lost() -> None:
    assert found(SENT, done(1, poll(x=ALL[:1]))) == {"unseen"}


def test_a_send_of_unknown_outcome_may_be_missing_but_not_when_a_part_of_it_was_seen() -> None:
    half = done(0, send("x", "b"), send("y", "q"), end="info")
    ends = [done(1, send("x", "a", 0)), done(2, send("x", "c", 2))]
    polled = done(3, poll(x=[(0, "a"), (2, "c")]))
    assert judge(*ends, half, polled).valid is Valid.VALID
    told = done(0, send("x", "b", 1), send("y", "q"), end="info")
    assert judge(*ends, told, polled).valid is Valid.VALID
    seen = done(4, poll(y=[(0, "q")]))
    assert found(*ends, told, polled, seen) == {"lost-write", "int-poll-skip"}


def test_what_only_a_poll_that_failed_returned_is_not_lost() -> None:
    ends = [done(1, send("x", "a", 0)), done(2, send("x", "c", 2))]
    maybe = done(0, send("x", "b"), end="info")
    told = done(5, poll(x=[(1, "b")]), end="info")
    assert found(*ends, maybe, told, done(3, poll(x=[ALL[0], ALL[2]]))) == {"int-poll-skip"}


def test_writes_of_others_may_come_in_between() -> None:
    result = judge(
        done(0, send("x", "a", 0), send("x", "c", 2)),
        done(1, send("x", "b", 1)),
        done(2, poll(x=ALL)),
    )
    assert result.valid is Valid.VALID
    assert result.stats["allowed"] == ["int-send-skip"]


def test_who_subscribes_may_lose_a_partition_between_polls_but_not_within_one() -> None:
    after = [SENT, POLLED, other(1, "subscribe", "x")]
    moved = judge(*after, done(1, poll(x=ALL[2:])), done(1, poll(x=ALL[:1])))
    assert moved.valid is Valid.VALID
    assert moved.stats["allowed"] == ["nonmonotonic-poll"]
    assert judge(*after, done(1, poll(x=ALL[2:]), poll(x=ALL[:1]))).valid is Valid.VALID
    assert judge(*after, done(1, poll(x=[ALL[2], ALL[0]]))).valid is Valid.INVALID


def test_a_partition_given_up_may_be_begun_anew() -> None:
    first = [SENT, other(1, "assign", "x"), done(1, poll(x=ALL))]
    assert found(*first, other(1, "assign", "x"), done(1, poll(x=ALL))) == {"nonmonotonic-poll"}
    assert (
        found(*first, other(1, "assign", "y"), other(1, "assign", "x"), done(1, poll(x=ALL)))
        == set()
    )


def test_keys_are_the_same_as_numbers_and_as_text() -> None:
    steps: list[Step] = [
        (0, "invoke", "send", [["send", 1, 5]]),
        (0, "ok", "send", [["send", 1, [0, 5]]]),
        *done(1, ["poll", {"1": [[0, 5]]}], f="poll"),
        (2, "invoke", "crash", None),
        (2, "info", "crash", None),
    ]
    assert judge(steps).valid is Valid.VALID


def test_nothing_polled_is_nothing_judged() -> None:
    assert judge(done(0, send("x", "a"), end="info")).valid is Valid.UNKNOWN


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ([["write", 1, 2]], "want .send KEY VALUE"),
        ([["poll", {"x": [[0]]}]], "want .OFFSET VALUE"),
        ([["poll", {"x": [["a", 1]]}]], "want a number or nil"),
        ("x", "want a list"),
    ],
)
def test_values_of_another_shape_are_refused(value: Any, says: str) -> None:
    with pytest.raises(HistoryFormatError, match=f"op 1 .*{says}"):
        judge([(0, "invoke", "txn", []), (0, "ok", "txn", value)])


def test_other_ops_are_refused() -> None:
    with pytest.raises(UsageError, match="'read', which kafka does not know"):
        judge(other(0, "read"))


def test_the_model_is_in_the_registry() -> None:
    steps = [*SENT, *done(1, poll(x=ALL))]
    ops = History(Op(n, n, p, t, f, v) for n, (p, t, f, v) in enumerate(steps))  # type: ignore[arg-type]
    model = models.get("kafka")()
    assert model.check(ops, conventions=Conventions(), time_limit_s=1).valid is Valid.VALID


@pytest.mark.parametrize("seed", range(30))
def test_any_history_of_a_real_log_is_valid_and_a_lost_record_is_found(seed: int) -> None:
    rng = Random(seed)
    logs: dict[str, list[Any]] = {"x": [], "y": []}
    at: dict[tuple[int, str], int] = {}
    ops: list[list[Step]] = []
    for n in range(60):
        process, key = rng.randrange(4), rng.choice("xy")
        if rng.random() < 0.5:
            ops.append(done(process, send(key, n, len(logs[key]))))
            logs[key].append(n)
        else:
            start = at.get((process, key), 0)
            stop = rng.randint(start, len(logs[key]))
            at[process, key] = stop
            ops.append(done(process, poll(**{key: list(enumerate(logs[key]))[start:stop]})))
    end = [done(9, poll(**{key: list(enumerate(log))})) for key, log in logs.items()]
    assert judge(*ops, *end).valid is Valid.VALID
    key = rng.choice([key for key, log in logs.items() if len(log) > 1])
    lost = rng.randrange(len(logs[key]) - 1)
    sends = [op for op in ops if op[0][3][0][0] == "send"]
    kept = [r for r in enumerate(logs[key]) if r[0] != lost]
    assert "lost-write" in found(*sends, done(9, poll(**{key: kept})))


def test_a_limit_that_is_reached_is_said() -> None:
    fine = [(0, "invoke", "txn", [send("x", "a")]), (0, "ok", "txn", [send("x", "a")])]
    ops = History(Op(n, n, *step) for n, step in enumerate(fine))  # type: ignore[arg-type]
    late = check_log(ops, time_limit_s=-1.0)
    assert late.valid is Valid.UNKNOWN
    assert late.reason == "the time limit ran out; all 2 events are open"
