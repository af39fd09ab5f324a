"""A voter that tells its vote again without a look at what the candidate's log has become."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.roles import Prospective, Unattached
from node.core.types import ReplicaKey
from node.core.votes import Votes
from node.driver.parts import NodeParts
from node.mutants import mutant


class TrustingVoter(Votes):
    """Takes a candidate that it has voted for for what it was then."""

    def _grants_vote(self, candidate: ReplicaKey, *, up_to_date: bool) -> bool:
        role = self._state.role
        if isinstance(role, Unattached | Prospective) and role.voted is not None:
            up_to_date = True
        return super()._grants_vote(candidate, up_to_date=up_to_date)


@mutant(
    "unexamined-repeat",
    breaks=("S5", "S11"),
    source="ours: Raft, figure 2, compares the logs at each vote; Kafka not (docs/findings.md)",
    scenario=Scenario(
        seeds=(9, 12, 15, 18),
        faults=(
            fault("slow-links", 0, 6, target="all", way="both", delay_ms=100, jitter_ms=0),
            fault("kill", 0, 8, target="leader"),
            fault("disk-lost-tail", 4.3, 0.1, target="one", draw=0.88),
        ),
        rate_hz=20,
        settings={
            "controller.quorum.fetch.timeout.ms": "2000",
            "controller.quorum.election.timeout.ms": "1000",
        },
    ),
)
def unexamined_repeat(parts: NodeParts) -> NodeParts:
    """A vote that is asked for again is given again, however short the candidate's log is now."""
    return replace(parts, core=replace(parts.core, votes=TrustingVoter))
