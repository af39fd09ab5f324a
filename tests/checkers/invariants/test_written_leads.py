"""S26, of what is on a leader's disk when it writes."""

from __future__ import annotations

from checkers.invariants.written_leads import WrittenLead
from checkers.monitor.monitor import Monitor
from harness.verdict import Anomaly
from tests.support.traces.traces import Trace, changing, healthy


def judged(trace: Trace) -> tuple[int, list[Anomaly]]:
    invariant = WrittenLead()
    found = Monitor([invariant]).feed_all(trace.run().events)
    return invariant.checked, found


def elected(*, leader: int | None) -> Trace:
    """Node 1 leads epoch 1, with that leader in its quorum-state."""
    trace = Trace(3)
    trace.start()
    trace.persist(1, 1, voted=1)
    if leader is not None:
        trace.persist(1, 1, leader=leader)
    trace.append(1)
    return trace


def test_healthy_reigns_raise_no_alarm_and_each_is_looked_at_once() -> None:
    assert judged(healthy()) == (2, [])
    checked, found = judged(changing())
    assert (checked > 2, found) == (True, [])


def test_a_reign_is_on_disk_before_its_first_record() -> None:
    assert judged(elected(leader=1)) == (1, [])
    for leader in (None, 2):
        (anomaly,) = judged(elected(leader=leader))[1]
        assert anomaly.invariant == "S26"


def test_an_unwritten_reign_is_told_once() -> None:
    trace = elected(leader=None)
    trace.append(1)
    assert len(judged(trace)[1]) == 1


def test_what_a_follower_copies_says_nothing_of_its_own_reign() -> None:
    trace = elected(leader=1)
    trace.store(2, trace.disks[1].log[-1])
    assert judged(trace) == (1, [])


def test_nothing_is_said_of_a_disk_that_was_damaged() -> None:
    trace = Trace(3)
    trace.start()
    trace.damage(1, "vote")
    trace.append(1)
    assert not judged(trace)[1]
