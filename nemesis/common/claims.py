"""Keeps who holds what: overlapping faults must not heal each other's work.

A fault claims what it breaks (a node's process, a directed link). A link may be claimed by many
and heals when the last one lets go; a process is killed or frozen by one fault at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from harness.contracts.nemesis import Cluster

_POLL_S = 0.05
Thing = TypeVar("Thing", bound=Hashable)
_CLAIMS: WeakKeyDictionary[Any, dict[Hashable, set[int]]] = WeakKeyDictionary()


def claim(cluster: Cluster, fault_id: int, things: Iterable[Hashable]) -> None:
    """Say that a fault holds these things, beside whoever else does."""
    holders = _CLAIMS.setdefault(cluster.environment, {})
    for thing in things:
        holders.setdefault(thing, set()).add(fault_id)


def claim_free(cluster: Cluster, fault_id: int, things: Iterable[Thing]) -> list[Thing]:
    """Claim those of the things that no other fault holds; returns them."""
    free = [thing for thing in things if is_free(cluster, fault_id, thing)]
    claim(cluster, fault_id, free)
    return free


def is_free(cluster: Cluster, fault_id: int, thing: Hashable) -> bool:
    """Tell whether no other fault holds a thing."""
    holders = _CLAIMS.get(cluster.environment, {})
    return not holders.get(thing, set()) - {fault_id}


async def claim_when_free(
    cluster: Cluster, fault_id: int, thing: Hashable, *, timeout_s: float
) -> bool:
    """Claim a thing as soon as no other fault holds it; False when that was not in time."""
    try:
        async with asyncio.timeout(timeout_s):
            while not claim_free(cluster, fault_id, [thing]):  # noqa: ASYNC110
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        return False
    return True


def release(cluster: Cluster, fault_id: int, things: Iterable[Thing]) -> list[Thing]:
    """Release the claims of a fault; return what no other fault holds any more. Idempotent."""
    holders = _CLAIMS.setdefault(cluster.environment, {})
    free = []
    for thing in things:
        left = holders.get(thing, set())
        left.discard(fault_id)
        if not left:
            holders.pop(thing, None)
            free.append(thing)
    return free
