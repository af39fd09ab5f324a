"""``linearizable``: is there one order of all ops that explains every answer and agrees with time?

``check_history`` judges any history against any model, ``check_file`` a history file; the checker
``linearizable`` judges the registers of a run. Every key is judged on its own (linearizability is
local: Herlihy and Wing 1990). Exact: VALID and INVALID are proofs, and what a limit leaves open
is UNKNOWN, with the key and the ops that are undecided.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from checkers.committed.pruning import pruned
from checkers.limits.budget import (
    CONFIGURATIONS_MAX,
    MEMORY_LIMIT_BYTES,
    TIME_LIMIT_S,
    Budget,
    BudgetError,
    uncollected,
)
from checkers.linearizability.calls import Call, Calls, calls_of, event_places
from checkers.linearizability.columns import Columns
from checkers.linearizability.explain import explain
from checkers.linearizability.fast import Decision, decide, history_of
from checkers.linearizability.methods import EXPLAIN_S, judge
from checkers.linearizability.parallel import each
from checkers.linearizability.search import Outcome
from checkers.models.registers import CasRegister
from harness.contracts.checker import RunData
from harness.contracts.meaning import Meaning
from harness.contracts.model import Judge, JudgeBesides, Model, Starts
from harness.contracts.workload import LOCAL
from harness.errors import HistoryFormatError, UsageError
from harness.history.formats import Conventions, read_history
from harness.history.ops import History
from harness.registry import checkers, models
from harness.run.guard import guarded_judge
from harness.verdict import Anomaly, CheckResult, Valid

__all__ = [
    "MEMORY_LIMIT_BYTES",
    "TIME_LIMIT_S",
    "Columns",
    "Decision",
    "check_columns",
    "check_file",
    "check_history",
    "decide",
    "linearizable",
]

NAME = "linearizable"
INVARIANT = "linearizability"
ANOMALIES_MAX = 20  # explained; further keys are only counted
REGISTER_FS = frozenset(("read", "write", "cas"))
LINEARIZABILITY = Meaning(
    "linearizability",
    promise=(
        "One order of all operations explains every answer that clients got, with each operation "
        "at one moment between its request and its answer."
    ),
    why=(
        "A client reads an old value after a newer one was confirmed, or two clients both win a "
        "compare-and-set that only one may win. Whatever relies on the answers, such as a lock, "
        "fails."
    ),
    source="Herlihy and Wing, 1990; Wing and Gong, 1993; Porcupine",
)


@checkers.register(NAME, judges=(LINEARIZABILITY,))
def linearizable(run: RunData) -> CheckResult:
    """Reads, writes and cas of every key can be linearized.

    Local reads are not linearizable by promise and are left out. Model: a register with
    compare-and-set, initially nil. Assumes: ops with a key; order of index is real order. What
    became of an op of unknown outcome is taken from the committed log, where that was read back.
    """
    ops = History(op for op in pruned(run).clients() if op.f in REGISTER_FS)
    return check_history(ops, CasRegister(), conventions=Conventions(equal_times="ordered"))


def check_file(
    path: Path | str,
    *,
    model: str | None = None,
    format: str = "auto",  # noqa: A002 - the option's name
    initial: str | None = None,
    time_limit_s: float = TIME_LIMIT_S,
    memory_limit_bytes: int | None = MEMORY_LIMIT_BYTES,
) -> CheckResult:
    """Judge a history file; what ``krucible check`` calls.

    ``model`` is a name of the registry; None takes the format's own, or guesses by the ops.
    ``initial`` is JSON (``0``, ``null``), ``nil``, or plain text; None takes the format's own.
    Nemesis ops and local reads, which are not linearizable by promise, are left out.

    Raises:
        UsageError: An unknown model or format, no guess possible, an op that the model lacks.
        HistoryFormatError: A file that cannot be read, with ``path:line``.
        GuardError: A model whose ``check`` takes or returns something else than it should.
    """
    loaded = read_history(path, format)
    clients = History(op for op in loaded.history.clients() if not op.f.startswith(LOCAL))
    name = model or loaded.conventions.model or _guess(clients, path)
    conventions = loaded.conventions
    object_ = models.get(name)()
    if initial is not None:
        conventions = replace(conventions, initial=_initial(initial))
    elif conventions.model != name:
        first = object_.initial if isinstance(object_, Starts) else None
        conventions = replace(conventions, initial=first)
    try:
        result: CheckResult = _judge(name, object_)(
            clients,
            conventions=conventions,
            time_limit_s=time_limit_s,
            memory_limit_bytes=memory_limit_bytes,
        )
    except HistoryFormatError as error:
        raise HistoryFormatError(f"{path}: {error}") from error
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    return replace(result, stats={**result.stats, "model": name, "format": loaded.format})


def _judge(name: str, model: Any) -> Callable[..., CheckResult]:
    """Tell how a model has its histories judged."""
    if isinstance(model, Judge):
        return guarded_judge(name, model.check)
    if isinstance(model, JudgeBesides):
        return guarded_judge(name, partial(model.check_with, check_history))
    return partial(check_history, model=model)


def check_history(
    history: History,
    model: Model | str,
    *,
    conventions: Conventions | None = None,
    time_limit_s: float = TIME_LIMIT_S,
    memory_limit_bytes: int | None = MEMORY_LIMIT_BYTES,
    configurations_max: int = CONFIGURATIONS_MAX,
    invariant: str = INVARIANT,
) -> CheckResult:
    """Judge the client ops of a history, all of which the model must know, key by key.

    ``conventions`` None means the model's own initial state and our rules (a failed op did not
    happen). Limits give UNKNOWN, never an error.

    Raises:
        UsageError: An op that the model does not know.
        HistoryFormatError: Ops that do not pair, or have values that they cannot have.
    """
    object_: Model = models.get(model)() if isinstance(model, str) else model
    rules = conventions or Conventions(initial=object_.initial)
    budget = Budget.of(time_limit_s, memory_limit_bytes, configurations_max)
    check = _Check(object_, rules, budget, invariant)
    with uncollected():
        try:
            return _check_history(history, object_, rules, check, budget)
        except BudgetError as error:  # before there was anything to search
            reason = f"{error.reason} ran out; all {len(history)} events are open"
            return CheckResult(NAME, Valid.UNKNOWN, checked={invariant: 0}, reason=reason)


def _check_history(
    history: History, model: Model, rules: Conventions, check: _Check, budget: Budget
) -> CheckResult:
    places, blurred = event_places(history, rules, budget)
    result = check.run(calls_of(history, model, rules, places=places, budget=budget))
    if not blurred or result.valid is not Valid.VALID:
        return result
    # Valid with overlapping ops of one process allowed; is it without?
    ordered = replace(rules, equal_times="ordered")
    places, _ = event_places(history, ordered, budget)
    strict = check.run(calls_of(history, model, ordered, places=places, budget=budget))
    if strict.valid is Valid.VALID:
        return result
    return replace(
        result,
        valid=Valid.UNKNOWN,
        reason="the verdict depends on the order of events with equal times: the order in the "
        "file is not linearizable, but another order may be; record finer times",
    )


def check_columns(
    columns: Columns,
    model: Model | str = "cas-register",
    *,
    initial: Any = None,
    time_limit_s: float = TIME_LIMIT_S,
    memory_limit_bytes: int | None = MEMORY_LIMIT_BYTES,
) -> CheckResult:
    """Judge a history given as columns: the verdict of ``decide``, and the first key that fails.

    The numbers of ops in the explanation are those of the key's events in the order of time; the
    process of an op is its row.

    Raises:
        HistoryFormatError: Columns that do not agree, are not sorted, or have impossible values.
    """
    columns.check()
    object_: Model = models.get(model)() if isinstance(model, str) else model
    first = object_.initial if initial is None else initial
    budget = Budget.of(time_limit_s, memory_limit_bytes)
    found = decide(
        columns,
        object_,
        initial=first,
        time_limit_s=time_limit_s,
        memory_limit_bytes=memory_limit_bytes,
    )
    anomalies: tuple[Anomaly, ...] = ()
    if found.valid is Valid.INVALID:
        one = columns.take(found.rows, keep_key=True)
        told = check_history(
            history_of(one),
            object_,
            conventions=Conventions(initial=first, failed_cas="observation", equal_times="ordered"),
            time_limit_s=min(EXPLAIN_S, budget.left_s() + 1),
            memory_limit_bytes=memory_limit_bytes,
        )
        what = f"key {found.key!r}: no order explains all answers"
        anomalies = told.anomalies or (Anomaly(INVARIANT, what, details={"key": found.key}),)
    keys = 1 if columns.key is None else len(set(columns.key))
    reason = None
    if found.valid is Valid.UNKNOWN:
        where = "" if found.at is None else f" at row {found.at}"
        reason = f"{found.reason} ran out for key {found.key!r}{where}"
    return CheckResult(
        NAME,
        found.valid if len(columns) else Valid.UNKNOWN,
        anomalies,
        checked={INVARIANT: len(columns), "keys": keys},
        stats={"undecided": [str(key) for key in found.undecided], "at_row": found.at},
        reason=reason if len(columns) else "no op to judge: nothing was decided",
    )


class _Check:
    """One check of all keys under one budget."""

    def __init__(
        self,
        model: Model,
        rules: Conventions,
        budget: Budget,
        invariant: str,
    ) -> None:
        self._model = model
        self._start = model.start(rules.initial)
        self._budget = budget
        self._invariant = invariant
        self._layer_max = 0
        self._methods: Counter[str] = Counter()

    def run(self, calls: Calls) -> CheckResult:
        """Judge all keys, those with the fewest calls first."""
        anomalies: list[Anomaly] = []
        undecided: list[dict[str, Any]] = []
        violations = 0
        parts = list(calls.by_key.items())
        for (key, of_key), (method, outcome) in each(
            parts, self._judge, lambda part: len(part[1]), self._budget
        ):
            self._methods[method] += 1
            self._layer_max = max(self._layer_max, outcome.layer_max)
            if outcome.linearizable is None:
                undecided.append(_undecided(key, of_key, outcome))
            elif not outcome.linearizable:
                violations += 1
                if len(anomalies) < ANOMALIES_MAX:
                    anomalies.append(self._anomaly(key, of_key, outcome))
        anomalies.sort(key=lambda anomaly: anomaly.time_ns or 0)
        n = sum(map(len, calls.by_key.values()))
        return CheckResult(
            NAME,
            _verdict(violations, undecided, len(calls.by_key)),
            tuple(anomalies),
            checked={self._invariant: n, "keys": len(calls.by_key)},
            stats={
                "ops": dict(sorted(calls.counts.items())),
                "keys": len(calls.by_key),
                "methods": dict(sorted(self._methods.items())),
                "violations": violations,
                "undecided": undecided,
                "configurations": self._budget.used,
                "configurations_at_once_max": self._layer_max,
            },
            reason=_reason(undecided, len(calls.by_key)),
        )

    def _judge(self, part: tuple[Hashable, Sequence[Call]], budget: Budget) -> tuple[str, Outcome]:
        return judge(part[1], self._model, self._start, budget)

    def _anomaly(self, key: Hashable, of_key: Sequence[Call], outcome: Outcome) -> Anomaly:
        where = "" if key is None else f"key {key!r}: "
        stuck = outcome.at
        if stuck is None or stuck.interval.completion is None or not outcome.calls:
            return self._short(key, where, stuck)
        limit_s = min(EXPLAIN_S, self._budget.left_s() + 1)
        starts = outcome.starts or [self._start]
        whole = of_key, self._start
        explanation = explain(outcome.calls, self._model, starts, outcome, whole, limit_s)
        return Anomaly(
            self._invariant,
            where + explanation.sentence,
            ops=explanation.ops,
            details={"key": key, **explanation.details},
            time_ns=stuck.interval.completion.time_ns,
        )

    def _short(self, key: Hashable, where: str, stuck: Call | None) -> Anomaly:
        """Tell what is left to say when the limits leave no room for an explanation."""
        what = "" if stuck is None else f"; nothing explains op {stuck.index} any more"
        return Anomaly(
            self._invariant,
            f"{where}no order explains all answers{what} (the limits left no time to say why)",
            ops=() if stuck is None else (stuck.index,),
            details={"key": key},
            time_ns=None if stuck is None else stuck.interval.invocation.time_ns,
        )


def _verdict(violations: int, undecided: list[dict[str, Any]], keys: int) -> Valid:
    if violations:
        return Valid.INVALID
    return Valid.UNKNOWN if undecided or not keys else Valid.VALID


def _undecided(key: Hashable, calls: list[Call], outcome: Outcome) -> dict[str, Any]:
    """Tell which key is open, why, and which ops, leaving out those that some order explains.

    ``window`` goes from the first op that had not returned where the search had come to (one that
    never did has no place) to the last op of the key; ``None`` where there is none.
    """
    reached = 0 if outcome.at is None else outcome.at.end or 0
    open_ = [call.index for call in calls if call.end is not None and call.end >= reached]
    done = sum(call.end is not None and call.end < reached for call in calls)
    return {
        "key": key,
        "reason": outcome.reason,
        "at_op": None if outcome.at is None else outcome.at.index,
        "ops": len(calls),
        "explained": done,
        "window": [min(open_), max(call.index for call in calls)] if open_ else None,
    }


def _reason(undecided: list[dict[str, Any]], keys: int) -> str | None:
    if not keys:
        return "no op to judge: nothing was decided"
    if not undecided:
        return None
    first = undecided[0]
    window = first["window"]
    where = f"; ops {window[0]} to {window[1]} are open" if window else ""
    return (
        f"{first['reason']} ran out for key {first['key']!r} at op {first['at_op']} "
        f"({first['explained']} of its {first['ops']} ops are explained{where}); "
        f"{len(undecided)} of {keys} keys undecided, the others are decided"
    )


_GUESSES = (
    (frozenset(("read", "write")), "register"),
    (frozenset(("read", "write", "cas")), "cas-register"),
    (frozenset(("get", "put", "append")), "kv-append"),
    (frozenset(("acquire", "release")), "mutex"),
    (frozenset(("add", "remove", "read")), "set"),
    (frozenset(("create", "delete", "describe")), "topics"),
)


def _guess(history: History, path: Path | str) -> str:
    """The model that knows all ops of a history."""
    fs = frozenset(op.f for op in history)
    for known, name in _GUESSES:
        if fs and fs <= known:
            return name
    raise UsageError(
        f"{path}: no model is known for ops {', '.join(sorted(fs)) or '(none)'}: name one with "
        f"--model; there are {', '.join(models.names())}"
    )


def _initial(text: str) -> Any:
    if text == "nil":
        return None
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
