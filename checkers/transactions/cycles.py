"""Model ``list-append``: transactions over lists, judged by cycles of what came before what.

Elements are appended once each, so reads tell the order of all appends; from it follow the
dependencies ww (appended behind), wr (read what was appended) and rw (read without what was
appended later), and processes and time add theirs. A cycle among them means that no order
explains all answers; its name says which consistency models do not hold.

Sound and, for lists, complete: VALID under (strict) serializability means that there is an order.
What cannot be decided (elements appended twice, no op at all) is UNKNOWN.

Source: Kingsbury and Alvaro, "Elle: Inferring Isolation Anomalies" (VLDB 2020).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from checkers.limits.budget import (
    MEMORY_LIMIT_BYTES,
    TIME_LIMIT_S,
    Budget,
    BudgetError,
    uncollected,
)
from checkers.transactions.consistency import (
    STRICT,
    forbidden,
    needs_process,
    needs_realtime,
    violated,
)
from checkers.transactions.core import Cores
from checkers.transactions.explain import Explainer
from checkers.transactions.graph import PROCESS, REALTIME, Edges, Graph, graph_of
from checkers.transactions.orders import Found, Orders, orders_of
from checkers.transactions.search import TIERS, Cycle, find_cycles
from checkers.transactions.txns import NEVER, Transactions, transactions_of
from harness.errors import HistoryFormatError, UsageError
from harness.history.formats import read_history
from harness.history.ops import History
from harness.verdict import Anomaly, CheckResult, Valid

NAME: Final = "list-append"
SHOWN_MAX = 20  # anomalies of one name; further ones are only counted


@dataclass(slots=True)
class Judged:
    """The anomalies of a history, before anybody asks which are forbidden."""

    txns: Transactions
    orders: Orders
    graph: Graph
    found: list[Found]
    kinds: int = 0  # of order beside that of dependencies
    budget: Budget | None = None
    gave_up: str | None = None  # which limit was reached; what was found until then stands


def check_file(
    path: Path | str,
    *,
    consistency_model: str = STRICT,
    format: str = "auto",  # noqa: A002 - the option's name
    time_limit_s: float = TIME_LIMIT_S,
    memory_limit_bytes: int | None = MEMORY_LIMIT_BYTES,
) -> CheckResult:
    """Judge a history file of list-append ops or transactions.

    Raises:
        UsageError: An unknown consistency model or format, an op of another kind.
        HistoryFormatError: A file that cannot be read, with ``path:line``.
    """
    forbidden(consistency_model)
    loaded = read_history(path, format)
    try:
        result = check_transactions(
            loaded.history.clients(),
            consistency_model=consistency_model,
            ordered=loaded.conventions.equal_times == "ordered",
            time_limit_s=time_limit_s,
            memory_limit_bytes=memory_limit_bytes,
        )
    except HistoryFormatError as error:
        raise HistoryFormatError(f"{path}: {error}") from error
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    return replace(result, stats={**result.stats, "model": NAME, "format": loaded.format})


def check_transactions(
    history: History,
    *,
    consistency_model: str = STRICT,
    ordered: bool = True,
    time_limit_s: float = TIME_LIMIT_S,
    memory_limit_bytes: int | None = MEMORY_LIMIT_BYTES,
) -> CheckResult:
    """Check that list-append ops keep what a consistency model promises. O(n log n).

    ``ordered`` False: neighbouring events with one time stamp are concurrent.
    ``stats`` names every kind of anomaly with its count, also those that the model allows, and
    the consistency models that do not hold.

    Where a limit is reached (memory is that of the whole process), what was found until then
    stands, and without any the verdict is UNKNOWN.

    Raises:
        UsageError: An unknown consistency model, or an op that is none of ours.
        HistoryFormatError: Ops that do not pair, or values of another shape.
    """
    budget = Budget.of(time_limit_s, memory_limit_bytes)
    with uncollected():  # until nothing of what was looked at is left
        return _checked(history, consistency_model, budget, ordered=ordered)


def _checked(
    history: History, consistency_model: str, budget: Budget, *, ordered: bool
) -> CheckResult:
    names = forbidden(consistency_model)
    judged = judge(
        history,
        process=needs_process(consistency_model),
        realtime=needs_realtime(consistency_model),
        ordered=ordered,
        budget=budget,
    )
    counts = Counter(found.name for found in judged.found)
    bad = [found for found in judged.found if found.name in names]
    reads = sum(len(of_key.reads) for of_key in judged.orders.keys.values())
    reason = _reason(judged)
    verdict = Valid.UNKNOWN if reason else Valid.VALID
    return CheckResult(
        NAME,
        Valid.INVALID if bad else verdict,
        anomalies(judged, bad),
        checked={consistency_model: len(judged.txns), "reads": reads},
        stats={
            "consistency_model": consistency_model,
            "keys": len(judged.orders.keys),
            "anomalies": dict(sorted(counts.items())),
            "not": violated(set(counts)),
        },
        reason=None if bad else reason,
    )


def judge(
    history: History,
    *,
    process: bool = True,
    realtime: bool = True,
    ordered: bool = True,
    budget: Budget | None = None,
) -> Judged:
    """All anomalies of a history, whatever forbids them. Raises as ``check_transactions``."""
    kinds = (PROCESS if process or realtime else 0) | (REALTIME if realtime else 0)
    judged = _nothing(kinds, budget)
    with uncollected():
        try:
            judged.txns = transactions_of(history, ordered=ordered, budget=budget)
            _judge(judged)
        except BudgetError as error:
            judged.gave_up = error.reason
    return judged


def _nothing(kinds: int, budget: Budget | None) -> Judged:
    none = Orders({}, [], bytearray(), [])
    return Judged(Transactions(), none, Edges(0).graph(), [], kinds, budget)


def _judge(judged: Judged) -> None:
    """Fill in, step by step, what is known of its transactions."""
    txns, kinds, budget = judged.txns, judged.kinds, judged.budget
    orders = judged.orders = orders_of(txns, budget, judged.found)
    graph = judged.graph = graph_of(txns, orders, kinds, budget)

    def precedes(one: int, other: int) -> bool:
        return NEVER < txns.ends[one] < txns.begins[other]

    cycles: list[Cycle] = []
    try:
        find_cycles(graph, kinds, precedes, budget, cycles)
    finally:
        explainer = Explainer(txns, orders)
        judged.found += [
            Found(
                cycle.name,
                explainer.sentence(cycle),
                tuple(txn for txn, _, _ in cycle.steps),
                {"cycle": explainer.steps(cycle)},
            )
            for cycle in cycles
        ]


def anomalies(
    judged: Judged, found: list[Found], invariant: Callable[[str], str] = str
) -> tuple[Anomaly, ...]:
    """The first ``SHOWN_MAX`` of each name; ``invariant`` gives each its name.

    Those that break an order of time or of a process only come last, each in order of time.
    """
    shown: Counter[str] = Counter()
    first: list[Found] = []
    for each in found:
        shown[each.name] += 1
        if shown[each.name] <= SHOWN_MAX:
            first.append(each)
    out = [_anomaly(judged.txns, each, invariant(each.name)) for each in _cores(judged, first)]
    out.sort(key=lambda a: (_tier(a.details["anomaly"]), a.time_ns or 0, a.message))
    return tuple(out)


def _cores(judged: Judged, found: list[Found]) -> Iterator[Found]:
    """The same anomalies, each of as few transactions as it takes while the budget lasts."""

    def alone(txns: Transactions) -> list[Found]:
        some = _nothing(judged.kinds, judged.budget)
        some.txns = txns
        _judge(some)
        return some.found

    cores = Cores(judged.txns, judged.orders, alone)
    spent = judged.gave_up is not None
    known: set[tuple[str, str]] = set()  # two may come to the same
    for each in found:
        told = replace(each, details={**each.details, "minimal": False})
        try:
            told = told if spent else cores.of(each)
        except BudgetError:
            spent = True
        if (told.name, told.message) not in known:
            known.add((told.name, told.message))
            yield told


def _tier(name: str) -> int:
    return next(tier for tier in (2, 1, 0) if name.endswith(TIERS[tier][1]))


def _anomaly(txns: Transactions, found: Found, invariant: str) -> Anomaly:
    ends = [end.time_ns for _, end in map(txns.ops.__getitem__, found.txns) if end is not None]
    numbers = [f"op {txns.indices(txn)[-1]}" for txn in dict.fromkeys(found.txns)]
    said = f"{found.message} ({', '.join(numbers)})"
    if "cycle" in found.details:
        told = {f"op {step['from']}" for step in found.details["cycle"]}
        beside = [number for number in numbers if number not in told][:SHOWN_MAX]
        said = found.message + (f"; {' and '.join(beside)} shows it" if beside else "")
    return Anomaly(
        invariant,
        f"{found.name}: {said}",
        ops=tuple(sorted({index for txn in found.txns for index in txns.indices(txn)})),
        details={"anomaly": found.name, **found.details},
        time_ns=max(ends, default=None),
    )


def _reason(judged: Judged) -> str | None:
    """Tell why nothing, or not everything, could be decided; keys that nobody reads are fine."""
    if judged.gave_up:
        return f"{judged.gave_up} ran out; all transactions are open"
    open_ = judged.orders.unrecoverable
    if open_:
        others = f", and of {len(open_) - 1} other keys," if len(open_) > 1 else ""
        return (
            f"elements of key {open_[0]!r}{others} were appended more than once, so that their "
            "order cannot be told: append each only once"
        )
    return None if len(judged.txns) else "no op to judge: nothing was decided"
