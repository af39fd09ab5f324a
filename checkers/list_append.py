"""``list-append``: lists that are only appended to, whose reads tell the order of all appends.

The longest read of a list gives the order of its appends; all other reads must be beginnings of
it. What came after what, by the lists and by time, is a graph: a cycle in it means that no order
explains all answers (a lost append is one: it ended before a read began that came before it).

Source: Elle (Kingsbury and Alvaro, VLDB 2020), for one list per transaction; S17, S18 and S34.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import networkx as nx

from harness.errors import HistoryFormatError
from harness.history import Interval
from harness.protocols import RunData
from harness.registry import checkers
from harness.verdict import Anomaly, CheckResult, Valid

NAME = "list-append"
SURVIVES, INVENTED, ORDER = "S17", "S18", "S34"
FS = frozenset({"append", "read"})
TRIES_MAX = 50  # edges from which the shortest cycle is looked for
TIME = "time"  # marks the nodes of the graph that are moments, not ops


@dataclass(frozen=True, slots=True)
class Append:
    """An append that may have happened; ``done_ns`` None: nobody knows when, or whether."""

    element: int
    invoked_ns: int
    done_ns: int | None
    ops: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Read:
    """A read that was answered."""

    seen: tuple[int, ...]
    invoked_ns: int
    done_ns: int
    ops: tuple[int, ...]


@checkers.register(NAME)
def list_append(run: RunData) -> CheckResult:
    """No append is lost, doubled or invented, and one order explains all reads. O(n log n).

    Raises:
        HistoryFormatError: Ops that do not pair, or values of another shape.
    """
    by_key: dict[str, list[Interval]] = defaultdict(list)
    for interval in run.history.clients().intervals():
        if interval.invocation.f in FS and isinstance(interval.invocation.key, str):
            by_key[interval.invocation.key].append(interval)
    anomalies: list[Anomaly] = []
    checked: Counter[str] = Counter()
    for key, intervals in by_key.items():
        anomalies += _List(key, intervals).judge(checked)
    anomalies.sort(key=lambda a: (a.time_ns or 0, a.message))
    reason = None if checked[ORDER] else "no list was read: nothing was judged"
    verdict = Valid.UNKNOWN if reason else Valid.VALID
    return CheckResult(
        NAME,
        Valid.INVALID if anomalies else verdict,
        tuple(anomalies),
        checked={name: checked[name] for name in (SURVIVES, INVENTED, ORDER)},
        stats={"lists": len(by_key)},
        reason=reason,
    )


class _List:
    """One list and what was done with it."""

    def __init__(self, key: str, intervals: Sequence[Interval]) -> None:
        self._key = key
        self._appends: dict[int, Append] = {}
        self._refused: dict[int, Append] = {}
        self._reads: list[Read] = []
        for interval in intervals:
            op, end = interval.invocation, interval.completion
            ops = (op.index,) if end is None else (op.index, end.index)
            if op.f == "append":
                done_ns = end.time_ns if end is not None and end.type == "ok" else None
                append = Append(_element(op.index, op.value), op.time_ns, done_ns, ops)
                table = self._refused if interval.outcome == "fail" else self._appends
                table[append.element] = append
            elif end is not None and end.type == "ok":
                seen = _elements(end.index, end.value)
                self._reads.append(Read(seen, op.time_ns, end.time_ns, ops))

    def judge(self, checked: Counter[str]) -> Iterator[Anomaly]:
        """What is wrong with it; where reads contradict each other no order is looked for."""
        checked[SURVIVES] += len(self._appends)
        checked[INVENTED] += sum(len(read.seen) for read in self._reads)
        checked[ORDER] += len(self._reads)
        found = [a for read in self._reads for a in self._strange(read)]
        yield from found
        longest = max(self._reads, key=lambda r: (len(r.seen), -r.ops[0]), default=None)
        if found or longest is None:
            return
        forks = [r for r in self._reads if longest.seen[: len(r.seen)] != r.seen]
        for read in forks:
            yield self._anomaly(
                ORDER,
                f"was read as {_show(longest.seen)} by op {longest.ops[-1]} and as"
                f" {_show(read.seen)} by op {read.ops[-1]}",
                [longest, read],
            )
        if not forks:
            yield from self._cycle(longest.seen)

    def _strange(self, read: Read) -> Iterator[Anomaly]:
        """Elements that a read must not show."""
        for element, count in Counter(read.seen).items():
            append = self._appends.get(element)
            if count > 1:
                yield self._anomaly(INVENTED, f"holds {element} {count} times", [read])
            if element in self._refused:
                yield self._anomaly(
                    SURVIVES,
                    f"holds {element}, whose append was refused",
                    [self._refused[element], read],
                )
            elif append is None or append.invoked_ns > read.done_ns:
                yield self._anomaly(
                    INVENTED, f"holds {element}, which nobody had appended by then", [read]
                )

    # ------------------------------------------------------------------ cycles

    def _cycle(self, order: Sequence[int]) -> Iterator[Anomaly]:
        """The shortest way on which something comes before itself, if there is any."""
        graph = self._graph(order)
        loop = _shortest_cycle(graph)
        if loop:
            ops = [graph.nodes[node]["op"] for node in loop]
            told = ", then ".join(map(_told, [*ops, ops[0]]))
            yield self._anomaly(ORDER, f"has no order that agrees with time: {told}", ops)

    def _graph(self, order: Sequence[int]) -> Any:
        """Ops, and moments between them: an edge means "before"."""
        graph: Any = nx.DiGraph()
        ops: dict[Hashable, Append | Read] = {}
        for place, read in enumerate(self._reads):
            ops["read", place] = read
        # one that no read shows and that may not have happened says nothing
        known = set(order)
        unseen = [a for a in self._appends.values() if a.element not in known and a.done_ns]
        for append in [*(self._appends[e] for e in order), *unseen]:
            ops["append", append.element] = append
        for node, op in ops.items():
            graph.add_node(node, op=op)
        graph.add_edges_from(pairwise(("append", e) for e in order))
        for place, read in enumerate(self._reads):
            if read.seen:
                graph.add_edge(("append", read.seen[-1]), ("read", place))
            if len(read.seen) < len(order):
                graph.add_edge(("read", place), ("append", order[len(read.seen)]))
            graph.add_edges_from(
                (("read", place), ("append", a.element))
                for a in unseen
                if len(read.seen) == len(order)
            )
        _add_time(graph, ops)
        return graph

    def _anomaly(self, invariant: str, what: str, ops: Sequence[Append | Read]) -> Anomaly:
        return Anomaly(
            invariant,
            f"list {self._key} {what}",
            ops=tuple(sorted({i for op in ops for i in op.ops})),
            time_ns=max((op.done_ns for op in ops if op.done_ns is not None), default=None),
        )


def _add_time(graph: Any, ops: Mapping[Hashable, Append | Read]) -> None:
    """Chain the moments at which ops ended: each op is before its own, and after those before."""
    events = [(op.invoked_ns, 0, op.ops[0], node) for node, op in ops.items()]
    events += [(op.done_ns, 1, op.ops[-1], node) for node, op in ops.items() if op.done_ns]
    events.sort(key=lambda event: event[2])  # the order of the history is the real one
    moment: Hashable | None = None
    for _, is_end, index, node in events:
        if is_end:
            following = (TIME, index)
            graph.add_edge(node, following)
            if moment is not None:
                graph.add_edge(moment, following)
            moment = following
        elif moment is not None:
            graph.add_edge(moment, node)


def _shortest_cycle(graph: Any) -> list[Hashable]:
    """A short cycle, its ops only; empty when there is none."""
    best: list[Hashable] = []
    for part in nx.strongly_connected_components(graph):
        if len(part) < 2:  # noqa: PLR2004 - no op is before itself
            continue
        tangle = graph.subgraph(part)
        starts = sorted(((u, v) for u, v in tangle.edges if u[0] != TIME), key=str)
        for u, v in starts[:TRIES_MAX]:
            way = [n for n in nx.shortest_path(tangle, v, u) if n[0] != TIME]
            if not best or len(way) < len(best):
                best = way
    return best


def _told(op: Append | Read) -> str:
    if isinstance(op, Append):
        return f"append {op.element} (op {op.ops[-1]})"
    return f"read of {len(op.seen)} elements (op {op.ops[-1]})"


def _element(index: int, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise HistoryFormatError(f"op {index} (append): value {value!r}, want a number")
    return value


def _elements(index: int, value: Any) -> tuple[int, ...]:
    if not isinstance(value, list | tuple):
        raise HistoryFormatError(f"op {index} (read): value {value!r}, want a list")
    return tuple(_element(index, each) for each in value)


def _show(seen: Sequence[int]) -> str:
    return str(list(seen)) if len(seen) <= 10 else f"[..., {str(list(seen[-10:]))[1:]}"  # noqa: PLR2004
