"""Lost answers: a request is done, and whoever sent it never hears of that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from harness.contracts.hosts import LosesAnswers
from harness.contracts.nemesis import Cluster, Fault, Injection
from harness.errors import HarnessError
from harness.registry import nemeses
from harness.spec import SIM, RunSpec
from nemesis.common import claims
from nemesis.common.targets import aim, draw_target

ANSWERS = "answers"  # what is claimed of a node
EVERY = 1_000_000  # more than a fault can see
_TARGETS = {"leader": 3, "follower": 2, "one": 1}


@dataclass(frozen=True, slots=True)
class _Undo:
    """The node whose answers are lost."""

    node: str


@nemeses.register("lost-answers")
class LostAnswers:
    """Lose answers of a node to other nodes: one, a few, or all; requests still reach it.

    Params: ``target``, a name of ``nemesis.common.targets`` for one node; ``answers``, how many, 0
    for all; ``resets``, whether each takes its connection along, or is waited for in vain.
    """

    family = "answers"

    def misfit(self, spec: RunSpec) -> str | None:
        """Tell that only the simulated network knows answers; None where the run has it."""
        return None if spec.env == SIM else _why(spec.env)

    def available(self, cluster: Cluster) -> str | None:
        """Links must know answers, and there must be somebody to answer."""
        if not isinstance(cluster.environment.net, LosesAnswers):
            return _why(cluster.environment.name)
        return None if len(cluster.system.nodes) > 1 else "needs 2 nodes, there is 1"

    def params(self, rng: Random) -> Mapping[str, Any]:
        """Draw whose answers, how many, and how they get lost."""
        return {
            "target": draw_target(rng, _TARGETS),
            "answers": rng.choice((1, 1, 2, 5, 0)),
            "resets": rng.choice((True, False)),
        }

    async def inject(self, fault: Fault, cluster: Cluster) -> Injection:
        """Order the loss; evidence: whose answers to whom, and what was ordered."""
        net = cluster.environment.net
        if not isinstance(net, LosesAnswers) or self.available(cluster) is not None:
            return Injection("skipped", reason=self.available(cluster))
        target, choice = await aim(fault, cluster)
        node = choice.nodes[0]
        if not claims.claim_free(cluster, fault.id, [(ANSWERS, node)]):
            return Injection("skipped", reason=f"another fault has the answers of {node}")
        others = [other for other in cluster.system.nodes if other != node]
        count, resets = int(fault.params.get("answers", 1)), bool(fault.params.get("resets", True))
        await net.lose_answers(node, count or EVERY, others, resets=resets)
        seen = {"saw": "answers", "node": node, "to": others, "ordered": count or "all"}
        evidence = (choice.evidence(target), {**seen, "resets": resets})
        return Injection("installed", (node,), None, evidence, _Undo(node))

    async def heal(self, fault: Fault, injection: Injection, cluster: Cluster) -> Mapping[str, Any]:
        """Let all answers through again; evidence: how many were lost."""
        undo, net = injection.undo, cluster.environment.net
        if not isinstance(undo, _Undo) or not isinstance(net, LosesAnswers):
            raise HarnessError(f"fault {fault.id} left no answers to heal")
        lost = await net.lost_answers(undo.node)
        await net.lose_answers(undo.node, 0, (), resets=False)
        claims.release(cluster, fault.id, [(ANSWERS, undo.node)])
        return {"node": undo.node, "answers_lost": lost, "still_lost": 0}


def _why(environment: str) -> str:
    return f"environment {environment!r} sees bytes and no answers; only 'sim' can lose single ones"
