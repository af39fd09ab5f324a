"""Partitions: cut directed links, hold what was sent, let it flow again on heal.

Voters and observers both take part; the harness's clients still reach every node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import networkx as nx

from harness.contracts.environment import Link, Net
from harness.contracts.hosts import Permits
from harness.contracts.nemesis import Cluster, Fault, Injection
from harness.errors import EnvError, HarnessError
from harness.registry import nemeses
from harness.spec import RunSpec
from nemesis.common import claims, grudges
from nemesis.common.evidence import await_links, can_answer, probe_links, sample_links
from nemesis.common.hosts import why_not
from nemesis.common.targets import choose, draw_target, fault_rng, leader_or_stand_in, needs_roles

_CUT_SAMPLE = 3  # links that are really tried: enough to see it, few enough to be quick
_KEPT_SAMPLE = 2
_HEAL_TIMEOUT_S = 5.0

Shape = Callable[[Iterable[str], str], "nx.DiGraph[str]"]


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a partition."""

    about: str  # the node it is about
    graph: nx.DiGraph[str]  # the links that stay
    how: Mapping[str, Any]  # how that was chosen, as evidence


@dataclass(frozen=True, slots=True)
class _Undo:
    """The links we cut, those we watch, and what had been held on them before."""

    links: tuple[Link, ...]
    watched: tuple[Link, ...]
    held_before: Mapping[Link, int]


class Partition:
    """The base of all partitions; a kind says which links stay."""

    family = "partition"
    nodes_min = 2
    needs_leader = False

    async def plan(self, fault: Fault, rng: Random, cluster: Cluster) -> Plan | str:
        """Choose the nodes, the links that stay, and the reason for the choice; or tell why not."""
        raise NotImplementedError

    def params(self, rng: Random) -> Mapping[str, Any]:
        """Draw the parameters of one fault."""
        raise NotImplementedError

    def available(self, cluster: Cluster) -> str | None:
        """Tell what is missing, else None: enough nodes, links to cut, a leader to be seen."""
        count = len(cluster.system.nodes)
        if count < self.nodes_min:
            return f"needs {self.nodes_min} nodes, there is {count}"
        if self.needs_leader and (reason := needs_roles(cluster)) is not None:
            return reason
        if (reason := why_not(Net, cluster.environment)) is not None:
            return f"links cannot be cut: {reason}"
        try:
            for node in cluster.system.nodes:
                cluster.environment.address(node)
        except EnvError as error:
            return f"system {cluster.system.name!r} does not run in the environment: {error}"
        return None

    async def inject(self, fault: Fault, cluster: Cluster) -> Injection:
        """Cut; evidence: probes that fail over cut links and pass over links that stay."""
        if (reason := self.available(cluster)) is not None:
            return Injection("skipped", reason=reason)
        rng = fault_rng(fault)
        plan = await self.plan(fault, rng, cluster)
        if isinstance(plan, str):
            return Injection("skipped", reason=plan)
        net = cluster.environment.net
        links = tuple(sorted(grudges.grudge(plan.graph)))
        if isinstance(cluster.environment, Permits) and (
            reason := cluster.environment.why_not_cut(links)
        ):
            return Injection("skipped", reason=reason)
        watched = tuple(sample_links(links, _CUT_SAMPLE, rng, cluster))
        usable = grudges.kept(plan.graph) - _half_cut(net.cuts())
        staying = sample_links(usable, _KEPT_SAMPLE, rng, cluster)
        undo = _Undo(links, watched, await _held(links, cluster))
        claims.claim(cluster, fault.id, links)
        await net.cut(links)
        probes = await probe_links([*watched, *staying], cluster)
        through = [p for p in probes[: len(watched)] if p.passed]
        evidence = (
            {"saw": "grudge", **plan.how, "cut_links": len(links), "cut": [list(k) for k in links]},
            *({"saw": "cut link", **p.to_json()} for p in probes[: len(watched)]),
            *({"saw": "kept link", **p.to_json()} for p in probes[len(watched) :]),
        )
        if through:
            names = ", ".join(f"{p.source}->{p.destination}" for p in through)
            reason = f"data still passes over cut links: {names}"
            return Injection("failed", (plan.about,), reason, evidence, undo)
        return Injection("installed", (plan.about,), None, evidence, undo)

    async def heal(self, fault: Fault, injection: Injection, cluster: Cluster) -> Mapping[str, Any]:
        """Let data flow again, unless another fault cuts the same link; probes must pass."""
        undo = injection.undo
        if not isinstance(undo, _Undo):
            raise HarnessError(f"fault {fault.id} left no partition to heal")
        net = cluster.environment.net
        held = await _held(undo.links, cluster)
        free = claims.release(cluster, fault.id, undo.links)
        await net.heal([link for link in undo.links if link in free])
        stuck = net.cuts().intersection(free)
        if stuck:
            raise HarnessError(f"links are still cut: {sorted(stuck)}")
        open_now = [k for k in undo.watched if k in free and k[::-1] not in net.cuts()]
        probes = await await_links(
            [k for k in open_now if can_answer(k[1], cluster)], cluster, timeout_s=_HEAL_TIMEOUT_S
        )
        return {
            "healed_links": len(free),
            "still_cut_by_others": len(undo.links) - len(free),
            "held_bytes": sum(held.values()) - sum(undo.held_before.values()),
            "probes": [p.to_json() for p in probes],
        }


@nemeses.register("partition-isolate-one")
class IsolateOne(Partition):
    """Cut one node (voter, follower or observer) off from all others, both ways."""

    def params(self, rng: Random) -> Mapping[str, Any]:
        """Draw a target of one node."""
        return {"target": draw_target(rng, {"one": 3, "follower": 2, "observer": 1})}

    async def plan(self, fault: Fault, rng: Random, cluster: Cluster) -> Plan | str:
        """Cut all links of one node."""
        return await _about_one(fault, rng, cluster, "one", grudges.isolate)


@nemeses.register("partition-isolate-leader")
class IsolateLeader(Partition):
    """Cut the leader off from all other nodes in both directions; it goes on leading unheard."""

    needs_leader = True

    def params(self, rng: Random) -> Mapping[str, Any]:  # noqa: ARG002
        """Give the fixed target: the leader."""
        return {"target": "leader"}

    async def plan(self, fault: Fault, rng: Random, cluster: Cluster) -> Plan | str:
        """Cut all links of the leader."""
        return await _about_one(fault, rng, cluster, "leader", grudges.isolate)


@nemeses.register("partition-halves")
class Halves(Partition):
    """Split the voters into a majority and a minority; the leader may be in either."""

    needs_leader = True
    nodes_min = 3

    def misfit(self, spec: RunSpec) -> str | None:
        """Tell why the voters have no minority; None when they have one."""
        return f"{spec.voters} voters have no minority" if spec.voters < self.nodes_min else None

    def params(self, rng: Random) -> Mapping[str, Any]:
        """Draw on which side the leader is."""
        return {"leader": rng.choice(["majority", "minority"])}

    async def plan(self, fault: Fault, rng: Random, cluster: Cluster) -> Plan | str:
        """Links stay within each half; observers fall on either side."""
        voters, observers = list(cluster.system.voters), cluster.system.observers
        leader, note = await leader_or_stand_in(rng, cluster)
        small = (len(voters) - 1) // 2
        if not small:
            return f"{len(voters)} voters have no minority"
        others = [voter for voter in voters if voter != leader]
        rng.shuffle(others)
        in_minority = fault.params.get("leader") == "minority"
        minority = [leader, *others[: small - 1]] if in_minority else others[:small]
        majority = [voter for voter in voters if voter not in minority]
        for observer in observers:
            rng.choice((minority, majority)).append(observer)
        how = {"leader": leader, "note": note, "sides": [sorted(minority), sorted(majority)]}
        return Plan(leader, grudges.components([minority, majority]), how)


@nemeses.register("partition-bridge")
class Bridge(Partition):
    """Split the cluster into two sides that share one node, which hears both."""

    nodes_min = 3

    def params(self, rng: Random) -> Mapping[str, Any]:
        """Draw who is the bridge."""
        return {"target": rng.choice(["leader", "follower", "one"])}

    async def plan(self, fault: Fault, rng: Random, cluster: Cluster) -> Plan | str:
        """Links stay within each side and to the bridge."""
        target = str(fault.params.get("target", "one"))
        choice = await choose(target, rng, cluster)
        if not choice.nodes:
            return f"the cluster has no node for target {target!r}"
        middle = choice.nodes[0]
        sides: tuple[list[str], list[str]] = ([], [])
        for group in (cluster.system.voters, cluster.system.observers):
            rest = [node for node in group if node != middle]
            rng.shuffle(rest)
            for node in rest:  # evenly, so that neither side has a majority without the bridge
                min(sides, key=len).append(node)
        how = {"bridge": middle, "note": choice.note, "sides": [sorted(s) for s in sides]}
        return Plan(middle, grudges.bridge(sides[0], middle, sides[1]), how)


@nemeses.register("partition-one-way")
class OneWay(Partition):
    """Cut one direction of a node: it hears nobody (deaf), or nobody hears it (mute)."""

    def params(self, rng: Random) -> Mapping[str, Any]:
        """Draw the node and the direction."""
        target = draw_target(rng, {"leader": 3, "follower": 2, "one": 1, "observer": 1})
        return {"target": target, "direction": rng.choice(["deaf", "mute"])}

    async def plan(self, fault: Fault, rng: Random, cluster: Cluster) -> Plan | str:
        """Cut the incoming or the outgoing links of one node."""
        shape = grudges.mute if fault.params.get("direction") == "mute" else grudges.deaf
        return await _about_one(fault, rng, cluster, "one", shape)


async def _about_one(
    fault: Fault, rng: Random, cluster: Cluster, default: str, shape: Shape
) -> Plan | str:
    target = str(fault.params.get("target", default))
    choice = await choose(target, rng, cluster)
    if not choice.nodes:
        return f"the cluster has no node for target {target!r}"
    node = choice.nodes[0]
    how = {"target": target, "node": node, "leader": choice.leader, "note": choice.note}
    return Plan(node, shape(cluster.system.nodes, node), how)


async def _held(links: Sequence[Link], cluster: Cluster) -> dict[Link, int]:
    """Bytes held back on the links since the run's start."""
    stats = await cluster.environment.net.stats()
    return {link: stats[link].get("held_bytes", 0) for link in links if link in stats}


def _half_cut(cuts: frozenset[Link]) -> frozenset[Link]:
    """The links over which no answer comes: cut in one direction or the other."""
    return cuts | {(b, a) for a, b in cuts}
