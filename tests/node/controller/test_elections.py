"""Elections that change nothing: what is told at a glance is what the whole change comes to."""

from __future__ import annotations

from uuid import UUID

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
@settings(max_examples=500)
def test_who_stays_as_it_is_gets_no_record(
    state: PartitionState, alive: set[int], election: Election, min_isr: int, elr: bool
) -> None:
    rules = Rules(
        acceptable=lambda _, broker_id: broker_id in alive,
        default_directory=lambda _: None,
        min_isr=min_isr,
        metadata_version=LEVEL,
        elr=elr,
        election=election,
    )
    record = PartitionChange(state, TOPIC, 0, rules).build()
    usual = not (
        state.adding or state.removing or state.eligible_leaders or state.last_known_leaders
    )
    if stays(state, rules):
        assert usual
        assert record is None
    elif usual and (election is not Election.UNCLEAN or state.leader != -1):
        assert record is not None
