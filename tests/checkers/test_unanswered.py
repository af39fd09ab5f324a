"""``unanswered``: kinds of requests that nobody answers."""

from __future__ import annotations

import pytest

from checkers.unanswered import AT_LEAST, unanswered
from harness.contracts.checker import RunData
from harness.history.ops import History, Op
from harness.spec import RunSpec
from harness.verdict import Valid


def history(outcomes: list[tuple[str, str, str]]) -> History:
    """Ops of the form (f, outcome, outcome of a read meanwhile), one after the other."""
    ops = list[Op]()
    for n, (f, outcome, meanwhile) in enumerate(outcomes):
        for process, type_, what in (
            (2 * n, "invoke", f),
            (1, "invoke", "read"),
            (1, meanwhile, "read"),
            (2 * n, outcome, f),
        ):
            ops.append(Op(len(ops), len(ops), process, type_, what, None))  # type: ignore[arg-type]
    return History(ops)


@pytest.mark.parametrize(
    ("outcomes", "found"),
    [
        ([("remove", "info", "ok")] * AT_LEAST, True),
        ([("remove", "info", "fail")] * AT_LEAST, True),
        ([("remove", "info", "ok")] * (AT_LEAST - 1), False),
        ([("remove", "info", "info")] * AT_LEAST, False),  # nobody was answered
        ([*[("remove", "info", "ok")] * AT_LEAST, ("remove", "fail", "ok")], False),
        ([*[("remove", "info", "ok")] * AT_LEAST, ("remove", "ok", "ok")], False),
    ],
)
def test_a_kind_that_nobody_answers_is_found(
    outcomes: list[tuple[str, str, str]], found: bool
) -> None:
    result = unanswered(RunData(RunSpec(1), history(outcomes)))
    assert (result.valid is Valid.INVALID) == found
    if found:
        (anomaly,) = result.anomalies
        assert anomaly.invariant == "L5"
        assert f"remove was asked {AT_LEAST} times and never answered" in anomaly.message
        assert len(anomaly.ops) == AT_LEAST


def test_an_answer_before_or_after_is_none_meanwhile() -> None:
    ops = [Op(0, 0, 1, "invoke", "read", None), Op(1, 1, 1, "ok", "read", None)]
    for n in range(AT_LEAST):
        ops.append(Op(len(ops), 10, n + 2, "invoke", "remove", None))
    for n in range(AT_LEAST):
        ops.append(Op(len(ops), 20, n + 2, "info", "remove", None))
    late = (
        Op(len(ops), 30, 1, "invoke", "read", None),
        Op(len(ops) + 1, 31, 1, "ok", "read", None),
    )
    assert unanswered(RunData(RunSpec(1), History([*ops, *late]))).valid is Valid.VALID
    around = (ops[0], *ops[2:], Op(len(ops), 30, 1, "ok", "read", None))
    numbered = [Op(i, o.time_ns, o.process, o.type, o.f, None) for i, o in enumerate(around)]
    assert unanswered(RunData(RunSpec(1), History(numbered))).valid is Valid.VALID
