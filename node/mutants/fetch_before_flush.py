"""A follower that promises what is not on its disk yet."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario
from node.core.follower.fetching import Fetching
from node.driver.parts import NodeParts
from node.mutants import mutant


class HastyFollower(Fetching):
    """Asks for more while what it has is still in the page cache."""

    def _is_durable(self) -> bool:
        return True


@mutant(
    "fetch-before-flush",
    breaks=("S16", "S13"),
    source="KAFKA-10533: the log was not flushed before the next fetch",
    scenario=Scenario(),
)
def fetch_before_flush(parts: NodeParts) -> NodeParts:
    """A follower fetches before it has flushed: the leader counts what a power loss takes."""
    return replace(parts, core=replace(parts.core, fetching=HastyFollower))
