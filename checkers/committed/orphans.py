"""Settings of deleted topics that a state still has, and what that state is without them.

Apache Kafka leaves such settings behind: docs/findings.md, a deleted topic's settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from checkers.committed.effects import topic_id, topic_of_record
from harness.contracts.evidence import LogBatch
from node.metadata.state import TOPIC

Record = Mapping[str, Any]


class Deletions:
    """Names of topics that the committed log deletes; it is given all of that log in its order."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._names: dict[str, str] = {}  # of topics, by id
        self._first: dict[str, int] = {}  # by name: the end of the batch that first deletes it
        for record in records:
            self._record(record, 0)

    def batch(self, batch: LogBatch) -> None:
        """Take in the next batch. O(its records)."""
        for record in batch.records:
            self._record(record, batch.last + 1)

    def had_all(self, names: Iterable[str], below: int) -> bool:
        """Tell whether each of the names is one of a topic that was deleted below an offset."""
        return all(self._first.get(name, below + 1) <= below for name in names)

    def _record(self, record: Record, end: int) -> None:
        created = topic_of_record(record)
        if created is not None:
            name, id_ = created
            self._names[id_] = name
        elif record.get("type") == "RemoveTopicRecord":
            removed = self._names.get(topic_id(record["fields"].get("topic_id")))
            if removed is not None:
                self._first.setdefault(removed, end)


def without_orphans(records: Sequence[Record]) -> tuple[Sequence[Record], tuple[str, ...]]:
    """Give a snapshot's records without settings of topics that it has not, and their names."""
    topics = {topic[0] for topic in map(topic_of_record, records) if topic is not None}
    names, kept = set[str](), list[Record]()
    for record in records:
        owner = _topic_of_setting(record)
        if owner is None or owner in topics:
            kept.append(record)
        else:
            names.add(owner)
    return (kept, tuple(sorted(names))) if names else (records, ())


def _topic_of_setting(record: Record) -> str | None:
    fields = record.get("fields")
    if record.get("type") != "ConfigRecord" or not isinstance(fields, Mapping):
        return None
    return str(fields.get("resource_name")) if fields.get("resource_type") == TOPIC else None
