"""A voter that ignores a quorum-state file of another version."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from node.catalogue.scenario import Scenario, fault
from node.core.types import ElectionState
from node.driver.parts import NodeParts
from node.log.disk import read_file
from node.log.quorum_state import ElectionStateStore
from node.mutants import mutant


class CarelessStore(ElectionStateStore):
    """Knows one version of the file, and begins anew with any other."""

    def load(self) -> ElectionState | None:
        """The saved state, None if it was saved in another version than today's."""
        content = read_file(self._disk, self.path)
        if content is None or msgspec.json.decode(content)["data_version"] == 0:
            return None
        return super().load()


@mutant(
    "ignored-quorum-state",
    breaks=("S3", "S2", "S4"),
    source="KAFKA-15412: a quorum-state of another version was read as if there were none",
    scenario=Scenario(faults=(fault("kill", 1, 0.5, target="all"),)),
)
def ignored_quorum_state(parts: NodeParts) -> NodeParts:
    """A quorum-state file of an older version is ignored: the node forgets epoch and vote."""
    return replace(parts, election_store=CarelessStore)
