"""Transactions over lists: anomalies by name, consistency models, explanations, brute force."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import networkx as nx
import pytest

from checkers.limits.budget import Budget
from checkers.transactions import search as cycles_search
from checkers.transactions.consistency import FORBIDDEN, violated
from checkers.transactions.cycles import check_transactions, judge
from checkers.transactions.graph import (
    DEPENDENCIES,
    ON,
    PROCESS,
    REALTIME,
    RW,
    WR,
    WW,
    Edges,
    Graph,
    components,
    cyclic,
)
from checkers.transactions.search import Cycle, find_cycles
from harness.errors import HistoryFormatError, UsageError
from harness.history.formats import Conventions
from harness.history.ops import History, Op
from harness.registry import models
from harness.verdict import Valid
from tests.support.histories.list_append_brute import compare, random_history

MODELS = tuple(FORBIDDEN)
WEAK = ("read-uncommitted", "read-committed", "snapshot-isolation", "serializable")


def history(text: str, *, together: bool = False) -> History:
    """Transactions, one a line: ``PROCESS [TYPE] MOPS``, mops ``ax1`` (append) and ``rx12`` (read).

    They follow each other, or are all ``together``. ``rx`` reads the empty list.
    """
    begun, ended = list[tuple[int, Any, Any]](), list[tuple[int, Any, Any]]()
    for line in text.strip().splitlines():
        process, *words = line.split()
        end = words.pop(0) if words[0] in ("ok", "fail", "info") else "ok"
        mops: list[list[Any]] = []
        for word in words:
            key, rest = word[1], word[2:]
            if word[0] == "a":
                mops.append(["append", key, int(rest)])
            else:
                mops.append(["r", key, list(map(int, rest))])
        asked = [[f, k, v if f == "append" else None] for f, k, v in mops]
        begun.append((int(process), "invoke", asked))
        ended.append((int(process), end, mops))
    if together:
        steps = [*begun, *ended]
    else:
        steps = [step for both in zip(begun, ended, strict=True) for step in both]
    return History(Op(n, n, p, t, "txn", mops) for n, (p, t, mops) in enumerate(steps))


def names(text: str, *, together: bool = True) -> set[str]:
    return {found.name for found in judge(history(text, together=together)).found}


# ------------------------------------------------------------------ anomalies by name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("0 ax1 ay1\n1 ax2 ay2\n2 rx12 ry21", "G0"),
        ("0 fail ax1\n1 rx1", "G1a"),
        ("0 ax1 ax2\n1 rx1\n2 rx12", "G1b"),
        ("0 ax1 ry2\n1 ay2 rx1", "G1c"),
        ("0 rx ry1\n1 ax1 ay1\n2 rx1 ry1", "G-single"),
        ("0 ax1 ry\n1 ay1 rx\n2 rx1 ry1", "G2-item"),
        ("0 rx ax1\n1 rx ax2\n2 rx12", "lost-update"),
        ("0 fail ax1\n1 ax2\n2 rx12", "dirty-update"),
        ("0 ax1\n1 ax2\n2 rx12\n3 rx21", "incompatible-order"),
        ("0 ax1 ax2\n1 rx21", "incompatible-order"),
        ("0 ax1 ax2\n1 rx2", "incompatible-order"),
        ("0 ax1\n1 rx11", "duplicate-elements"),
        ("0 rx7", "garbage-read"),
        ("0 ax1 rx", "internal"),
        ("0 rx ax1 rx21\n1 ax2", "internal"),
        ("0 rx rx1\n1 ax1", "internal"),
        ("0 rx1 ax1", "future-read"),
    ],
)
def test_each_anomaly_is_called_by_its_name(text: str, name: str) -> None:
    assert name in names(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0 ax1\n1 ax2\n2 rx21", {"G0-realtime"}),
        ("0 rx1\n1 ax1", {"G1c-realtime"}),
        ("0 ax1\n1 rx\n2 rx1", {"G-single-realtime"}),
        ("0 ax1\n1 rx", {"G-single-realtime"}),  # what nobody read comes last
        ("0 ax1 ax2\n1 rx1\n2 rx12", {"G1b", "G-single"}),
    ],
)
def test_order_of_time_closes_cycles_of_its_own(text: str, found: set[str]) -> None:
    assert found <= names(text, together=False)
    assert {name for name in found if name.endswith("-realtime")}.isdisjoint(names(text))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("0 rx ax1\n1 rx ax2", "G2-item"),  # each overwrote what the other had read
        ("0 ax1 ax2\n1 rx1", "G-single"),  # the second append came behind what was read
        ("0 rx ay1\n1 ax1\n2 ax2\n3 ry ax3", "G2-item"),
        ("0 fail ax9\n1 ax5 ax7\n2 ax3\n3 rx953", "G0"),  # beside what was refused
    ],
)
def test_what_nobody_read_closes_cycles_too(text: str, name: str) -> None:
    assert name in names(text)


def test_what_one_process_did_closes_cycles_of_its_own() -> None:
    text = "0 ax1\n0 rx\n1 rx1"
    result = check_transactions(history(text), consistency_model="strong-session-serializable")
    assert [a.invariant for a in result.anomalies] == ["G-single-process"]
    assert check_transactions(history(text), consistency_model="serializable").valid is Valid.VALID


def test_long_fork_is_no_snapshot_and_has_no_two_rw_in_a_row() -> None:
    # the readers disagree on which of two appends came first
    text = "0 ax1\n1 ay1\n2 rx1 ry\n3 rx ry1"
    assert names(text) == {"G-nonadjacent"}


def test_write_skew_is_a_snapshot_and_long_fork_is_none() -> None:
    skew = history("0 rx ry ax1\n1 rx ry ay1\n2 rx1 ry1", together=True)
    fork = history("0 ax1\n1 ay1\n2 rx1 ry\n3 rx ry1", together=True)
    model = "snapshot-isolation"
    assert check_transactions(skew, consistency_model=model).valid is Valid.VALID
    assert check_transactions(fork, consistency_model=model).valid is Valid.INVALID


@pytest.mark.parametrize(
    "text",
    [
        "0 ax1 rx1 ax2 rx12\n1 rx12 ax3\n2 rx123 ry",
        "0 info ax1 ax2\n1 rx12\n1 info ax9\n2 rx12",
        "0 fail ax1\n1 ax2\n2 rx2",
        "0 rx\n1 ax1\n2 ax2\n3 info rx\n4 rx12",
        "0 ax1 rx1 ax2",  # only its own reader saw the half of it
    ],
)
def test_what_one_order_explains_is_valid(text: str) -> None:
    for model in MODELS:
        result = check_transactions(history(text), consistency_model=model)
        assert result.valid is Valid.VALID, result.anomalies


@pytest.mark.parametrize(
    ("text", "weakest"),
    [
        ("0 ax1 ay1\n1 ax2 ay2\n2 rx12 ry21", "read-uncommitted"),
        ("0 ax1 ry2\n1 ay2 rx1", "read-committed"),
        ("0 ax1 ax2\n1 rx1\n2 rx12", "read-committed"),
        ("0 fail ax1\n1 rx1", "read-committed"),
        ("0 rx ry1\n1 ax1 ay1\n2 rx1 ry1", "snapshot-isolation"),
        ("0 ax1 rx", "snapshot-isolation"),
        ("0 rx ax1\n1 rx ax2\n2 rx12", "snapshot-isolation"),
        ("0 ax1 ry\n1 ay1 rx\n2 rx1 ry1", "serializable"),
    ],
)
def test_each_model_forbids_what_the_weaker_ones_do_and_more(text: str, weakest: str) -> None:
    bad = WEAK[WEAK.index(weakest) :]
    for model in WEAK:
        result = check_transactions(history(text, together=True), consistency_model=model)
        assert (result.valid is Valid.INVALID) is (model in bad), model
        assert set(bad) <= set(result.stats["not"])
        assert result.stats["anomalies"]


def test_models_grow_stronger() -> None:
    for weaker, stronger in pairwise(WEAK):
        assert FORBIDDEN[weaker] < FORBIDDEN[stronger]
    assert FORBIDDEN["serializable"] < FORBIDDEN["strong-session-serializable"]
    assert FORBIDDEN["strong-session-serializable"] < FORBIDDEN["strict-serializable"]
    assert violated({"G2-item-realtime"}) == ["strict-serializable"]


# ------------------------------------------------------------------ explanations


def test_the_shortest_cycle_is_told_with_the_reason_of_each_edge() -> None:
    text = "0 rx ry1\n1 ax1 ay1\n2 rx1 ry1"
    found = next(f for f in judge(history(text, together=True)).found if f.name == "G-single")
    assert found.message == (
        "no order explains this: op 3 read [] of 'x', without 1, which op 4 appended (rw); "
        "op 4 appended 1 to 'y', which op 3 read (wr)"
    )
    assert [step["kind"] for step in found.details["cycle"]] == ["rw", "wr"]


def test_edges_of_processes_time_and_appends_are_told() -> None:
    told = " ".join(f.message for f in judge(history("0 ax1\n0 ax2\n1 rx21")).found)
    assert "op 3 appended 2 to 'x', and op 1 1 behind it (ww)" in told
    assert "op 1 ended before op 3 began (realtime)" in told
    result = check_transactions(
        history("7 ax1\n7 rx\n1 rx1"), consistency_model="strong-session-serializable"
    )
    assert "process 7 did op 1 before op 3 (process)" in result.anomalies[0].message


def test_edges_that_are_told_are_there() -> None:
    for seed in range(200):
        judge(random_history(Random(seed), txns=6))  # explains all that it finds, or raises


def test_anomalies_carry_their_ops_and_the_moment() -> None:
    (anomaly,) = check_transactions(history("0 ax1\n1 rx")).anomalies
    assert anomaly.ops == (0, 1, 2, 3)
    assert anomaly.time_ns == 3
    assert anomaly.details["anomaly"] == "G-single-realtime"


# ------------------------------------------------------------------ what cannot be decided


def test_elements_appended_twice_leave_it_open() -> None:
    result = check_transactions(history("0 ax1\n1 ax1\n2 rx1"))
    assert result.valid is Valid.UNKNOWN
    assert result.reason is not None
    assert "'x'" in result.reason


def test_a_failed_append_may_be_tried_again() -> None:
    assert check_transactions(history("0 fail ax1\n1 ax1\n2 rx1")).valid is Valid.VALID


def test_one_key_that_is_open_hides_no_other() -> None:
    result = check_transactions(history("0 ax1\n1 ax1\n2 rx1\n0 ay1\n2 ry"))
    assert result.valid is Valid.INVALID


def test_what_nobody_reads_is_in_order_and_nothing_at_all_is_not_judged() -> None:
    assert check_transactions(history("0 ax1\n0 ax2")).valid is Valid.VALID
    assert check_transactions(history("0 ax1\n0 info rx")).valid is Valid.VALID
    assert check_transactions(History([])).valid is Valid.UNKNOWN


# ------------------------------------------------------------------ forms of histories


def test_single_ops_and_transactions_are_the_same() -> None:
    steps: list[tuple[int, Any, str, Any]] = [
        (0, "invoke", "append", 1),
        (0, "ok", "append", None),
        (1, "invoke", "read", None),
        (1, "ok", "read", []),
        (2, "invoke", "txn", [["r", "x", None]]),
        (2, "ok", "txn", [["r", "x", [1]]]),
    ]
    ops = History(Op(n, n, p, t, f, v, key="x") for n, (p, t, f, v) in enumerate(steps))
    assert [a.invariant for a in check_transactions(ops).anomalies] == ["G-single-realtime"]


def test_completions_without_any_invocation_are_transactions() -> None:
    rows: list[list[Any]] = [[["append", "x", 1]], [["r", "x", []]], [["r", "x", [1]]]]
    ops = History(Op(n, n, n, "ok", "txn", mops) for n, mops in enumerate(rows))
    # when they began is not known, so that no order of time can be broken
    assert check_transactions(ops).valid is Valid.VALID
    fork = History([*ops, Op(3, 3, 3, "ok", "txn", [["r", "x", [2]]])])
    assert check_transactions(fork).valid is Valid.INVALID


def test_equal_times_are_concurrent_where_the_file_says_so() -> None:
    ops = History(op.with_(time_ns=op.index // 3) for op in history("0 ax1\n1 rx\n2 rx1"))
    assert check_transactions(ops).valid is Valid.INVALID
    assert check_transactions(ops, ordered=False).valid is Valid.VALID


def test_keys_and_elements_may_be_any_json() -> None:
    rows: list[Any] = [[["append", ["a", 1], {"v": 1}]], [["r", ["a", 1], [{"v": 1}]]]]
    ops: list[Op] = []
    for n, mops in enumerate(rows):
        ops.append(Op(2 * n, 2 * n, n, "invoke", "txn", mops))
        ops.append(Op(2 * n + 1, 2 * n + 1, n, "ok", "txn", mops))
    assert check_transactions(History(ops)).valid is Valid.VALID


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ([["w", "x", 1]], "want .append KEY VALUE"),
        ([["append", "x"]], "want .append KEY VALUE"),
        ([["append"]], "want .append KEY VALUE"),
        ([["append", "x", None]], "want an element"),
        ([7], "want a list"),
        ("x", "want a list"),
    ],
)
def test_micro_ops_of_another_shape_are_refused(value: Any, says: str) -> None:
    with pytest.raises(HistoryFormatError, match=f"op 0 .*{says}"):
        check_transactions(History([Op(0, 0, 0, "invoke", "txn", value)]))


@pytest.mark.parametrize(
    ("types", "says"),
    [(("invoke", "invoke"), "still open"), (("invoke", "ok", "ok"), "has no invocation")],
)
def test_ops_that_do_not_pair_are_refused(types: tuple[Any, ...], says: str) -> None:
    ops = History(Op(n, n, 0, t, "txn", [["r", "x", []]]) for n, t in enumerate(types))
    with pytest.raises(HistoryFormatError, match=says):
        check_transactions(ops)


def test_unknown_models_and_ops_are_named() -> None:
    with pytest.raises(UsageError, match="did you mean 'serializable'"):
        check_transactions(History([]), consistency_model="serialisable")
    with pytest.raises(UsageError, match="'write', which list-append does not know"):
        check_transactions(History([Op(0, 0, 0, "invoke", "write", 1)]))


def test_the_model_is_in_the_registry() -> None:
    model = models.get("list-append")("snapshot-isolation")
    skew = history("0 rx ry ax1\n1 rx ry ay1\n2 rx1 ry1", together=True)
    assert model.check(skew, conventions=Conventions(), time_limit_s=1).valid is Valid.VALID


# ------------------------------------------------------------------ against other ways


@pytest.mark.parametrize(
    ("seed", "tries", "txns"),
    [
        *((seed, 200, 5) for seed in range(10)),
        *(pytest.param(seed, 100_000, 6, marks=pytest.mark.long) for seed in range(100, 110)),
    ],
)
def test_every_order_tried_says_the_same(seed: int, tries: int, txns: int) -> None:
    rng = Random(seed)
    valid = sum(compare(random_history(rng, txns)) for _ in range(tries))
    assert 0 < valid < tries


def random_graph(rng: Random, kinds: tuple[int, ...]) -> tuple[Graph, list[tuple[int, int, int]]]:
    nodes = rng.randint(2, 6)
    edges = Edges(nodes)
    known: list[tuple[int, int, int]] = []
    for _ in range(rng.randint(1, 9)):
        source, target = rng.sample(range(nodes), 2)
        kind = rng.choice(kinds)
        if (source, target, kind) not in known:
            known.append((source, target, kind))
            edges.add(source, target, kind)
    if rng.random() < 0.5:  # one that stands for several
        virtual = edges.node()
        sources, targets = rng.sample(range(nodes), 2)
        kind = rng.choice(kinds)
        edges.add(sources, virtual, kind)
        edges.add(virtual, targets, ON)
        known.append((sources, targets, kind))
    return edges.graph(), known


def all_names(known: list[tuple[int, int, int]]) -> set[str]:
    """The names of all cycles there are, by looking at every one."""
    graph: Any = nx.MultiDiGraph()
    for source, target, kind in known:
        graph.add_edge(source, target, kind=kind)
    found: set[str] = set()
    for nodes in nx.simple_cycles(nx.DiGraph(graph)):
        ways: list[list[tuple[int, int, int]]] = [[]]
        for one, other in pairwise([*nodes, nodes[0]]):
            kinds = {edge["kind"] for edge in graph[one][other].values()}
            ways = [[*way, (one, kind, other)] for way in ways for kind in kinds]
        found |= {Cycle(tuple(way)).name for way in ways}
    return found


@pytest.mark.parametrize("kinds", [(WW, WR, RW), (RW, RW, WR), (WW, WR, RW, PROCESS, REALTIME)])
@pytest.mark.parametrize("small", [True, False], ids=["networkx", "own"])
def test_models_are_judged_as_by_all_cycles(
    kinds: tuple[int, ...], small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cycles_search, "NETWORKX_MAX", 200 if small else 0)
    rng = Random(len(kinds) + small)
    violations = 0
    for _ in range(400):
        graph, known = random_graph(rng, kinds)
        truth = all_names(known)
        found = find_cycles(graph, PROCESS | REALTIME, lambda *_: False)
        assert {cycle.name for cycle in found} <= truth
        assert violated({cycle.name for cycle in found}) == violated(truth), known
        violations += bool(truth)
        for cycle in found:
            assert all((a, b, kind) in known for a, kind, b in cycle.steps)
            assert len({a for a, _, _ in cycle.steps}) == len(cycle.steps)
            assert [b for _, _, b in cycle.steps[:-1]] == [a for a, _, _ in cycle.steps[1:]]
            assert cycle.steps[-1][2] == cycle.steps[0][0]
    assert violations > 40


@pytest.mark.parametrize(
    ("kinds", "name"),
    [
        ((WW, WW), "G0"),
        ((WW, WR), "G1c"),
        ((WR, RW, WW), "G-single"),
        ((RW, WR, RW, WW), "G-nonadjacent"),
        ((RW, WR, RW), "G2-item"),  # the last and the first are neighbours, too
        ((WW, RW, RW), "G2-item"),
        ((WW, PROCESS), "G0-process"),
        ((RW, PROCESS, REALTIME), "G-single-realtime"),
    ],
)
def test_cycles_are_named_by_their_edges(kinds: tuple[int, ...], name: str) -> None:
    nodes = range(len(kinds))
    steps = zip(nodes, kinds, [*nodes[1:], 0], strict=True)
    assert Cycle(tuple(steps)).name == name


def test_what_stands_for_others_stands_for_no_more() -> None:
    edges = Edges(5)
    several, another = edges.node(), edges.node()
    edges.add(0, several, WW)
    edges.add(several, 1, ON)
    edges.add(several, 2, ON)
    edges.add(1, 0, WW)
    edges.add(3, another, WW)
    edges.add(another, 4, ON)
    found = find_cycles(edges.graph(), PROCESS | REALTIME, lambda *ops: ops == (4, 0))
    assert {step for cycle in found for step in cycle.steps} == {(0, WW, 1), (1, WW, 0)}


def test_components_are_those_of_networkx() -> None:
    rng = Random(3)
    for _ in range(200):
        graph, known = random_graph(rng, (WW, WR, RW))
        for mask in (WW, WW | WR, DEPENDENCIES):
            theirs = nx.DiGraph((a, b) for a, b, kind in known if kind & mask)
            want = sorted(sorted(c) for c in nx.strongly_connected_components(theirs) if len(c) > 1)
            ours = components(graph, mask, bytearray(b"\1") * graph.nodes)
            real = sorted(sorted(n for n in c if n < graph.txns) for c in ours)
            assert real == want
        left = cyclic(graph)
        assert all(left[n] for c in components(graph, DEPENDENCIES, left) for n in c)


def test_a_long_tangle_is_searched_without_recursion_and_the_cycle_is_short() -> None:
    n = 3000
    text = "\n".join([*(f"{i % 3} ax{i}" for i in range(1, n)), "9 rx"])
    found = judge(history(text)).found
    assert [f.name for f in found] == ["G-single-realtime"]
    assert len(found[0].txns) == 2


def test_the_way_through_a_long_tangle_is_the_shortest() -> None:
    edges = Edges(1000)
    for node in range(999):
        edges.add(node, node + 1, WW)
    edges.add(999, 0, WR)
    edges.add(500, 0, WR)
    cycle = find_cycles(edges.graph(), 0, lambda *_: False)[0]
    assert cycle.name == "G1c"
    assert len(cycle.steps) == 501


def test_many_anomalies_are_counted_and_some_are_shown() -> None:
    text = "\n".join(f"{i} fail ax{i}" for i in range(100)) + "\n0 rx0123456789"
    result = check_transactions(history(text))
    assert result.stats["anomalies"]["G1a"] == 10
    assert len(result.anomalies) == 10


class Clock:
    """Each look takes a second."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 1.0
        return self.now_s


@pytest.mark.parametrize("text", ["0 ax1\n1 rx1", "0 ax1 ry\n1 ay1 rx"])
def test_a_budget_that_runs_out_is_said_wherever_it_does(text: str) -> None:
    """At the first look, the second, and so on; an anomaly is never lost once it is found."""
    whole = judge(history(text, together=True))
    verdicts = []
    for looks in range(200):
        budget = Budget(10**9, looks + 0.5, Clock())
        judged = judge(history(text, together=True), budget=budget)
        assert {f.name for f in judged.found} <= {f.name for f in whole.found}
        verdicts.append((judged.gave_up, len(judged.found)))
        if judged.gave_up is None:
            break
    assert verdicts[0] == ("the time limit", 0)
    assert verdicts[-1] == (None, len(whole.found))
    assert len(verdicts) > 5
    assert [found for _, found in verdicts] == sorted(found for _, found in verdicts)


def test_where_a_limit_is_reached_the_verdict_is_unknown_unless_something_was_found() -> None:
    fine, broken = history("0 ax1\n1 rx1"), history("0 ax1\n1 rx1 rx")
    late = check_transactions(fine, time_limit_s=-1.0)
    assert late.valid is Valid.UNKNOWN
    assert late.reason == "the time limit ran out; all transactions are open"
    assert check_transactions(broken).valid is Valid.INVALID
    # what is small is done whatever else the process holds
    assert check_transactions(fine, memory_limit_bytes=1 << 20).valid is Valid.VALID
    many = history("\n".join(f"{n} ax{n}" for n in range(5_000)) + "\n9999 rx")
    assert check_transactions(many, memory_limit_bytes=1 << 20).reason == (
        "the memory limit of 1 MiB ran out; all transactions are open"
    )


def test_of_a_long_cycle_the_first_steps_are_told() -> None:
    """Each transaction misses what the next one appends: a ring, and no way across it."""
    n = 30
    ops: list[Op] = []
    for type_, seen in (("invoke", None), ("ok", [])):
        for txn in range(n):
            mops = [["r", f"k{txn}", seen], ["append", f"k{(txn + 1) % n}", txn]]
            ops.append(Op(len(ops), len(ops), txn, type_, "txn", mops))  # type: ignore[arg-type]
    found = judge(History(ops)).found
    ring = next(each for each in found if each.name == "G2-item")
    assert ring.message.endswith("; and 10 more steps")
    assert ring.message.count("(rw)") == 20
    assert len(ring.details["cycle"]) == n
