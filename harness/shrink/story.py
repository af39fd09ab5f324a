"""The story of a failure: the few events of a run that led to it, one sentence each.

Pure: from what a run left behind and the anomaly to be explained. Elections, votes, restarts,
truncations, faults, and what befell the offsets that the anomaly speaks of, are told; of too
many the ones that concern its nodes and epochs, and the last ones, are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from harness.clock import NS_PER_S
from harness.contracts.checker import RunData
from harness.history.ops import Op
from harness.moments.trigger import trigger_from_json
from harness.moments.words import told as when
from harness.verdict import Anomaly

LINES_MAX = 15  # with the violation itself
WEIGHT_MIN = 3  # what matters less is not told, were there room or not
EVIDENCE = 4  # so much more do the events matter that the anomaly shows
_NAME = re.compile(r"\bn[1-9]\d*\b")

# What faults do and what their heal does, with the targets as {who}.
_DONE = {
    "kill": "kill {who}",
    "pause": "freeze {who}",
    "power": "cut the power of {who}",
    "partition-isolate-leader": "cut {who} off from all others",
    "partition-isolate-one": "cut {who} off from all others",
}
_UNDONE = {
    "kill": "start {who} again",
    "pause": "thaw {who}",
    "power": "start {who} again",
    "partition-isolate-leader": "connect {who} again",
    "partition-isolate-one": "connect {who} again",
}


@dataclass(frozen=True, slots=True)
class Concern:
    """The subject of an anomaly."""

    nodes: frozenset[str]
    epochs: frozenset[int]
    offsets: frozenset[int]
    ops: frozenset[int]
    events: frozenset[tuple[Any, ...]]  # the evidence, by node and place
    end_ns: int | None  # when it became visible


@dataclass(frozen=True, slots=True)
class Moment:
    """One sentence, when it happened, and how much it matters."""

    time_ns: int
    text: str
    weight: int


def story(data: RunData, anomaly: Anomaly, lines_max: int = LINES_MAX) -> list[str]:
    """Tell what led to the anomaly, in the order of time; the last line is the anomaly itself.

    When the run has other luck than its seed's first, lines before all others say so.
    """
    concern = concern_of(anomaly, data)
    told = [*_faults(data), *_events(data, concern), *_ops(data, concern)]
    end_ns = inf if concern.end_ns is None else concern.end_ns
    told = [m for m in told if m.weight >= WEIGHT_MIN and m.time_ns <= end_ns]
    told.sort(key=lambda moment: moment.time_ns)  # of one moment: faults, then node by node
    head = [_luck(data.spec.luck)] if data.spec.luck else []
    head += [_redrawn(number) for number, _ in data.spec.tape]
    most = lines_max - 1 - len(head)
    places = sorted(range(len(told)), key=lambda i: (told[i].weight, i))[-most:]
    lines = [f"{_at(told[i].time_ns)}: {told[i].text}" for i in sorted(places)]
    return [
        *head,
        *lines,
        f"{_at(concern.end_ns)}: {anomaly.invariant} is broken: {anomaly.message}",
    ]


def _luck(luck: int) -> str:
    return f"(latencies, losses and timeouts are those of the seed's luck {luck}, not its first)"


def _redrawn(number: int) -> str:
    return f"(latencies, losses and timeouts are drawn anew from event {number} on)"


def _at(time_ns: int | None) -> str:
    return "at the end" if time_ns is None else f"t={time_ns / NS_PER_S:.3f} s"


def concern_of(anomaly: Anomaly, data: RunData) -> Concern:
    """The nodes, epochs, offsets and ops that an anomaly and its evidence name."""
    nodes = set(_NAME.findall(anomaly.message))
    epochs: set[int] = set()
    offsets: set[int] = set()
    for event in anomaly.events:
        nodes.add(_node(event))
        epochs |= _numbers(event, "ep", "bep")
        offsets |= _numbers(event, "base", "last", "to")
    epochs |= _numbers(anomaly.details, "epoch", "epochs")
    offsets |= _numbers(anomaly.details, "offset", "offsets")
    ops = [op for op in data.history if op.index in set(anomaly.ops)]
    seen = [event["rx_ns"] for event in anomaly.events if isinstance(event.get("rx_ns"), int)]
    seen += [op.time_ns for op in ops]
    end_ns = max(seen, default=None) if anomaly.time_ns is None else anomaly.time_ns
    nodes |= {op.node for op in ops if op.node}
    return Concern(
        frozenset(nodes),
        frozenset(epochs),
        frozenset(offsets),
        frozenset(anomaly.ops),
        frozenset(map(_place, anomaly.events)),
        end_ns,
    )


def _numbers(fields: Mapping[str, Any], *names: str) -> set[int]:
    found: set[int] = set()
    for name in names:
        value = fields.get(name)
        values = value if isinstance(value, list | tuple) else [value]
        found |= {v for v in values if isinstance(v, int) and not isinstance(v, bool)}
    return found


# --------------------------------------------------------------------------- faults and ops


def _faults(data: RunData) -> Iterator[Moment]:
    """Tell what the nemesis did, at the moment it began to."""
    begun: dict[tuple[str, Any], int] = {}
    hit: dict[Any, Mapping[str, Any]] = {}  # the faults that took hold
    for op in data.history:
        if op.process != "nemesis" or not isinstance(op.value, Mapping) or "id" not in op.value:
            continue
        number = op.value["id"]
        first = (op.f, number) not in begun
        at_ns = begun.setdefault((op.f, number), op.time_ns)
        if op.f == "inject" and op.value.get("outcome") == "installed":
            hit[number] = op.value
            yield Moment(at_ns, _phrase(_DONE, op.value) + _when(op.value), 6)
        elif op.f == "heal" and first and number in hit:
            yield Moment(at_ns, _phrase(_UNDONE, hit[number]), 4)


def _when(fault: Mapping[str, Any]) -> str:
    """Tell at which event a fault struck; nothing of one that went by time."""
    trigger = fault.get("trigger")
    return "" if trigger is None else f" {when(trigger_from_json(trigger))}"


def _phrase(phrases: Mapping[str, str], fault: Mapping[str, Any]) -> str:
    name, who = str(fault["nemesis"]), _list(fault.get("targets", ()))
    if name in phrases:
        return phrases[name].format(who=who)
    if phrases is _UNDONE:
        return f"{name} at {who} is healed"
    params = fault.get("params") or {}
    how = ", ".join(f"{key} {_shown(value)}" for key, value in params.items() if key != "target")
    return f"{name} at {who}" + (f" ({how})" if how else "")


def _shown(value: object) -> str:
    return "; ".join(map(str, value)) if isinstance(value, list) else str(value)


def _ops(data: RunData, concern: Concern) -> Iterator[Moment]:
    """The clients' ops that the anomaly names."""
    for op in data.history:
        if op.index in concern.ops and isinstance(op.process, int):
            yield Moment(op.time_ns, _told(op), 7)


def _told(op: Op) -> str:
    what = op.f if op.key is None else f"{op.f} of {op.key}"
    if op.value is not None:
        what += f" = {op.value}"
    if op.type == "invoke":
        return f"client {op.process} begins {what} at {op.node} (op {op.index})"
    end = op.type if op.error is None else f"{op.type}: {op.error}"
    return f"client {op.process}: {what} at {op.node} ends as {end} (op {op.index})"


# --------------------------------------------------------------------------- protocol events


def _events(data: RunData, concern: Concern) -> Iterator[Moment]:
    """The nodes' events worth telling; those of the anomaly's nodes and epochs weigh more."""
    for node, events in data.events.items():
        for event in events:
            sentence = _SENTENCES.get(str(event.get("t")))
            told = None if sentence is None else sentence(node, event, concern)
            if told is None:
                continue
            text, weight = told
            weight += node in concern.nodes
            weight += event.get("ep") in concern.epochs
            weight += EVIDENCE * (_place(event) in concern.events)
            yield Moment(int(event.get("rx_ns", event.get("ts", 0))), text, weight)


Event = Mapping[str, Any]
Told = tuple[str, int] | None  # the sentence and its weight


def _start(node: str, event: Event, _: Concern) -> Told:
    if event.get("inc") == 1 and event.get("leo") == 0:
        return None  # as every node begins
    state = event.get("qs") or {}
    vote = _replica(state.get("voted")) or "no vote"
    vote = f"a vote for {vote}" if vote != "no vote" else vote
    leader = _replica(state.get("leader")) or "no leader"
    end = event.get("leo")
    return f"{node} restarts in epoch {state.get('ep')} with {vote}, {leader}, log end {end}", 6


def _stop(node: str, _: Event, __: Concern) -> Told:
    return f"{node} stops", 1


def _role(node: str, event: Event, _: Concern) -> Told:
    epoch, before, after = event.get("ep"), event.get("from"), event.get("to")
    if after == "candidate":
        return f"{node} stands for election in epoch {epoch}", 4
    if after == "leader" and before != "candidate":
        return f"{node} leads epoch {epoch}", 5
    if before in ("leader", "resigned") and after != "leader":
        return f"{node} is no longer leader: {after} in epoch {epoch}", 4
    if after == "follower":
        return f"{node} follows {_replica(event.get('leader'))} in epoch {epoch}", 1
    return None


def _elected(node: str, event: Event, _: Concern) -> Told:
    grants = _list([_replica(grant) or "?" for grant in event.get("grants", ())])
    return f"{node} is elected leader of epoch {event.get('ep')} with the votes of {grants}", 6


def _vote(node: str, event: Event, concern: Concern) -> Told:
    pre = bool(event.get("pre"))
    if pre and _place(event) not in concern.events:
        return None  # there are many, and they bind nobody
    candidate, epoch = _replica(event.get("cand")), event.get("ep")
    if event.get("ok"):
        would = "would vote" if pre else "votes"
        return f"{node} {would} for {candidate} in epoch {epoch}", 3
    return f"{node} refuses {candidate} its vote in epoch {epoch}", 1


def _trunc(node: str, event: Event, _: Concern) -> Told:
    why = event.get("why")
    return f"{node} cuts its log from {event.get('was')} to {event.get('to')} ({why})", 6


def _snap(node: str, event: Event, _: Concern) -> Told:
    if event.get("op") != "install":
        return None
    return f"{node} installs the snapshot {event.get('id')}", 5


def _append(node: str, event: Event, concern: Concern) -> Told:
    base, last = event.get("base"), event.get("last")
    if not _covers(base, last, concern):
        return None
    span = f"offset {base}" if base == last else f"offsets {base} to {last}"
    source = "as leader" if event.get("src") == "leader" else "from its leader"
    return f"{node} appends {span} of epoch {event.get('bep')} {source}", 5


def _hwm(node: str, event: Event, concern: Concern) -> Told:
    mark = event.get("v")
    if not isinstance(mark, int) or mark - 1 not in concern.offsets:
        return None
    acks = [f"{_replica(a[0])} at {a[-1]}" for a in event.get("acks") or () if len(a) > 1]
    of = f" ({', '.join(acks)})" if acks else ""
    return f"{node} commits all below {mark} as {event.get('as')}{of}", 6


_SENTENCES = {
    "start": _start,
    "stop": _stop,
    "role": _role,
    "elected": _elected,
    "vote": _vote,
    "trunc": _trunc,
    "snap": _snap,
    "append": _append,
    "hwm": _hwm,
}


def _covers(base: Any, last: Any, concern: Concern) -> bool:
    if not isinstance(base, int) or not isinstance(last, int):
        return False
    return any(base <= offset <= last for offset in concern.offsets)


def _replica(value: Any) -> str | None:
    """The name of a replica in a trace: its number, or a list that begins with it."""
    number = value[0] if isinstance(value, list | tuple) and value else value
    return f"n{number}" if isinstance(number, int) else None


def _place(event: Event) -> tuple[Any, ...]:
    """Tell what no two events of a run have in common."""
    return tuple(event.get(name) for name in ("node", "inc", "seq", "t", "rx_ns"))


def _node(event: Event) -> str:
    return _replica(event.get("node")) or "?"


def _list(names: Any) -> str:
    """Names as people list them."""
    *most, last = map(str, names) if names else ("nobody",)
    return f"{', '.join(most)} and {last}" if most else last
