"""A replica to which all clusters are one."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.fencing import Fencing
from node.driver.parts import NodeParts
from node.mutants import mutant


class Hospitable(Fencing):
    """Does not look which cluster a request is for."""

    def same_cluster(self, cluster_id: str | None) -> bool:
        """Take every cluster for this one."""
        del cluster_id
        return True


@mutant(
    "any-cluster",
    breaks=("S31",),
    source="ours: KIP-595 refuses requests of another cluster (INCONSISTENT_CLUSTER_ID)",
    scenario=Scenario(
        faults=(fault("stranger", 1, 1, target="leader"),),
        time_limit_s=3.0,
    ),
)
def any_cluster(parts: NodeParts) -> NodeParts:
    """Requests that name another cluster are served as if they named this one."""
    return replace(parts, core=replace(parts.core, fencing=Hospitable))
