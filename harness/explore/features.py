"""Features: a run summed up as what happened in it, whatever the names of its nodes and the times.

Five kinds, each a short text:

* ``then``: two events of one node that follow each other, with its role and how its epoch moved;
* ``rpc``: a request as its receiver saw it, with the roles of both and the result;
* ``state``: roles, epochs, log ends and high watermarks of all voters, ranked, and the fault;
* ``near``: how near something bad was, in powers of two: records cut, records that a new leader has
  beyond what is known as committed, candidates of one epoch, votes beyond a majority;
* ``judged``: an invariant's premise came true, how often in powers of eight.

Events before the schedule starts tell who is in which state, and give no features.

Sources: ModelFuzz (OOPSLA 2025) for abstract states, Mallory (CCS 2023) for chains of events.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge
from math import ceil
from typing import Any, Final

from harness.clock import NS_PER_MS
from harness.history.ops import History

Event = Mapping[str, Any]
Seen = dict[str, int]  # features, each with the ms since the schedule's start when it first came

# The fields of an event that tell what kind it is; of types that are not named, none does.
_KIND: Final[Mapping[str, tuple[str, ...]]] = {
    "role": ("from", "to", "by"),
    "vote": ("pre", "ok", "err"),
    "votereq": ("pre",),
    "quorum": ("ok",),
    "append": ("src", "ctl"),
    "hwm": ("as",),
    "fetch_rx": ("res",),
    "voters": ("revert",),
    "snap": ("op",),
    "ack": ("api",),
    "read": ("api",),
    "image": ("kind",),
    "reg": ("err",),
    "creg": ("err",),
    "hb": ("err", "caught_up", "fenced", "shut_down"),
    "fence": ("fenced", "why"),
    "alter": ("err",),
    "let_go": ("was",),
    "bstate": ("to",),
    "rpc_err": ("api", "code"),
    "rpc_ok": ("api",),
}
# Who asked, of the events that tell of a request.
_ASKER: Final[Mapping[str, str]] = {
    "vote": "cand",
    "fetch_rx": "from",
    "rpc_ok": "peer",
    "rpc_err": "peer",
}
# Told for the sake of a check alone: no features.
_UNSHOWN: Final = frozenset({"contact", "unanswered", "denied"})
_TURNS: Final = frozenset({"start", "role", "elected", "trunc", "voters", "claim", "renounce"})
_INVARIANT: Final = re.compile(r"[SCL]\d+")
_RAISED_MAX = 2  # an epoch that moves by more is not told apart


@dataclass(slots=True)
class _Node:
    """The state of a node as its events tell."""

    role: str = "new"
    epoch: int = 0
    end: int = 0
    high_watermark: int = 0
    last: str = ""


@dataclass(slots=True)
class Reader:
    """Follows the events of all nodes, in the order of time."""

    voters: frozenset[int]
    began_ns: int
    seen: Seen = field(default_factory=dict)
    nodes: dict[int, _Node] = field(default_factory=lambda: defaultdict(_Node))
    claimants: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))  # by epoch

    def feed(self, event: Event, fault: str) -> None:
        """Take the next event in; ``fault`` names what is in force."""
        kind, node = event["t"], self.nodes[event["node"]]
        if kind in _UNSHOWN:
            return
        token = " ".join((kind, *(str(event.get(name)) for name in _KIND.get(kind, ()))))
        if event["ts"] >= self.began_ns:
            at_ms = (event["ts"] - self.began_ns) // NS_PER_MS
            for feature in self._shown(event, token, node):
                self.seen.setdefault(feature, at_ms)
            _update(node, event)
            if kind in _TURNS:
                self.seen.setdefault(f"state {self._state()} under {fault}", at_ms)
        else:
            _update(node, event)
        node.last = token

    def _shown(self, event: Event, token: str, node: _Node) -> Iterator[str]:
        """List the features that an event shows of its node as that was before."""
        kind = event["t"]
        raised = min(max(event.get("ep", 0) - node.epoch, 0), _RAISED_MAX)
        yield f"then {node.role}: {node.last} > {token} +{raised}"
        if (asker := event.get(_ASKER.get(kind, ""))) is not None:
            asking = self.nodes[asker].role if isinstance(asker, int) else "nobody"
            yield f"rpc {token}: {asking} asks {node.role}"
        if kind == "trunc":
            yield f"near cut {_size(_whole(event.get('was'), 0) - _whole(event.get('to'), 0))}"
        elif kind == "elected":
            yield f"near uncommitted at election {_size(node.end - node.high_watermark)}"
            spare = len(event["grants"]) - (len(event["voters"]) // 2 + 1)
            yield f"near votes to spare {spare}"
        elif kind == "role" and event["to"] == "candidate":
            self.claimants[event["ep"]].add(event["node"])
            yield f"near candidates {len(self.claimants[event['ep']])}"

    def _state(self) -> str:
        """Tell how the voters stand to each other, without their names."""
        nodes = [self.nodes[voter] for voter in self.voters]
        tops = [
            sorted({value(node) for node in nodes}, reverse=True)
            for value in (_epoch_of, _end_of, _high_watermark_of)
        ]
        epochs, ends, marks = ({v: min(n, 2) for n, v in enumerate(top)} for top in tops)
        return " ".join(
            sorted(
                f"{n.role}:{epochs[n.epoch]}{ends[n.end]}{marks[n.high_watermark]}" for n in nodes
            )
        )


def _epoch_of(node: _Node) -> int:
    return node.epoch


def _end_of(node: _Node) -> int:
    return node.end


def _high_watermark_of(node: _Node) -> int:
    return node.high_watermark


def _update(node: _Node, event: Event) -> None:
    node.epoch = max(node.epoch, event.get("ep", 0))  # what the harness did to a disk has none
    match event["t"]:
        case "start":
            node.role, node.end = "started", _whole(event.get("leo"), 0)
            node.high_watermark = 0
        case "role":
            node.role = event["to"]
        case "append":
            node.end = _whole(event.get("last"), node.end - 1) + 1
        case "trunc":
            node.end = _whole(event.get("to"), node.end)
        case "hwm":
            node.high_watermark = _whole(event.get("v"), node.high_watermark)
        case "stop":
            node.role = "stopped"
        case _:
            pass


def features(
    events: Mapping[str, Sequence[Event]],
    history: History,
    voters: Iterable[str],
    checked: Mapping[str, int],
    began_ns: int,
) -> Seen:
    """Give the features of a run.

    Args:
        events: Of each node, in their order.
        history: Tells which faults were in force.
        voters: The names of the nodes that begin as voters, as ``n1``.
        checked: How often each invariant was judged.
        began_ns: The start of the schedule, by the clock of events and history.
    """
    changes = _faults(history)
    reader = Reader(frozenset(int(name.removeprefix("n")) for name in voters), began_ns)
    in_force: list[str] = []
    place = 0
    for event in merge(*events.values(), key=_moment):
        while place < len(changes) and changes[place][0] <= event["ts"]:
            _, nemesis, begins = changes[place]
            in_force.append(nemesis) if begins else in_force.remove(nemesis)
            place += 1
        reader.feed(event, _told(in_force))
    for name, count in checked.items():
        if count and _INVARIANT.fullmatch(name):
            reader.seen.setdefault(f"judged {name} {ceil(_size(count) / 3)}", 0)
    return reader.seen


def _faults(history: History) -> list[tuple[int, str, bool]]:
    """When each fault took hold (True) and was healed (False), by its name."""
    changes: list[tuple[int, str, bool]] = []
    on: dict[Any, str] = {}
    for op in history.nemesis():
        value = op.value
        if not isinstance(value, Mapping) or op.f not in ("inject", "heal"):
            continue
        id_ = value.get("id")
        if op.f == "inject" and value.get("outcome") == "installed":
            on[id_] = str(value.get("nemesis"))
            changes.append((op.time_ns, on[id_], True))
        elif op.f == "heal" and "evidence" in value and id_ in on:
            changes.append((op.time_ns, on.pop(id_), False))
    return changes


def _told(in_force: Sequence[str]) -> str:
    return "no fault" if not in_force else in_force[0] if len(in_force) == 1 else "several faults"


def _moment(event: Event) -> tuple[int, int]:
    return event["ts"], event["node"]


def _size(count: int) -> int:
    """Put a count in its bucket: 0, 1, 2..3 (2), 4..7 (3), ..."""
    return max(0, count).bit_length()


def _whole(value: Any, otherwise: int) -> int:
    return value if isinstance(value, int) else otherwise
