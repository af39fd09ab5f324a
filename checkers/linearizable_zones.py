"""Zones: registers whose every write has a value of its own are judged in O(n log n).

Then each read names its write. The *cluster* of a value is its write and its reads; they must
form one block of the order. With ``f`` the first return and ``s`` the last begin in a cluster,
cluster A has to come before B when ``fA < sB``; the history is linearizable exactly when no read
returned before its write began and no two clusters have to come before each other: no two
*forward* zones (``f < s``) overlap, and no *backward* zone (``s < f``) lies within a forward one.

A write of unknown outcome that was read is a write that has not returned; one that was not read
may be left out. The initial value is a write before everything.

Source: Gibbons and Korach, "Testing shared memories", 1997.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf

from checkers.linearizable_calls import Call
from checkers.models import Model, Register, State


@dataclass(slots=True)
class _Cluster:
    """The calls of one value, and its zone."""

    write: Call | None  # None: the initial value, or no write at all
    first_return: float = inf
    last_begin: float = -inf
    returns_first: Call | None = None
    begins_last: Call | None = None

    def add(self, call: Call) -> None:
        """Count a call of this value."""
        if call.end is not None and call.end < self.first_return:
            self.first_return, self.returns_first = call.end, call
        if call.begin > self.last_begin:
            self.last_begin, self.begins_last = call.begin, call

    def witnesses(self) -> list[Call]:
        """The calls that make the zone what it is."""
        calls = (self.write, self.returns_first, self.begins_last)
        return list({call.begin: call for call in calls if call is not None}.values())


@dataclass(frozen=True, slots=True)
class Zones:
    """The answer: linearizable, or the few calls that already are not (``conflict``)."""

    linearizable: bool
    conflict: tuple[Call, ...] = field(default=())


def by_zones(calls: Sequence[Call], model: Model, start: State) -> Zones | None:
    """Judge the calls of one key; None where the method does not apply. O(n log n)."""
    if not isinstance(model, Register):
        return None
    clusters: dict[Hashable, _Cluster] = {start: _Cluster(None, first_return=-1)}
    for call in calls:
        if call.action.f == "write":
            if call.action.value in clusters:
                return None  # a value written twice: a read does not name its write
            clusters[call.action.value] = _Cluster(call)
            clusters[call.action.value].add(call)
        elif call.action.f != "read":
            return None
    for call in calls:
        if call.action.f != "read":
            continue
        cluster = clusters.get(call.action.seen)
        if cluster is None:
            return Zones(linearizable=False, conflict=(call,))  # nobody wrote that
        if cluster.write is not None and call.end is not None and call.end < cluster.write.begin:
            return Zones(linearizable=False, conflict=(cluster.write, call))
        cluster.add(call)
    pair = _conflict(list(clusters.values()))
    if pair is None:
        return Zones(linearizable=True)
    conflict = sorted((c for one in pair for c in one.witnesses()), key=lambda call: call.begin)
    return Zones(linearizable=False, conflict=tuple(conflict))


def _conflict(clusters: list[_Cluster]) -> tuple[_Cluster, _Cluster] | None:
    """Two clusters each of which has to come before the other."""
    forward = [c for c in clusters if c.first_return < c.last_begin]
    forward.sort(key=lambda c: c.first_return)
    for one, other in pairwise(forward):
        if other.first_return < one.last_begin:
            return one, other
    firsts = [c.first_return for c in forward]
    for cluster in clusters:
        at = bisect_left(firsts, cluster.last_begin) - 1
        if (
            at >= 0
            and forward[at] is not cluster
            and cluster.last_begin <= cluster.first_return < forward[at].last_begin
        ):
            return forward[at], cluster
    return None
