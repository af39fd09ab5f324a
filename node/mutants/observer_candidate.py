"""An observer that stands for election."""

from __future__ import annotations

from dataclasses import replace

from node.core.replica import Replica
from node.core.roles import Follower, Role
from node.driver.parts import NodeParts
from node.mutants import mutant
from node.mutants.scenario import Scenario, fault


class AmbitiousReplica(Replica):
    """Asks for votes when it hears of no leader, voter or not."""

    def _check_role(self, role: Role, why: str) -> None:
        """Whatever it is, it may be."""

    def _poll_follower(self, role: Follower) -> None:
        if role.deadline_ms <= self._now_ms:
            self._become_prospective("fetch timeout")
        else:
            super()._poll_follower(role)


@mutant(
    "observer-candidate",
    breaks=("S33", "S6"),
    source="KAFKA-17067: a replica that is no voter could become a candidate",
    scenario=Scenario(
        observers=1, faults=(fault("partition-isolate-one", 1, 2.5, target="observer"),)
    ),
)
def observer_candidate(parts: NodeParts) -> NodeParts:
    """A node that is no voter asks for votes once it loses its leader."""
    return replace(parts, replica=AmbitiousReplica)
