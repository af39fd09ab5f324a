"""The blast radius: which nodes may be hit, how many at a time, and never a majority."""

from __future__ import annotations

from itertools import permutations

import pytest

from harness.contracts.environment import Link
from harness.envs.attached.file import Radius
from harness.envs.attached.warden import Warden

VOTERS = ("n1", "n2", "n3")
NODES = (*VOTERS, "n4", "n5")
ALL = dict.fromkeys(NODES, ("pause", "kill", "partition"))


def around(*nodes: str) -> set[Link]:
    """All links between these nodes and the others."""
    return {(a, b) for a, b in permutations(NODES, 2) if (a in nodes) != (b in nodes)}


def test_what_is_not_allowed_of_a_node_is_refused() -> None:
    warden = Warden(VOTERS, {"n1": ("pause",)}, Radius())
    assert warden.why_not_hold("pause", ["n1"]) is None
    assert "allows no kill of n1" in str(warden.why_not_hold("kill", ["n1"]))
    assert "allows no pause of n2" in str(warden.why_not_hold("pause", ["n2"]))


def test_no_more_nodes_than_allowed_are_hit_at_once() -> None:
    warden = Warden(VOTERS, ALL, Radius(nodes_at_once=2))
    warden.hold("pause", "n1")
    assert warden.why_not_hold("pause", ["n4"]) is None
    warden.hold("pause", "n4")
    assert "3 nodes at once (n1, n4, n5)" in str(warden.why_not_hold("pause", ["n5"]))


def test_a_majority_of_the_voters_is_hit_only_if_that_is_said() -> None:
    for majority in (False, True):
        warden = Warden(VOTERS, ALL, Radius(5, majority))
        warden.hold("kill", "n1")
        reason = warden.why_not_hold("kill", ["n2"])
        assert (reason is None) == majority
        assert majority or "no majority of the 3 voters" in str(reason)


def test_two_voters_have_no_minority_that_can_be_lost() -> None:
    warden = Warden(VOTERS[:2], ALL, Radius(5))
    assert "no majority of the 2 voters" in str(warden.why_not_hold("pause", ["n1"]))


def test_a_node_that_is_let_go_counts_until_it_is_back() -> None:
    warden = Warden(VOTERS, ALL, Radius())
    warden.hold("kill", "n1")
    warden.release("n1")
    assert warden.hit() == warden.unsettled() == {"n1"}
    assert "2 nodes at once" in str(warden.why_not_hold("kill", ["n2"]))
    assert warden.why_not_hold("kill", ["n1"]) is None
    warden.settle("n1")
    assert warden.hit() == frozenset()
    assert warden.why_not_hold("kill", ["n2"]) is None


@pytest.mark.parametrize("cut_off", [("n1",), ("n5",), ("n1", "n4"), ("n4", "n5")])
def test_cut_links_hit_the_fewest_nodes_that_explain_them(cut_off: tuple[str, ...]) -> None:
    warden = Warden(VOTERS, ALL, Radius(len(cut_off)))
    assert warden.why_not_cut(around(*cut_off)) is None
    warden.cut(around(*cut_off))
    assert warden.hit() == set(cut_off)
    warden.mend(around(*cut_off))
    assert warden.unsettled() == set(cut_off)


def test_a_cut_that_hits_a_majority_is_refused() -> None:
    warden = Warden(VOTERS, ALL, Radius(5))
    every = set(permutations(NODES, 2))
    assert "no majority" in str(warden.why_not_cut(every))
    assert warden.why_not_cut(around("n1", "n4")) is None


def test_rules_are_only_where_partitions_are_allowed() -> None:
    warden = Warden(VOTERS, {**ALL, "n5": ("pause",)}, Radius(5))
    assert "no partition of n5" in str(warden.why_not_cut(around("n1")))
    assert warden.why_not_cut({("n5", "n1")}) is None


def test_a_node_is_not_hit_twice() -> None:
    warden = Warden(VOTERS, ALL, Radius(5))
    warden.cut(around("n1"))
    assert "links of n1 are cut" in str(warden.why_not_hold("kill", ["n1"]))
    warden.mend(around("n1"))
    warden.hold("kill", "n1")
    assert "held by kill" in str(warden.why_not_hold("pause", ["n1"]))
    assert "held by kill" in str(warden.why_not_cut(around("n1")))
