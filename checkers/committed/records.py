"""The committed records that the logs still hold, by what clients wrote with them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from checkers.committed.effects import topic_of_record, write_of_record
from checkers.committed.reference import known_from
from checkers.replay.invariant import FinalLogs
from checkers.replay.trace import Event
from checkers.replay.world import Commits, stored
from harness.contracts.evidence import LogBatch
from harness.history.ops import Interval

At = tuple[int, Event]  # an offset, and the event that first told it is committed


@dataclass(slots=True)
class Committed:
    """Register writes by (key, value) and topics by name; nothing is missing from ``start`` on."""

    writes: dict[tuple[str, str], list[At]] = field(default_factory=lambda: defaultdict(list))
    topics: dict[str, list[tuple[str, At]]] = field(default_factory=lambda: defaultdict(list))
    start: int = 0
    whole_since_ns: int = 0  # what was asked later stands at ``start`` or above

    def must_hold(self, attempt: Interval) -> bool:
        """Tell whether the logs reach back far enough to hold what the op wrote."""
        return not self.start or attempt.invocation.time_ns > self.whole_since_ns

    def last(self, key: str) -> tuple[int, str] | None:
        """The last offset at which a key was written, and the value; None when it never was."""
        of_key = ((w[1], at) for w, known in self.writes.items() if w[0] == key for at in known)
        return max(((at[0], value) for value, at in of_key), default=None)


def committed_records(logs: FinalLogs, commits: Commits) -> Committed:
    """Collect them from all logs. O(records)."""
    start = known_from(logs)
    times = [by.get("rx_ns") for batch, by in commits if batch.last + 1 >= start]
    since = min((time for time in times if isinstance(time, int)), default=0)
    committed = Committed(start=start, whole_since_ns=since)
    seen: set[int] = set()
    for _, log in sorted(logs.items()):
        for batch in log:
            if batch.control or batch.base in seen or not commits.contains(stored(batch)):
                continue
            seen.add(batch.base)
            found = commits.overlapping(stored(batch))
            assert found is not None  # noqa: S101 - it is contained
            file_records(batch, committed, found[1])
    return committed


def file_records(batch: LogBatch, committed: Committed, by: Event) -> None:
    """Take in a batch of metadata records, committed by an event."""
    for record in batch.records:
        _file(record, committed, (batch.base, by))


def _file(record: Mapping[str, Any], committed: Committed, at: At) -> None:
    offset = record.get("offset")
    if isinstance(offset, int):
        at = offset, at[1]
    write = write_of_record(record)
    if write is not None:
        committed.writes[write].append(at)
    topic = topic_of_record(record)
    if topic is not None:
        name, id_ = topic
        committed.topics[name].append((id_, at))
