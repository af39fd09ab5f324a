"""S3: a vote on disk stays there until the epoch is over."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.invariants.kept_votes import KeptVote
from checkers.replay.world import World, persisted


def qs(ep: int, voted: int | None, **fields: Any) -> dict[str, Any]:
    base = {"t": "qs", "node": 1, "dir": "d1", "inc": 1, "seq": 1, "ts": 1}
    return {**base, "ep": ep, "leader": None, "voted": voted, "voted_dir": None, **fields}


@pytest.mark.parametrize(
    ("first", "then", "found"),
    [
        ((3, 2), (3, None), True),
        ((3, 2), (3, 2), False),
        ((3, 2), (4, None), False),
        ((3, None), (3, 2), False),
    ],
    ids=["taken back", "kept", "a new epoch", "given"],
)
def test_a_vote_is_not_taken_back(
    first: tuple[int, int | None], then: tuple[int, int | None], found: bool
) -> None:
    world, invariant = World(), KeptVote()
    before, after = qs(*first), qs(*then, leader=3)
    replica = world.arrive(before, blind=False)
    replica.known = True  # as after a start
    replica.quorum = persisted(before["ep"], before)
    messages = [a.message for a in invariant.feed(after, world)]
    assert bool(messages) is found
    assert not found or "n1 forgot in epoch 3 that it had voted for n2" in messages[0]
