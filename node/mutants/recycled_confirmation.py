"""A leader that asks once, and then never again."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.leader.barriers import Barriers
from node.core.roles import Leader
from node.driver.parts import NodeParts
from node.mutants import mutant


class RecyclingLeader(Barriers):
    """Takes the confirmation of its first read for one of all that follow."""

    def _confirmed_barrier(self, role: Leader) -> int:
        return self._replies.rounds if super()._confirmed_barrier(role) else 0


@mutant(
    "recycled-confirmation",
    breaks=("S34", "linearizability"),
    source="etcd #20418 (the confirmation of one read is used for another)",
    scenario=Scenario(
        seeds=(3, 4, 7, 8),
        faults=(fault("partition-isolate-leader", 1, 5),),
        time_limit_s=10,
        rate_hz=60,
        concurrency=10,
        settings={"controller.quorum.fetch.timeout.ms": "3000"},
    ),
)
def recycled_confirmation(parts: NodeParts) -> NodeParts:
    """Once a majority has confirmed a leader for one read, it answers all others at once."""
    return replace(parts, core=replace(parts.core, barriers=RecyclingLeader))
