"""S18: nothing is committed that no client asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from checkers.committed.effects import REGISTER_PREFIX, write_of_op
from checkers.committed.records import At, Committed
from checkers.replay.trace import label
from harness.contracts.meaning import Meaning
from harness.history.ops import History, Op
from harness.verdict import Anomaly

NAME = "S18"
S18 = Meaning(
    "S18",
    title="no invention or duplication",
    promise="Every committed write was asked for by a client, and readers find each of them once.",
    why=(
        "A topic or a setting that nobody asked for, or one that is there twice, is corruption: no "
        "retry and no restart removes it."
    ),
    source="Jepsen (unexpected and duplicate elements); KAFKA-12376",
)


@dataclass(slots=True)
class Inventions:
    """Find records that nobody asked for; also give how many were looked at."""

    anomalies: list[Anomaly] = field(default_factory=list)
    checked: int = 0


def inventions(history: History, committed: Committed) -> Inventions:
    """Each committed write and topic is that of an op; that there is one only is S17. O(n).

    What was committed after the last op that the history has may be of one that it lost. Topics of
    registers are made by the clients, unasked.
    """
    asked = Asked()
    for interval in history.intervals():
        asked.add(interval.invocation)
    end_ns = max((op.time_ns for op in history), default=0)
    topics = [name for name in committed.topics if not name.startswith(REGISTER_PREFIX)]
    found = invented_in(committed, asked, committed.writes, topics)
    known = [anomaly for anomaly in found if (anomaly.time_ns or 0) <= end_ns]
    return Inventions(known, len(committed.writes) + len(topics))


class Asked:
    """The writes and topics that clients asked for."""

    def __init__(self) -> None:
        self.writes: set[tuple[str, str]] = set()
        self.topics: set[str] = set()

    def add(self, op: Op) -> None:
        """Note the invocation of an op."""
        write = write_of_op(op)
        if write is not None:
            self.writes.add(write)
        elif op.f == "create" and op.key is not None:
            self.topics.add(op.key)


def invented_in(
    committed: Committed,
    asked: Asked,
    writes: Iterable[tuple[str, str]],
    names: Iterable[str],
) -> Iterator[Anomaly]:
    """Find, among these committed writes and topics, those that no client asked for."""
    for key, value in writes:
        if (key, value) not in asked.writes:
            yield from _invented(f"write {key}={value}", committed.writes[key, value])
    for name in names:
        if name not in asked.topics and not name.startswith(REGISTER_PREFIX):
            places = [at for _, at in committed.topics[name]]
            yield from _invented(f"topic {name}", places)


def _invented(what: str, places: list[At]) -> Iterator[Anomaly]:
    offset, by = places[0]
    time_ns = by.get("rx_ns")
    if not isinstance(time_ns, int):
        return
    yield Anomaly(
        NAME,
        f"{what} is committed at offset {offset} ({label(by)}), and no client ever asked for it",
        events=(dict(by),),
        details={"offset": offset},
        time_ns=time_ns,
    )
