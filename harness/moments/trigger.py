"""A trigger says at which event of a run a fault strikes: data, saved with its fault.

Events are those of ``node/trace.py``, and changes of a node's disk, which are events of type
``change``: ``op`` is append, pwrite, truncate, fsync, rename, unlink or fsync_dir, ``file`` the
kind of file (log, snapshot, quorum-state, ...). A change is told of before it is made.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

CHANGE: Final = "change"  # the type of disk changes
EVENT: Final = "event"  # as a fault's target: the node at which its moment came
ANY: Final = "any"
ROLES: Final = (
    *(ANY, "voter", "observer"),
    *("leader", "follower", "candidate", "prospective", "unattached", "resigned"),
)
DURING: Final[Mapping[str, str]] = {  # states of a node that a trigger may ask for, in words
    "voter-change": "a voter change is written and not committed",
    "election": "it looks for a leader",
    "new-reign": "nothing of its own epoch is committed",
    "unflushed": "its log has records that are not flushed",
}
_NODE = re.compile(r"n[1-9]\d*")
Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Match:
    """A kind of event: its type, and fields that must have these values."""

    t: str
    fields: Mapping[str, Scalar] = field(default_factory=dict)

    def covers(self, event: Mapping[str, Any]) -> bool:
        """Tell whether an event is of this kind."""
        if event.get("t") != self.t:
            return False
        return all(name in event and event[name] == value for name, value in self.fields.items())

    def to_json(self) -> dict[str, Any]:
        """Give it as a JSON object: ``{"t": "role", "to": "leader"}``."""
        return {"t": self.t, **self.fields}


@dataclass(frozen=True, slots=True)
class Trigger:
    """The moment of the ``nth`` event of a kind on one node.

    Attributes:
        on: What is counted, on each node by itself.
        nth: 1 = the first.
        role: Whose events count: a name of ``ROLES``, or a node, as ``n2``.
        after: Counting begins, and begins anew, with each such event of the same node; None: at
            once.
        during: Only events in this state of the node count, a name of ``DURING``, and counting
            begins anew with each time of it.
        until_ms: Too late, since the schedule's start; None: never.
    """

    on: Match
    nth: int = 1
    role: str = ANY
    after: Match | None = None
    during: str | None = None
    until_ms: int | None = None

    @property
    def needs_disks(self) -> bool:
        """Tell whether it waits for changes of disks, which only a simulation can tell of."""
        return CHANGE in (self.on.t, self.after.t if self.after else None)

    def to_json(self) -> dict[str, Any]:
        """Give it as a JSON object, without what is as usual."""
        fields: dict[str, Any] = {"on": self.on.to_json(), "nth": self.nth, "role": self.role}
        if self.after is not None:
            fields["after"] = self.after.to_json()
        if self.during is not None:
            fields["during"] = self.during
        if self.until_ms is not None:
            fields["until_ms"] = self.until_ms
        return fields


def trigger_from_json(fields: Any) -> Trigger:
    """Build a trigger from its JSON object; raises ValueError that names the field at fault."""
    if not isinstance(fields, dict):
        raise ValueError(f"trigger is {fields!r}, want an object")
    known = {"on", "nth", "role", "after", "during", "until_ms"}
    if extra := sorted(set(fields) - known):
        raise ValueError(f"trigger has unknown fields {extra}; there are {sorted(known)}")
    role, during = fields.get("role", ANY), fields.get("during")
    if not isinstance(role, str) or not (role in ROLES or _NODE.fullmatch(role)):
        raise ValueError(f"trigger.role is {role!r}, want a node or one of {', '.join(ROLES)}")
    if during is not None and during not in DURING:
        raise ValueError(f"trigger.during is {during!r}, want one of {', '.join(DURING)}")
    after = fields.get("after")
    return Trigger(
        on=_match(fields.get("on"), "on"),
        nth=_whole(fields.get("nth", 1), "nth", least=1),
        role=role,
        after=None if after is None else _match(after, "after"),
        during=during,
        until_ms=None
        if fields.get("until_ms") is None
        else _whole(fields["until_ms"], "until_ms", least=0),
    )


def _match(fields: Any, name: str) -> Match:
    if not isinstance(fields, dict) or not isinstance(fields.get("t"), str) or not fields["t"]:
        raise ValueError(f'trigger.{name} is {fields!r}, want an object with a type: {{"t": ...}}')
    rest = {key: value for key, value in fields.items() if key != "t"}
    for key, value in rest.items():
        if not isinstance(value, str | int | float | bool | None):
            raise ValueError(f"trigger.{name}.{key} is {value!r}, want a text, number or truth")
    return Match(fields["t"], rest)


def _whole(value: Any, name: str, *, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"trigger.{name} is {value!r}, want an integer of {least} or more")
    return value
