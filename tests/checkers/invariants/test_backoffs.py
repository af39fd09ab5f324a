"""L9, of how long candidates wait that have lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from checkers.invariants.backoffs import SAME_MAX, Backoffs
from checkers.replay.world import World
from harness.verdict import Anomaly

BASE: dict[str, Any] = {"dir": "aa", "inc": 1, "seq": 5, "ts": 7, "t": "role", "to": "candidate"}


def found(waits: Sequence[tuple[int, int | None]], **other: Any) -> list[Anomaly]:
    """Of candidates that stand again, each a node and how long it waited."""
    judge, world = Backoffs(), World()
    events = [
        {**BASE, "node": node, "ep": ep, **({} if ms is None else {"backoff_ms": ms}), **other}
        for ep, (node, ms) in enumerate(waits, 1)
    ]
    return [anomaly for event in events for anomaly in judge.feed(event, world)]


def test_a_candidate_that_always_waits_for_the_same_time_is_told() -> None:
    (anomaly,) = found([(1, 300)] * (SAME_MAX + 1))
    assert "waited exactly 300 ms" in anomaly.message
    assert anomaly.invariant == "L9"
    assert not found([(1, 300)] * SAME_MAX)


def test_another_wait_in_between_shows_that_they_are_random() -> None:
    assert not found([(1, 300)] * SAME_MAX + [(1, 341)] + [(1, 300)] * SAME_MAX)


def test_each_node_is_judged_by_itself() -> None:
    assert not found([(n % 2, 300) for n in range(2 * SAME_MAX)])
    assert len(found([(n % 2, 300) for n in range(2 * SAME_MAX + 2)])) == 2


def test_a_leader_that_was_found_ends_the_row() -> None:
    waits = [{**BASE, "node": 1, "ep": 1, "backoff_ms": 300}] * SAME_MAX
    follows = {**BASE, "node": 1, "ep": 1, "to": "follower"}
    again = {**BASE, "node": 1, "ep": 1, "t": "start"}
    for pause in (follows, again):
        judge, world = Backoffs(), World()
        assert not [a for event in [*waits, pause, *waits] for a in judge.feed(event, world)]


def test_nodes_that_tell_of_no_wait_are_not_judged() -> None:
    judge = Backoffs()
    list(judge.feed({**BASE, "node": 1, "ep": 1}, World()))
    assert judge.checked == 0
