"""An observer that stands for election."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.follower.fetching import Fetching
from node.core.role_changes import RoleChanges
from node.core.roles import Follower, Role
from node.driver.parts import NodeParts
from node.mutants import mutant


class LaxRoles(RoleChanges):
    """Lets every role follow every other."""

    def _check_role(self, role: Role, why: str) -> None:
        """Accept every role."""


class AmbitiousReplica(Fetching):
    """Asks for votes when it hears of no leader, voter or not."""

    def poll_follower(self, role: Follower) -> None:
        """Stand when the leader is silent."""
        if role.deadline_ms <= self._state.now_ms:
            self._roles.become_prospective("fetch timeout")
        else:
            super().poll_follower(role)


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
    return replace(parts, core=replace(parts.core, roles=LaxRoles, fetching=AmbitiousReplica))
