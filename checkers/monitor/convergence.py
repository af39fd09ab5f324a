"""L8: once the last fault is healed, every node comes to the same high watermark and state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from checkers.monitor.monitor import Monitor
from checkers.replay.trace import Event
from checkers.replay.unheard import unheard
from harness.contracts.checker import RunData
from harness.verdict import Anomaly

NAME = "L8"
GRACE_NS = 5_000_000_000  # a node in touch with its leader learns of commits within this


@dataclass(slots=True)
class Convergence:
    """The verdict on L8 at the end of a run; ``undecided`` when the end came too soon."""

    anomalies: list[Anomaly] = field(default_factory=list)
    checked: int = 0
    undecided: str | None = None


def converged(run: RunData, monitor: Monitor) -> Convergence:
    """Tell whether each node reached what was committed.

    A node that has all of it has converged. One that lacks something is late when a leader had
    committed that ``GRACE_NS`` before the end, and undecided when there was less time than that
    since the last heal. ``monitor`` has seen all events.
    """
    found = Convergence()
    healed_ns, open_faults = last_heal(run)
    if open_faults:
        found.undecided = f"{NAME}: {open_faults} faults were never healed"
        return found
    end_ns = _end(monitor, healed_ns)
    marks = [(at, e) for at, e in _timed(monitor.told("commits")) if e["as"] == "leader"]
    latest = _committed_by(marks, end_ns)
    due = _committed_by(marks, max(healed_ns, end_ns - GRACE_NS))
    lost = unheard(run.events, healed_ns)
    for node, reached in sorted(_reached(run, monitor).items()):
        if latest is not None and reached >= latest[0]:
            found.checked += 1
        elif due is not None:
            found.checked += 1
            _judge(found, node, reached, due, (healed_ns, end_ns), lost.get(node))
    return found


def _judge(
    found: Convergence,
    node: str,
    reached: int,
    due: tuple[int, Event],
    window: tuple[int, int],
    lost: str | None,
) -> None:
    """Note a node that has not reached what was due; ``lost`` says what became of its Fetches."""
    value, by = due
    healed_ns, end_ns = window
    if reached >= value:
        return
    message = (
        f"{node} ended at high watermark {reached}, but {value} was committed by"
        f" n{by['node']}, {(end_ns - by['rx_ns']) / 1e9:.1f} s before the end"
        f"{'' if lost is None else f'; {lost}'}"
    )
    if end_ns - healed_ns >= GRACE_NS:
        found.anomalies.append(
            Anomaly(NAME, message, events=(dict(by),), details={"node": node}, time_ns=end_ns)
        )
    else:
        since = (end_ns - healed_ns) / 1e9
        found.undecided = f"{NAME}: {message}, and only {since:.1f} s after the last heal"


def last_heal(run: RunData) -> tuple[int, int]:
    """(when the last fault was healed, how many were not) on the harness's clock."""
    open_: set[object] = set()
    healed_ns = 0
    for op in run.history.nemesis():
        if not isinstance(op.value, Mapping) or op.error is not None:
            continue
        if op.f == "inject" and op.value.get("outcome") == "installed":
            open_.add(op.value.get("id"))
        elif op.f == "heal" and "evidence" in op.value:
            open_.discard(op.value.get("id"))
            healed_ns = op.time_ns
    return healed_ns, len(open_)


def _timed(events: Iterable[Event]) -> list[tuple[int, Event]]:
    """The events that arrived at a known time, with that time."""
    return [(event["rx_ns"], event) for event in events if isinstance(event.get("rx_ns"), int)]


def _end(monitor: Monitor, healed_ns: int) -> int:
    """Give when the first node was stopped for good, after which others go on alone; or the end."""
    stops = [time for time, _ in _timed(monitor.told("stops")) if time > healed_ns]
    last = (replica.told for replica in monitor.world.replicas.values())
    times = [time for time, _ in _timed(event for event in last if event is not None)]
    return min(stops) if stops else max(times, default=0)


def _committed_by(marks: Sequence[tuple[int, Event]], by_ns: int) -> tuple[int, Event] | None:
    """The highest of the leaders' high watermarks that was exposed by then, and its event."""
    told = (event for time_ns, event in marks if time_ns <= by_ns)
    best = max(told, key=itemgetter("v"), default=None)
    return None if best is None else (best["v"], best)


def _reached(run: RunData, monitor: Monitor) -> dict[str, int]:
    """Tell how far each node of the cluster came in its last process; 0 when that told nothing."""
    lives: dict[str, int] = {}
    for replica in monitor.world.replicas.values():
        node = str(replica.id)
        lives[node] = max(replica.incarnation, lives.get(node, 0))
    ends = {node: 0 for node in (*run.voters, *run.observers) if node in lives}
    for event in monitor.told("commits"):
        node = f"n{event['node']}"
        if node in ends and event["inc"] == lives[node]:
            ends[node] = max(ends[node], event["v"])
    return ends
