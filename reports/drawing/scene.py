"""Answers what pictures ask of a run: events, ops by index, names and their places on the page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

from harness.contracts.evidence import LogBatch
from reports import cluster
from reports.cluster import Event, NodeTrack
from reports.drawing.replay import word
from reports.model import FaultView
from reports.node_log import NodeLog
from reports.ops import Span
from reports.text import clean, compact, integer

TEXT_MAX = 160
LIST_MAX = 8
DRAWN = frozenset(  # types of events; of a long run all others would not fit into the memory
    {"start", "stop", "disk", "role", "qs", "vote", "elected", "append", "flush", "trunc", "hwm"}
    | {"snap", "ack", "apply", "image", "voters", "read"}
)


class Told(Protocol):
    """A run as pictures ask for it."""

    @property
    def events(self) -> Mapping[str, Iterable[Event]]:
        """Protocol events by node."""

    @property
    def voters(self) -> Sequence[str]:
        """Names of the voters."""

    @property
    def logs(self) -> Mapping[str, Sequence[LogBatch]]:
        """Replicated logs by node, after the run."""


class Scene:
    """One run, to be drawn from; everything is looked up once."""

    def __init__(
        self,
        run: Told,
        spans: Sequence[Span],
        tracks: Sequence[NodeTrack],
        faults: Sequence[FaultView],
        end_ns: int,
        node_logs: Mapping[str, NodeLog],
    ) -> None:
        self.run = run
        self.spans = spans
        self.faults = faults
        self.end_ns = end_ns
        self.tracks = {clean(track.name, limit=60): track for track in tracks}
        self.nodes = list(self.tracks)
        self._node_logs = {clean(name, limit=60): log for name, log in node_logs.items()}
        self._raw = {clean(track.name, limit=60): track.name for track in tracks}
        self._events: dict[str, list[Event]] = {}
        self._places: dict[str, dict[int, int]] = {}
        self._stored: dict[str, dict[tuple[int, int, int], LogBatch]] = {}

    def link(self, node: str, time_ns: int | None = None) -> str:
        """Tell where the page has the log of a node, at a time; empty when it has none."""
        log = self._node_logs.get(node)
        return "" if log is None else log.link(time_ns)

    @cached_property
    def voters(self) -> list[str]:
        """The names of the voters."""
        return [clean(name, limit=60) for name in self.run.voters]

    def raw(self, node: str) -> Iterable[Event]:
        """Give all that a node told, as it came; it can be read once."""
        return self.run.events.get(self._raw.get(node, node), ())

    def events(self, node: str) -> list[Event]:
        """The events of a node that pictures may show, in order of arrival."""
        if node not in self._events:
            placed = [
                event
                for event in self.raw(node)
                if word(event, "t") in DRAWN and integer(event.get("rx_ns")) is not None
            ]
            self._events[node] = sorted(placed, key=_arrival)
        return self._events[node]

    def place(self, node: str, event: Event) -> int:
        """Tell where an event of a node (that very object) stands among its events."""
        if node not in self._places:
            self._places[node] = {id(one): at for at, one in enumerate(self.events(node))}
        return self._places[node][id(event)]

    def told(self, kinds: frozenset[str]) -> Iterator[tuple[str, Event]]:
        """All events of these types with the node's name, node by node."""
        for node in self.nodes:
            for event in self.events(node):
                if word(event, "t") in kinds:
                    yield node, event

    @cached_property
    def names_by_id(self) -> dict[int, str]:
        """Node ids as the events have them, to names."""
        return cluster.names_by_id({node: self.events(node) for node in self.nodes})

    def name(self, node: Any) -> str:
        """The name of a node that a field of an event means."""
        id_ = integer(node)
        return clean(node, limit=60) if id_ is None else self.names_by_id.get(id_, f"n{id_}")

    def owner(self, event: Mapping[str, Any]) -> str:
        """The name of the node that told of an event; empty when that is not said."""
        return "" if event.get("node") is None else self.name(event["node"])

    @cached_property
    def by_index(self) -> dict[int, Span]:
        """Ops by the index of their invocation and of their completion."""
        found = {span.invocation.index: span for span in self.spans}
        for span in self.spans:
            if span.completion is not None:
                found[span.completion.index] = span
        return found

    def log(self, node: str) -> Sequence[LogBatch]:
        """The batches that a node's disk held after the run."""
        return self.run.logs.get(self._raw.get(node, node), ())

    def stored(self, node: str) -> Mapping[tuple[int, int, int], LogBatch]:
        """Give a node's stored batches by base, epoch and checksum."""
        if node not in self._stored:
            self._stored[node] = {(b.base, b.epoch, b.crc): b for b in self.log(node)}
        return self._stored[node]

    def faults_between(self, start_ns: int, end_ns: int) -> list[FaultView]:
        """Faults that were in force at some time of a window."""
        return [
            fault
            for fault in self.faults
            if fault.begin_ns is not None
            and fault.outcome == "installed"
            and fault.begin_ns <= end_ns
            and start_ns <= (self.end_ns if fault.healed_ns is None else fault.healed_ns)
        ]


def _arrival(event: Event) -> int:
    at: int = event["rx_ns"]
    return at


def op_words(span: Span) -> str:
    """An op and its answer in a few words: ``read k1 -> 17``."""
    op, end = span.invocation, span.completion
    parts = [clean(op.f, limit=40)]
    if op.key is not None:
        parts.append(clean(op.key, limit=40))
    if op.value is not None:
        parts.append(brief(op.value))
    answer = "" if end is None or end.value == op.value else brief(end.value)
    if end is None or end.type != "ok":
        answer = "never answered" if end is None else end.type
    return " ".join(parts) + (f" → {answer}" if answer else "")


def brief(value: Any) -> str:
    """A value in one short line; of a long list its end, for that is where lists grow."""
    if isinstance(value, list | tuple) and len(value) > LIST_MAX:
        end = compact(list(value[-LIST_MAX:]), limit=TEXT_MAX)
        return f"[{len(value) - LIST_MAX} more, {end[1:]}"
    return compact(value, limit=TEXT_MAX)
