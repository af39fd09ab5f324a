"""Checkers that judge key by key: one call for each (run, key), by the same pure checkers.

Linearizability is local (Herlihy and Wing 1990) and a list is judged by itself, so that the keys of
a run are judged wherever there is room, each with a budget of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from checkers.linearizable import INVARIANT, REGISTER_FS, linearizable
from checkers.list_append import FS as LIST_FS
from checkers.list_append import ORDER, list_append
from harness.contracts.checker import RunData
from harness.errors import HarnessError
from harness.history.ops import NEMESIS, History, Op
from harness.spec import RunSpec
from harness.verdict import CheckResult, Valid
from pipeline.rows import anomaly_rows, op_of, rows
from pipeline.schemas import ANOMALIES, KEYS

# From so many ops on a key is judged wherever there is room, and not where its run is read.
SPREAD_OPS = 2_000
JUDGED_KEYS = pa.schema([*KEYS, pa.field("anomalies", pa.list_(pa.struct(list(ANOMALIES))))])


@dataclass(frozen=True, slots=True)
class KeyedChecker:
    """A checker that judges each key by itself, with what the whole run's logs say of an op.

    ``needs`` is a count of ``CheckResult.checked`` without which a key decides nothing.
    """

    check: Callable[[RunData], CheckResult]
    fs: frozenset[str]
    needs: str

    def asks(self, op: Op) -> bool:
        """Tell whether the checker looks at an op."""
        return op.f in self.fs and op.process != NEMESIS


KEYED: Mapping[str, KeyedChecker] = {
    "linearizable": KeyedChecker(linearizable, REGISTER_FS, INVARIANT),
    "list-append": KeyedChecker(list_append, LIST_FS, ORDER),
}


def judge_group(group: pa.Table) -> pa.Table:
    """A row of JUDGED_KEYS for one group of rows of KEYED_OPS: the ops of one key of one run."""
    ops: list[dict[str, Any]] = group.sort_by("place").to_pylist()
    run, key, checker = (ops[0][name] for name in ("run", "key", "checker"))
    row = judge_key(run, key, checker, list(map(op_of, ops)))
    return pa.Table.from_batches([rows(JUDGED_KEYS, [row])])


def by_key(checker: str, ops: Iterable[Op]) -> dict[str | None, list[Op]]:
    """The ops that a checker looks at, by key, in their order."""
    found: dict[str | None, list[Op]] = defaultdict(list)
    asks = KEYED[checker].asks
    for op in ops:
        if asks(op):
            found[op.key].append(op)
    return found


def judge_key(run: str, key: str | None, checker: str, ops: Sequence[Op]) -> dict[str, Any]:
    """A row of JUDGED_KEYS, as an object, for the ops of one key of a run."""
    result = _judge(checker, History(ops))
    nothing = result.valid is Valid.UNKNOWN and result.checked.get(KEYED[checker].needs) == 0
    return {
        "run": run,
        "key": key,
        "checker": checker,
        "valid": None if nothing else str(result.valid),
        "reason": result.reason,
        "ops": len(ops),
        "anomalies": anomaly_rows(run, "key", [(checker, each) for each in result.anomalies]),
    }


def _judge(checker: str, ops: History) -> CheckResult:
    """Judge the ops of one key; ops that no checker can read are UNKNOWN with the reason."""
    try:
        return KEYED[checker].check(RunData(spec=RunSpec(seed=0), history=ops))
    except HarnessError as error:
        return CheckResult(checker, Valid.UNKNOWN, reason=f"the checker broke: {error}")
