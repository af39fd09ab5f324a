"""A leader that trusts itself."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core import effects as fx
from node.core.inputs import ReadBarrier
from node.core.leader.barriers import Barriers
from node.core.roles import Leader
from node.driver.parts import NodeParts
from node.mutants import mutant


class TrustingLeader(Barriers):
    """Asks nobody whether it still leads."""

    def on_read_barrier(self, barrier: ReadBarrier) -> None:
        """Confirm at once."""
        role = self._state.role
        if isinstance(role, Leader) and role.high_watermark is not None:
            self._state.out.emit(fx.BarrierConfirmed(barrier.token, role.high_watermark))
        else:
            super().on_read_barrier(barrier)


@mutant(
    "unconfirmed-read",
    breaks=("S34", "linearizability"),
    source="etcd #741 (the leader serves reads from memory without asking a quorum)",
    scenario=Scenario(
        seeds=(4, 7, 8),
        faults=(fault("partition-isolate-leader", 1, 5),),
        time_limit_s=10,
        rate_hz=60,
        concurrency=10,
        settings={"controller.quorum.fetch.timeout.ms": "3000"},
    ),
)
def unconfirmed_read(parts: NodeParts) -> NodeParts:
    """A leader answers reads at its own high watermark, without the fetches of a majority."""
    return replace(parts, core=replace(parts.core, barriers=TrustingLeader))
