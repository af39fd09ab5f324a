"""A leader that tells its high watermark only along with records."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario
from node.core.leader.fetch_replies import FetchReplies
from node.core.leader.fetches import Fetches
from node.core.messages import FetchRequest
from node.core.progress import ReplicaProgress
from node.core.roles import Leader
from node.driver.parts import NodeParts
from node.mutants import mutant


class SilentReplies(FetchReplies):
    """Wakes nobody when its high watermark moves."""

    def on_committed(self, role: Leader, high_watermark: int) -> None:
        """Wake nobody; only barriers are told."""


class SilentFetches(Fetches):
    """Has every fetch wait that could be told no more than the high watermark."""

    def _answer_at_once(
        self, role: Leader, voter: ReplicaProgress | None, request: FetchRequest
    ) -> bool:
        return super()._answer_at_once(role, voter, replace(request, high_watermark=None))


@mutant(
    "silent-high-watermark",
    breaks=("L8", "L10"),
    source="KAFKA-14145: the high watermark was told with records or after a fetch timeout",
    scenario=Scenario(observers=1),
)
def silent_high_watermark(parts: NodeParts) -> NodeParts:
    """A new high watermark is told with the next records: followers are always one write late."""
    return replace(parts, core=replace(parts.core, replies=SilentReplies, fetches=SilentFetches))
