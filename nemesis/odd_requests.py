"""Odd requests: somebody of this very cluster says what is well-formed, and wrong in one value.

A node refuses them, or does no harm by them. What it answered is in the evidence; that it goes on
is judged as ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from harness.contracts.nemesis import Cluster, Fault, Injection
from harness.errors import HarnessError
from harness.kafka import quorum as quorum_probe
from harness.kafka.odd.bases import View
from harness.kafka.odd.saying import UNSAID, draw, say, snapshot_of
from harness.kafka.route import SpeaksKafka, cluster_of
from harness.registry import nemeses
from nemesis.common.targets import aim, draw_target
from nemesis.common.turns import in_turn

ODD: Final = "odd request"
_TARGETS: Final = {"leader": 4, "follower": 2, "one": 1}
_MOST: Final = 12  # requests of one fault
_LOOK_S: Final = 0.5  # of one look at a controller's epoch


@dataclass(frozen=True, slots=True)
class _Undo:
    """The node that was asked."""

    node: str


@nemeses.register("odd-requests")
class OddRequests:
    """Ask a voter what makes no sense: well-formed requests of a quorum, wrong in one value.

    Params: ``target``, a name of ``nemesis.common.targets`` for one voter; ``requests``, each as
    ``Vote topics.0.partitions.0.replica_id = own`` (see ``harness.kafka.odd``).
    """

    family = "requests"
    named_only = True  # nodes of Apache Kafka end at some of them: docs/findings.md

    def available(self, cluster: Cluster) -> str | None:
        """The nodes must take Kafka's requests."""
        if isinstance(cluster.system, SpeaksKafka):
            return None
        return f"system {cluster.system.name!r} does not speak Kafka's protocol"

    def params(self, rng: Random) -> Mapping[str, Any]:
        """Draw who is asked, and what."""
        target = draw_target(rng, _TARGETS)
        return {"target": target, "requests": [draw(rng) for _ in range(rng.randint(1, _MOST))]}

    @in_turn
    async def inject(self, fault: Fault, cluster: Cluster) -> Injection:
        """Ask; evidence: what was answered to each request; at least one was sent."""
        if (reason := self.available(cluster)) is not None:
            return Injection("skipped", reason=reason)
        target, choice = await aim(fault, cluster)
        node = choice.nodes[0]
        if node not in cluster.system.voters:
            return Injection("skipped", reason=f"{node} is no voter")
        way = cluster_of(cluster.system)
        voters = (way.addresses[voter] for voter in cluster.system.voters)
        seen = await quorum_probe.ask_all(voters, way.network, timeout_s=_LOOK_S, older=True)
        if seen is None:
            return Injection("skipped", reason="no leader says in which epoch the quorum is")
        own = next(each for each, name in way.names.items() if name == node)
        view = View(seen.epoch, seen.leader_id, own, cluster_id=way.id)
        leader = way.addresses[way.names[seen.leader_id]]
        if (snapshot := await snapshot_of(leader, seen.epoch, way.network)) is not None:
            view = replace(view, snapshot=snapshot)
        told = [
            {"saw": ODD, "node": node, "epoch": seen.epoch, "said": words, "answer": answer}
            for words in fault.params.get("requests", ())
            for answer in [await say(words, view, way.addresses[node], way.network)]
        ]
        if all(each["answer"].startswith(UNSAID) for each in told):
            return Injection("skipped", reason=f"{node} heard none of {len(told)} odd requests")
        return Injection("installed", (node,), None, (choice.evidence(target), *told), _Undo(node))

    async def heal(self, fault: Fault, injection: Injection, cluster: Cluster) -> Mapping[str, Any]:
        """Nothing is left behind."""
        del cluster
        if not isinstance(injection.undo, _Undo):
            raise HarnessError(f"fault {fault.id} asked nobody")
        return {"left": injection.undo.node}
