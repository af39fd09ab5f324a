"""The events of a run as rows of EVENTS and LIVES: as they were told, and what the fold knows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from checkers.replay.trace import Event
from pipeline.names import RunName
from pipeline.replicas import FOLDED, Folded, Row
from pipeline.rows import column
from pipeline.schemas import EVENT_FIELDS, EVENTS, LIVES

_COMMON = {"node": "node", "dir": "dir", "epoch": "ep", "time_ns": "rx_ns"}
_FIELDS: dict[str, dict[str, str]] = defaultdict(lambda: dict(_COMMON))  # by type, by column
for _column, (_field, _types) in EVENT_FIELDS.items():
    for _type in _types:
        _FIELDS[_type][_column] = _field
_APPEND = "append"


def event_rows(name: RunName, folded: Folded) -> Iterator[pa.RecordBatch]:
    """Rows of EVENTS, each batch with those of its columns that events of its type have."""
    for kind, (events, rows) in folded.rows.items():
        if kind != _APPEND:
            own = {"type": [kind] * len(events), "inc": _values(events, "inc")}
            yield _batch(EVENTS, name, _told(kind, events, rows) | own)


def life_rows(name: RunName, folded: Folded) -> Iterator[pa.RecordBatch]:
    """Rows of LIVES."""
    if _APPEND in folded.rows:
        yield _batch(LIVES, name, _told(_APPEND, *folded.rows[_APPEND]))


def _told(kind: str, events: Sequence[Event], rows: Sequence[Row]) -> dict[str, Sequence[Any]]:
    """The columns of events of one type, but for the run's own."""
    told = {column: _values(events, field) for column, field in _FIELDS[kind].items()}
    return told | dict(zip(FOLDED[kind], zip(*rows, strict=True), strict=True))


def _values(events: Sequence[Event], field: str) -> Sequence[Any]:
    """A field of each event; null of those that lack it."""
    try:
        return list(map(itemgetter(field), events))  # in half the time
    except KeyError:
        return [event.get(field) for event in events]


def _batch(
    schema: pa.Schema, name: RunName, columns: Mapping[str, Sequence[Any]]
) -> pa.RecordBatch:
    fields = [field for field in schema if field.name in columns]
    arrays = [column(columns[field.name], field.type) for field in fields]
    own = name._asdict()
    arrays += [pa.repeat(pa.scalar(value), len(arrays[0])) for value in own.values()]
    fields += [schema.field(key) for key in own]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
