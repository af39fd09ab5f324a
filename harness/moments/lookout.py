"""The lookout: holds triggers, is fed events, and says whose moment has come. Pure.

It is told of every event of every node, in order, and keeps of each node no more than the states
that triggers ask for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.moments.trigger import ANY, CHANGE, Trigger

VOTER, OBSERVER, FOLLOWER, LEADER = "voter", "observer", "follower", "leader"
_LOOKING = frozenset({"unattached", "prospective", "candidate"})


@dataclass(slots=True)
class NodeState:
    """The states of a node that a trigger may ask for, as its events tell."""

    role: str = "unattached"
    voters_at: int | None = None  # offset of a voter set that is written and not committed
    reign_at: int | None = None  # where its epoch as leader began, if nothing of it is committed
    end: int = 0
    flushed: int = 0

    def update(self, event: Mapping[str, Any]) -> None:
        """Take one event of the node into account; offsets that are not numbers say nothing."""
        match event.get("t"):
            case "start":
                self.role, self.voters_at, self.reign_at = "unattached", None, None
                self.end = self.flushed = _offset(event.get("leo"), 0)
            case "role":
                self.role = str(event.get("to"))
                if self.role != LEADER:
                    self.reign_at = None
            case "elected":
                self.reign_at = _offset(event.get("es"), self.end)
            case "voters":
                self.voters_at = None if event.get("revert") else _offset(event.get("off"), -1)
                if self.voters_at == -1:
                    self.voters_at = None
            case "append":
                self.end = _offset(event.get("last"), self.end - 1) + 1
            case "flush":
                self.flushed = _offset(event.get("upto"), self.flushed)
            case "trunc":
                self._cut(_offset(event.get("to"), self.end))
            case "hwm":
                self._commit(_offset(event.get("v"), 0))
            case _:
                pass

    def _cut(self, to: int) -> None:
        self.end, self.flushed = to, min(self.flushed, to)
        if self.voters_at is not None and self.voters_at >= to:
            self.voters_at = None

    def _commit(self, mark: int) -> None:
        if self.voters_at is not None and mark > self.voters_at:
            self.voters_at = None
        if self.reign_at is not None and mark > self.reign_at:
            self.reign_at = None

    def during(self, state: str) -> bool:
        """Tell whether the node is in a state of ``trigger.DURING``."""
        match state:
            case "voter-change":
                return self.voters_at is not None
            case "election":
                return self.role in _LOOKING
            case "new-reign":
                return self.reign_at is not None
            case "unflushed":
                return self.end > self.flushed
            case _:
                raise ValueError(f"no state of a node is called {state!r}")


@dataclass(slots=True)
class _Armed:
    """A trigger that waits, with what it has counted on each node; only open nodes count."""

    trigger: Trigger
    counts: dict[str, int] = field(default_factory=dict)


class Lookout:
    """Holds triggers by key, each until its moment has come.

    Args:
        observers: Nodes that are observers when they follow.
        roles: The role of each node as far as it is known when looking begins.
    """

    def __init__(self, observers: Iterable[str], roles: Mapping[str, str]) -> None:
        self._observers = frozenset(observers)
        self._nodes = {node: NodeState(_plain(role)) for node, role in roles.items()}
        self._armed: dict[int, _Armed] = {}
        self.changes: Counter[str] = Counter()  # of disks, by node

    @property
    def waiting(self) -> tuple[int, ...]:
        """The keys of the triggers that wait."""
        return tuple(self._armed)

    def arm(self, key: int, trigger: Trigger) -> None:
        """Wait for a trigger's moment from now on."""
        self._armed[key] = _Armed(trigger)

    def feed(self, node: str, event: Mapping[str, Any], now_ms: int) -> list[int]:
        """Take the next event of a node; the keys of triggers whose moment it is, in their order.

        Args:
            node: Where it happens.
            event: Its fields; ``t`` is its type.
            now_ms: The time since the schedule's start.
        """
        state = self._nodes.get(node)
        if state is None:
            state = self._nodes[node] = NodeState()
        state.update(event)
        if event.get("t") == CHANGE:
            self.changes[node] += 1
        struck = []
        for key, armed in list(self._armed.items()):
            until_ms = armed.trigger.until_ms
            if until_ms is not None and now_ms > until_ms:
                del self._armed[key]
            elif self._counts(armed, node, state, event):
                del self._armed[key]
                struck.append(key)
        return struck

    def _counts(self, armed: _Armed, node: str, state: NodeState, event: Mapping[str, Any]) -> bool:
        """Count the event where it is to be counted; tell whether it is the one."""
        trigger, counts = armed.trigger, armed.counts
        if trigger.after is not None and trigger.after.covers(event):
            counts[node] = 0
            return False
        if trigger.after is not None and node not in counts:
            return False
        if trigger.during is not None and not state.during(trigger.during):
            counts[node] = 0
            return False
        if not trigger.on.covers(event) or not self._is(trigger.role, node, state):
            return False
        counts[node] = counts.get(node, 0) + 1
        return counts[node] == trigger.nth

    def _is(self, role: str, node: str, state: NodeState) -> bool:
        if role in (ANY, node):
            return True
        if role in (VOTER, OBSERVER):
            return (node in self._observers) == (role == OBSERVER)
        if role == FOLLOWER:
            return state.role == FOLLOWER and node not in self._observers
        return state.role == role


def _plain(role: str) -> str:
    """The role as a trace names it: an observer follows."""
    return FOLLOWER if role == OBSERVER else role


def _offset(value: Any, otherwise: int) -> int:
    return value if isinstance(value, int) else otherwise
