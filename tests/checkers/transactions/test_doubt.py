"""``doubtful`` marks every transaction that lies on a cycle, and none where all is in order."""

from __future__ import annotations

from random import Random

import pytest

from checkers.transactions import graph as graphs
from checkers.transactions.doubt import doubtful
from checkers.transactions.graph import DEPENDENCIES, PROCESS, REALTIME, Graph, components, graph_of
from checkers.transactions.orders import orders_of
from checkers.transactions.txns import Transactions, transactions_of
from harness.history.ops import History, Op
from tests.support.histories.list_append_brute import random_history

ALL = DEPENDENCIES | PROCESS | REALTIME


def txn(process: int, *mops: str) -> tuple[Op, Op]:
    """``a1`` appends 1 to x; ``r12`` reads [1, 2]."""
    did = [
        ["append", "x", int(mop[1:])] if mop[0] == "a" else ["r", "x", [int(c) for c in mop[1:]]]
        for mop in mops
    ]
    asked = [[f, key, value if f == "append" else None] for f, key, value in did]
    return Op(0, 0, process, "invoke", "txn", asked), Op(0, 0, process, "ok", "txn", did)


def told(*events: Op) -> Transactions:
    """The transactions of these events, one after the other."""
    numbered = [op.with_(index=at, time_ns=at) for at, op in enumerate(events)]
    return transactions_of(History(numbered))


def marked(txns: Transactions) -> list[int]:
    return list(doubtful(txns, orders_of(txns)))


def test_what_was_answered_in_order_is_not_looked_at() -> None:
    txns = told(*txn(0, "a1"), *txn(1, "r1"), *txn(0, "a2"), *txn(1, "r12", "a3"))
    assert marked(txns) == []
    assert graph_of(txns, orders_of(txns), ALL).nodes == 0


@pytest.mark.parametrize(
    ("other", "last"), [(("r1",), "r1"), (("a2", "r12"), "r12")], ids=["wr", "ww"]
)
def test_who_depends_on_a_later_answer_is_marked_and_nobody_else(
    other: tuple[str, ...], last: str
) -> None:
    early, late = txn(0, "a1"), txn(1, *other)
    begin, end = txn(2, "r")
    txns = told(begin, end, early[0], late[0], late[1], early[1], *txn(3, last))
    assert marked(txns) == [0, 1, 1, 0]


def test_a_read_that_ended_after_what_it_does_not_show_is_marked() -> None:
    slow, append = txn(0, "r"), txn(1, "a1")
    assert marked(told(slow[0], *append, slow[1], *txn(2, "r1"))) == [1, 1, 0]


def test_what_nobody_read_comes_after_who_read_the_rest() -> None:
    slow, append = txn(0, "r1"), txn(1, "a2")
    assert marked(told(*txn(2, "a1"), slow[0], *append, slow[1])) == [0, 1, 1]
    assert marked(told(*txn(2, "a1"), *txn(0, "r1"), *append)) == []


def test_without_any_place_everything_may_be_on_one() -> None:
    lost = Op(0, 0, 0, "info", "txn", [["append", "x", 1]])
    assert marked(told(lost, txn(1, "r1")[1])) == [1, 1]


def test_stretches_that_overlap_are_one() -> None:
    one, two, three = txn(0, "a1"), txn(1, "r1"), txn(2, "r")
    txns = told(one[0], two[0], two[1], three[0], one[1], three[1], *txn(3, "r1"))
    assert marked(txns) == [1, 1, 1, 0]


@pytest.mark.parametrize("seed", range(8))
def test_no_cycle_is_missed(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(seed)
    cyclic = clear = 0
    for _ in range(300):
        txns = transactions_of(random_history(rng, 6))
        orders = orders_of(txns)
        may = doubtful(txns, orders) or bytearray(len(txns))
        few = on_cycles(graph_of(txns, orders, ALL))
        with monkeypatch.context() as patch:
            patch.setattr(graphs, "doubtful", lambda txns, *_: bytearray(b"\1") * len(txns))
            every = on_cycles(graph_of(txns, orders, ALL))
        assert few == every
        assert all(may[node] for component in every for node in component)
        cyclic += bool(every)
        clear += not any(may)
    assert cyclic > 20
    assert clear > 5


def on_cycles(graph: Graph) -> list[list[int]]:
    """The transactions of each strong component."""
    found = components(graph, ALL, bytearray(b"\1") * graph.nodes)
    return sorted(sorted(node for node in each if node < graph.txns) for each in found)
