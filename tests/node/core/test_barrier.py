"""The read barrier: a leader confirms that it leads before a read is answered.

Not Kafka's: Raft thesis 6.4, with fetches in the place of heartbeats.
"""

from __future__ import annotations

from node.core import effects as fx
from node.core import inputs
from node.core.types import ElectionState
from tests.support.raft.one import One, log_of

# ---------------------------------------------------------------- read barrier


def test_a_read_needs_fetches_begun_after_it() -> None:
    """Raft thesis 6.4: leadership is confirmed by messages exchanged after the read came."""
    one = One()
    one.lead()
    one.fetch(2, 1)  # parked: begun before the read
    one.step(inputs.ReadBarrier(5))
    assert len(one.of(fx.Reply)) == 1
    assert one.of(fx.BarrierConfirmed) == []
    one.fetch(2, 1)
    assert one.of(fx.BarrierConfirmed) == [fx.BarrierConfirmed(5, 1)]


def test_a_first_fetch_of_a_connection_proves_nothing() -> None:
    """It may have been under way for long; only a reply orders it after the read."""
    one = One()
    one.lead()
    one.fetch(2, 1)
    one.step(inputs.ReadBarrier(5))
    one.fetch(2, 1, connection=99)
    assert one.of(fx.BarrierConfirmed) == []
    one.fetch(2, 1, connection=99)
    assert one.of(fx.BarrierConfirmed) == [fx.BarrierConfirmed(5, 1)]


def test_observers_confirm_no_read() -> None:
    """Only a majority of voters excludes another leader."""
    one = One()
    one.lead()
    one.fetch(2, 1)
    one.fetch(9, 1)
    one.step(inputs.ReadBarrier(5))
    for _ in range(3):
        one.fetch(9, 1, wait_ms=0)
    assert not [e for e in one.all if isinstance(e, fx.BarrierConfirmed)]


def test_a_read_waits_for_the_first_commit_of_the_epoch() -> None:
    """Raft thesis 6.4: before it the leader does not know what is committed."""
    one = One(election=ElectionState(3), log=log_of((3, 0), end=8))
    one.lead()
    one.fetch(2, 8, 3)
    one.step(inputs.ReadBarrier(5))
    one.fetch(2, 8, 3)
    assert one.of(fx.BarrierConfirmed) == []
    one.fetch(2, 9)
    assert one.of(fx.BarrierConfirmed) == [fx.BarrierConfirmed(5, 9)]


def test_a_lone_voter_confirms_reads_at_once() -> None:
    """It is the majority."""
    one = One(voters=1)
    one.step(inputs.ReadBarrier(5))
    assert one.of(fx.BarrierConfirmed) == [fx.BarrierConfirmed(5, 1)]


def test_reads_fail_with_the_leadership() -> None:
    """The read must go elsewhere."""
    one = One()
    epoch = one.lead()
    one.step(inputs.ReadBarrier(5))
    one.begin(3, epoch + 1)
    assert one.of(fx.BarrierFailed) == [fx.BarrierFailed(5, 3)]
    one.step(inputs.ReadBarrier(6))
    assert one.of(fx.BarrierFailed) == [fx.BarrierFailed(6, 3)]


def test_reads_share_a_round() -> None:
    """Many reads cost no more than one."""
    one = One()
    one.lead()
    one.fetch(2, 1)
    for token in (5, 6, 7):
        one.step(inputs.ReadBarrier(token))
    one.fetch(2, 1)  # its predecessor was answered for 5 only: this one is answered at once
    one.fetch(2, 1)
    confirmed = [e.token for e in one.all if isinstance(e, fx.BarrierConfirmed)]
    assert confirmed == [5, 6, 7]
