"""A leader that resigns and leaves the fetches that wait for it without an answer."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.leader.fetch_replies import FetchReplies
from node.core.roles import Leader
from node.driver.parts import NodeParts
from node.mutants import mutant


class SilentResignation(FetchReplies):
    """Forgets whom it has made wait."""

    def on_left(self, leader: Leader) -> None:
        """Forget all who wait."""
        self._purgatory.take_all()
        super().on_left(leader)


@mutant(
    "silent-resignation",
    breaks=("L13", "L1", "L9"),
    source="KAFKA-10677: parked fetches were not completed when the leader resigned",
    scenario=Scenario(
        seeds=(1, 2, 3),
        voters=2,  # without the other one it leads nobody
        observers=3,
        faults=(fault("kill", 2, 5, target="follower"),),
        rate_hz=5.0,
    ),
)
def silent_resignation(parts: NodeParts) -> NodeParts:
    """Fetches that wait at a leader are not answered when it resigns."""
    return replace(parts, core=replace(parts.core, replies=SilentResignation))
