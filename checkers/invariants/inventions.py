"""S18: nothing is committed that no client asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from checkers.invariants.committed import At, Committed
from checkers.invariants.effects import REGISTER_PREFIX, write_of_op
from checkers.invariants.trace import label
from harness.history import History
from harness.verdict import Anomaly

NAME = "S18"


@dataclass(slots=True)
class Inventions:
    """What was committed unasked, and how many records were looked at."""

    anomalies: list[Anomaly] = field(default_factory=list)
    checked: int = 0


def inventions(history: History, committed: Committed) -> Inventions:
    """Each committed write and topic is that of an op; that there is one only is S17. O(n).

    What was committed after the last op that the history has may be of one that it lost. Topics of
    registers are made by the clients, unasked.
    """
    ops = [interval.invocation for interval in history.intervals()]
    end_ns = max((op.time_ns for op in history), default=0)
    writes = {write_of_op(op) for op in ops}
    names = {op.key for op in ops if op.f == "create"}
    found = Inventions()
    for (key, value), places in committed.writes.items():
        found.checked += 1
        if (key, value) not in writes:
            found.anomalies += _invented(f"write {key}={value}", places, end_ns)
    for name, topics in committed.topics.items():
        if name.startswith(REGISTER_PREFIX):
            continue
        found.checked += 1
        if name not in names:
            places = [at for _, at in topics]
            found.anomalies += _invented(f"topic {name}", places, end_ns)
    return found


def _invented(what: str, places: list[At], end_ns: int) -> Iterator[Anomaly]:
    offset, by = places[0]
    time_ns = by.get("rx_ns")
    if not isinstance(time_ns, int) or time_ns > end_ns:
        return
    yield Anomaly(
        NAME,
        f"{what} is committed at offset {offset} ({label(by)}), and no client ever asked for it",
        events=(dict(by),),
        details={"offset": offset},
        time_ns=time_ns,
    )
