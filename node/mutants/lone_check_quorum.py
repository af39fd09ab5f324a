"""A lone voter that waits for others."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario
from node.core.leader.leadership import Leadership
from node.driver.parts import NodeParts
from node.mutants import mutant


class LonesomeLeader(Leadership):
    """Wants to be fetched from, even if nobody is there to do it."""

    def _check_quorum_deadline(self) -> int | None:
        return self._state.now_ms + self._check_quorum_ms


@mutant(
    "lone-check-quorum",
    breaks=("L4", "L2", "L3"),
    source="KAFKA-16144: check quorum fired in a quorum of one",
    scenario=Scenario(voters=1),
)
def lone_check_quorum(parts: NodeParts) -> NodeParts:
    """The only voter resigns again and again because nobody else fetches from it."""
    return replace(parts, core=replace(parts.core, leadership=LonesomeLeader))
