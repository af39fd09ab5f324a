"""S31, of roles that a Vote moves."""

from __future__ import annotations

from typing import Any

from checkers.invariants.causes import Causes
from checkers.replay.world import World

BASE: dict[str, Any] = {"t": "role", "node": 1, "dir": "aa", "inc": 1, "seq": 5, "ts": 7}


def broken(epoch: int, **fields: Any) -> bool:
    """Whether a change of role is, of a node that was unattached in epoch 3."""
    world, causes = World(), Causes()
    before = {**BASE, "ep": 3, "from": None, "to": "unattached", "leader": None, "by": None}
    event = {**before, "seq": 6, "ep": epoch, "from": "unattached", "by": "VoteRequest", **fields}
    for each in (before, event):
        world.arrive(each, blind=False).known = True
    assert not list(causes.feed(before, world))
    return bool(list(causes.feed(event, world)))


def test_a_vote_of_a_newer_epoch_moves_a_replica() -> None:
    assert not broken(4)
    assert broken(4, to="candidate")


def test_a_vote_of_the_same_epoch_moves_none_but_to_record_it() -> None:
    assert broken(3)
    assert not broken(3, voted=2)
    assert broken(3, voted=2, to="prospective")
