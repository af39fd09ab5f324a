"""What the committed log says of ops of unknown outcome; it never makes a verdict better."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any
from zlib import crc32

import pytest

from checkers.committed.effects import LIST_CONFIG, LIST_PREFIX, REGISTER_CONFIG, REGISTER_PREFIX
from checkers.committed.pruning import NEVER, prune, pruned, readback
from checkers.invariants.write_order import judge_write_order, placed
from checkers.linearizable import check_history, linearizable
from checkers.list_append import list_append
from checkers.transactions.cycles import check_transactions
from harness.contracts.checker import RunData
from harness.contracts.evidence import LogBatch
from harness.history.ops import History, Op, OpType
from harness.spec import RunSpec
from harness.verdict import Valid
from workloads.list_append import LIST_CONFIG as WRITTEN_CONFIG
from workloads.list_append import TOPIC_PREFIX as WRITTEN_PREFIX

VOTERS = ("n1", "n2", "n3")
SPEC = RunSpec(seed=1)
Step = tuple[int, OpType, str, Any]
Logs = dict[str, tuple[LogBatch, ...]]


def history(*steps: Step) -> History:
    return History(Op(n, n, p, t, f, v, key="k0") for n, (p, t, f, v) in enumerate(steps))


def batch(offset: int, name: str, config: str, value: str, *, epoch: int = 1) -> LogBatch:
    fields = {"resource_name": name, "name": config, "value": value}
    record = {"offset": offset, "type": "ConfigRecord", "fields": fields}
    return LogBatch(offset, offset, epoch, crc32(f"{name}={value}".encode()), False, (record,))


def first() -> LogBatch:
    return LogBatch(0, 0, 1, 0, True, ())


def written(*values: int) -> tuple[LogBatch, ...]:
    """A log with these writes to register k0, from offset 1 on."""
    name = REGISTER_PREFIX + "k0"
    writes = (batch(n, name, REGISTER_CONFIG, str(v)) for n, v in enumerate(values, start=1))
    return (first(), *writes)


def appended(*values: int) -> tuple[LogBatch, ...]:
    """A log with these appends to list k0, each a record of the whole list."""
    lists = [values[: n + 1] for n in range(len(values))]
    texts = [",".join(f"{v}:{v}" for v in each) for each in lists]
    name = LIST_PREFIX + "k0"
    return (first(), *(batch(n, name, LIST_CONFIG, t) for n, t in enumerate(texts, start=1)))


def everywhere(log: tuple[LogBatch, ...]) -> Logs:
    return dict.fromkeys(VOTERS, log)


def types(pruned: History) -> list[tuple[int, str]]:
    return [(op.index, op.type) for op in pruned]


BASE: tuple[Step, ...] = (
    (0, "invoke", "write", 1),
    (0, "info", "write", 1),
    (1, "invoke", "write", 2),
    (1, "ok", "write", 2),
    (2, "invoke", "read", None),
    (2, "ok", "read", 2),
)


def test_the_places_of_lists_are_those_of_the_workload() -> None:
    assert (LIST_PREFIX, LIST_CONFIG) == (WRITTEN_PREFIX, WRITTEN_CONFIG)


def test_what_is_committed_before_an_acknowledged_write_happened_before_that_answer() -> None:
    found = prune(history(*BASE), everywhere(written(1, 2)), VOTERS)
    assert types(found) == [
        (0, "invoke"), (2, "invoke"), (1, "ok"), (3, "ok"), (4, "invoke"), (5, "ok"),
    ]  # fmt: skip


def test_what_is_committed_behind_all_that_was_acknowledged_happened_some_time() -> None:
    found = prune(history(*BASE), everywhere(written(2, 1)), VOTERS)
    assert types(found)[-1] == (1, "ok")


def test_what_no_log_holds_never_happened() -> None:
    found = prune(history(*BASE), everywhere(written(2)), VOTERS)
    assert types(found)[1] == (1, "fail")
    assert found[1].error == NEVER


def test_what_a_minority_holds_stays_open() -> None:
    logs = {"n1": written(2, 1), "n2": written(2), "n3": written(2)}
    assert prune(history(*BASE), logs, VOTERS) == history(*BASE)


def test_where_logs_contradict_each_other_nothing_is_agreed() -> None:
    logs = {"n1": written(1, 2), "n2": written(1, 2), "n3": written(3, 2)}
    known = readback(logs, VOTERS)
    assert known.agreed == {("write", "k0", "2"): 2}
    assert types(prune(history(*BASE), logs, VOTERS)) == types(history(*BASE))


@pytest.mark.parametrize(
    "logs",
    [
        {**everywhere(written(2)), "n9": written(2)[1:]},  # another's was cut off
        {"n1": written(2), "n2": written(2)},  # one voter's log was not read
        everywhere(written(2)[1:]),  # the beginning was cut off
        {},
    ],
)
def test_logs_that_are_not_whole_say_nothing_of_what_they_lack(logs: Logs) -> None:
    assert prune(history(*BASE), logs, VOTERS) == history(*BASE)


def test_an_effect_that_was_asked_for_twice_decides_nothing() -> None:
    twice = history(*BASE, (3, "invoke", "write", 1), (3, "info", "write", 1))
    assert prune(twice, everywhere(written(1, 2)), VOTERS) == twice
    assert prune(twice, everywhere(written(2)), VOTERS) == twice


def test_a_write_that_is_logged_twice_decides_nothing() -> None:
    assert prune(history(*BASE), everywhere(written(1, 2, 1)), VOTERS) == history(*BASE)


def test_one_that_is_still_open_is_dropped_when_it_never_happened() -> None:
    open_ = history((0, "invoke", "write", 1), *BASE[2:])
    assert types(prune(open_, everywhere(written(2)), VOTERS))[0] == (1, "invoke")
    assert prune(open_, everywhere(written(1, 2)), VOTERS) == open_


def test_control_and_other_records_are_passed_over() -> None:
    other = LogBatch(1, 1, 1, 5, False, ({"offset": 1, "type": "TopicRecord", "fields": {}},))
    known = readback(everywhere((first(), other)), VOTERS)
    assert (known.agreed, known.held, known.whole) == ({}, frozenset(), True)


def test_a_stopped_simulation_has_no_final_logs() -> None:
    stop = Op(6, 6, "nemesis", "info", "violation", {"invariant": "S1"})
    run = RunData(
        SPEC, History([*history(*BASE), stop]), logs=everywhere(written(2)), voters=VOTERS
    )
    assert pruned(run) == run.history


def test_the_checker_of_lists_goes_by_the_log() -> None:
    # Each client's answer alone may be right; the log says that the append came before the read.
    steps: tuple[Step, ...] = (
        (0, "invoke", "append", 1),
        (0, "info", "append", 1),
        (1, "invoke", "append", 2),
        (1, "ok", "append", 2),
        (2, "invoke", "read", None),
        (2, "ok", "read", [2]),
    )
    run = RunData(SPEC, history(*steps), logs=everywhere(appended(1, 2)), voters=VOTERS)
    assert list_append(RunData(SPEC, history(*steps))).valid is Valid.VALID
    assert list_append(run).valid is Valid.INVALID


def test_the_checker_of_registers_goes_by_the_log() -> None:
    # the write of 1 came before the answer to that of 2, so the write of 3 came behind it
    steps: tuple[Step, ...] = (
        *BASE[:4],
        (3, "invoke", "write", 3),
        (3, "ok", "write", 3),
        (2, "invoke", "read", None),
        (2, "ok", "read", 1),
    )
    run = RunData(SPEC, history(*steps), logs=everywhere(written(1, 2, 3)), voters=VOTERS)
    assert linearizable(RunData(SPEC, history(*steps))).valid is Valid.VALID
    assert linearizable(run).valid is Valid.INVALID


def test_an_element_is_where_the_list_first_has_it() -> None:
    known = readback(everywhere(appended(1, 2)), VOTERS)
    assert known.agreed == {("append", "k0", 1): 1, ("append", "k0", 2): 2}


@pytest.mark.parametrize("begins", [{"n1": 2, "n2": 3, "n3": 1}, {"n1": 2, "n2": 2, "n3": 2}])
def test_the_first_record_of_a_list_in_logs_that_begin_late_places_no_element(
    begins: dict[str, int],
) -> None:
    # All hold 1 in every record that they have; it took effect with one that was cleaned away, or
    # that is in a single log.
    logs = {voter: appended(1, 2, 3, 4)[begin:] for voter, begin in begins.items()}
    agreed = readback(logs, VOTERS).agreed
    assert ("append", "k0", 1) not in agreed
    assert agreed["append", "k0", 4] == 4


def test_nothing_is_placed_behind_a_gap_in_all_logs() -> None:
    log = appended(1, 2, 3, 4)
    known = readback(everywhere(log[:2] + log[3:]), VOTERS)
    assert known.agreed == {("append", "k0", 1): 1, ("append", "k0", 4): 4}


def test_an_element_that_a_contradicted_record_has_first_is_not_placed_later() -> None:
    logs = {"n1": appended(1, 2), "n2": appended(1, 2), "n3": appended(3)}
    assert readback(logs, VOTERS).agreed == {("append", "k0", 2): 2}


# ------------------------------------------------------------------ any history, any log


def random_run(
    rng: Random, write: str, make: Callable[..., tuple[LogBatch, ...]]
) -> tuple[History, Logs]:
    """A history with unknown outcomes of a store that works, and the logs that it leaves."""
    steps: list[Step] = []
    log: list[int] = []
    open_: dict[int, tuple[str, Any]] = {}
    answers: dict[int, Any] = {}
    process = 0
    for n in range(1, rng.randint(6, 30)):
        if len(open_) < 3 and rng.random() < 0.5:
            process += 1
            f = rng.choice((write, write, "read"))
            open_[process] = (f, n if f == write else None)
            steps.append((process, "invoke", *open_[process]))
        elif open_:
            one = rng.choice(list(open_))
            f, value = open_[one]
            if one not in answers and rng.random() < 0.7:
                if f == write:
                    log.append(value)
                now: Any = list(log) if write == "append" else (log[-1] if log else None)
                answers[one] = now if f == "read" else value
            elif one in answers and rng.random() < 0.7:
                del open_[one]
                steps.append((one, "ok", f, answers[one]))
            else:
                del open_[one]
                steps.append((one, "info", f, value))
    return history(*steps), everywhere(make(*log))


def judge_register(ops: History) -> Valid:
    return check_history(ops, "register").valid


def judge_list(ops: History) -> Valid:
    return check_transactions(ops).valid


KINDS = [("write", written, judge_register), ("append", appended, judge_list)]


@pytest.mark.parametrize(("write", "make", "judge"), KINDS, ids=["register", "list-append"])
def test_a_store_that_works_stays_valid(write: str, make: Any, judge: Any) -> None:
    rng, decided = Random(write), 0
    for _ in range(300):
        ops, logs = random_run(rng, write, make)
        after = prune(ops, logs, VOTERS)
        assert judge(after) is not Valid.INVALID
        assert sum(op.type == "info" for op in after if op.f == write) == 0
        decided += after != ops
    assert decided > 100


@pytest.mark.parametrize(("write", "make", "judge"), KINDS, ids=["register", "list-append"])
def test_a_store_that_works_stays_valid_where_logs_begin_late(
    write: str, make: Any, judge: Any
) -> None:
    rng, decided, ordered = Random(write), 0, 0
    for _ in range(300):
        ops, logs = random_run(rng, write, make)
        late = {voter: log[rng.randint(0, len(log) - 1) :] for voter, log in logs.items()}
        after = prune(ops, late, VOTERS)
        assert judge(after) is not Valid.INVALID
        decided += after != ops
        places = placed(ops.intervals(), readback(late, VOTERS))
        assert list(judge_write_order(places)) == []
        ordered += len(places) > 1
    assert decided > 50
    assert ordered > 50


@pytest.mark.parametrize(("write", "make", "judge"), KINDS, ids=["register", "list-append"])
def test_no_log_makes_an_invalid_history_valid(write: str, make: Any, judge: Any) -> None:
    rng, invalid, found = Random(write), 0, 0
    for _ in range(600):
        ops, logs = random_run(rng, write, make)
        values = [op.value for op in ops if op.f == write and op.type == "invoke"]
        if rng.random() < 0.5:  # any log at all, and any part of it
            log = make(*rng.sample(values, rng.randint(0, len(values))))
            logs = {voter: log[: rng.randint(0, len(log))] for voter in VOTERS}
        if rng.random() < 0.7:  # some read that is wrong
            reads = [op for op in ops if op.f == "read" and op.type == "ok"]
            if reads and values:
                wrong = rng.choice(reads)
                lie: Any = rng.choice(values)
                value = lie if write == "write" else [*wrong.value, lie][-rng.randint(1, 3) :]
                ops = History(op.with_(value=value) if op == wrong else op for op in ops)
        before, after = judge(ops), judge(prune(ops, logs, VOTERS))
        if before is Valid.INVALID:
            invalid += 1
            assert after is Valid.INVALID
        else:
            found += after is Valid.INVALID
    assert invalid > 50
    assert found > 10
