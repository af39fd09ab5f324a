"""S3, of what is written over a vote."""

from __future__ import annotations

from typing import Any

from checkers.invariants.kept_votes import KeptVote
from checkers.replay.world import Persisted, World

BASE: dict[str, Any] = {"t": "qs", "node": 1, "dir": "aa", "inc": 1, "seq": 5, "ts": 7}


def broken(given: int, **written: Any) -> bool:
    world = World()
    event = {**BASE, "ep": 3, "voted": None, "leader": None, **written}
    world.replica(event).quorum = Persisted(3, None, given, "aa")
    return bool(list(KeptVote().feed(event, world)))


def test_a_vote_is_not_taken_back_in_its_epoch() -> None:
    assert broken(2)
    assert broken(2, leader=3)
    assert not broken(2, voted=2)
    assert not broken(2, ep=4)


def test_a_leader_may_take_the_place_of_its_vote_for_itself() -> None:
    assert not broken(1, leader=1)
    assert broken(2, leader=2), "a follower keeps its vote"
