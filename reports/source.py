"""A run as the report reads it: in memory, or in the store, where only what it needs is decoded.

What is damaged was told when the run was judged, and is passed over here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from harness.contracts.evidence import LogBatch
from harness.contracts.nemesis import Fault
from harness.history.ops import Op
from harness.spec import RunSpec
from harness.store.reading import EventsFile, StoredFiles, objects
from reports.cluster import TOLD, Event

_TYPE = re.compile(rb'"t":"(\w+)"')
_ARRIVAL = re.compile(rb'^\{"rx_ns":(\d+),')
_KINDS = frozenset(kind.encode() for kind in TOLD)
# Of these only the last before one of the others matters to a track.
_LATEST = frozenset({b"append"})
# Events of which there are few, however long the run.
_RARE = _KINDS - {b"append", b"hwm"} | {b"qs", b"vote", b"disk", b"voters", b"claim", b"torn"}
EXCERPT_FROM_BYTES = 16_000_000  # of one node: some 60,000 events, in ten times the memory
AROUND_NS = 30_000_000_000


class Run(Protocol):
    """A run as the report asks for it; ``RunData`` and ``StoredFiles`` have it all."""

    @property
    def spec(self) -> RunSpec:
        """The run's options."""

    @property
    def history(self) -> Iterable[Op]:
        """All ops."""

    @property
    def events(self) -> Mapping[str, Iterable[dict[str, Any]]]:
        """Protocol events by node, in order of arrival."""

    @property
    def logs(self) -> Mapping[str, Sequence[LogBatch]]:
        """Replicated logs by node."""

    @property
    def output(self) -> Mapping[str, Sequence[str]]:
        """Tell what the processes printed, by node."""

    @property
    def faults(self) -> Sequence[Fault]:
        """The schedule."""

    @property
    def voters(self) -> Sequence[str]:
        """Names of voters."""

    @property
    def observers(self) -> Sequence[str]:
        """Names of observers."""


def telling(events: Iterable[Event]) -> Iterable[Event]:
    """The events of a node that matter to ``cluster.track``, and maybe more.

    Of a file those alone that a track is made of, and of all others only the last before each of
    these, whose arrival matters.
    """
    return objects(_telling(events.lines())) if isinstance(events, EventsFile) else events


def _telling(lines: Iterable[bytes]) -> Iterator[bytes]:
    held: dict[bool, bytes] = {}  # the last event that tells of the log, the last that tells less
    for line in lines:
        if not line.endswith(b"\n"):
            break  # torn: it must not stand for one that was written
        found = _TYPE.search(line)
        kind = found[1] if found else b""
        if found and (kind not in _KINDS or kind in _LATEST):
            latest = kind in _LATEST
            held.pop(latest, None)  # in again at the end: in order of arrival
            held[latest] = line
            continue
        if kind != b"hwm":
            yield from held.values()
            held.clear()
        yield line
    yield from held.values()


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The rare events of a node, and of all others those that arrived in one of the windows."""

    file: EventsFile
    windows: Sequence[tuple[int, int]]  # from, to: ns

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return objects(line for line in self.file.lines() if self._has(line))

    def _has(self, line: bytes) -> bool:
        found, arrival = _TYPE.search(line), _ARRIVAL.match(line)
        if found is None or arrival is None or found[1] in _RARE:
            return True
        at = int(arrival[1])
        return any(first <= at <= last for first, last in self.windows)


def around(run: Run, windows: Iterable[tuple[int, int]]) -> Run:
    """The run with the events of long traces that lie in or near these windows of time.

    Pictures hold the events that they are drawn from; those of a long run would fill the memory.
    """
    if not isinstance(run, StoredFiles):
        return run
    wide = [(first - AROUND_NS, last + AROUND_NS) for first, last in windows]
    events = {name: _excerpt(file, wide) for name, file in run.events.items()}
    return replace(run, events=events)


def _excerpt(
    events: Iterable[dict[str, Any]], windows: Sequence[tuple[int, int]]
) -> Iterable[dict[str, Any]]:
    """Leave out events of a long file that are not in the windows."""
    if isinstance(events, EventsFile) and events.size() > EXCERPT_FROM_BYTES:
        return Excerpt(events, windows)
    return events
