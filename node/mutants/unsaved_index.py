"""A node whose applied index is ahead of the state that it has saved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.driver.parts import NodeParts
from node.driver.state_machine import StateMachine
from node.loading.committed import CommittedBatch, Provenance
from node.mutants import mutant


class AheadMachine(StateMachine):
    """Believes to have applied one more batch than its snapshot holds."""

    def _restore_slice(self, at: Provenance, slices: Iterator[None]) -> None:
        super()._restore_slice(at, slices)
        if self._restoring is None:
            self._ahead = True

    _ahead = False

    def _slice(self) -> list[CommittedBatch]:
        batches = super()._slice()
        if self._ahead and batches:
            self._ahead = False
            batches[0] = batches[0]._replace(records=())
        return batches


@mutant(
    "unsaved-index",
    breaks=("S20", "C8"),
    source="etcd 3.5 (#13766: the applied index is saved without the state that belongs to it)",
    scenario=Scenario(
        seeds=(6, 8, 17, 18),
        faults=(fault("kill", 2, 1, target="all"), fault("kill", 5, 1, target="all")),
        rate_hz=40,
        settings={"metadata.log.max.record.bytes.between.snapshots": "1000"},
    ),
)
def unsaved_index(parts: NodeParts) -> NodeParts:
    """After a restart from a snapshot, the batch that follows it is taken for applied."""
    return replace(parts, machine=AheadMachine)
