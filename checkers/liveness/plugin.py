"""``liveness``: what must come true once all faults are healed, in time that nobody can take away.

Only for simulations: there a deadline is the nodes' own, never a busy machine's. It judges two
stretches of the history: ``recovery``, which ends when all nodes run, are led and caught up, and
``settle``, some seconds in which nothing is asked of the cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from checkers.invariants.haste import FETCH_SETTING
from checkers.invariants.liveness import L1, L2, L3, L5, L6, L7, L8, L10, L11, L12, L13
from checkers.invariants.patience import Patience
from checkers.invariants.quorum import StepDown
from checkers.liveness.asking import repeated_questions, repeated_updates
from checkers.liveness.cleaning import overfull
from checkers.liveness.elections import futile_elections
from checkers.liveness.fetches import hesitating, unanswered_fetches
from checkers.liveness.peace import (
    Node,
    Window,
    follow,
    names_of,
    place,
    told_late,
    unsettled,
    window_of,
)
from checkers.liveness.shutdowns import late_shutdowns
from checkers.liveness.timers import stuck_elections, stuck_followers
from checkers.replay.trace import Event
from checkers.timeline.heard import last_heard_ns
from harness.clock import NS_PER_S
from harness.contracts.checker import RunData
from harness.history.ops import NEMESIS, History, Op
from harness.registry import checkers
from harness.verdict import Anomaly, CheckResult, Valid

NAME = "liveness"
ANSWERED_WITHIN_NS = 2_000_000_000  # an op of a client; some ms are usual
NOT_CONTROLLER = "not-controller"  # the error of an op
ELECTION_SETTING = "controller.quorum.election.timeout.ms"
REQUEST_SETTING = "controller.quorum.request.timeout.ms"
BACKOFF_SETTING = "controller.quorum.election.backoff.max.ms"
BACKOFF_MS = 1000  # where that is not set
QUORUM_SETTING = "krucible.quorum"
SNAPSHOT_SETTING = "metadata.log.max.record.bytes.between.snapshots"
BATCH_BYTES_MIN = 61  # the header of a batch
# What elections and shutdowns are seen by: few of all events.
AGAIN = ", and it was started again"  # in an anomaly's message
_NEVER = 2**63
UNHEARD = ", which got none of these requests"  # in an anomaly's message
_OFTEN = 3  # one request or two may be lost
_LEADERLESS = frozenset({"resigned", "prospective"})  # roles that a voter waits in
_RARE = frozenset({"start", "role", "elected", "claim", "hb", "vote"})


L4, L9 = StepDown.meaning, Patience.meaning
JUDGED = (L1, L2, L3, L4, L5, L6, L7, L8, L9, L10, L11, L12, L13)


@checkers.register(NAME, needs=("events", "records"), judges=JUDGED)
def liveness(run: RunData) -> CheckResult:
    """A leader, progress, stable leadership, convergence and unfenced brokers after all heals.

    L1 to L13 of the catalogue; L4 is judged by ``consensus`` too, for all of the run, and L9 and
    L13 wherever it was calm. UNKNOWN when the run ended before its recovery.
    """
    recovery = window_of(run.history, "recovery")
    if recovery is None:
        return CheckResult(NAME, Valid.UNKNOWN, reason="the run never came to its recovery")
    end = recovery.result
    rare = {n: [e for e in of if e["t"] in _RARE] for n, of in run.events.items()}
    elections, futile = futile_elections(run.history, rare, run.voters)
    fetches, unanswered = unanswered_fetches(run.history, run.events)
    appends, hesitant = hesitating(run.history, run.events)
    fetches += appends
    stops, late_stops = late_shutdowns(run.history, rare, run.spec.settings)
    checked = {"L1": 1, "L2": 1, "L9": elections, "L13": fetches}
    if down := end.get("down"):
        checked = {"L8": len(down), "L9": elections, "L13": fetches}  # others were not waited for
        anomalies = list(_ended(down, run, end.get("elapsed_ms")))
    elif not end.get("recovered"):
        nodes = follow(run, recovery.end_ns)
        anomalies = list(_not_recovered(nodes, run, recovery))
    else:
        settle = window_of(run.history, "settle")
        anomalies = []
        if settle is not None:
            checked |= {
                "L3": 1,
                "L2": 2,
                "L4": len(run.voters),
                "L6": len(names_of(run)),
                "L7": len(run.voters),
                "L8": len(names_of(run)),
                "L12": len(names_of(run)),
            }
            checked |= {"L10": len(run.observers) + stops}
            nodes = follow(run, settle.end_ns, settle.begin_ns)
            anomalies = [*unsettled(nodes, run, settle), *told_late(run, settle)]
            cleaned, full = overfull(run, names_of(run), settle)
            checked |= {"L11": cleaned} if cleaned else {}
            anomalies += full
        if SNAPSHOT_SETTING in run.spec.settings:
            checked["L11"] = len(names_of(run))
            anomalies += _overdue(run, int(run.spec.settings[SNAPSHOT_SETTING]))
        kept = [name for name in names_of(run) if run.snapshots.get(name)]
        if kept:
            checked["L11"] = max(len(kept), checked.get("L11", 0))
            anomalies += _left_behind(run, kept)
        asked, late = _late_ops(run.history, recovery.end_ns)
        checked["L5"] = asked
        anomalies += late
    timed, stuck = _elections(run)
    checked["L7"] = checked.get("L7", 0) + timed
    questions, repeated = repeated_questions(run.events)
    updates, again = repeated_updates(run.events)
    checked["L12"] = checked.get("L12", 0) + questions + updates
    anomalies += futile + unanswered + hesitant + late_stops + stuck + repeated + again
    return CheckResult(
        NAME,
        Valid.INVALID if anomalies else Valid.VALID,
        tuple(anomalies),
        checked=checked,
        stats={"recovered_ms": end.get("elapsed_ms")},
    )


def _elections(run: RunData) -> tuple[int, list[Anomaly]]:
    """Voters stuck in a role, where the timeouts are known and no voter is ever removed."""
    settings = run.spec.settings
    if ELECTION_SETTING not in settings or settings.get(QUORUM_SETTING) == "dynamic":
        return 0, []
    voters = {name: run.events.get(name, ()) for name in run.voters}
    backoff_ms = int(settings.get(BACKOFF_SETTING, BACKOFF_MS))
    checked, found = stuck_elections(
        run.history, voters, int(settings[ELECTION_SETTING]), backoff_ms
    )
    if not {FETCH_SETTING, REQUEST_SETTING} <= settings.keys():
        return checked, found
    timeouts_ms = int(settings[FETCH_SETTING]), int(settings[REQUEST_SETTING])
    followed, deserted = stuck_followers(run.history, voters, *timeouts_ms)
    return checked + followed, found + deserted


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


def _not_recovered(nodes: Mapping[str, Node], run: RunData, recovery: Window) -> Iterator[Anomaly]:
    """Tell why the cluster has not come back, as far as events tell: the first cause only."""
    after = f"{recovery.result.get('elapsed_ms')} ms after the last fault was healed"
    leaders = [name for name in run.voters if nodes[name].role == "leader"]
    if not leaders:
        roles = ", ".join(f"{n} {nodes[n].role} in epoch {nodes[n].epoch}" for n in run.voters)
        yield Anomaly("L1", f"{after} nobody leads: {roles}{_unheard(run, recovery)}")
        return
    leader = max(leaders, key=lambda name: nodes[name].epoch)
    behind = [name for name in names_of(run) if nodes[name].hwm < nodes[leader].hwm]
    if not behind:
        there = place(nodes[leader])
        yield Anomaly("L2", f"{after} {leader} leads and makes no progress: {there}")
        return
    far = ", ".join(f"{name} at {nodes[name].hwm}{_out_of_it(nodes[name])}" for name in behind)
    yield Anomaly(
        "L8", f"{after} not all have what {leader} has committed, {nodes[leader].hwm}: {far}"
    )


def _unheard(run: RunData, recovery: Window) -> str:
    """Tell which voters get no requests for votes, though no fault keeps any from them."""
    asked: Counter[tuple[int, int]] = Counter()
    heard: set[tuple[int, int]] = set()
    for event in chain.from_iterable(run.events.values()):
        if event["rx_ns"] < recovery.begin_ns:
            continue
        if event["t"] == "votereq":
            asked[event["node"], event["to"]] += 1
        elif event["t"] == "vote":
            heard.add((event["cand"], event["node"]))
    return "".join(
        f"; n{who} asked n{whom} for its vote {times} times{UNHEARD}"
        for (who, whom), times in sorted(asked.items())
        if times >= _OFTEN and (who, whom) not in heard
    )


def _out_of_it(node: Node) -> str:
    """Tell the role of a node that follows nobody."""
    return f", {node.role} in epoch {node.epoch}" if node.role in _LEADERLESS else ""


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


def _overdue(run: RunData, due_bytes: int) -> Iterator[Anomaly]:
    """Find nodes whose log is twice as long as it may be without a snapshot (KAFKA-14300).

    Where that is only since the node was started again, the anomaly says so.
    """
    for name in names_of(run):
        newest = max((s.end for s in run.snapshots.get(name, ()) if s.error is None), default=0)
        bases = [batch.base for batch in run.logs.get(name, ()) if batch.base >= newest]
        if len(bases) * BATCH_BYTES_MIN > 2 * due_bytes:
            again = _caught_up_again(run.events.get(name, ()))
            later = bases if again is None else [base for base in bases if base >= again]
            is_later = len(later) * BATCH_BYTES_MIN > 2 * due_bytes
            yield Anomaly(
                "L11",
                f"{name} has {len(bases)} batches after its newest snapshot, at {newest}; one is"
                f" due after {due_bytes} bytes{'' if is_later else AGAIN}",
            )


def _caught_up_again(events: Iterable[Event]) -> int | None:
    """The offset of the first image of a node's last process; None: it has had but one process."""
    starts, offset = 0, None
    for event in events:
        if event["t"] == "start":
            starts, offset = starts + 1, None
        elif event["t"] == "image" and offset is None:
            offset = event["off"]
    return None if starts < 2 else _NEVER if offset is None else offset  # noqa: PLR2004


def _left_behind(run: RunData, nodes: Iterable[str]) -> Iterator[Anomaly]:
    """Find snapshots that a node should have deleted, as they end before its log begins."""
    for name in nodes:
        ends = sorted(s.end for s in run.snapshots[name] if s.error is None)
        batches = run.logs.get(name, ())
        begin = batches[0].base if batches else max(ends, default=0)
        old = [end for end in ends if 0 < end < begin]
        if old:
            yield Anomaly(
                "L11",
                f"{name} still has the snapshots of {', '.join(map(str, old))}, though its log"
                f" begins at {begin}",
                details={"nodes": [name]},
            )
