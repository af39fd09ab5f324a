"""What faults really did: who was away, how many at once, and what was left of the quorum."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.contracts.nemesis import Fault
from harness.history.ops import NEMESIS, Op
from reports import faults, nemesis_table
from reports.effects import cut_off, effect
from reports.model import FaultView

FIVE = ("n1", "n2", "n3", "n4", "n5")


def installed(nemesis: str, targets: list[str], seen: Any, healed: Any) -> FaultView:
    """A fault as the report has it; three voters."""
    fault = Fault(1, nemesis, 0, 1000, {})
    done = {**fault.to_json(), "outcome": "installed", "targets": targets, "evidence": seen}
    rows = [("inject", fault.to_json()), ("inject", done), ("heal", {"id": 1, "evidence": healed})]
    history = [Op(at, at, NEMESIS, "info", f, value) for at, (f, value) in enumerate(rows)]
    (view,) = faults.fault_views((fault,), history)
    (placed,) = nemesis_table.placed([replace(view, leader="n1")], (), ("n1", "n2", "n3"))
    return placed


def test_a_rolling_restart_has_one_process_away_at_a_time() -> None:
    seen = [{"saw": "targets", "target": "all", "nodes": list(FIVE)}, {"saw": "process"}]
    short = installed("rolling-restart", list(FIVE[::-1]), seen, {"cycles": 1})
    assert (short.hit, short.leader_hit, short.quorum) == ("1 node", "out", "kept")
    long = installed("rolling-restart", list(FIVE), seen, {"cycles": 12})
    assert (long.hit, long.quorum) == ("5 nodes, one at a time", "kept")
    assert long.leader_hit == "in"


def test_a_stranger_takes_no_node_away() -> None:
    seen = [{"saw": "targets"}, {"saw": "stranger", "node": "n1", "answers": {}}]
    view = installed("stranger", ["n1", "n2", "n3"], seen, {"left": []})
    assert (view.hit, view.quorum) == ("3 nodes, all stay up", "kept")


def test_killed_nodes_are_away_together() -> None:
    view = installed("kill", ["n1", "n2"], [{"saw": "process", "node": "n1"}], {})
    assert (view.hit, view.leader_hit, view.quorum) == ("2 nodes", "in", "lost")


def both(one: str, others: str) -> list[list[str]]:
    return [[a, b] for other in others.split() for a, b in ((one, other), (other, one))]


@pytest.mark.parametrize(
    ("links", "away"),
    [
        (both("n1", "n2 n3"), ("n1",)),
        (both("n1", "n3 n4 n5") + both("n2", "n3 n4 n5"), ("n1", "n2")),
        ([["n1", "n2"], ["n1", "n3"], ["n1", "n4"], ["n1", "n5"]], ("n1",)),  # one way
        (both("n1", "n3 n4") + both("n2", "n3 n4"), ()),  # n5 is a bridge
        ([], ()),
    ],
)
def test_a_partition_hits_those_outside_of_the_largest_group(
    links: list[list[str]], away: tuple[str, ...]
) -> None:
    nodes = FIVE[:3] if "n5" not in str(links) and away == ("n1",) else FIVE
    assert cut_off(links, nodes) == away
    assert effect("cut", ["n1"], [{"saw": "grudge", "cut": links}], {}, nodes).away == away
