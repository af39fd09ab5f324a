"""A leader that lets nobody wait."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario
from node.core.leader.fetch_replies import FetchReplies
from node.core.messages import FetchRequest
from node.driver.parts import NodeParts
from node.mutants import mutant


class RestlessLeader(FetchReplies):
    """Has a fetch without news wait for next to no time."""

    def park(self, token: int, connection: int, request: FetchRequest) -> None:
        """Hold the reply back for 3 ms."""
        super().park(token, connection, replace(request, max_wait_ms=3))


@mutant(
    "busy-fetch",
    breaks=("L12",),
    source="KAFKA-17751, KAFKA-19605: a timeout of zero made an idle node poll without a pause",
    scenario=Scenario(time_limit_s=2.0),
)
def busy_fetch(parts: NodeParts) -> NodeParts:
    """Fetches without news are answered at once, so an idle quorum fetches as fast as it can."""
    return replace(parts, core=replace(parts.core, replies=RestlessLeader))
