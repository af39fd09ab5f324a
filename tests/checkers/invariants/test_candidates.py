"""S5: what a voter says of its own log when it votes."""

from __future__ import annotations

import pytest

from checkers.invariants.candidates import UpToDateGrants
from checkers.monitor.monitor import Monitor
from tests.support.traces.traces import QUORUM_MS, Trace

WON = 5  # an epoch in which node 2 writes nothing


def told(trace: Trace, epoch: int, end: int) -> list[str]:
    """Node 2 votes for node 1, and says that its log ends so."""
    asks = trace.disks[1]
    trace.emit(
        *(2, "vote"),
        pre=False,
        ok=True,
        cand=1,
        cand_dir=asks.dir,
        cl_ep=WON + 1,
        cl_leo=asks.end,
        my_ep=epoch,
        my_leo=end,
        req_ep=WON + 2,
        err=0,
        due=(5_000, 5_000),
    )
    found = Monitor([UpToDateGrants()]).feed_all(trace.run().events)
    return [anomaly.message for anomaly in found]


def led(*, wins: bool, restarts: bool = False) -> tuple[Trace, int]:
    """Node 2 follows node 1; it may win an epoch then, and start again."""
    trace = Trace(3)
    trace.start()
    trace.elect(1, 1)
    trace.replicate(1, 2)
    end = trace.disks[2].end
    if wins:
        fields = {"grants": [2, 3], "voters": trace.in_force(2), "quorum_ms": QUORUM_MS}
        trace.emit(2, "elected", WON, es=end, **fields)
    if restarts:
        trace.start(2)
    return trace, end


def test_a_log_ends_with_its_last_record() -> None:
    trace, end = led(wins=False)
    assert told(trace, 1, end) == []
    (message,) = told(trace, WON, end)
    assert f"voted with a log that ends at {end} of epoch {WON}, but its log ends at" in message


def test_or_with_the_epoch_that_its_node_has_won_and_written_nothing_in() -> None:
    """A controller of 3.9.2 that shuts down resigns as soon as it is elected."""
    trace, end = led(wins=True)
    assert told(trace, WON, end) == []


@pytest.mark.parametrize(
    ("restarts", "epoch", "more"), [(True, 0, 0), (False, 1, 0), (False, 0, 1)]
)
def test_but_with_no_other_epoch_or_end_and_not_when_it_started_again(
    *, restarts: bool, epoch: int, more: int
) -> None:
    trace, end = led(wins=True, restarts=restarts)
    assert len(told(trace, WON + epoch, end + more)) == 1
