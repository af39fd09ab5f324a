"""A fault takes its targets: chosen, looked at, and claimed where no other fault has them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from harness.contracts.environment import ProcessState
from harness.contracts.nemesis import Cluster, Fault
from nemesis.common import claims
from nemesis.common.targets import Choice, aim

ENDED = frozenset({"gone"})  # states of a process that is there no more


@dataclass(frozen=True, slots=True)
class Taken:
    """The nodes that a fault has claimed, of those that were chosen for its target."""

    target: str
    choice: Choice
    before: Mapping[str, ProcessState]  # of all that were chosen
    nodes: tuple[str, ...]  # none: each is down or another fault's

    @property
    def pids(self) -> dict[str, int | None]:
        """The pid that each of them had."""
        return {node: self.before[node].pid for node in self.nodes}

    @property
    def chosen(self) -> str:
        """The nodes that were chosen, for people."""
        return ", ".join(self.choice.nodes)

    def evidence(self) -> dict[str, Any]:
        """The choice as evidence of the fault."""
        return self.choice.evidence(self.target)


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
    running = [(kind, node) for node, seen in before.items() if seen.state not in but]
    nodes = tuple(node for _, node in claims.claim_free(cluster, fault.id, running))
    return Taken(target, choice, before, nodes)
