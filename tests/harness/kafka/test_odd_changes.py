"""Odd requests: each place can have another value, and each such request can be written."""

from __future__ import annotations

from random import Random

import pytest

from harness.kafka.odd.bases import OF_QUORUMS, View
from harness.kafka.odd.changes import NoPlaceError, changed, places
from harness.kafka.odd.saying import BASES, draw, everything, parsed
from node.wire.payloads import encode

VIEW = View(5, 2, 1, cluster_id="c")


@pytest.mark.parametrize("name", BASES)
def test_each_change_of_a_request_can_be_written_and_is_one(name: str) -> None:
    base = BASES[name]
    entity = base.make(VIEW, None)
    assert base.choices()
    for place, value in base.choices():
        odd = changed(entity, place, value, own=VIEW.own, leader=VIEW.leader)
        if value not in ("own", "leader"):  # who that is may be right
            assert odd != entity, (place, value)
            assert encode(odd) != encode(entity), (place, value)


def test_a_change_is_made_at_its_place_alone() -> None:
    entity = OF_QUORUMS["Vote"].make(VIEW, None)
    odd = changed(entity, "topics.0.partitions.0.replica_id", "own", own=3, leader=2)
    assert odd.topics[0].partitions[0].replica_id == 3
    assert changed(odd, "topics.0.partitions.0.replica_id", "77", own=3, leader=2) == entity
    twice = changed(entity, "topics", "twice", own=3, leader=2)
    assert twice.topics == entity.topics * 2


@pytest.mark.parametrize(
    ("place", "value", "told"),
    [
        ("voter", "-1", "VoteRequest has no voter"),
        ("topics.7.topic_name", "empty", "topics of VoteRequest has no item 7"),
        ("topics", "-1", "a list is never '-1'"),
        ("voter_id", "none", "a number is never 'none'"),
        ("cluster_id", "twice", "a value of type string is never 'twice'"),
    ],
)
def test_a_place_or_a_value_that_is_not_there_is_told(place: str, value: str, told: str) -> None:
    with pytest.raises(NoPlaceError, match=told):
        changed(OF_QUORUMS["Vote"].make(VIEW, None), place, value, own=1, leader=2)


def test_numbers_have_the_edges_of_their_type() -> None:
    entity = OF_QUORUMS["Fetch"].make(VIEW, None)
    found = {place: names for place, names in places(entity) if place.endswith("fetch_offset")}
    assert list(found.values()) == [("-1", "most", "least")], "it is 0, and no id"
    (place,) = found
    most = changed(entity, place, "most", own=1, leader=2)
    assert most.topics[0].partitions[0].fetch_offset == 2**63 - 1


def test_drawn_are_requests_of_the_quorum_and_always_the_same() -> None:
    drawn = [draw(Random(seed)) for seed in range(50)]
    assert drawn == [draw(Random(seed)) for seed in range(50)]
    assert {parsed(words)[0] for words in everything()} == set(OF_QUORUMS)


def test_a_far_epoch_is_no_odd_request() -> None:
    """A voter has to believe it, and no election could follow the farthest."""
    assert not [w for w in everything() if "epoch = most" in w or "epoch = least" in w]


def test_words_that_are_no_request_are_refused() -> None:
    for words in ("Vote", "Nothing voter_id = own", ""):
        with pytest.raises(ValueError, match="no odd request"):
            parsed(words)
