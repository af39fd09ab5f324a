"""S29: who keeps a leader in its role."""

from __future__ import annotations

import pytest

from checkers.invariants.quorum import QuorumCredit
from checkers.monitor.monitor import Monitor
from tests.support.traces.traces import Trace


@pytest.mark.parametrize(
    ("api", "counts"), [("UpdateVoter", True), ("FetchSnapshot", True), ("BeginQuorumEpoch", False)]
)
def test_a_follower_that_changes_its_voter_keeps_the_leader_as_if_it_fetched(
    api: str, *, counts: bool
) -> None:
    trace = Trace(3)
    trace.start()
    trace.elect(1, 1)
    where = trace.disks[2].dir
    trace.emit(1, "rpc_ok", api=api, peer=2, peer_dir=where, req_ep=1)
    trace.emit(1, "quorum", ok=True, heard=[[2, where, 0]], since_ms=1, quorum_ms=900)
    found = Monitor([QuorumCredit()]).feed_all(trace.run().events)
    assert [anomaly.invariant for anomaly in found] == ([] if counts else ["S29"])
