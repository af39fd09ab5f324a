"""Elections: those that change nothing are told at a glance; who led last is remembered."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from node.controller.partition_change import Election, PartitionChange, Rules, stays
from node.metadata.features import default_features
from node.metadata.state import PartitionState

TOPIC = UUID(int=5)
BROKERS = st.integers(1, 4)
SETS = st.lists(BROKERS, max_size=3, unique=True).map(tuple)
RARE = st.just(()) | st.just(()) | SETS
LEVEL = default_features()["metadata.version"]


@st.composite
def states(draw: st.DrawFn) -> PartitionState:
    """A partition as it may be, and some as none should be."""
    replicas = draw(SETS)
    return PartitionState(
        replicas,
        draw(SETS.map(lambda ids: tuple(each for each in ids if each in replicas))),
        draw(st.integers(-1, 4)),
        7,
        9,
        removing=draw(RARE),
        adding=draw(RARE),
        recovery=draw(st.sampled_from([0, 0, 1])),
        directories=draw(st.sampled_from([(), tuple(UUID(int=200 + each) for each in replicas)])),
        eligible_leaders=draw(RARE),
        last_known_leaders=draw(RARE),
    )


def rules(
    alive: set[int],
    election: Election = Election.ONLINE,
    min_isr: int = 1,
    *,
    elr: bool = True,
) -> Rules:
    """Give the rules of a cluster in which these brokers are alive."""
    return Rules(
        acceptable=lambda _, broker_id: broker_id in alive,
        default_directory=lambda _: None,
        min_isr=min_isr,
        metadata_version=LEVEL,
        elr=elr,
        election=election,
    )


@given(
    states(),
    st.sets(BROKERS),
    st.sampled_from(Election),
    st.integers(1, 3),
    st.booleans(),
)
@example(PartitionState((1, 2), (2,), 2, 0, 0), {1, 2}, Election.PREFERRED, 1, True)
@example(PartitionState((1, 2), (2, 1), 2, 0, 0), {1, 2}, Election.PREFERRED, 1, True)
@example(PartitionState((1, 2), (1,), -1, 0, 0), {2}, Election.UNCLEAN, 1, False)
@example(PartitionState((1,), (), 1, 0, 0), {1}, Election.UNCLEAN, 1, False)
@settings(max_examples=500)
def test_who_stays_as_it_is_gets_no_record(
    state: PartitionState, alive: set[int], election: Election, min_isr: int, elr: bool
) -> None:
    among = rules(alive, election, min_isr, elr=elr)
    record = PartitionChange(state, TOPIC, 0, among).build()
    usual = not (
        state.adding or state.removing or state.eligible_leaders or state.last_known_leaders
    )
    if stays(state, among):
        assert usual
        assert record is None
    elif usual and (election is not Election.UNCLEAN or state.leader in state.isr):
        assert record is not None


@pytest.mark.parametrize("elr", [True, False])
def test_a_leader_that_may_lead_no_more_is_remembered_though_others_are_in_sync(
    *, elr: bool
) -> None:
    """KIP-966, as Kafka's PartitionChangeBuilder does it: whatever the ISR is then."""
    state = PartitionState((1, 2), (1, 2), 1, 7, 9)
    record = PartitionChange(state, TOPIC, 0, rules(alive=set(), elr=elr)).build()
    assert record is not None
    assert (record.leader, record.isr) == (-1, None)
    assert record.last_known_elr == ((1,) if elr else None)


def test_who_led_last_is_remembered_until_somebody_leads() -> None:
    state = PartitionState((1, 2), (1, 2), -1, 7, 9, last_known_leaders=(1,))
    assert PartitionChange(state, TOPIC, 0, rules(alive=set())).build() is None
    record = PartitionChange(state, TOPIC, 0, rules(alive={2})).build()
    assert record is not None
    assert (record.leader, record.last_known_elr) == (2, ())


def test_a_leader_clears_who_led_last_also_where_eligible_leaders_are_switched_off() -> None:
    """Or that one would be taken for the last leader once they are switched on again."""
    state = PartitionState((1, 2), (), -1, 7, 9, last_known_leaders=(1,))
    among = rules(alive={2}, election=Election.UNCLEAN, elr=False)
    record = PartitionChange(state, TOPIC, 0, among).build()
    assert record is not None
    assert (record.leader, record.last_known_elr) == (2, ())


def test_the_last_leader_takes_the_place_of_one_that_was_never_cleared() -> None:
    state = PartitionState((1, 2), (2,), 2, 7, 9, last_known_leaders=(1,))
    record = PartitionChange(state, TOPIC, 0, rules(alive=set())).build()
    assert record is not None
    assert (record.leader, record.last_known_elr) == (-1, (2,))
