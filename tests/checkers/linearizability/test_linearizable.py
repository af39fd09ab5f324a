"""The linearizability checker: verdicts, explanations, limits."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.limits.budget import Budget
from checkers.linearizability.calls import calls_of, columns_of, event_places
from checkers.linearizability.search import search
from checkers.linearizability.zones import by_zones
from checkers.linearizable import check_file, check_history, linearizable
from checkers.models.registers import CasRegister, Register
from harness.contracts.checker import RunData
from harness.errors import HistoryFormatError, UnknownPluginError, UsageError
from harness.history.formats import Conventions
from harness.history.ops import History, Op
from harness.registry import checkers
from harness.spec import RunSpec
from harness.verdict import CheckResult, Valid
from tests.support.linearizability.brute import (
    brute_force,
    history_of,
)

READ_NIL = ("read", None, None, "ok")
FALSE_CAS = Conventions(failed_cas="observation")


def op(index: int, process: int, kind: Any, f: str, value: Any = None, **more: Any) -> Op:
    return Op(index, more.pop("time_ns", index * 10), process, kind, f, value, **more)


def register(*ops: tuple[int, Any, str, Any], key: str | None = None) -> History:
    return History(op(n, *one, key=key) for n, one in enumerate(ops))


@dataclass
class InFlight:
    """An op of a simulated client."""

    process: int
    f: str
    key: str
    value: Any
    happened: bool = False


def simulate(rng: Random, n: int, concurrency: int, *, keys: int = 1, info: float = 0.0) -> History:
    """What clients of a correct register see; every write has a value of its own."""
    ops: list[Op] = []
    state: dict[str, Any] = {}
    idle = list(range(concurrency))
    in_flight: list[InFlight] = []
    begun = 0
    processes = concurrency
    while begun < n or in_flight:
        ready = [one for one in in_flight if not one.happened]
        if begun < n and idle and rng.random() < 0.4:
            begun += 1
            f = rng.choice(("read", "write"))
            key, value = f"k{rng.randrange(keys)}", begun if f == "write" else None
            in_flight.append(InFlight(idle.pop(rng.randrange(len(idle))), f, key, value))
            ops.append(op(len(ops), in_flight[-1].process, "invoke", f, value, key=key))
        elif ready and rng.random() < 0.6:
            one = rng.choice(ready)
            one.happened = True
            if one.f == "write":
                state[one.key] = one.value
            else:
                one.value = state.get(one.key)
        elif in_flight:
            one = rng.choice(in_flight)
            lost = one.f == "write" and rng.random() < info
            if not one.happened and not lost:
                continue
            in_flight.remove(one)
            kind = "info" if lost else "ok"
            ops.append(op(len(ops), one.process, kind, one.f, one.value, key=one.key))
            idle.append(processes if lost else one.process)
            processes += lost
    return History(ops)


# --------------------------------------------------------------------------- verdicts


def test_a_read_of_an_overwritten_value_is_a_violation() -> None:
    result = check_history(
        register(
            (0, "invoke", "write", 1),
            (0, "ok", "write", 1),
            (0, "invoke", "write", 2),
            (0, "ok", "write", 2),
            (1, "invoke", "read", None),
            (1, "ok", "read", 1),
        ),
        "register",
    )

    assert result.valid is Valid.INVALID
    (anomaly,) = result.anomalies
    assert anomaly.invariant == "linearizability"
    assert "it needs 1, the value is 2" in anomaly.message
    assert "ops 0, 2 and 4 contradict each other" in anomaly.message
    assert set(anomaly.ops) == {0, 1, 2, 3, 4, 5}
    assert anomaly.time_ns == 50


def test_a_write_of_unknown_outcome_may_take_effect_late_or_never() -> None:
    late = (
        (0, "invoke", "write", 1),
        (0, "info", "write", 1),
        (1, "invoke", "read", None),
        (1, "ok", "read", None),
        (1, "invoke", "read", None),
        (1, "ok", "read", 1),
    )

    assert check_history(register(*late), "register").valid is Valid.VALID
    assert check_history(register(*late[:4]), "register").valid is Valid.VALID
    again = (*late, (2, "invoke", "read", None), (2, "ok", "read", None))
    assert check_history(register(*again), "register").valid is Valid.INVALID


def test_reads_that_failed_or_nobody_saw_are_no_constraint() -> None:
    history = register(
        (0, "invoke", "read", None),
        (0, "fail", "read", 7),
        (1, "invoke", "read", None),
        (1, "info", "read", 8),
        (2, "invoke", "read", None),
    )

    result = check_history(history, "register")

    assert result.valid is Valid.VALID
    assert result.checked["linearizability"] == 0
    assert result.stats["ops"] == {"no constraint": 3}


def test_a_write_that_failed_did_not_happen() -> None:
    history = register(
        (0, "invoke", "write", 1),
        (0, "fail", "write", 1),
        (1, "invoke", "read", None),
        (1, "ok", "read", 1),
    )

    assert check_history(history, "register").valid is Valid.INVALID


@pytest.mark.parametrize(
    ("rule", "expected"), [("observation", Valid.INVALID), ("did-not-happen", Valid.VALID)]
)
def test_a_failed_cas_is_what_the_conventions_say(rule: Any, expected: Valid) -> None:
    history = register(
        (0, "invoke", "write", 1),
        (0, "ok", "write", 1),
        (0, "invoke", "cas", [1, 2]),
        (0, "fail", "cas", [1, 2]),
    )

    result = check_history(history, "cas-register", conventions=Conventions(failed_cas=rule))

    assert result.valid is expected


@pytest.mark.parametrize(
    ("rule", "expected"), [("observation", Valid.INVALID), ("no-constraint", Valid.VALID)]
)
def test_a_nil_read_is_what_the_conventions_say(rule: Any, expected: Valid) -> None:
    history = register(
        (0, "invoke", "write", 1),
        (0, "ok", "write", 1),
        (0, "invoke", "read", None),
        (0, "ok", "read", None),
    )

    result = check_history(history, "register", conventions=Conventions(nil_read=rule))

    assert result.valid is expected


def test_the_initial_value_is_what_the_conventions_say() -> None:
    history = register((0, "invoke", "cas", [0, 1]), (0, "ok", "cas", [0, 1]))

    assert check_history(history, "cas-register").valid is Valid.INVALID
    from_zero = check_history(history, "cas-register", conventions=Conventions(initial=0))
    assert from_zero.valid is Valid.VALID


def test_true_is_not_one() -> None:
    history = register(
        (0, "invoke", "write", 1),
        (0, "ok", "write", 1),
        (0, "invoke", "read", None),
        (0, "ok", "read", True),
    )

    assert check_history(history, "register").valid is Valid.INVALID


def test_keys_are_judged_apart_and_all_violations_are_told() -> None:
    bad = [(0, "invoke", "read", None), (0, "ok", "read", 9)]
    ops: list[Op] = []
    for key in ("a", "b", "c"):
        for process, kind, f, value in bad if key != "b" else [*bad[:1], (0, "ok", "read", None)]:
            ops.append(op(len(ops), process, kind, f, value, key=key))

    result = check_history(History(ops), "register")

    assert [anomaly.details["key"] for anomaly in result.anomalies] == ["a", "c"]
    assert result.stats["keys"] == 3


# --------------------------------------------------------------------------- equal times


def stale_at(times: tuple[int, int, int, int], *, process: int) -> History:
    kinds = ("invoke", "ok", "invoke", "ok")
    return History(
        Op(n, times[n], 0 if n < 2 else process, kinds[n], "write" if n < 2 else "read", value)  # type: ignore[arg-type]
        for n, value in enumerate((1, 1, None, None))
    )


def test_equal_times_are_concurrent() -> None:
    assert check_history(stale_at((1, 5, 5, 9), process=1), "register").valid is Valid.VALID
    assert check_history(stale_at((1, 5, 6, 9), process=1), "register").valid is Valid.INVALID
    ordered = Conventions(equal_times="ordered")
    result = check_history(stale_at((1, 5, 5, 9), process=1), "register", conventions=ordered)
    assert result.valid is Valid.INVALID


def test_a_history_with_one_time_only_has_no_times() -> None:
    assert check_history(stale_at((0, 0, 0, 0), process=1), "register").valid is Valid.INVALID


def test_equal_times_within_one_process_leave_it_open() -> None:
    result = check_history(stale_at((1, 5, 5, 9), process=0), "register")

    assert result.valid is Valid.UNKNOWN
    assert "equal times" in (result.reason or "")


# --------------------------------------------------------------------------- brute force


def test_a_write_of_the_value_that_is_there_hides_an_earlier_one() -> None:
    """Order: write 2, write 1 over 1, cas 1 to 3; the second write changes nothing by itself."""
    specs = [
        ("write", 1, None, "ok"),
        ("write", 2, None, "ok"),
        ("write", 1, None, "ok"),
        ("cas", [1, 3], None, "ok"),
        ("read", None, 3, "ok"),
    ]
    history = history_of((0, 0, 1, 2, 3, 3, 1, 2, 4, 4), specs)

    assert brute_force(history, CasRegister(), FALSE_CAS)
    assert check_history(history, "cas-register", conventions=FALSE_CAS).valid is Valid.VALID


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), concurrency=st.integers(1, 8), info=st.sampled_from((0.0, 0.2)))
def test_what_a_correct_register_answers_is_valid_by_both_methods(
    seed: int, concurrency: int, info: float
) -> None:
    history = simulate(Random(seed), 120, concurrency, keys=2, info=info)

    for calls in calls_by_key(history):
        zones = by_zones(columns_of(calls), None)
        found = search(calls, Register(), [None], Budget(10_000, float("inf")))
        assert zones is not None
        assert zones.linearizable
        assert found.linearizable is True


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), concurrency=st.integers(1, 8))
def test_zones_and_search_agree_on_corrupted_histories(seed: int, concurrency: int) -> None:
    rng = Random(seed)
    ops = list(simulate(rng, 60, concurrency, info=0.1))
    reads = [o for o in ops if o.f == "read" and o.type == "ok"]
    seen = [o.value for o in reads]
    for victim in rng.sample(reads, min(2, len(reads))):
        ops[victim.index] = victim.with_(value=rng.choice(seen))

    for calls in calls_by_key(History(ops)):
        zones = by_zones(columns_of(calls), None)
        found = search(calls, Register(), [None], Budget(10_000, float("inf")))
        assert zones is not None
        assert zones.linearizable is found.linearizable
        if not zones.linearizable:  # the conflict alone is already one
            conflict = [calls[row] for row in zones.conflict]
            small = search(conflict, Register(), [None], Budget(10_000, float("inf")))
            assert small.linearizable is False


def calls_by_key(history: History) -> list[list[Any]]:
    places, _ = event_places(history, Conventions())
    return list(calls_of(history, Register(), Conventions(), places=places).by_key.values())


# --------------------------------------------------------------------------- explanations


def test_the_ops_are_those_that_contradict_among_many() -> None:
    history = list(simulate(Random(5), 400, 5))
    last = len(history)
    for f, value in (("write", -1), ("write", -2), ("read", -1)):
        asked = value if f == "write" else None
        history.append(op(len(history), 99, "invoke", f, asked, key="k0"))
        history.append(op(len(history), 99, "ok", f, value, key="k0"))

    result = check_history(History(history), "register")

    (anomaly,) = result.anomalies
    assert anomaly.ops == tuple(range(last, last + 6))
    details = anomaly.details
    assert details["key"] == "k0"
    assert details["stuck"]["what"] == "read -> -1"
    (partial,) = details["partials"]
    assert partial["what"] == ["write -1", "write -2"]
    assert partial["state"] == "-2"
    assert partial["cannot_follow"] == [
        {"op": last + 4, "what": "read -> -1", "why": "it needs -1, the value is -2"}
    ]
    json.dumps(result.to_json())


def test_an_op_that_must_wait_says_for_what() -> None:
    history = register(
        (0, "invoke", "cas", [5, 6]),
        (1, "invoke", "read", None),
        (1, "ok", "read", 7),
        (1, "invoke", "write", 7),
        (0, "ok", "cas", [5, 6]),
        (1, "ok", "write", 7),
    )

    (anomaly,) = check_history(history, "cas-register").anomalies

    assert "cas 5 to 6 (op 0, process 0)" in anomaly.message


def test_a_repeated_value_is_searched_and_explained() -> None:
    history = register(
        (0, "invoke", "write", 1),
        (0, "ok", "write", 1),
        (0, "invoke", "write", 2),
        (0, "ok", "write", 2),
        (0, "invoke", "write", 2),
        (1, "invoke", "read", None),
        (1, "ok", "read", 1),
        (0, "ok", "write", 2),
    )

    result = check_history(history, "register")

    assert result.stats["methods"] == {"search": 1}
    assert "it needs 1" in result.anomalies[0].message


# --------------------------------------------------------------------------- limits


def hard() -> History:
    """Overlapping appends whose order only a late get could tell, but for a put in between."""
    ops = [op(n, n, "invoke", "append", chr(97 + n), key="a") for n in range(12)]
    ops += [op(12 + n, n, "ok", "append", chr(97 + n), key="a") for n in range(12)]
    ops.append(op(24, 20, "invoke", "put", "", key="a"))
    ops.append(op(25, 0, "invoke", "get", key="a"))
    ops.append(op(26, 0, "ok", "get", "never", key="a"))
    ops.append(op(27, 20, "ok", "put", "", key="a"))
    ops.append(op(28, 0, "invoke", "get", key="b"))
    ops.append(op(29, 0, "ok", "get", "", key="b"))
    return History(ops)


def test_too_many_configurations_are_unknown_with_key_and_place() -> None:
    result = check_history(hard(), "kv-append", configurations_max=2_000)

    assert result.valid is Valid.UNKNOWN
    assert "more than 2000 configurations at once" in (result.reason or "")
    assert "'a'" in (result.reason or "")
    (undecided,) = result.stats["undecided"]
    assert undecided["key"] == "a"
    assert undecided["at_op"] is not None
    assert undecided["window"] == [0, 25]
    assert "ops 0 to 25 are open" in (result.reason or "")


def test_what_has_an_order_is_not_in_the_open_window() -> None:
    early = [op(n, n, "invoke", "append", chr(97 + n), key="a") for n in range(4)]
    early += [op(4 + n, n, "ok", "append", chr(97 + n), key="a") for n in range(4)]
    early += [op(8, 9, "invoke", "get", key="a"), op(9, 9, "ok", "get", "dbac", key="a")]
    late = [one.with_(index=one.index + 10, time_ns=one.time_ns + 10) for one in hard()]

    result = check_history(History([*early, *late]), "kv-append", configurations_max=2_000)

    (undecided,) = result.stats["undecided"]
    assert undecided["explained"] == 5
    assert undecided["window"] == [10, 35]


def test_the_time_limit_is_unknown_not_an_error() -> None:
    result = check_history(hard(), "kv-append", time_limit_s=0.0)

    assert result.valid is Valid.UNKNOWN
    assert "time limit" in (result.reason or "")


def test_a_violation_of_one_key_wins_over_an_undecided_one() -> None:
    ops = [*hard(), op(30, 0, "invoke", "get", key="c"), op(31, 0, "ok", "get", "x", key="c")]

    result = check_history(History(ops), "kv-append", configurations_max=2_000)

    assert result.valid is Valid.INVALID
    assert [anomaly.details["key"] for anomaly in result.anomalies] == ["c"]
    assert [one["key"] for one in result.stats["undecided"]] == ["a"]


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ("abcdefghijkl", True),
        ("lkjihgfedcba", True),
        ("abcdefghijkk", False),
        ("bcdefghijkl", False),
    ],
)
def test_what_a_get_saw_forces_the_order_of_overlapping_appends(seen: str, expected: bool) -> None:
    ops = [*hard()[:24], op(24, 0, "invoke", "get", key="a"), op(25, 0, "ok", "get", seen, key="a")]

    result = check_history(History(ops), "kv-append", configurations_max=5_000)

    assert result.valid is (Valid.VALID if expected else Valid.INVALID)


def test_what_nobody_looks_at_any_more_is_not_searched() -> None:
    result = check_history(History(hard()[:24]), "kv-append", configurations_max=10)

    assert result.valid is Valid.VALID


def test_a_long_run_is_judged_with_little_work() -> None:
    history = simulate(Random(3), 5_000, 20, keys=4, info=0.03)

    for calls in calls_by_key(history):
        budget = Budget(1_000, float("inf"))
        assert search(calls, Register(), [None], budget).linearizable is True
        assert budget.used < 60 * len(calls)


# --------------------------------------------------------------------------- bad input


def test_an_op_the_model_does_not_know() -> None:
    history = register((0, "invoke", "cas", [1, 2]), (0, "ok", "cas", [1, 2]))

    with pytest.raises(UsageError, match=r"op 0 is a 'cas'.*choose another model"):
        check_history(history, "register")


@pytest.mark.parametrize(
    ("model", "f", "value"),
    [("cas-register", "cas", 3), ("kv-append", "append", [1]), ("set", "read", 3)],
)
def test_an_impossible_value_is_named(model: str, f: str, value: Any) -> None:
    history = register((0, "invoke", f, value), (0, "ok", f, value))

    with pytest.raises(HistoryFormatError, match=r"op 0 .*value"):
        check_history(history, model)


def test_a_completion_without_invocation() -> None:
    with pytest.raises(HistoryFormatError, match="no invocation"):
        check_history(register((0, "ok", "read", 1)), "register")


def test_an_unknown_model_says_which_there_are() -> None:
    with pytest.raises(UnknownPluginError, match="'register'"):
        check_history(register(), "registre")


# --------------------------------------------------------------------------- run and file


def run_of(*ops: Op) -> CheckResult:
    return linearizable(RunData(RunSpec(seed=1), History(ops)))


def test_the_run_checker_leaves_out_local_reads_and_other_ops() -> None:
    result = run_of(
        op(0, 0, "invoke", "write", 1, key="r0"),
        op(1, 0, "ok", "write", 1, key="r0"),
        Op(2, 20, "nemesis", "info", "kill", {"node": "n1"}),
        op(3, 1, "invoke", "local-read", key="r0"),
        op(4, 1, "ok", "local-read", None, key="r0"),
        op(5, 1, "invoke", "read", key="r0"),
        op(6, 1, "ok", "read", 1, key="r0"),
    )

    assert checkers.get("linearizable") is linearizable
    assert result.checker == "linearizable"
    assert result.valid is Valid.VALID
    assert result.checked["linearizability"] == 2


def test_the_run_checker_refers_to_the_ops_of_the_run() -> None:
    result = run_of(
        op(0, 1, "invoke", "local-read", key="r0"),
        op(1, 1, "ok", "local-read", None, key="r0"),
        op(2, 1, "invoke", "read", key="r0"),
        op(3, 1, "ok", "read", 5, key="r0"),
    )

    assert result.valid is Valid.INVALID
    assert result.anomalies[0].ops == (2, 3)


def test_a_run_without_register_ops_is_unknown() -> None:
    assert run_of().valid is Valid.UNKNOWN


def write_jsonl(path: Path, ops: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in ops))
    return path


CAS_FROM_ZERO = [
    {"process": 0, "type": "invoke", "f": "cas", "value": [0, 1]},
    {"process": 0, "type": "ok", "f": "cas", "value": [0, 1]},
]


def test_check_file_guesses_the_model_and_takes_an_initial_value(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "h.jsonl", CAS_FROM_ZERO)

    assert check_file(path).valid is Valid.INVALID
    result = check_file(path, initial="0")
    assert result.valid is Valid.VALID
    assert result.stats["model"] == "cas-register"
    assert result.stats["format"] == "jsonl"


def test_check_file_skips_nemesis_and_local_reads(tmp_path: Path) -> None:
    ops: list[dict[str, Any]] = [
        {"process": "nemesis", "type": "info", "f": "kill"},
        {"process": 0, "type": "invoke", "f": "local-read"},
        {"process": 0, "type": "ok", "f": "local-read", "value": 9},
        {"process": 0, "type": "invoke", "f": "read"},
        {"process": 0, "type": "ok", "f": "read", "value": None},
    ]

    assert check_file(write_jsonl(tmp_path / "h.jsonl", ops)).valid is Valid.VALID


def test_check_file_names_the_file_in_errors(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "h.jsonl", [{"process": 0, "type": "invoke", "f": "dance"}])

    with pytest.raises(UsageError, match=r"h\.jsonl.*dance.*--model"):
        check_file(path)
    with pytest.raises(UsageError, match=r"h\.jsonl.*'dance'"):
        check_file(path, model="register")


def test_check_file_judges_topics_with_their_ids(tmp_path: Path) -> None:
    asked = {"partitions": 1, "configs": {}}
    ops: list[dict[str, Any]] = []
    for key in ("a", "b"):
        ops.append({"process": 0, "type": "invoke", "f": "create", "key": key, "value": asked})
        ops.append(
            {"process": 0, "type": "ok", "f": "create", "key": key, "value": {**asked, "id": "x"}}
        )

    result = check_file(write_jsonl(tmp_path / "h.jsonl", ops))

    assert result.valid is Valid.INVALID
    assert {anomaly.invariant for anomaly in result.anomalies} == {"C11"}


def test_a_limit_that_is_reached_while_a_history_is_read_is_said() -> None:
    ops = [Op(0, 0, 0, "invoke", "write", 1), Op(1, 1, 0, "ok", "write", 1)]
    late = check_history(History(ops), "register", time_limit_s=-1.0)
    assert late.valid is Valid.UNKNOWN
    assert late.reason == "the time limit ran out; all 2 events are open"
