"""An observer that does not move to the new leader."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.follower.fetching import Fetching
from node.core.types import Endpoint
from node.driver.parts import NodeParts
from node.mutants import mutant


class LoyalObserver(Fetching):
    """Fetches from where it has found its first leader."""

    _first: Endpoint | None = None

    def _send_fetch(self, peer: int, endpoint: Endpoint) -> None:
        if not self._state.log.is_voter and endpoint == self._state.leader_endpoint:
            self._first = endpoint = self._first or endpoint
        super()._send_fetch(peer, endpoint)


@mutant(
    "observer-stays",
    breaks=("L8",),
    source="KAFKA-19354: an observer kept fetching from where it had begun",
    scenario=Scenario(observers=1, faults=(fault("partition-isolate-leader", 1, 3),)),
)
def observer_stays(parts: NodeParts) -> NodeParts:
    """An observer goes on fetching from the node that it found first, whoever leads by now."""
    return replace(parts, core=replace(parts.core, fetching=LoyalObserver))
