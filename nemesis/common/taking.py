"""A fault takes its targets: chosen, looked at, and claimed where no other fault has them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from harness.contracts.environment import ProcessState
from harness.contracts.nemesis import Cluster, Fault
from nemesis.common import claims
from nemesis.common.targets import Choice, aim, permitted

ENDED = frozenset({"gone"})  # states of a process that is there no more


@dataclass(frozen=True, slots=True)
class Taken:
    """The nodes that a fault has claimed, of those that were chosen for its target."""

    target: str
    choice: Choice
    before: Mapping[str, ProcessState]  # of all that were chosen
    nodes: tuple[str, ...]  # none: each is down, another fault's, or must not be hit
    forbidden: str | None = None  # why one of those that were chosen must not be hit

    @property
    def pids(self) -> dict[str, int | None]:
        """The pid that each of them had."""
        return {node: self.before[node].pid for node in self.nodes}

    @property
    def why_none(self) -> str:
        """Tell why there is no node among them that can be hit."""
        return self.forbidden or f"down or frozen already: {self.chosen}"

    @property
    def chosen(self) -> str:
        """The nodes that were chosen, for people."""
        return ", ".join(self.choice.nodes)

    def evidence(self) -> dict[str, Any]:
        """The choice as evidence of the fault."""
        seen = self.choice.evidence(self.target)
        return seen if self.forbidden is None else {**seen, "spared": self.forbidden}


async def take(fault: Fault, cluster: Cluster, kind: str, *, but: Collection[str] = ENDED) -> Taken:
    """Choose the fault's targets and claim a thing of each that runs and is free.

    Args:
        fault: Its param ``target`` says whom; ``one`` when it says nothing.
        cluster: Where.
        kind: What is claimed: ``PROCESS`` or ``DISK`` of ``nemesis.common.hosts``.
        but: States of processes that cannot be hit.
    """
    target, choice = await aim(fault, cluster, kind)
    before = {node: cluster.environment.process(node) for node in choice.nodes}
    chosen, forbidden = permitted(
        fault, cluster, [node for node, seen in before.items() if seen.state not in but]
    )
    running = [(kind, node) for node in chosen]
    nodes = tuple(node for _, node in claims.claim_free(cluster, fault.id, running))
    return Taken(target, choice, before, nodes, forbidden)
