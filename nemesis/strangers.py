"""Strangers: a node of another cluster talks to ours, as after a mistake in a configuration.

All that it says is refused (INCONSISTENT_CLUSTER_ID). What a node makes of it is in its trace, for
the checkers: a request that it acted upon is told there with the cluster that it named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from harness.contracts.nemesis import Cluster, Fault, Injection
from harness.errors import HarnessError
from harness.kafka import quorum as quorum_probe
from harness.kafka import stranger
from harness.kafka.route import SpeaksKafka, cluster_of
from harness.registry import nemeses
from nemesis.common.targets import aim, draw_target
from nemesis.common.turns import in_turn

_TARGETS = {"leader": 3, "follower": 2, "minority": 1, "majority": 1, "all": 2}
_LOOK_S = 0.5  # of one look at a controller's epoch


@dataclass(frozen=True, slots=True)
class _Undo:
    """The nodes that the stranger talked to, and talks to again when it leaves."""

    nodes: tuple[str, ...]


@nemeses.register("stranger")
class Stranger:
    """Let a node of another cluster ask for votes, claim the lead and fetch.

    It does so when it comes and when it goes. Params: ``target``, a name of
    ``nemesis.common.targets``.
    """

    family = "strangers"

    def available(self, cluster: Cluster) -> str | None:
        """The nodes must take Kafka's requests."""
        if isinstance(cluster.system, SpeaksKafka):
            return None
        return f"system {cluster.system.name!r} does not speak Kafka's protocol"

    def params(self, rng: Random) -> Mapping[str, Any]:
        """Draw to whom it talks."""
        return {"target": draw_target(rng, _TARGETS)}

    @in_turn
    async def inject(self, fault: Fault, cluster: Cluster) -> Injection:
        """Talk to the voters among the targets; evidence: what each answered, at least one."""
        if (reason := self.available(cluster)) is not None:
            return Injection("skipped", reason=reason)
        target, choice = await aim(fault, cluster)
        nodes = tuple(node for node in choice.nodes if node in cluster.system.voters)
        seen = await _talk(nodes, cluster)
        if not any(stranger.was_heard(a) for talk in seen for a in talk["answers"].values()):
            return Injection(
                "skipped", reason=f"no voter answered the stranger: {', '.join(choice.nodes)}"
            )
        evidence = (choice.evidence(target), *seen)
        return Injection("installed", nodes, None, evidence, _Undo(nodes))

    async def heal(self, fault: Fault, injection: Injection, cluster: Cluster) -> Mapping[str, Any]:
        """Say it once more, to whoever is there by then; nothing is left behind."""
        undo = injection.undo
        if not isinstance(undo, _Undo):
            raise HarnessError(f"fault {fault.id} left no stranger to send away")
        return {"left": list(undo.nodes), "said": await _talk(undo.nodes, cluster)}


async def _talk(nodes: Sequence[str], cluster: Cluster) -> list[Mapping[str, Any]]:
    """Make every request of a stranger to each node, one after the other."""
    system = cluster.system
    way = cluster_of(system)
    voters = (way.addresses[voter] for voter in system.voters)
    view = await quorum_probe.ask_all(voters, way.network, timeout_s=_LOOK_S)
    epoch = 0 if view is None else view.epoch
    seen: list[Mapping[str, Any]] = []
    for node in nodes:
        answers = {
            name: await stranger.say(request, way.addresses[node], way.network)
            for name, request in stranger.requests(epoch).items()
        }
        seen.append({"saw": "stranger", "node": node, "epoch": epoch, "answers": answers})
    return seen
