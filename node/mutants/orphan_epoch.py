"""A log that remembers an epoch of which it has no record."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.follower.appending import Appending
from node.core.own_log import OwnLog
from node.core.types import OffsetAndEpoch
from node.driver.parts import NodeParts
from node.mutants import mutant


class OrphanKeeper(OwnLog):
    """Prunes its epochs above the new end of the log, but not the one that begins right there."""

    def truncate(self, to: int, why: str) -> None:
        """Cut the log, and put back the epoch that begins where it ends."""
        orphans = [epoch for epoch, start in self.epochs.entries if start == to]
        super().truncate(to, why)
        for epoch in orphans:
            self.epochs.assign(epoch, to)


class PausingFollower(Appending):
    """Makes a pause after each cut."""

    def cut_divergence(self, peer: int, diverging: OffsetAndEpoch) -> None:
        """Cut: it will be told the same for ever, but not a thousand times a second."""
        super().cut_divergence(peer, diverging)
        self._state.back_off(peer)


@mutant(
    "orphan-epoch",
    breaks=("S5", "S8", "L8"),
    source="torn epoch cache: the entry of a leader that has written nothing survives a truncation",
    scenario=Scenario(
        seeds=(1, 2, 3),
        voters=3,
        faults=(
            fault("slow-links", 1, 6, target="all", way="both", delay_ms=100, jitter_ms=0),
            fault("partition-isolate-leader", 2, 2.5),
            fault("partition-isolate-leader", 3.6, 2.5),
        ),
        time_limit_s=10,
        rate_hz=30,
        concurrency=10,
    ),
)
def orphan_epoch(parts: NodeParts) -> NodeParts:
    """An epoch that begins where the log is cut stays in the epoch cache."""
    return replace(parts, core=replace(parts.core, log=OrphanKeeper, appending=PausingFollower))
