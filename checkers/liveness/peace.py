"""Judges a time of peace: a stretch in which nothing is wrong, and nothing is asked of the cluster.

The nemesis' two ops ``settle`` tell when it was. What nodes told of themselves then must be that of
a cluster at rest: one leader that commits now and then, and others that hear of it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from checkers.invariants.turned_away import DUPLICATE_BROKER_REGISTRATION
from checkers.replay.trace import ARRIVED, Event
from harness.clock import NS_PER_MS, NS_PER_S
from harness.contracts.checker import RunData
from harness.history.ops import History
from harness.verdict import Anomaly

EVENTS_PER_S_MAX = 400  # of one node in peace; some tens are usual
# What a leader may hear beside that of each other replica: some four Fetches a commit.
HEARD_PER_S_MAX = 60
IDLE_SETTING = "metadata.max.idle.interval.ms"  # how often an idle leader writes; 0 = never
IDLE_S = 2.0  # without a commit in peace: four of those intervals
# In peace, from a leader's high watermark to its followers': a round trip, not a fetch's timeout,
# which is half a second (KIP-1166).
TOLD_WITHIN_NS = 300_000_000
FETCHED_WITHIN_NS = 600_000_000  # a Fetch that waits in vain, and a round trip
_NOT_HEARD: Final = f"did not hear in {TOLD_WITHIN_NS / NS_PER_S:g} s of peace"
JUDGED_FROM: Final = 4  # commits, for most of them to be said of
# From its registration, for which a broker may have had to wait until an old session had run out.
UNFENCED_WITHIN_NS = 2_000_000_000
# What a node says of itself by, as ``Node.take`` hears it.
_TELLING = frozenset(
    {"start", "role", "hwm", "voters", "apply", "reg", "creg", "hb", "bstate", "stop"}
)


@dataclass(slots=True)
class Node:
    """The last words of a node about itself."""

    role: str = "starting"
    epoch: int = 0
    leader: int | None = None
    hwm: int = -1
    hwm_before: int = -1  # its last step
    hwm_ns: int = 0  # when that was
    applied: int = -1
    digest: str | None = None
    voters_at: int | None = None  # the record of the voter set in force, if it told of one
    fenced: bool | None = None  # of a broker, by the last answered heartbeat
    registered_ns: int = 0  # likewise: when it was last registered
    asks: bool = False  # a broker: whether it has begun to run, or told what it asked a controller
    is_registered: bool = False  # likewise: its process, by any answer
    refused: Event | None = None  # its last registration, if that was not accepted
    started_ns: int = 0
    stopped: bool = False
    role_changes: list[Event] = field(default_factory=list)  # in the window that is looked at
    events: int = 0  # in that window
    commits: int = 0  # likewise: how often its high watermark grew

    def take(self, event: Event) -> None:
        """Follow one event."""
        match event["t"]:
            case "start":
                self.role, self.fenced, self.stopped = "starting", None, False
                self.voters_at, self.started_ns = None, event["rx_ns"]
                self.is_registered, self.refused = False, None
            case "role":
                self.role, self.epoch, self.leader = event["to"], event["ep"], event["leader"]
            case "hwm":
                self.hwm_before, self.hwm = self.hwm, event["v"]
                self.hwm_ns = event["rx_ns"]
            case "voters":
                self.voters_at = event.get("off")
            case "apply":
                self.applied, self.digest = event["off"], event.get("st")
            case "reg" if event["err"] == 0:
                self.registered_ns = event["rx_ns"]
                self.asks, self.is_registered, self.refused = True, True, None
            case "reg":
                self.asks, self.refused = True, event
            case "creg":
                self.refused = None if event["err"] == 0 else event
            case "hb" if event["err"] == 0:  # null: nobody answered
                self.fenced = event["fenced"]
                self.asks = self.is_registered = True
            case "hb":
                self.asks = True
            case "bstate":
                self.asks = event["to"] != "SHUTTING_DOWN"
            case "stop":
                self.stopped = True
            case _:
                pass


def names_of(run: RunData) -> tuple[str, ...]:
    """Name all nodes, voters first."""
    return (*run.voters, *run.observers)


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch between two ops of the nemesis, on the clock of the history."""

    begin_ns: int
    end_ns: int
    result: Mapping[str, Any]


def window_of(history: History, f: str) -> Window | None:
    """Find the stretch between two ops ``f`` of the nemesis; None: there are not both."""
    ops = [op for op in history.nemesis() if op.f == f]
    if len(ops) < 2:  # noqa: PLR2004 - begin and end
        return None
    return Window(ops[-2].time_ns, ops[-1].time_ns, ops[-1].value)


def follow(run: RunData, end_ns: int, begin_ns: int = 0) -> dict[str, Node]:
    """Every node as it was at ``end_ns``, with what it did since ``begin_ns``."""
    nodes: dict[str, Node] = defaultdict(Node)
    for name in names_of(run):
        node = nodes[name]
        for event in run.events.get(name, ()):
            if event["rx_ns"] >= end_ns:  # the teardown begins at that very moment
                break
            if event["t"] in _TELLING:
                node.take(event)
            if event["rx_ns"] >= begin_ns:
                node.events += 1
                node.commits += event["t"] == "hwm"
                if event["t"] == "role":
                    node.role_changes.append(event)
    return nodes


def unsettled(nodes: Mapping[str, Node], run: RunData, window: Window) -> Iterator[Anomaly]:
    """Tell what a cluster in peace must not do."""
    recovery = window_of(run.history, "recovery")
    healed_ns = window.begin_ns if recovery is None else recovery.begin_ns
    seconds = (window.end_ns - window.begin_ns) / NS_PER_S
    for name in names_of(run):
        node = nodes[name]
        changes = [e for e in node.role_changes if e["to"] in ("candidate", "leader", "resigned")]
        if changes:
            first = changes[0]
            yield Anomaly(
                "L3",
                f"{name} became {first['to']} in epoch {first['ep']} ({first['why']}) although "
                "nothing was wrong any more",
                time_ns=first["rx_ns"],
            )
        yield from _left_over(name, node, nodes, seconds)
        if node.role == "prospective":
            yield Anomaly("L7", f"{name} is still prospective after {seconds:g} s of peace")
        heard = HEARD_PER_S_MAX * (len(nodes) - 1) if node.role == "leader" else 0
        if node.events > (EVENTS_PER_S_MAX + heard) * seconds:
            yield Anomaly("L12", f"{name} told {node.events} events in {seconds:g} s of peace")
        waited_ns = window.end_ns - node.registered_ns
        if name in run.observers and node.fenced and waited_ns >= UNFENCED_WITHIN_NS:
            yield Anomaly("L10", f"broker {name} is still fenced after {seconds:g} s of peace")
        if name in run.observers:
            yield from _left_out(name, node, window)
        elif node.refused is not None and not node.stopped:
            yield from _unknown(name, node.refused, healed_ns)
    yield from _stands_still(nodes, run, seconds)
    yield from _diverging(nodes, names_of(run), seconds, window.end_ns)


def _left_out(name: str, node: Node, window: Window) -> Iterator[Anomaly]:
    """A broker that runs and is not registered; how long it may be a duplicate, others judge."""
    refused, since_ns = node.refused, max(node.started_ns, window.begin_ns)
    error = None if refused is None else refused["err"]
    is_late = window.end_ns - since_ns >= UNFENCED_WITHIN_NS
    if not node.asks or node.is_registered or node.stopped or not is_late:
        return
    if error == DUPLICATE_BROKER_REGISTRATION:
        return
    why = "it has not asked" if refused is None else "nobody answers"
    why = why if error is None else f"it is refused with error {error}"
    yield Anomaly(
        "L10",
        f"broker {name} is not registered after {(window.end_ns - since_ns) / NS_PER_S:g} s of"
        f" peace: {why}",
        events=() if refused is None else (dict(refused),),
        time_ns=None if refused is None else refused["rx_ns"],
    )


def _unknown(name: str, refused: Event, healed_ns: int) -> Iterator[Anomaly]:
    """A controller that asked to be registered when all was well, in vain (KIP-919)."""
    asked_ns = refused["rx_ns"] - refused["ms"] * NS_PER_MS
    if asked_ns < healed_ns + UNFENCED_WITHIN_NS:
        return
    error = refused["err"]
    why = "nobody answered" if error is None else f"it was refused with error {error}"
    yield Anomaly(
        "L10",
        f"controller {name} asked to be registered {(asked_ns - healed_ns) / NS_PER_S:g} s after"
        f" all was healed, and {why} in {refused['ms']} ms",
        events=(dict(refused),),
        time_ns=refused["rx_ns"],
    )


def _left_over(
    name: str, node: Node, nodes: Mapping[str, Node], seconds: float
) -> Iterator[Anomaly]:
    """An old leader, and a voter set of which nobody can say whether it stays."""
    newest = max((other.epoch for other in nodes.values() if other.role == "leader"), default=0)
    if node.role == "leader" and node.epoch < newest:
        yield Anomaly(
            "L4",
            f"{name} still leads epoch {node.epoch} after {seconds:g} s of peace, in which"
            f" another leads epoch {newest}",
        )
    if node.voters_at is not None and node.voters_at >= node.hwm:
        yield Anomaly(
            "L6",
            f"{name} goes by a voter set at offset {node.voters_at} that is not committed after"
            f" {seconds:g} s of peace: its high watermark is {node.hwm}",
        )


def _stands_still(nodes: Mapping[str, Node], run: RunData, seconds: float) -> Iterator[Anomaly]:
    """A leader commits something every half second, asked or not (KAFKA-13104)."""
    if run.spec.settings.get(IDLE_SETTING) == "0" or seconds < IDLE_S:
        return
    for name in run.voters:
        node = nodes[name]
        if node.role == "leader" and not node.commits:
            yield Anomaly("L2", f"{name} leads and has committed nothing in {seconds:g} s of peace")


def _diverging(
    nodes: Mapping[str, Node], names: Iterable[str], seconds: float, end_ns: int
) -> Iterator[Anomaly]:
    """Nodes in peace are at most what was committed last apart: one record, or what is new."""
    ahead = max((nodes[name].hwm for name in names), default=-1)
    since_ns = end_ns - FETCHED_WITHIN_NS
    first = [node for node in map(nodes.__getitem__, names) if node.hwm == ahead]
    due = max((n.hwm_before if n.hwm_ns > since_ns else n.hwm for n in first), default=-1)
    late = [name for name in names if nodes[name].hwm < min(ahead - 1, due)]
    if late:
        far = ", ".join(f"{name} at {place(nodes[name])}" for name in late)
        yield Anomaly("L8", f"after {seconds:g} s of peace {far}, others at {ahead}")


def told_late(run: RunData, window: Window) -> Iterator[Anomaly]:
    """Tell who heard of one commit only with the next one, or when a fetch had waited in vain."""
    for name, by, events in _heard_late(run, window):
        late = [event for event, in_time in events if not in_time]
        if late:
            yield Anomaly(
                "L8",
                f"{name} {_NOT_HEARD} that {by} had committed {late[0]['v']}",
                events=(dict(late[0]),),
                time_ns=late[0]["rx_ns"],
            )


def mostly_told_late(run: RunData, window: Window) -> Iterator[Anomaly]:
    """Tell who heard late of most commits; a busy machine explains some of them."""
    for name, by, events in _heard_late(run, window):
        late = [event for event, in_time in events if not in_time]
        if len(events) >= JUDGED_FROM and 2 * len(late) > len(events):
            yield Anomaly(
                "L8",
                f"{name} {_NOT_HEARD} of {len(late)} of {len(events)} commits of {by}",
                events=(dict(late[0]),),
                time_ns=late[0]["rx_ns"],
            )


def _heard_late(
    run: RunData, window: Window
) -> Iterator[tuple[str, str, list[tuple[Event, bool]]]]:
    """Give each node, each leader, and that one's commits: was each heard of in time?"""
    marks = {
        name: [event for event in _within(run.events.get(name, ()), window) if event["t"] == "hwm"]
        for name in names_of(run)
    }
    for by, own in marks.items():
        due = [e for e in own if e.get("as") == "leader"]
        due = [e for e in due if e["rx_ns"] + TOLD_WITHIN_NS < window.end_ns]
        for name, told in marks.items():
            yield name, by, [(event, _heard(event, told)) for event in due]


def _heard(event: Event, told: Iterable[Event]) -> bool:
    until_ns = event["rx_ns"] + TOLD_WITHIN_NS
    return any(e["v"] >= event["v"] and e["rx_ns"] <= until_ns for e in told)


def _within(events: Sequence[Event], window: Window) -> Sequence[Event]:
    first = bisect_left(events, window.begin_ns, key=ARRIVED)
    return events[first : bisect_left(events, window.end_ns, lo=first, key=ARRIVED)]


def place(node: Node) -> str:
    """Say where a node is in the log."""
    return f"high watermark {node.hwm}, applied {node.applied}"
