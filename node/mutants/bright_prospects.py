"""A leader that tells of its quorum what it would like to be so."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core import effects as fx
from node.core.leader.describe import QuorumDescription
from node.core.messages import DescribeQuorumResponse, Error
from node.driver.parts import NodeParts
from node.mutants import mutant


class Optimist(QuorumDescription):
    """Takes what it has written for what is committed, when it is asked for that."""

    def on_describe_request(self, token: int) -> None:
        """Tell the log end as the high watermark."""
        super().on_describe_request(token)
        last = self._state.out.effects[-1]
        if not isinstance(last, fx.Reply) or not isinstance(last.response, DescribeQuorumResponse):
            return
        if last.response.error is Error.NONE:
            told = replace(last.response, high_watermark=self._state.log.end)
            self._state.out.effects[-1] = replace(last, response=told)


@mutant(
    "bright-prospects",
    breaks=("S34",),
    source="ours: KIP-836 has DescribeQuorum tell what is committed, which tools go by",
    scenario=Scenario(
        workload="describe",
        faults=(fault("slow-links", 1, 2, target="all", way="both", delay_ms=100, jitter_ms=0),),
        time_limit_s=4.0,
        rate_hz=40.0,
    ),
)
def bright_prospects(parts: NodeParts) -> NodeParts:
    """DescribeQuorum tells the leader's log end as the high watermark."""
    return replace(parts, core=replace(parts.core, description=Optimist))
