"""A voter that compares logs by half."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.messages import VoteRequest
from node.core.votes import Votes
from node.driver.parts import NodeParts
from node.mutants import mutant


class HalfBlindVoter(Votes):
    """Takes a log of the same last epoch for as good as its own, however short it is."""

    def _is_up_to_date(self, request: VoteRequest) -> bool:
        return request.last.epoch >= self._state.log.last.epoch


@mutant(
    "half-compared-logs",
    breaks=("S5", "S11"),
    source="liferaft #8 (epoch and length of a log are not compared lexicographically)",
    scenario=Scenario(
        seeds=(1, 2, 3, 4, 5, 6),
        faults=(
            fault("partition-isolate-one", 1, 4, target="follower"),
            fault("kill", 2, 5, target="leader"),
        ),
        time_limit_s=9,
    ),
)
def half_compared_logs(parts: NodeParts) -> NodeParts:
    """A vote is granted to a candidate of the same last epoch whose log is shorter."""
    return replace(parts, core=replace(parts.core, votes=HalfBlindVoter))
