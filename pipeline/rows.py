"""A run as rows of the tables: its events, ops, batches and faults, as Arrow says them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]

from checkers.invariants.trace import Whole
from checkers.timeline.windows import fault_windows
from harness.history import Op
from harness.protocols import RunData
from harness.signatures import signature
from harness.verdict import Anomaly
from pipeline.names import RunName
from pipeline.schemas import BATCHES, EVENT_FIELDS, EVENT_TYPES, EVENTS, FAULTS, KEYED_OPS, OPS

_Stream = tuple[int, str, int]  # node, directory id, incarnation
_Replica = tuple[int, str]  # node, directory id
_Knowledge = tuple[dict[_Replica, int], set[_Stream], dict[_Stream, int]]
_stream: Callable[[Mapping[str, Any]], _Stream] = itemgetter("node", "dir", "inc")
_replica: Callable[[Mapping[str, Any]], _Replica] = itemgetter("node", "dir")
_INT64 = 1 << 63
_ENCODE = msgspec.json.Encoder().encode
_NO_EVENTS = EVENTS.empty_table()
# The names of the common columns in an event; the others are made here.
_COMMON = {"node": "node", "dir": "dir", "inc": "inc", "seq": "seq", "type": "t", "epoch": "ep"}
_COMMON |= {"time_ns": "rx_ns"}
# Columns whose field has another name by type.
_RENAMED = {
    "start": {"flushed": "flushed", "log_start": "log_start"},
    "flush": {"flushed": "upto"},
    "lstart": {"log_start": "v"},
}
_BY_TYPE: dict[str, list[tuple[str, str]]] = defaultdict(list)
for _column, (_field, _, _types) in EVENT_FIELDS.items():
    for _type in _types:
        _BY_TYPE[_type].append((_column, _field))


def event_rows(name: RunName, trace: Whole) -> Iterator[pa.RecordBatch]:
    """Rows of EVENTS for the whole events of a run that are kept, by replica and ord."""
    by_type: dict[str, list[tuple[int, Mapping[str, Any]]]] = {kind: [] for kind in EVENT_TYPES}
    keep = by_type.get
    for ord_, event in enumerate(trace.events):
        found = keep(event["t"])
        if found is not None:
            found.append((ord_, event))
    knowledge = _knowledge(trace)
    tables = [
        _events_of(kind, found, knowledge) for kind, found in sorted(by_type.items()) if found
    ]
    if not tables:
        return
    together = pa.concat_tables([_NO_EVENTS, *tables], promote_options="default")
    sorted_ = together.sort_by([(column, "ascending") for column in ("replica", "ord")])
    for column, value in name._asdict().items():
        same = pa.repeat(pa.scalar(value), sorted_.num_rows)
        sorted_ = sorted_.set_column(EVENTS.get_field_index(column), EVENTS.field(column), same)
    yield from sorted_.select(EVENTS.names).cast(EVENTS).combine_chunks().to_batches()


def _events_of(
    kind: str, found: Sequence[tuple[int, Mapping[str, Any]]], knowledge: _Knowledge
) -> pa.Table:
    """Events of one type, with those columns of EVENTS that they have, but for the run's own."""
    events = [event for _, event in found]
    columns: dict[str, Sequence[Any]] = {
        column: _values(events, field)
        for column, field in (*_COMMON.items(), *_BY_TYPE.get(kind, ()))
    }
    columns["ord"] = [ord_ for ord_, _ in found]
    if kind == "start":
        columns |= _quorum_states(events)
    if kind == "snap":
        columns["snapshot_end"] = [event["id"][0] for event in events]
    for column, field in _RENAMED.get(kind, {}).items():
        columns[column] = [event[field] for event in events]
    replicas, unknown, eras = knowledge
    columns["replica"] = [replicas[_replica(event)] for event in events]
    columns["known"] = _each(events, lambda stream: stream not in unknown, bool(unknown))
    columns["era"] = _each(events, lambda stream: eras.get(stream, 0), bool(eras))
    fields = [EVENTS.field(name) for name in columns]
    arrays = [_array(columns[field.name], field.type, len(found)) for field in fields]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _values(events: Sequence[Mapping[str, Any]], field: str) -> list[Any]:
    """A field of each event; null of those that lack it."""
    try:
        return list(map(itemgetter(field), events))  # in half the time
    except KeyError:
        return [event.get(field) for event in events]


def _each(
    events: Sequence[Mapping[str, Any]], says: Callable[[_Stream], Any], differs: bool
) -> list[Any]:
    """What is said of each event's incarnation; mostly it is the same of all."""
    if differs:
        return [says(_stream(event)) for event in events]
    return [says(_stream(events[0]))] * len(events)


def _knowledge(trace: Whole) -> _Knowledge:
    """Numbers of the replicas, the incarnations whose disks are not known, eras other than 0.

    What was known before such an incarnation does not count after it: another era.
    """
    streams = list(map(_stream, trace.events))
    begin = dict(zip(reversed(streams), range(len(streams) - 1, -1, -1), strict=True))
    firsts = {stream: trace.events[at]["t"] for stream, at in begin.items()}
    unknown = {
        stream
        for stream, first in firsts.items()
        if first not in ("start", "disk") or (stream[0], stream[2]) in trace.intake.blind
    }
    eras: dict[_Stream, int] = {}
    last: dict[tuple[int, str], _Stream] = {}
    for stream in sorted(begin, key=begin.__getitem__) if unknown else ():
        before = last.get(stream[:2])
        if before is not None:
            eras[stream] = eras.get(before, 0) + (before in unknown)
        last[stream[:2]] = stream
    replicas = {replica: n for n, replica in enumerate(sorted({of[:2] for of in begin}))}
    return replicas, unknown, eras


def _quorum_states(events: Iterable[Mapping[str, Any]]) -> dict[str, Sequence[Any]]:
    """What starts say of the quorum-state file."""
    states = [event["qs"] for event in events]
    fields = {"disk_epoch": "ep", "leader": "leader", "voted": "voted", "voted_dir": "voted_dir"}
    return {column: [state.get(field) for state in states] for column, field in fields.items()}


def op_rows(name: RunName, ops: Sequence[Op]) -> Iterator[pa.RecordBatch]:
    """Rows of OPS for a history."""
    invoked: dict[int | str, int] = {}
    latencies: list[int | None] = []
    for op in ops:
        if op.type == "invoke":
            invoked[op.process] = op.time_ns
            latencies.append(None)
        else:
            began = invoked.pop(op.process, None)
            latencies.append(None if began is None else op.time_ns - began)
    columns: dict[str, Sequence[Any]] = {
        column: [getattr(op, column) for op in ops]
        for column in ("index", "time_ns", "type", "f", "key", "error", "node")
    }
    columns["process"] = [str(op.process) for op in ops]
    columns["is_process_int"] = [isinstance(op.process, int) for op in ops]
    columns["value"] = [_ENCODE(op.value).decode() for op in ops]
    columns["latency_ns"] = latencies
    yield _batch(OPS, name, len(ops), columns)


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


def batch_rows(name: RunName, data: RunData) -> Iterator[pa.RecordBatch]:
    """Rows of BATCHES for the logs of a run."""
    found = [(node, place, b) for node, log in data.logs.items() for place, b in enumerate(log)]
    columns: dict[str, Sequence[Any]] = {
        "node": [node for node, _, _ in found],
        "place": [place for _, place, _ in found],
        "final": [data.history.stopped is None] * len(found),
        "base": [batch.base for _, _, batch in found],
        "last": [batch.last for _, _, batch in found],
        "batch_epoch": [batch.epoch for _, _, batch in found],
        "crc": [batch.crc for _, _, batch in found],
    }
    yield _batch(BATCHES, name, len(found), columns)


def fault_rows(
    name: RunName, data: RunData, recoveries: Iterable[Mapping[str, Any]]
) -> Iterator[pa.RecordBatch]:
    """Rows of FAULTS; ``recoveries`` are those of the checker ``availability``."""
    took = {str(each["fault"]): each["recovery_ms"] for each in recoveries}
    windows = fault_windows(data.history)
    columns: dict[str, Sequence[Any]] = {
        column: [getattr(window, column) for window in windows]
        for column in ("nemesis", "start_ns", "end_ns", "outcome", "evidence", "heal_evidence")
    }
    columns["fault"] = [str(window.id) for window in windows]
    columns["recovery_ms"] = [took.get(str(window.id)) for window in windows]
    yield _batch(FAULTS, name, len(windows), columns)


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
        else _array(columns.get(field.name), field.type, count)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(values: Sequence[Any] | None, kind: pa.DataType, count: int) -> pa.Array:
    """The values as a column; those of another type than it has become null."""
    if values is None:
        return pa.nulls(count, kind)
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
