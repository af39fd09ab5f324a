"""S21: how much a controller has applied when it becomes active."""

from __future__ import annotations

import pytest

from checkers.invariants.leading import NONE_OF_ITS_OWN, ClaimAfterCatchUp
from checkers.monitor.monitor import Monitor
from tests.support.traces.traces import Trace


def messages(trace: Trace) -> list[str]:
    monitor = Monitor([ClaimAfterCatchUp()])
    return [anomaly.message for anomaly in monitor.feed_all(trace.run().events)]


@pytest.mark.parametrize(
    ("writes", "applied", "wrong"),
    [
        (0, 0, True),  # the LeaderChange of epoch 1 is nothing to apply
        (0, 1, True),
        (0, 2, False),
        (1, 0, True),
        (1, 1, True),
    ],
)
def test_a_leader_change_that_nobody_was_handed_is_as_if_applied(
    writes: int, applied: int, wrong: bool
) -> None:
    trace = Trace(3)
    trace.start()
    trace.elect(1, 1)
    trace.replicate(1, 2, 3)
    for _ in range(writes):
        trace.write(1, "a", 1, 2, 3)
    trace.elect(2, 2)
    trace.emit(2, "claim", applied=applied)
    found = messages(trace)
    assert bool(found) is wrong
    assert all((NONE_OF_ITS_OWN in each) is (writes == 0) for each in found)
