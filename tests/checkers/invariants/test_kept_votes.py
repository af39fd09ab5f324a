"""S3, of what is written over a vote."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.invariants.elections import VoteDurability
from checkers.invariants.kept_votes import KeptVote
from checkers.replay.world import Persisted, World
from harness.verdict import Anomaly

BASE: dict[str, Any] = {"t": "qs", "node": 1, "dir": "aa", "inc": 1, "seq": 5, "ts": 7}


def found(given: int, **written: Any) -> list[Anomaly]:
    world = World()
    event = {**BASE, "ep": 3, "voted": None, "leader": None, **written}
    world.replica(event).quorum = Persisted(3, None, given, "aa")
    return list(KeptVote().feed(event, world))


def broken(given: int, **written: Any) -> bool:
    return bool(found(given, **written))


def test_a_vote_is_not_taken_back_in_its_epoch() -> None:
    assert broken(2)
    assert broken(2, leader=3)
    assert not broken(2, voted=2)
    assert not broken(2, ep=4)


def test_a_leader_may_take_the_place_of_its_vote_for_itself() -> None:
    assert not broken(1, leader=1)
    assert broken(2, leader=2), "a follower keeps its vote"


def test_it_is_said_whether_the_leader_of_the_epoch_took_its_place() -> None:
    (follows,) = found(2, leader=3)
    assert ", now that it follows n3" in follows.message
    (forgets,) = found(2)
    assert "follows" not in forgets.message


@pytest.mark.parametrize(
    ("given", "leader", "lost"), [(1, 1, False), (2, 2, True), (1, 2, True), (1, None, True)]
)
def test_who_dies_as_it_writes_that_it_leads_may_start_without_its_vote(
    given: int, leader: int | None, lost: bool
) -> None:
    world = World()
    event = {**BASE, "t": "start", "qs": {"ep": 3, "leader": leader, "voted": None}}
    world.replica(event).quorum = Persisted(3, None, given, "aa")
    assert bool(list(VoteDurability().feed(event, world))) is lost
