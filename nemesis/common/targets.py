"""Chooses the nodes that a fault hits: by role or by size, when it is injected.

The choice depends on nothing but the target's name, the fault's draw, who leads and, for faults
that need living processes, who can be hit: so a replayed schedule hits the same nodes of a cluster
in the same state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from harness.contracts.abilities import Roles
from harness.contracts.hosts import Permits
from harness.contracts.nemesis import Cluster, Fault
from harness.moments.trigger import EVENT
from nemesis.common import claims
from nemesis.common.evidence import can_answer

Fits = Callable[[str], bool]  # whether a node can be hit now
WEIGHTS: Mapping[str, int] = {
    "leader": 4,  # where most bugs are
    "follower": 2,
    "one": 2,
    "minority": 2,
    "majority": 2,
    "all": 1,
    "observer": 1,
}


@dataclass(frozen=True, slots=True)
class Choice:
    """The nodes that were chosen, the leader that was seen, and a note when it was a guess."""

    nodes: tuple[str, ...]
    leader: str | None = None
    note: str | None = None

    def evidence(self, target: str) -> dict[str, Any]:
        """The choice as evidence of a fault."""
        found: dict[str, Any] = {
            "saw": "targets",
            "target": target,
            "nodes": list(self.nodes),
            "leader": self.leader,
        }
        return found if self.note is None else {**found, "note": self.note}


def draw_target(rng: Random, weights: Mapping[str, int] = WEIGHTS) -> str:
    """Draw the name of a target for one fault's params."""
    return rng.choices(list(weights), list(weights.values()))[0]


def fault_rng(fault: Fault) -> Random:
    """The random choices of one fault: the same for the same draw, on every machine."""
    return Random(f"{fault.nemesis}:{fault.draw!r}")


async def choose(target: str, rng: Random, cluster: Cluster, fits: Fits | None = None) -> Choice:
    """The nodes of a target; none when the cluster has no such node.

    ``minority`` is the most voters that can be lost with a quorum left, ``majority`` the least
    whose loss leaves none, ``all`` has the observers too. Without a leader a random voter
    stands in for it, and the note says so.

    When none of them ``fits``, as many others of the same role that do stand in for them, and the
    note says so; nobody stands in for a leader that is there, and does not fit. Where some fit, the
    rest is not made up for: what is down already counts as part of a minority.

    A node's own name means that node, for which nobody stands in.

    Raises:
        ValueError: No such target.
    """
    choice = await _draw(target, rng, cluster)
    if target in cluster.system.nodes:
        return choice
    if fits is None or choice.leader in choice.nodes or any(map(fits, choice.nodes)):
        return choice
    system = cluster.system
    same_role = system.observers if target == "observer" else system.voters
    others = [n for n in same_role if fits(n) and n not in (*choice.nodes, choice.leader)]
    if not others or not choice.nodes:
        return choice
    instead = _some(rng, others, min(len(choice.nodes), len(others)))
    note = f"{_listed(instead)} instead of {_listed(choice.nodes)}, which cannot be hit now"
    return replace(choice, nodes=instead, note="; ".join(filter(None, (choice.note, note))))


async def _draw(target: str, rng: Random, cluster: Cluster) -> Choice:
    """The nodes of a target, whether they can be hit or not."""
    system = cluster.system
    voters = list(system.voters)
    if target in system.nodes:
        return Choice((target,))
    if target in ("one", EVENT):  # an event's node is named where there was one
        return Choice((rng.choice(voters),))
    if target in ("leader", "follower"):
        leader, note = await leader_or_stand_in(rng, cluster)
        others = [voter for voter in voters if voter != leader]
        nodes = (leader,) if target == "leader" else _some(rng, others, min(1, len(others)))
        return Choice(nodes, leader if note is None else None, note)
    if target == "minority":
        return Choice(_some(rng, voters, (len(voters) - 1) // 2))
    if target == "majority":
        return Choice(_some(rng, voters, len(voters) // 2 + 1))
    if target == "all":
        return Choice(tuple(system.nodes))
    if target == "observer":
        return Choice(_some(rng, system.observers, min(1, len(system.observers))))
    raise ValueError(f"no target is called {target!r}; there are: {', '.join(WEIGHTS)}")


async def choose_or_one(
    target: str, rng: Random, cluster: Cluster, fits: Fits | None = None
) -> Choice:
    """Do as ``choose``; if no node fits the target, a random voter stands in, with a note."""
    choice = await choose(target, rng, cluster, fits)
    if choice.nodes:
        return choice
    instead = await choose("one", rng, cluster, fits)
    note = f"the cluster has no node for target {target!r}: {instead.nodes[0]} stands in for it"
    return Choice(instead.nodes, note=note)


async def aim(fault: Fault, cluster: Cluster, *kinds: str) -> tuple[str, Choice]:
    """The target that a fault names, ``one`` when it names none, and its nodes; at least one.

    With ``kinds`` those count that are alive and whose things of these kinds are free.
    """
    target = str(fault.params.get("target", "one"))
    fits = alive_and_free(fault, cluster, *kinds) if kinds else None
    return target, await choose_or_one(target, fault_rng(fault), cluster, fits)


def alive_and_free(fault: Fault, cluster: Cluster, *kinds: str) -> Fits:
    """Tell whether a node's process answers, and no other fault has claimed things of it."""

    def fits(node: str) -> bool:
        free = all(claims.is_free(cluster, fault.id, (kind, node)) for kind in kinds)
        allowed = not permitted(fault, cluster, [node])[1]
        return free and allowed and can_answer(node, cluster)

    return fits


def permitted(
    fault: Fault, cluster: Cluster, nodes: Sequence[str]
) -> tuple[Sequence[str], str | None]:
    """Those of the nodes that may be hit at once, in their order, and why the first other may not.

    On hosts of our own all may.
    """
    if not isinstance(cluster.environment, Permits):
        return nodes, None
    kept: list[str] = []
    spared: str | None = None
    for node in nodes:
        reason = cluster.environment.why_not_hit(fault.nemesis, [*kept, node])
        if reason is None:
            kept.append(node)
        spared = spared or reason
    return kept, spared


async def leader_or_stand_in(rng: Random, cluster: Cluster) -> tuple[str, str | None]:
    """The leader, or a random voter and a note that it is none."""
    system = cluster.system
    leader = await system.leader() if isinstance(system, Roles) else None
    stand_in = rng.choice(list(system.voters))  # always drawn: later choices do not depend on it
    if leader is not None:
        return leader, None
    return stand_in, f"no leader was known: {stand_in} stands in for it"


def needs_roles(cluster: Cluster) -> str | None:
    """Tell why a fault that aims at the leader cannot be used here; None when it can."""
    if isinstance(cluster.system, Roles):
        return None
    return f"system {cluster.system.name!r} cannot say who leads"


def _listed(nodes: Sequence[str]) -> str:
    return ", ".join(nodes)


def _some(rng: Random, nodes: Sequence[str], count: int) -> tuple[str, ...]:
    """``count`` of the nodes, in their own order."""
    chosen = set(rng.sample(list(nodes), count))
    return tuple(node for node in nodes if node in chosen)
