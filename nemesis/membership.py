"""Changes of the voters while all goes on: one is removed, and comes back with an empty disk.

Removing the leader is among them, but not one of two voters: it may have no successor for ever, by
the protocol and not by a bug (docs/kafka.md shows that of Apache Kafka). Only in a dynamic quorum
(KIP-853).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from harness.contracts.abilities import Kill, Members, Roles
from harness.contracts.hosts import Disks
from harness.contracts.nemesis import Cluster, Fault, Injection
from harness.errors import HarnessError, SystemStuckError
from harness.registry import nemeses, systems
from harness.spec import RunSpec
from nemesis.common import claims
from nemesis.common.hosts import DISK, PROCESS, has, needs, needs_disks
from nemesis.common.restarts import restart
from nemesis.common.targets import Choice, aim, draw_target
from nemesis.common.turns import in_turn, is_live

CHANGING = "membership"  # the workload that does so, too
VOTERS = "voters"  # what is claimed: one fault at a time changes them
REMOVE_TIMEOUT_S = 8.0
TURN_S = 6.0  # for other faults to be done with the voters, or with a disk
_LIVE_TURN_S = 20.0  # with the voters of real hosts, where several may wait
ADD_TIMEOUT_S = 20.0
_LED_S = 6.0
_OTHERS_S = 20.0  # for another fault to be done with the node
_POLL_S = 0.1
_TARGETS = {"leader": 4, "follower": 3, "one": 1}


@dataclass(slots=True)
class _Undo:
    """The voter that we asked to be removed, with the pid it had."""

    node: str
    pid: int | None
    removed: bool  # for certain: else it may be needed with its disk
    emptied: Mapping[str, Any] | None = None  # by its heal, which does so only once
    restarted: Mapping[str, Any] | None = None  # likewise


def needs_members(spec: RunSpec) -> str | None:
    """Tell why the voters cannot be changed in a run with such options; None when they can."""
    if not has(Members, systems.get(spec.system)):
        return f"system {spec.system!r} cannot change its voters"
    return systems.traits(spec.system).of(spec).why_not(Members, spec) or needs(Disks, spec)


def needs_members_alone(spec: RunSpec) -> str | None:
    """Do as ``needs_members``, for faults that must be the only ones to change the voters."""
    if spec.workload == CHANGING:
        return f"the clients of workload {CHANGING!r} change the voters"
    return needs_members(spec)


def members_available(cluster: Cluster) -> str | None:
    """Tell why the voters of a cluster cannot be changed; None when they can."""
    if not isinstance(cluster.system, Members):
        return f"system {cluster.system.name!r} cannot change its voters"
    return needs_disks(cluster)


async def claim_voters(fault: Fault, cluster: Cluster) -> bool:
    """Claim all changes of the voters for this fault, when its turn comes; tell whether it came."""
    timeout_s = _LIVE_TURN_S if is_live(cluster) else TURN_S
    return await claims.claim_when_free(cluster, fault.id, VOTERS, timeout_s=timeout_s)


@nemeses.register("membership")
class RemoveVoter:
    """Remove a voter, even the leader; heal reformats it without voters and adds it again.

    A node that may still be a voter keeps its disk. Of two voters the leader is not removed.

    Params: ``target``, a name of ``nemesis.common.targets`` for one voter.
    """

    family = "membership"
    asks = (Disks,)
    changes_voters = True

    def misfit(self, spec: RunSpec) -> str | None:
        """Tell why voters cannot change, or what else changes them; None when this fault may."""
        return needs_members_alone(spec)

    def available(self, cluster: Cluster) -> str | None:
        """The system must change its voters; the environment wipe disks."""
        return members_available(cluster)

    def params(self, rng: Random) -> Mapping[str, Any]:
        """Draw a target."""
        return {"target": draw_target(rng, _TARGETS)}

    @in_turn
    async def inject(self, fault: Fault, cluster: Cluster) -> Injection:
        """Remove a voter; evidence: the voters before and after, as the leader tells them."""
        system = cluster.system
        if not isinstance(system, Members) or self.available(cluster) is not None:
            return Injection("skipped", reason=self.available(cluster))
        if not await claim_voters(fault, cluster):
            return Injection("skipped", reason="another fault changes the voters")
        before = await _voters(system)  # and so there is a leader that can be aimed at
        target, choice = await aim(fault, cluster)
        if before is not None and len(before) == 2:  # noqa: PLR2004 - the smallest quorum
            choice = await _not_leader(choice, list(before), cluster)
        node = choice.nodes[0]
        if before is None or node not in before or len(before) == 1:
            claims.release(cluster, fault.id, [VOTERS])
            return Injection("skipped", reason=f"no {target} to remove from {before}")
        if not any(before.values()):
            claims.release(cluster, fault.id, [VOTERS])
            return Injection("skipped", reason="the voters are static: they have no directory ids")
        if not await claims.claim_when_free(cluster, fault.id, (DISK, node), timeout_s=TURN_S):
            claims.release(cluster, fault.id, [VOTERS])
            return Injection("skipped", reason=f"another fault has the disk of {node}")
        pid = cluster.environment.process(node).pid
        change = await system.remove_voter(node, timeout_s=REMOVE_TIMEOUT_S)
        undo = _Undo(node, pid, removed=change.done)
        after = await _voters(system)
        seen = {
            "saw": "voters",
            "node": node,
            "before": before,
            "after": after,
            "answer": change.detail,
            "tries": change.tries,
        }
        evidence = (choice.evidence(target), seen)
        if not change.done:
            return Injection("failed", (node,), f"not removed: {change.detail}", evidence, undo)
        return Injection("installed", (node,), None, evidence, undo)

    async def heal(self, fault: Fault, injection: Injection, cluster: Cluster) -> Mapping[str, Any]:
        """Kill the node, format it anew, start it and add it; evidence: the voters then.

        Raises:
            SystemStuckError: It is no voter at the end of the time for it, or another fault is not
                done with it by then.
        """
        undo, system, environment = injection.undo, cluster.system, cluster.environment
        if (
            not isinstance(undo, _Undo)
            or not isinstance(system, Kill)
            or not isinstance(system, Members)
            or not isinstance(environment, Disks)
        ):
            raise HarnessError(f"fault {fault.id} left no removed voter to bring back")
        node = undo.node
        if undo.removed and undo.restarted is None:
            killed = (PROCESS, node)
            if not await claims.claim_when_free(cluster, fault.id, killed, timeout_s=_OTHERS_S):
                raise SystemStuckError(f"another fault holds {node}, which is not back yet")
            if undo.emptied is None:
                if environment.process(node).pid is not None:
                    await system.kill(node)
                wiped = await environment.disks.wipe(node)
                undo.emptied = {"wiped": wiped, "directory": system.reformat(node)}
            undo.restarted = await restart({node: undo.pid}, cluster)
            claims.release(cluster, fault.id, [killed])
        added = await take_place(node, cluster, by_another_key=undo.removed)
        claims.release(cluster, fault.id, [VOTERS, (DISK, node)])
        return {**(undo.restarted or {}), **added, **(undo.emptied or {})}


async def _not_leader(choice: Choice, voters: Sequence[str], cluster: Cluster) -> Choice:
    """Give the choice, or the other voter when the chosen one leads."""
    leader = await cluster.system.leader() if isinstance(cluster.system, Roles) else None
    if leader is None or leader not in choice.nodes:
        return choice
    other = next(n for n in voters if n != leader)
    note = f"{other} instead of {leader}, which is the leader of two voters"
    return replace(choice, nodes=(other,), note=note)


async def take_place(node: str, cluster: Cluster, *, by_another_key: bool = True) -> dict[str, Any]:
    """Add a node that is an observer now, in the place of the voter that it was if it still is.

    Args:
        node: What is to be a voter, or to stay one.
        cluster: Where it is.
        by_another_key: Its disk is another one now, so that the old key has to be removed.

    Raises:
        SystemStuckError: It is no voter at the end of the time for it.
    """
    system = cluster.system
    if not isinstance(system, Members):
        raise HarnessError(members_available(cluster) or "the voters cannot be changed")
    known = await _voters(system)
    removed = "no removal was asked for"
    if by_another_key:
        removed = (await system.remove_voter(node, timeout_s=REMOVE_TIMEOUT_S)).detail
    added = await system.add_voter(node, timeout_s=ADD_TIMEOUT_S)
    if not added.done:
        raise SystemStuckError(
            f"{node} did not become a voter again: {removed}, then {added.detail}"
        )
    return {
        "voters_before": known,
        "removed": removed,
        "added": added.detail,
        "tries": added.tries,
        "voters": await _voters(system),
    }


async def _voters(system: Members) -> Mapping[str, str] | None:
    """The voters, once somebody leads: not at once after a leader was removed."""
    try:
        async with asyncio.timeout(_LED_S):
            while (keys := await system.voter_keys()) is None:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        return None
    return keys
