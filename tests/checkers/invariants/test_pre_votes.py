"""S32, of who stands without the pre-votes of a majority."""

from __future__ import annotations

from checkers.invariants.pre_votes import PreVoteMajority
from checkers.monitor.monitor import Monitor
from harness.verdict import Anomaly
from tests.support.traces.traces import Trace, healthy


def judged(trace: Trace, *, some: bool = True) -> list[Anomaly]:
    invariant = PreVoteMajority()
    found = Monitor([invariant]).feed_all(trace.run().events)
    assert bool(invariant.checked) is some
    return found


def led(voters: int = 5) -> Trace:
    """Node 1 leads epoch 1; everybody has answered pre-votes."""
    trace = Trace(voters)
    trace.start()
    trace.elect(1, 1)
    trace.role(1, "resigned", leader=1)
    trace.role(1, "prospective", by=None)
    return trace


def stand(trace: Trace, *granting: int) -> None:
    trace.role(2, "prospective", by=None)
    for node in granting:
        trace.grant(node, 2, pre=True)
    trace.grant(5, 2, pre=True, ok=False)
    trace.disks[2].epoch += 1
    trace.role(2, "candidate", voted=2)


def test_healthy_elections_raise_no_alarm() -> None:
    assert not judged(healthy(3, 2))


def test_a_majority_of_pre_votes_lets_a_voter_stand() -> None:
    trace = led()
    stand(trace, 3, 4)
    assert not judged(trace)


def test_fewer_do_not() -> None:
    trace = led()
    stand(trace, 3)
    (found,) = judged(trace)
    assert found.invariant == "S32"


def test_the_same_voter_counts_once_and_pre_votes_of_before_do_not() -> None:
    trace = led()
    stand(trace, 3, 3)
    assert judged(trace)

    trace = led()
    trace.role(2, "prospective", by=None)
    trace.grant(3, 2, pre=True)
    trace.grant(4, 2, pre=True)
    trace.role(2, "unattached")
    stand(trace, 3)
    assert judged(trace)


def test_a_vote_that_is_recorded_meanwhile_costs_no_pre_vote() -> None:
    trace = led()
    trace.role(2, "prospective", by=None)
    trace.grant(3, 2, pre=True)
    trace.role(2, "prospective", voted=4)
    trace.grant(4, 2, pre=True)
    trace.disks[2].epoch += 1
    trace.role(2, "candidate", voted=2)
    assert not judged(trace)


def test_a_voter_that_never_told_of_pre_votes_may_be_too_old_for_them() -> None:
    trace = Trace(5)
    trace.start()
    stand(trace, 3)
    assert not judged(trace, some=False)
