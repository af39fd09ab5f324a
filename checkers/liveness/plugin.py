"""``liveness``: what must come true once all faults are healed, in time that nobody can take away.

Only for simulations: there a deadline is the nodes' own, never a busy machine's. It judges two
stretches of the history: ``recovery``, which ends when all nodes run, are led and caught up, and
``settle``, some seconds in which nothing is asked of the cluster.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from checkers.invariants.liveness import L1, L2, L3, L5, L6, L7, L8, L10, L11, L12, L13
from checkers.invariants.patience import Patience
from checkers.invariants.quorum import StepDown
from checkers.liveness.asking import repeated_questions
from checkers.liveness.elections import futile_elections
from checkers.liveness.fetches import unanswered_fetches
from checkers.liveness.shutdowns import late_shutdowns
from checkers.liveness.timers import stuck_elections
from checkers.replay.trace import Event
from checkers.timeline.heard import last_heard_ns
from harness.contracts.checker import RunData
from harness.history.ops import NEMESIS, History, Op
from harness.registry import checkers
from harness.verdict import Anomaly, CheckResult, Valid

NAME = "liveness"
EVENTS_PER_S_MAX = 400  # of one node in peace; some tens are usual
# What a leader may hear beside that of each other replica: some four Fetches a commit.
HEARD_PER_S_MAX = 60
IDLE_SETTING = "metadata.max.idle.interval.ms"  # how often an idle leader writes; 0 = never
IDLE_S = 2.0  # without a commit in peace: four of those intervals
NS_PER_S = 1_000_000_000
# In peace, from a leader's high watermark to its followers': a round trip, not a fetch's timeout,
# which is half a second (KIP-1166).
TOLD_WITHIN_NS = 300_000_000
# From its registration, for which a broker may have had to wait until an old session had run out.
UNFENCED_WITHIN_NS = 2_000_000_000
ANSWERED_WITHIN_NS = 2_000_000_000  # an op of a client; some ms are usual
NOT_CONTROLLER = "not-controller"  # the error of an op
ELECTION_SETTING = "controller.quorum.election.timeout.ms"
BACKOFF_SETTING = "controller.quorum.election.backoff.max.ms"
BACKOFF_MS = 1000  # where that is not set
QUORUM_SETTING = "krucible.quorum"
SNAPSHOT_SETTING = "metadata.log.max.record.bytes.between.snapshots"
BATCH_BYTES_MIN = 61  # the header of a batch
# What elections and shutdowns are seen by: few of all events.
_RARE = frozenset({"start", "role", "elected", "claim", "hb"})
# What a node says of itself by, as ``Node.take`` hears it.
_TELLING = frozenset({"start", "role", "hwm", "voters", "apply", "reg", "hb", "stop"})


@dataclass(slots=True)
class Node:
    """The last words of a node about itself."""

    role: str = "starting"
    epoch: int = 0
    leader: int | None = None
    hwm: int = -1
    applied: int = -1
    digest: str | None = None
    voters_at: int | None = None  # the record of the voter set in force, if it told of one
    fenced: bool | None = None  # of a broker, by the last answered heartbeat
    registered_ns: int = 0  # likewise: when it was last registered
    stopped: bool = False
    role_changes: list[Event] = field(default_factory=list)  # in the window that is looked at
    events: int = 0  # in that window
    commits: int = 0  # likewise: how often its high watermark grew

    def take(self, event: Event) -> None:
        """Follow one event."""
        match event["t"]:
            case "start":
                self.role, self.fenced, self.stopped = "starting", None, False
                self.voters_at = None
            case "role":
                self.role, self.epoch, self.leader = event["to"], event["ep"], event["leader"]
            case "hwm":
                self.hwm = event["v"]
            case "voters":
                self.voters_at = event.get("off")
            case "apply":
                self.applied, self.digest = event["off"], event.get("st")
            case "reg" if event["err"] == 0:
                self.registered_ns = event["rx_ns"]
            case "hb" if event["err"] == 0:  # null: nobody answered
                self.fenced = event["fenced"]
            case "stop":
                self.stopped = True
            case _:
                pass


L4, L9 = StepDown.meaning, Patience.meaning
JUDGED = (L1, L2, L3, L4, L5, L6, L7, L8, L9, L10, L11, L12, L13)


@checkers.register(NAME, needs=("events", "records"), judges=JUDGED)
def liveness(run: RunData) -> CheckResult:
    """A leader, progress, stable leadership, convergence and unfenced brokers after all heals.

    L1 to L13 of the catalogue; L4 is judged by ``consensus`` too, for all of the run, and L9 and
    L13 wherever it was calm. UNKNOWN when the run ended before its recovery.
    """
    recovery = _window(run.history, "recovery")
    if recovery is None:
        return CheckResult(NAME, Valid.UNKNOWN, reason="the run never came to its recovery")
    end = recovery.result
    rare = {n: [e for e in of if e["t"] in _RARE] for n, of in run.events.items()}
    elections, futile = futile_elections(run.history, rare, run.voters)
    fetches, unanswered = unanswered_fetches(run.history, run.events)
    stops, late_stops = late_shutdowns(run.history, rare, run.spec.settings)
    checked = {"L1": 1, "L2": 1, "L9": elections, "L13": fetches}
    if down := end.get("down"):
        checked = {"L8": len(down), "L9": elections, "L13": fetches}  # others were not waited for
        anomalies = list(_ended(down, run, end.get("elapsed_ms")))
    elif not end.get("recovered"):
        nodes = _follow(run, recovery.end_ns)
        anomalies = list(_not_recovered(nodes, run, end.get("elapsed_ms")))
    else:
        settle = _window(run.history, "settle")
        anomalies = []
        if settle is not None:
            checked |= {
                "L3": 1,
                "L2": 2,
                "L4": len(run.voters),
                "L6": len(_names(run)),
                "L7": len(run.voters),
                "L8": len(_names(run)),
                "L12": len(_names(run)),
            }
            checked |= {"L10": len(run.observers) + stops}
            nodes = _follow(run, settle.end_ns, settle.begin_ns)
            anomalies = list(_unsettled(nodes, run, settle))
        if SNAPSHOT_SETTING in run.spec.settings:
            checked["L11"] = len(_names(run))
            anomalies += _overdue(run, int(run.spec.settings[SNAPSHOT_SETTING]))
        asked, late = _late_ops(run.history, recovery.end_ns)
        checked["L5"] = asked
        anomalies += late
    timed, stuck = _elections(run)
    checked["L7"] = checked.get("L7", 0) + timed
    questions, repeated = repeated_questions(run.events)
    checked["L12"] = checked.get("L12", 0) + questions
    anomalies += futile + unanswered + late_stops + stuck + repeated
    return CheckResult(
        NAME,
        Valid.INVALID if anomalies else Valid.VALID,
        tuple(anomalies),
        checked=checked,
        stats={"recovered_ms": end.get("elapsed_ms")},
    )


def _elections(run: RunData) -> tuple[int, list[Anomaly]]:
    """Voters stuck in an election, where the timeout is known and no voter is ever removed."""
    settings = run.spec.settings
    if ELECTION_SETTING not in settings or settings.get(QUORUM_SETTING) == "dynamic":
        return 0, []
    voters = {name: run.events.get(name, ()) for name in run.voters}
    backoff_ms = int(settings.get(BACKOFF_SETTING, BACKOFF_MS))
    return stuck_elections(run.history, voters, int(settings[ELECTION_SETTING]), backoff_ms)


def _names(run: RunData) -> tuple[str, ...]:
    return (*run.voters, *run.observers)


@dataclass(frozen=True, slots=True)
class _Window:
    """A stretch between two ops of the nemesis, on the clock of the history."""

    begin_ns: int
    end_ns: int
    result: Mapping[str, Any]


def _window(history: History, f: str) -> _Window | None:
    ops = [op for op in history.nemesis() if op.f == f]
    if len(ops) < 2:  # noqa: PLR2004 - begin and end
        return None
    return _Window(ops[-2].time_ns, ops[-1].time_ns, ops[-1].value)


def _follow(run: RunData, end_ns: int, begin_ns: int = 0) -> dict[str, Node]:
    """Every node as it was at ``end_ns``, with what it did since ``begin_ns``."""
    nodes: dict[str, Node] = defaultdict(Node)
    for name in _names(run):
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


def _ended(down: Mapping[str, str], run: RunData, elapsed_ms: int | None) -> Iterator[Anomaly]:
    """Tell who does not come back; the harness then waits for nobody, so others are not judged."""
    for name, how in down.items():
        at_ns = last_heard_ns(run.events.get(name, ()))
        heard = "and never told of itself"
        if at_ns is not None:
            heard = f"last heard of at {at_ns / NS_PER_S:.3f} s"
        yield Anomaly(
            "L8",
            f"{name} has ended ({how}), {heard}: for that the wait for the cluster was given up,"
            f" {elapsed_ms} ms after the last fault was healed",
            details={"nodes": [name]},
        )


def _not_recovered(
    nodes: Mapping[str, Node], run: RunData, elapsed_ms: int | None
) -> Iterator[Anomaly]:
    """Tell why the cluster has not come back, as far as events tell: the first cause only."""
    after = f"{elapsed_ms} ms after the last fault was healed"
    leaders = [name for name in run.voters if nodes[name].role == "leader"]
    if not leaders:
        roles = ", ".join(f"{n} {nodes[n].role} in epoch {nodes[n].epoch}" for n in run.voters)
        yield Anomaly("L1", f"{after} nobody leads: {roles}")
        return
    leader = max(leaders, key=lambda name: nodes[name].epoch)
    behind = [name for name in _names(run) if nodes[name].hwm < nodes[leader].hwm]
    if not behind:
        place = _place(nodes[leader])
        yield Anomaly("L2", f"{after} {leader} leads and makes no progress: {place}")
        return
    far = ", ".join(f"{name} at {nodes[name].hwm}" for name in behind)
    yield Anomaly(
        "L8", f"{after} not all have what {leader} has committed, {nodes[leader].hwm}: {far}"
    )


def _unsettled(nodes: Mapping[str, Node], run: RunData, window: _Window) -> Iterator[Anomaly]:
    """Tell what a cluster in peace must not do."""
    seconds = (window.end_ns - window.begin_ns) / NS_PER_S
    for name in _names(run):
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
    yield from _stands_still(nodes, run, seconds)
    yield from _diverging(nodes, _names(run), seconds)
    yield from _told_late(run, window)


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


def _late_ops(history: History, since_ns: int) -> tuple[int, list[Anomaly]]:
    """Ops that were invoked after the recovery and have no answer, or only a late one.

    A process that was there before may still take a node for the controller that was it then. Not
    every answer of that one can say that it did nothing; but the next op goes to the right one.
    """
    invoked: dict[int | str, Op] = {}
    dated: set[int | str] = set()  # processes that may go by what was before
    asked, late = 0, list[Anomaly]()
    for op in history:
        if op.process == NEMESIS:
            continue
        if op.time_ns < since_ns:
            dated.add(op.process)
            continue
        if op.type == "invoke":
            asked += 1
            invoked[op.process] = op
            continue
        began = invoked.pop(op.process, None)
        if began is None:
            continue  # it was invoked before
        waited_ns = op.time_ns - began.time_ns
        corrected = op.process in dated and op.error == NOT_CONTROLLER
        dated.discard(op.process)
        if (op.type == "info" and not corrected) or waited_ns > ANSWERED_WITHIN_NS:
            late.append(
                _unanswered(began, f"{op.type} after {waited_ns / NS_PER_S:g} s: {op.error}")
            )
    late += [_unanswered(op, "no answer at all") for op in invoked.values()]
    return asked, late


def _unanswered(op: Op, what: str) -> Anomaly:
    return Anomaly(
        "L5",
        f"process {op.process} asked for {op.f} when all nodes had recovered, and had {what}",
        ops=(op.index,),
        time_ns=op.time_ns,
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
    nodes: Mapping[str, Node], names: Iterable[str], seconds: float
) -> Iterator[Anomaly]:
    """Nodes in peace are at most what was committed last apart."""
    ahead = max((nodes[name].hwm for name in names), default=-1)
    late = [name for name in names if nodes[name].hwm < ahead - 1]
    if late:
        far = ", ".join(f"{name} at {_place(nodes[name])}" for name in late)
        yield Anomaly("L8", f"after {seconds:g} s of peace {far}, others at {ahead}")


def _told_late(run: RunData, window: _Window) -> Iterator[Anomaly]:
    """Tell who hears of a commit only with the next one, or when a fetch has waited in vain."""
    marks = {
        name: [e for e in run.events.get(name, ()) if e["t"] == "hwm" and _within(e, window)]
        for name in _names(run)
    }
    due = [(by, e) for by, each in marks.items() for e in each if e.get("as") == "leader"]
    due = [(by, e) for by, e in due if e["rx_ns"] + TOLD_WITHIN_NS < window.end_ns]
    for name, told in marks.items():
        for by, event in due:
            until_ns = event["rx_ns"] + TOLD_WITHIN_NS
            if not any(e["v"] >= event["v"] and e["rx_ns"] <= until_ns for e in told):
                yield Anomaly(
                    "L8",
                    f"{name} did not hear in {TOLD_WITHIN_NS / NS_PER_S:g} s of peace that"
                    f" {by} had committed {event['v']}",
                    events=(dict(event),),
                    time_ns=event["rx_ns"],
                )
                break


def _within(event: Event, window: _Window) -> bool:
    return bool(window.begin_ns <= event["rx_ns"] < window.end_ns)


def _overdue(run: RunData, due_bytes: int) -> Iterator[Anomaly]:
    """Find nodes whose log is twice as long as it may be without a snapshot (KAFKA-14300)."""
    for name in _names(run):
        newest = max((s.end for s in run.snapshots.get(name, ()) if s.error is None), default=0)
        since = sum(batch.base >= newest for batch in run.logs.get(name, ()))
        if since * BATCH_BYTES_MIN > 2 * due_bytes:
            yield Anomaly(
                "L11",
                f"{name} has {since} batches after its newest snapshot, at {newest}; one is due"
                f" after {due_bytes} bytes",
            )


def _place(node: Node) -> str:
    return f"high watermark {node.hwm}, applied {node.applied}"
