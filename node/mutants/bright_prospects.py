"""A leader that tells of its quorum what it would like to be so."""

from __future__ import annotations

from dataclasses import replace

from node.core import effects as fx
from node.core.messages import DescribeQuorumResponse, Error
from node.core.replica import Replica
from node.driver.parts import NodeParts
from node.mutants import mutant
from node.mutants.scenario import Scenario, fault


class Optimist(Replica):
    """Takes what it has written for what is committed, when it is asked for that."""

    def _on_describe_request(self, token: int) -> None:
        super()._on_describe_request(token)
        last = self._out[-1]
        if not isinstance(last, fx.Reply) or not isinstance(last.response, DescribeQuorumResponse):
            return
        if last.response.error is Error.NONE:
            told = replace(last.response, high_watermark=self._log_end)
            self._out[-1] = replace(last, response=told)


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
    return replace(parts, replica=Optimist)
