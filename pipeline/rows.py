"""A run as rows of the tables: its ops, batches and faults, as Arrow says them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import floor, log2
from typing import Any, Final

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]

from checkers.timeline.windows import FaultWindow, in_force
from harness.contracts.checker import RunData
from harness.history.ops import NEMESIS, Op
from harness.store.signatures import signature
from harness.verdict import Anomaly
from pipeline.names import RunName
from pipeline.schemas import BATCHES, FAULTS, KEYED_OPS, LATENCIES, OPS, TAIL

NO_FAULT: Final = "none"
BUCKETS_PER_DOUBLING: Final = 4
_INT64 = 1 << 63
_ENCODE = msgspec.json.Encoder().encode


def op_rows(name: RunName, ops: Sequence[Op]) -> Iterator[pa.RecordBatch]:
    """Rows of OPS for a history."""
    columns: dict[str, Sequence[Any]] = {
        column: [getattr(op, column) for op in ops]
        for column in ("index", "time_ns", "type", "f", "key", "error", "node")
    }
    columns["process"] = [str(op.process) for op in ops]
    columns["is_process_int"] = [isinstance(op.process, int) for op in ops]
    columns["value"] = [_ENCODE(op.value).decode() for op in ops]
    columns["latency_ns"] = [
        None if began is None else op.time_ns - began for began, op in _begun(ops)
    ]
    yield _batch(OPS, name, len(ops), columns)


def _begun(ops: Iterable[Op]) -> Iterator[tuple[int | None, Op]]:
    """Each op with when its process had invoked it; None: it is an invocation, or that is lost."""
    invoked: dict[int | str, int] = {}
    for op in ops:
        if op.type == "invoke":
            invoked[op.process] = op.time_ns
            yield None, op
        else:
            yield invoked.pop(op.process, None), op


def op_of(row: Mapping[str, Any]) -> Op:
    """The op that a row of OPS was made of."""
    return Op(
        index=row["index"],
        time_ns=row["time_ns"],
        process=int(row["process"]) if row["is_process_int"] else row["process"],
        type=row["type"],
        f=row["f"],
        value=msgspec.json.decode(row["value"]),
        key=row["key"],
        error=row["error"],
        node=row["node"],
    )


def batch_rows(
    name: RunName, data: RunData, exposed: Mapping[int, int]
) -> Iterator[pa.RecordBatch]:
    """Rows of BATCHES for the logs of a run; ``exposed`` are the nodes' high watermarks."""
    for node, log in data.logs.items():
        number = node.removeprefix("n")
        mark = exposed.get(int(number)) if number.isdecimal() else None
        own = {
            "base": [batch.base for batch in log],
            "last": [batch.last for batch in log],
            "batch_epoch": [batch.epoch for batch in log],
            "crc": [batch.crc for batch in log],
        }
        tails = zip(TAIL, own.values(), strict=True)
        columns: dict[str, Sequence[Any]] = {
            "node": [node] * len(log),
            "place": range(len(log)),
            "final": [data.history.stopped is None] * len(log),
            "covered": [mark is not None and last < mark for last in own["last"]],
            **own,
            **{column: [None, *values[:-1]] for column, values in tails if log},
        }
        yield _batch(BATCHES, name, len(log), columns)


def fault_rows(
    name: RunName, windows: Sequence[FaultWindow], recoveries: Iterable[Mapping[str, Any]]
) -> Iterator[pa.RecordBatch]:
    """Rows of FAULTS; ``recoveries`` are those of the checker ``availability``."""
    took = {str(each["fault"]): each["recovery_ms"] for each in recoveries}
    columns: dict[str, Sequence[Any]] = {
        column: [getattr(window, column) for window in windows]
        for column in ("nemesis", "start_ns", "end_ns", "outcome", "evidence", "heal_evidence")
    }
    columns["fault"] = [str(window.id) for window in windows]
    columns["recovery_ms"] = [took.get(str(window.id)) for window in windows]
    yield _batch(FAULTS, name, len(windows), columns)


def latency_rows(
    run: str, history: Iterable[Op], windows: Sequence[FaultWindow]
) -> list[dict[str, Any]]:
    """Rows of LATENCIES: ok ops by f, by what may have been in force, and by how long they took.

    An op during two faults counts for both.
    """
    counts: Counter[tuple[str, str, int]] = Counter()
    faults = in_force(windows)
    for began, op in _begun(history):
        if began is None or op.type != "ok" or op.process == NEMESIS:
            continue
        micros = max((op.time_ns - began) / 1_000, 1.0)
        bucket = floor(log2(micros) * BUCKETS_PER_DOUBLING)
        during = [each.nemesis for each in faults if each.overlaps(began, op.time_ns)]
        for nemesis in during or (NO_FAULT,):
            counts[op.f, nemesis, bucket] += 1
    names = LATENCIES.names
    return [dict(zip(names, (run, *kind, count), strict=True)) for kind, count in counts.items()]


def keyed_op_rows(name: RunName, checker: str, ops: Sequence[Op]) -> Iterator[pa.RecordBatch]:
    """Rows of KEYED_OPS for the ops that a checker judges key by key, in their order."""
    for made in op_rows(name, ops):
        columns = [pa.repeat(pa.scalar(checker), len(ops)), pa.array(range(len(ops)), pa.int64())]
        yield pa.RecordBatch.from_arrays([*columns, *made.columns], schema=KEYED_OPS)


def anomaly_rows(run: str, by: str, found: Iterable[tuple[str, Anomaly]]) -> list[dict[str, Any]]:
    """Rows of ANOMALIES for anomalies and their checkers."""
    return [
        {
            "run": run,
            "checker": checker,
            "by": by,
            "invariant": anomaly.invariant,
            "message": anomaly.message,
            "signature": signature(anomaly.invariant, anomaly.message),
            "time_ns": anomaly.time_ns,
            "ops": list(anomaly.ops),
            "details": _ENCODE({"events": anomaly.events, "details": anomaly.details}).decode(),
        }
        for checker, anomaly in found
    ]


def rows(schema: pa.Schema, found: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    """Rows of any table from objects; what an object lacks is null."""
    names = schema.names
    columns = {name: [each.get(name) for each in found] for name in names}
    return pa.RecordBatch.from_pydict(columns, schema=schema)


def _batch(
    schema: pa.Schema, name: RunName, count: int, columns: Mapping[str, Sequence[Any]]
) -> pa.RecordBatch:
    own = name._asdict()
    arrays = [
        pa.repeat(pa.scalar(own[field.name]), count)
        if field.name in own
        else column(columns.get(field.name, [None] * count), field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """The values as a column; those of another type than it has become null."""
    try:
        return pa.array(values, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([value if _fits(value, kind) else None for value in values], kind)


def _fits(value: Any, kind: pa.DataType) -> bool:
    if pa.types.is_integer(kind):
        return type(value) is int and -_INT64 <= value < _INT64
    if pa.types.is_boolean(kind):
        return type(value) is bool
    return isinstance(value, str)
