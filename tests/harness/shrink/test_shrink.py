"""The shrinker: what it finds, what it leaves alone, when it stops, and the story it tells."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.contracts.checker import RunData
from harness.contracts.nemesis import Fault
from harness.faults import schedule
from harness.history.ops import History, Op
from harness.run.runner import RunOptions
from harness.sessions.plan import Plan
from harness.sessions.simulated import SimRun, save, simulate
from harness.shrink import moves
from harness.shrink import tries as shrink_runs
from harness.shrink.beliefs import Beliefs
from harness.shrink.moves import Candidate
from harness.shrink.search import Budget, Failure, HaltedError, Runner, Shrunk, Step, shrink
from harness.shrink.story import LINES_MAX, story
from harness.shrink.tries import Pool, printed
from harness.spec import RunSpec
from harness.store.folder import Store
from harness.store.reading import load_spec
from harness.verdict import Anomaly
from krucible.commands.shrink import progress
from node.sim.loop import StalledError
from tests.support.commands.command import krucible
from tests.support.places import TESTDATA

GOLDEN = TESTDATA / "story"
Fails = Callable[[Candidate], Failure | None]


def fault(number: int, **changes: Any) -> Fault:
    made = Fault(number, "kill", 1_000 + 2_000 * number, 1_500, {"target": "all"}, number / 100)
    return replace(made, **changes)


def candidate(faults: int = 10, **spec: Any) -> Candidate:
    fields = {"settings": {"a": "1", "b": "2"}, "stop_at": ("S1",), **spec}
    options = RunSpec(1, env="sim", rate_hz=10.0, **fields)
    return Candidate(options, tuple(map(fault, range(faults))))


def ops_of(tried: Candidate) -> tuple[int, ...]:
    """The ops that a made-up run of the candidate issues."""
    whole = range(int(tried.spec.time_limit_s * tried.spec.rate_hz))
    only = tried.spec.only_ops
    return tuple(n for n in (whole if only is None else only) if n in whole)


def ids(tried: Candidate) -> set[int]:
    return {fault.id for fault in tried.faults}


def needing(
    faults: set[int],
    ops: set[int] = frozenset(),  # type: ignore[assignment]
    *,
    voters: int = 1,
    at_s: float = 0.5,
    invariant: str = "S1",
) -> Fails:
    """Fails when all that it needs is there."""

    def fails(tried: Candidate) -> Failure | None:
        spec = tried.spec
        there = ids(tried) >= faults and set(ops_of(tried)) >= ops
        if not there or spec.voters < voters or spec.time_limit_s <= at_s:
            return None
        return Failure(((invariant, at_s),), len(ops_of(tried)))

    return fails


def one_by_one(fails: Fails) -> Runner:
    return lambda candidates: map(fails, candidates)


def eager(fails: Fails, ahead: int) -> Runner:
    """Tries so many at a time, whether they are asked for or not."""

    def tries(candidates: Sequence[Candidate]) -> Iterator[Failure | None]:
        results: list[Failure | None] = []
        for place in range(len(candidates)):
            results += [fails(c) for c in candidates[len(results) : place + ahead]]
            yield results[place]

    return tries


def run(fails: Fails, start: Candidate | None = None, **options: Any) -> Shrunk:
    found = shrink(
        start or candidate(),
        options.pop("runner", one_by_one(fails)),
        budget=options.pop("budget", Budget()),
        now_s=options.pop("now_s", lambda: 0.0),
        **options,
    )
    assert isinstance(found, Shrunk)
    return found


# --------------------------------------------------------------------------- the search


def test_the_release_stays_that_failed() -> None:
    """Without its release a run would be one of the default release."""
    settings = {"krucible.kafka.version": "4.4.0", "krucible.kafka.log": "real", "a": "1"}
    found = run(needing({3}), candidate(settings=settings, system="kafka"))
    kept = {"krucible.kafka.version": "4.4.0", "krucible.kafka.log": "real"}
    assert found.candidate.spec.settings == kept


def test_only_what_the_failure_needs_is_left() -> None:
    found = run(needing({3, 7}, {5, 11, 12}, voters=2, at_s=16.2))
    end = found.candidate
    assert ids(end) == {3, 7}
    assert end.spec.only_ops == (5, 11, 12)
    assert (end.spec.voters, end.spec.observers, end.spec.concurrency) == (2, 0, 1)
    assert end.spec.settings == {}
    assert end.spec.time_limit_s == 16.3
    assert [(f.at_ms, f.duration_ms, f.params) for f in end.faults] == [
        (0, 0, {"target": "leader"}),
        (0, 0, {"target": "leader"}),
    ]
    assert not found.exhausted


@pytest.mark.parametrize("needed", [{"h"}, {"b", "k"}, set("abcdefghijkl")])
def test_of_a_list_among_the_params_what_the_failure_needs_is_left(needed: set[str]) -> None:
    asked = fault(3, params={"target": "leader", "requests": list("abcdefghijkl")})

    def fails(tried: Candidate) -> Failure | None:
        said = {each for f in tried.faults for each in f.params.get("requests", ())}
        return Failure((("crash", 0.5),), 0) if said >= needed else None

    (left,) = run(
        fails, replace(candidate(3), faults=(*candidate(3).faults, asked))
    ).candidate.faults
    assert left.params == {"target": "leader", "requests": sorted(needed)}


@given(
    st.sets(st.integers(0, 13)),
    st.sets(st.integers(0, 99), max_size=5),
    st.integers(1, 3),
    st.floats(0, 29),
)
def test_whatever_it_needs_just_that_is_left(
    faults: set[int], ops: set[int], voters: int, at_s: float
) -> None:
    found = run(needing(faults, ops, voters=voters, at_s=at_s), candidate(14))
    assert ids(found.candidate) == faults
    assert set(ops_of(found.candidate)) == ops
    assert found.candidate.spec.voters == voters
    least_s = max([at_s, *((op + 1) / 10 for op in ops)])
    near_s = 0.2 + (least_s - at_s) / 7  # steps are of an eighth, and of a tenth of a second
    assert least_s <= found.candidate.spec.time_limit_s <= least_s + near_s


def without_each(tried: Candidate) -> Iterator[Candidate]:
    for at in range(len(tried.faults)):
        yield replace(tried, faults=tried.faults[:at] + tried.faults[at + 1 :])


@given(st.sets(st.frozensets(st.integers(0, 7)), min_size=1, max_size=40))
def test_of_a_failure_that_comes_and_goes_nothing_single_can_be_left_out(
    failing: set[frozenset[int]],
) -> None:
    """Not monotone: any sets of faults fail, beside all of them."""
    failing = failing | {frozenset(range(8))}

    def fails(tried: Candidate) -> Failure | None:
        return Failure((("S1", None),), 0) if ids(tried) in failing else None

    found = run(fails, candidate(8))
    assert ids(found.candidate) in failing
    assert all(fails(smaller) is None for smaller in without_each(found.candidate))


def test_a_tape_is_made_as_plain_as_can_be() -> None:
    start = candidate(2, tape=((10, 1), (20, 2), (30, 3)))

    def fails(tried: Candidate) -> Failure | None:
        there = (20, 2) in tried.spec.tape
        return Failure((("S1", 0.5),), len(ops_of(tried))) if there else None

    assert run(fails, start).candidate.spec.tape == ((20, 2),)
    assert run(needing(set()), start).candidate.spec.tape == ()


def test_what_is_left_is_as_it_was() -> None:
    """Faults are data with a draw of their own: leaving one out changes no other."""
    start = candidate()

    def fails(tried: Candidate) -> Failure | None:
        kept = {f.id: f for f in tried.faults}
        same = kept.get(4) == start.faults[4] and kept.get(6) == start.faults[6]
        return Failure((("S1", 29.0),), 0) if same and tried.spec.time_limit_s > 29 else None

    assert run(fails, start).candidate.faults == (start.faults[4], start.faults[6])


def test_the_first_invariant_that_broke_must_stay_broken() -> None:
    def fails(tried: Candidate) -> Failure | None:
        if 2 in ids(tried):
            return Failure((("S3", 5.5), ("S1", 6.0)), 0)
        return Failure((("S1", 6.0),), 0)

    found = run(fails)
    assert (found.invariant, ids(found.candidate)) == ("S3", {2})
    found = run(fails, invariant="S1")
    assert (found.invariant, ids(found.candidate)) == ("S1", set())


def test_tries_end_with_the_invariant_that_is_looked_for_and_with_no_other() -> None:
    tried: list[Candidate] = []

    def fails(one: Candidate) -> Failure | None:
        tried.append(one)
        return needing({3})(one)

    end = run(fails, candidate(stop_at=None)).candidate
    assert [one.spec.stop_at for one in tried] == [None, *[("S1",)] * (len(tried) - 1)]
    assert end.spec.stop_at == ("S1",), "and so do replays"

    tried.clear()
    run(fails, candidate(stop_at=None), invariant="S1")
    assert {one.spec.stop_at for one in tried} == {("S1",)}

    def only_so(one: Candidate) -> Failure | None:
        return needing({3})(one) if one.spec.stop_at is None else None

    end = run(only_so, candidate(stop_at=None)).candidate
    assert (end.spec.stop_at, ids(end)) == (None, {3})


def test_what_does_not_fail_or_fails_otherwise_is_not_shrunk() -> None:
    def look(fails: Fails, invariant: str | None = None) -> Any:
        return shrink(
            candidate(),
            one_by_one(fails),
            budget=Budget(),
            now_s=lambda: 0.0,
            invariant=invariant,
        )

    assert look(lambda _: None) is None
    other = Failure((("S9", 1.0),), 3)
    assert look(lambda _: other, "S1") == other


@pytest.mark.parametrize(("invariant", "kept"), [("crash", {1, 2}), ("S1", {2})])
def test_another_crash_is_another_failure(invariant: str, kept: set[int]) -> None:
    """Faults 1 and 2 bring about one crash, fault 2 alone another one."""

    def fails(tried: Candidate) -> Failure | None:
        if 2 not in ids(tried):
            return None
        why = "a closed file" if 1 in ids(tried) else "no leader"
        return Failure(((invariant, 0.5),), 0, crashes=frozenset({why}))

    assert ids(run(fails).candidate) == kept


@pytest.mark.parametrize(
    ("said", "left"),
    [
        (
            "n1 printed the sign of a crash, fatal error, in line 23: 4.84 CRITICAL no",
            "# CRITICAL no",
        ),
        (
            "n2 printed the sign of a crash, x, in line 7: no Optional[5] in Un(at=1, v=[1]) (a)",
            "no Optional in Un ",
        ),
        ("n1 printed the sign of a crash, x, in line 1: was Follower(voters=[1,", "was Follower"),
    ],
)
def test_a_crash_is_known_by_what_was_printed_without_numbers(said: str, left: str) -> None:
    assert printed(said) == left


def test_a_run_that_ends_with_its_violation_is_cut_first() -> None:
    tried: list[Candidate] = []
    fails = needing({1}, at_s=6.0)

    def runner(candidates: Sequence[Candidate]) -> Iterator[Failure | None]:
        for one in candidates:
            tried.append(one)
            yield fails(one)

    run(fails, runner=runner)
    assert tried[0] == candidate()
    assert tried[1].spec.time_limit_s == 6.1
    assert ids(tried[1]) == {0, 1, 2}, "faults after the end are gone with it"


def test_a_moment_that_is_not_known_is_searched_for() -> None:
    def fails(tried: Candidate) -> Failure | None:
        late = tried.spec.time_limit_s >= 11
        return Failure((("S1", None),), 0) if late else None

    assert 11 <= run(fails).candidate.spec.time_limit_s < 13


# --------------------------------------------------------------------------- budget, cache, jobs


def test_it_stops_when_its_tries_are_used_up() -> None:
    made = count()

    def fails(tried: Candidate) -> Failure | None:
        next(made)
        return needing({3, 7}, {1, 2, 3})(tried)

    found = run(fails, budget=Budget(tries=6))
    assert found.exhausted
    assert found.tries == 7 == next(made), "and one to see that it holds"
    assert needing({3, 7}, {1, 2, 3})(found.candidate) is not None, "the best so far still fails"
    assert len(found.candidate.faults) < 10


def test_it_stops_when_its_time_is_used_up() -> None:
    clock = count()
    found = run(needing({3, 7}), budget=Budget(seconds=4), now_s=lambda: float(next(clock)))
    assert found.exhausted
    assert found.tries == 4


def test_when_it_is_halted_the_best_so_far_is_kept() -> None:
    made = count()
    fails = needing({3, 7}, {1, 2, 3})
    found = run(fails, halt=lambda: next(made) == 5)
    assert (found.halted, found.exhausted) == (True, False)
    assert found.tries == 7, "six, and one to see that it holds"
    assert fails(found.candidate) is not None
    assert 2 < len(found.candidate.faults) < 10


def test_nothing_is_tried_twice() -> None:
    seen: set[bytes] = set()

    def fails(tried: Candidate) -> Failure | None:
        assert tried.fingerprint() not in seen
        seen.add(tried.fingerprint())
        return needing({0, 5, 9}, {4, 90}, voters=3)(tried)

    found = run(fails)
    assert found.tries == len(seen)
    assert found.spared > 0


@pytest.mark.parametrize("ahead", [2, 5, 100])
def test_the_outcome_does_not_depend_on_how_many_are_tried_at_a_time(ahead: int) -> None:
    fails = needing({2, 5}, {40, 41}, voters=2, at_s=12.0)
    assert run(fails) == run(fails, runner=eager(fails, ahead))


def test_tries_are_brief_where_the_end_does_not_matter_and_the_outcome_holds_in_full() -> None:
    tried: list[Candidate] = []

    def fails(one: Candidate) -> Failure | None:
        tried.append(one)
        return needing({3})(one)

    found = run(fails)
    whole = [one for one in tried if not one.brief]
    assert not tried[0].brief
    assert tried[1].brief
    assert len(whole) < len(tried) / 4, "now and then"
    assert found.candidate == whole[-1]

    def only_in_peace(one: Candidate) -> Failure | None:
        return needing({3, 5} if one.brief else {3, 4})(one)

    assert ids(run(only_in_peace).candidate) == {3, 4}

    def never_briefly(one: Candidate) -> Failure | None:
        return None if one.brief else needing({3, 4})(one)

    assert ids(run(never_briefly).candidate) == {3, 4}


def test_what_shows_only_at_the_end_is_tried_briefly_once() -> None:
    tried: list[Candidate] = []

    def fails(one: Candidate) -> Failure | None:
        tried.append(one)
        there = 3 in ids(one) and not one.brief
        return Failure((("L1", None),), 0) if there else None

    assert ids(run(fails).candidate) == {3}
    assert [one.brief for one in tried].count(True) == 1


def test_a_best_that_holds_only_briefly_costs_no_more_than_what_came_after_the_last_that_held() -> (
    None
):
    """The budget ends the search; what was found before the tries went astray is kept."""

    def fails(one: Candidate) -> Failure | None:
        needed = {3, 4, 5} if one.brief and len(one.faults) > 5 else {3, 5}
        if not one.brief and one.spec.only_ops == ():
            return None  # in peace the ops matter
        return needing(needed)(one)

    found = run(fails, budget=Budget(tries=40))
    assert ids(found.candidate) >= {3, 5}
    assert len(found.candidate.faults) < 10
    assert fails(found.candidate) is not None


def test_every_try_is_told() -> None:
    steps: list[Step] = []
    found = run(needing({3}), tell=steps.append)
    assert len(steps) == found.tries - 1 + found.spared
    assert [step.tries for step in steps] == sorted(step.tries for step in steps)
    bests = [step for step in steps if step.better]
    assert replace(bests[-1].best, brief=False) == found.candidate
    assert {"length", "faults", "ops", "nodes", "times"} <= {step.doing for step in steps}


def test_progress_is_what_is_left_of_faults_and_of_time() -> None:
    step = Step("pairs", 17, candidate(4), Failure((("S1", 2.0),), 9), better=False)
    assert progress(step, 41.6) == "pairs: 4 faults, 9 ops, 5 nodes, 30 s; try 17, 42 s left"
    assert progress(step, -0.3).endswith("try 17, 0 s left")


# --------------------------------------------------------------------------- several faults


def soup(faults: int = 33, kinds: Sequence[str] = ("kill",)) -> Candidate:
    """A run of no ops and many faults, whose kinds take turns."""
    made = (fault(n, at_ms=900 * n, nemesis=kinds[n % len(kinds)]) for n in range(faults))
    return replace(candidate(0, only_ops=(), settings={}), faults=tuple(made))


def tries_to(fails: Fails, start: Candidate, faults: int) -> int:
    """After how many tries no more than so many faults are left."""
    steps: list[Step] = []
    run(fails, start, tell=steps.append)
    return next(step.tries for step in steps if len(step.best.faults) <= faults)


def test_three_faults_of_many_are_found_soon() -> None:
    assert tries_to(needing({3, 17, 29}, at_s=29.5), soup(), 3) <= 32


@given(st.sets(st.integers(0, 29), min_size=6, max_size=6))
def test_six_faults_of_many_are_found_within_the_tries_that_a_budget_allows(core: set[int]) -> None:
    assert tries_to(needing(core, at_s=29.5), soup(30), 6) <= 60


def test_faults_of_one_family_go_at_once() -> None:
    """Every other fault is a partition, and the failure needs all of the rest."""
    start = soup(12, ("kill", "partition-halves"))
    kills = {f.id for f in start.faults if f.nemesis == "kill"}
    assert moves.families(start.faults)[:2] == ["kill", "partition"]
    assert tries_to(needing(kills, at_s=29.5), start, 6) <= 9


def test_faults_that_did_nothing_go_first() -> None:
    tried: list[Candidate] = []

    def fails(one: Candidate) -> Failure | None:
        tried.append(one)
        failure = needing({3, 17, 29}, at_s=29.5)(one)
        return None if failure is None else replace(failure, idle=frozenset({1, 2, 30}))

    run(fails, soup())
    first = next(one for one in tried if len(one.faults) < 33)
    assert ids(first) == set(range(33)) - {1, 2, 30}


def test_pairs_that_only_go_together_go() -> None:
    """As a fault and one that undoes it: without only one of them nothing fails."""

    def fails(one: Candidate) -> Failure | None:
        both = ({2, 3}, {5, 11})
        whole = all(pair <= ids(one) or not pair & ids(one) for pair in both)
        return needing({7, 9}, at_s=29.5)(one) if whole else None

    assert ids(run(fails, soup(14)).candidate) == {7, 9}


@pytest.mark.parametrize("ahead", [2, 3, 50])
def test_many_faults_come_to_the_same_whatever_is_tried_ahead(ahead: int) -> None:
    fails = needing({2, 5, 11, 30}, at_s=29.5)
    kinds = ("kill", "pause", "partition-halves")
    assert run(fails, soup(kinds=kinds)) == run(
        fails, soup(kinds=kinds), runner=eager(fails, ahead)
    )


def test_beliefs_are_of_what_was_told() -> None:
    beliefs = Beliefs(8)
    first, second = beliefs.ahead(2)
    assert first == frozenset(range(len(first))), "the earliest ones"
    assert len(second) <= len(first)
    beliefs.gone(first)
    assert not first & set(beliefs.kept)
    for place in beliefs.kept:
        assert beliefs.ahead(99), "while it is not sure of all"
        beliefs.missed(frozenset([place]))
    assert beliefs.ahead(99) == []


# --------------------------------------------------------------------------- the moves


def test_nodes_that_faults_name_stay() -> None:
    named = replace(candidate(2), faults=(fault(0, params={"links": [["n4", "n1"]]}), fault(1)))
    assert [c.spec.observers for c in moves.fewer_observers(named)] == [1]
    assert [c.spec.voters for c in moves.fewer_voters(named)] == [2]
    assert [c.spec.voters for c in moves.fewer_voters(candidate(1))] == [1, 2]


def test_faults_are_moved_together() -> None:
    start = candidate(4)
    for moved in moves.earlier(start, 2):
        at = [f.at_ms for f in moved.faults]
        assert at[:2] == [1_000, 3_000]
        assert 3_000 <= at[2] < 5_000
        assert at[3] - at[2] == 2_000
    assert moves.earlier(replace(start, faults=(fault(0, at_ms=0),)), 0) == []


def test_idle_time_is_cut_everywhere_at_once() -> None:
    """Faults of 1.5 s each at 1, 3 and 9 s; the last one begins before the third ends."""
    moments = ((1_000, 1_500), (3_000, 1_500), (9_000, 1_500), (10_000, 1_500))
    faults = (fault(n, at_ms=at, duration_ms=ms) for n, (at, ms) in enumerate(moments))
    start = replace(candidate(0), faults=tuple(faults))
    assert [[f.at_ms for f in moved.faults] for moved in moves.closer(start)] == [
        [0, 1_500, 3_000, 4_000],
        [500, 2_500, 4_500, 5_500],
        [1_000, 3_000, 6_500, 7_500],
    ]
    assert moves.closer(candidate(0)) == []


def test_targets_become_plainer() -> None:
    def targets(target: str) -> list[str]:
        one = replace(candidate(1), faults=(fault(0, params={"target": target, "x": 1}),))
        assert all(c.faults[0].params["x"] == 1 for c in moves.plainer(one, 0))
        return [c.faults[0].params["target"] for c in moves.plainer(one, 0)]

    assert targets("one") == ["leader", "follower", "observer"]
    assert targets("leader") == []
    assert targets("n3") == []


def test_a_few_faults_are_tried_alone_with_the_times_between_them() -> None:
    start = candidate(10)
    tried = moves.windows(start, 4)
    assert [sorted(ids(one)) for one in tried[:10]] == [[n] for n in reversed(range(10))]
    assert [sorted(ids(one)) for one in tried[10:19:4]] == [[8, 9], [4, 5], [0, 1]]
    assert len(tried[-1].faults) == 5
    assert {one.spec.luck for one in tried} == {4}
    last = moves.last_faults(start)
    assert [sorted(ids(one)) for one in last] == [[9], [8, 9], [7, 8, 9], [5, 6, 7, 8, 9]]
    assert {one.spec.luck for one in last} == {0}
    pair = last[1]
    assert [(f.at_ms, f.duration_ms) for f in pair.faults] == [(1_000, 1_500), (3_000, 1_500)]
    assert pair.spec.time_limit_s == 6.5
    assert moves.windows(candidate(1), 0) == []

    late = replace(start, faults=(*start.faults[:-1], fault(9, at_ms=30_000, late=True)))
    only_late, with_late = moves.last_faults(late)[:2]
    assert [f.at_ms for f in only_late.faults] == [30_000]
    assert only_late.spec.time_limit_s == 3.0
    assert [(f.at_ms, f.late) for f in with_late.faults] == [(1_000, False), (30_000, True)]


def test_with_other_luck_faults_are_left_out_and_there_is_more_time() -> None:
    start = candidate(4, time_limit_s=12.0)
    tried = moves.redrawn(start, 2, 13.5)
    assert [ids(one) for one in tried] == [{2, 3}, {0, 1}, *({0, 1, 2, 3} - {n} for n in range(4))]
    assert {(one.spec.luck, one.spec.time_limit_s) for one in tried} == {(2, 13.5)}
    assert moves.redrawn(start, 2, 30.0)[0].spec.time_limit_s == 14.0
    assert moves.redrawn(start, 2, 1.0)[0].spec.time_limit_s == 12.0


@pytest.mark.parametrize("ahead", [2, 50])
def test_a_failure_that_takes_a_coincidence_is_shrunk_by_other_luck(ahead: int) -> None:
    """The first luck needs all faults that are there; any three others want one pair only."""

    def fails(one: Candidate) -> Failure | None:
        there = ids(one) >= (set(range(9)) if one.spec.luck == 0 else {3, 7})
        happens = one.spec.luck in (0, 2) or len(one.faults) == 9
        return Failure((("S1", 0.5),), 0) if there and happens else None

    found = run(fails, candidate(9))
    assert (ids(found.candidate), found.candidate.spec.luck) == ({3, 7}, 2)
    assert found == run(fails, candidate(9), runner=eager(fails, ahead))


def test_a_violation_that_comes_later_without_a_fault_is_waited_for() -> None:
    def fails(one: Candidate) -> Failure | None:
        at_s = 9.0 if ids(one) >= set(range(4)) else 10.5
        there = {1, 2} <= ids(one) and one.spec.time_limit_s > at_s
        return Failure((("S1", at_s),), 0) if there else None

    assert ids(run(fails).candidate) == {1, 2}


def test_the_fingerprint_is_of_what_decides_a_run() -> None:
    one = candidate()
    assert one.fingerprint() == one.with_spec(nemeses=("kill", "pause")).fingerprint()
    assert one.fingerprint() != one.with_spec(only_ops=()).fingerprint()
    assert one.fingerprint() != one.with_fault(0, fault(0, draw=0.5)).fingerprint()


# --------------------------------------------------------------------------- stories


def event(at_ms: int, node: int, kind: str, epoch: int, **fields: Any) -> dict[str, Any]:
    return {"rx_ns": at_ms * 1_000_000, "node": node, "inc": 1, "ep": epoch, "t": kind, **fields}


def nemesis(index: int, at_ms: int, f: str, name: str, **fields: Any) -> Op:
    value = {"id": 0, "nemesis": name, **fields}
    return Op(index, at_ms * 1_000_000, "nemesis", "info", f, value)


def client(index: int, at_ms: int, kind: Any, f: str, value: Any) -> Op:
    return Op(index, at_ms * 1_000_000, 3, kind, f, value, key="r0", node="n1")


def of_three(ops: Sequence[Op], *events: dict[str, Any]) -> RunData:
    by_node: dict[str, list[dict[str, Any]]] = {"n1": [], "n2": [], "n3": []}
    for one in events:
        by_node[f"n{one['node']}"].append(one)
    return RunData(
        RunSpec(1),
        History(ops),
        events={node: tuple(found) for node, found in by_node.items()},
        voters=tuple(by_node),
    )


def forgotten_vote() -> tuple[RunData, Anomaly]:
    second = event(2_604, 2, "vote", 3, pre=False, ok=True, cand=3)
    start = {"leo": 9, "qs": {"ep": 3, "leader": None, "voted": None}, "inc": 2}
    data = of_three(
        [
            nemesis(0, 2_000, "inject", "kill"),
            nemesis(1, 2_001, "inject", "kill", outcome="installed", targets=["n2"]),
            nemesis(2, 2_500, "heal", "kill"),
            nemesis(3, 2_600, "heal", "kill", evidence={}),
        ],
        event(0, 1, "start", 0, leo=0, qs={"ep": 0, "leader": None, "voted": None}),
        event(1_200, 1, "role", 3, **{"from": "prospective", "to": "candidate"}),
        event(1_203, 2, "vote", 2, pre=True, ok=True, cand=1),
        event(1_204, 2, "vote", 3, pre=False, ok=True, cand=1),
        event(1_205, 1, "elected", 3, grants=[1, [2, "dir"]], es=8),
        event(1_206, 1, "hwm", 3, v=9, **{"as": "leader"}, acks=[[1, "dir", 9], [2, None, 9]]),
        event(2_550, 2, "start", 3, **start),
        event(2_603, 3, "role", 3, **{"from": "prospective", "to": "candidate"}),
        second,
        event(2_605, 3, "elected", 3, grants=[3, 2], es=9),
    )
    message = "n2 voted for n1 and for n3 in epoch 3"
    return data, Anomaly("S2", message, events=(second,), time_ns=second["rx_ns"])


def lost_write() -> tuple[RunData, Anomaly]:
    cut = event(3_100, 1, "trunc", 4, to=7, was=8, why="diverged at epoch 3")
    data = of_three(
        [
            client(0, 900, "invoke", "write", 5),
            client(1, 910, "ok", "write", 5),
            nemesis(2, 1_000, "inject", "partition-isolate-leader"),
            nemesis(
                3, 1_500, "inject", "partition-isolate-leader", outcome="installed", targets=["n1"]
            ),
            nemesis(4, 3_000, "heal", "partition-isolate-leader"),
        ],
        event(905, 1, "append", 3, base=7, last=7, bep=3, src="leader"),
        event(906, 1, "append", 3, base=3, last=3, bep=3, src="leader"),
        event(907, 1, "hwm", 3, v=8, **{"as": "leader"}, acks=[[1, "dir", 8], [2, "dir", 7]]),
        event(2_000, 2, "elected", 4, grants=[2, 3], es=7),
        event(2_001, 2, "append", 4, base=7, last=8, bep=4, src="leader"),
        event(3_090, 1, "role", 4, **{"from": "leader", "to": "follower", "leader": 2}),
        cut,
        event(4_000, 3, "role", 9, **{"from": "follower", "to": "candidate"}),
    )
    return data, Anomaly(
        "S10", "n1 cut off offset 7, which was committed", (0, 1), (cut,), {"offset": 7}
    )


def no_evidence() -> tuple[RunData, Anomaly]:
    data = of_three([], event(10, 1, "elected", 1, grants=[1]))
    return data, Anomaly("L8", "the logs never became equal")


@pytest.mark.parametrize("make", [forgotten_vote, lost_write, no_evidence])
def test_a_story_is_as_it_was(make: Callable[[], tuple[RunData, Anomaly]], rewrite: bool) -> None:
    path = GOLDEN / f"{make.__name__}.txt"
    text = "".join(f"{line}\n" for line in story(*make()))
    if rewrite:
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), (
        "run pytest tests/harness/shrink/test_shrink.py --rewrite"
    )


def test_faults_are_told_with_what_they_did() -> None:
    def told(name: str, **params: Any) -> str:
        fields = {"outcome": "installed", "targets": ["n1", "n3"], "params": params}
        data = of_three([nemesis(0, 5, "inject", name), nemesis(1, 9, "inject", name, **fields)])
        return story(data, Anomaly("S1", "two leaders"))[0]

    assert told("power", target="all", mid_write=False) == "t=0.005 s: cut the power of n1 and n3"
    assert (
        told("slow-links", target="one", way="both", delay_ms=20)
        == "t=0.005 s: slow-links at n1 and n3 (way both, delay_ms 20)"
    )


def test_other_luck_is_told_first() -> None:
    data, anomaly = forgotten_vote()
    lucky = replace(data, spec=replace(data.spec, luck=7))
    first, *rest = story(lucky, anomaly)
    assert "luck 7" in first
    assert rest == story(data, anomaly)
    assert len(story(lucky, anomaly, lines_max=4)) == 4


def test_a_fault_that_did_not_take_hold_is_not_told() -> None:
    skipped = nemesis(1, 9, "inject", "kill", outcome="skipped", targets=[])
    data = of_three([nemesis(0, 5, "inject", "kill"), skipped])
    assert len(story(data, Anomaly("S1", "two leaders"))) == 1


def test_a_long_story_keeps_what_concerns_the_anomaly() -> None:
    data, anomaly = forgotten_vote()
    noise = [event(1_300 + n, 1, "role", 3, to="follower", leader=2) for n in range(99)]
    events = {**data.events, "n1": (*data.events["n1"], *noise)}
    lines = story(replace(data, events=events), anomaly)
    assert len(lines) == LINES_MAX
    assert set(story(data, anomaly)) <= set(lines)
    assert lines[-1].endswith(anomaly.message)
    assert len(story(data, anomaly, lines_max=4)) == 4


# --------------------------------------------------------------------------- whole runs


def short_run(**changes: Any) -> SimRun:
    spec = RunSpec(
        3,
        nemeses=("kill",),
        voters=3,
        observers=0,
        rate_hz=5.0,
        concurrency=2,
        time_limit_s=9.0,
        mutant="forgotten-vote",
    )
    kills = [fault(0), fault(1, params={"target": "leader"}), fault(2)]
    return simulate(Plan.simulated(replace(spec, **changes), kills))


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stored run that broke S3."""
    run = short_run()
    assert "S3" in {anomaly.invariant for anomaly in run.judgement.anomalies}
    assert len(run.data.faults) > 1
    return save(run, Store(tmp_path_factory.mktemp("store"))).path


def test_a_forgotten_vote_is_shrunk_to_one_kill(failing: Path, tmp_path: Path) -> None:
    options = ("--store", str(tmp_path), "--json")
    ended = krucible("shrink", str(failing), "--jobs", "1", *options)
    told = ended.json
    assert (ended.code, told["reproduced"], told["invariant"]) == (1, True, "S3")
    kept = told["kept"]
    assert kept["faults"][0] == 1
    assert [f["nemesis"] for f in told["schedule"]] == ["kill"]
    assert kept["ops"][0] == 0 < kept["ops"][1]
    assert kept["nodes"] == [1, 3]
    assert kept["seconds"][0] < 1
    assert not told["exhausted"]
    assert any("kill n1" in line for line in told["story"])
    assert any("restarts in epoch" in line and "no vote" in line for line in told["story"])
    assert "S3 is broken" in told["story"][-1]
    assert (Path(told["store"]) / "story.txt").read_text().splitlines() == told["story"]

    again = krucible("repro", told["store"], "--times", "3", *options)
    assert (again.code, again.json["reproduced"]) == (1, 3)
    in_parallel = krucible("shrink", str(failing), "--jobs", "2", *options).json
    assert in_parallel["trace_sha256"] == told["trace_sha256"]
    assert in_parallel["tries"] == told["tries"]


def test_ctrl_c_keeps_the_best_so_far(
    failing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = count(1)

    def attempt(tried: Candidate) -> shrink_runs.Try:
        if next(made) == 4:
            signal.raise_signal(signal.SIGINT)
        return whole(tried)

    whole = shrink_runs.attempt
    monkeypatch.setattr(shrink_runs, "attempt", attempt)
    ended = krucible("shrink", failing, "--jobs", "1", "--store", str(tmp_path))
    assert ended.code == 1
    assert (
        "stopping; the smallest failure so far is kept (Ctrl-C again: leave without it)"
        in ended.err
    )
    assert "; stopped by Ctrl-C: a smaller failure may exist" in ended.out
    (run,) = Store(tmp_path).runs()
    assert (run.path / "story.txt").is_file()

    def at_once(_: Candidate) -> None:
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("the try goes on")

    monkeypatch.setattr(shrink_runs, "attempt", at_once)
    again = krucible("shrink", failing, "--jobs", "1", "--store", str(tmp_path))
    assert again.code == 130, "nothing was found yet"
    assert len(Store(tmp_path).runs()) == 1


def test_ctrl_c_gives_up_the_try_under_way(failing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a simulation in this process, and of one in another; what is tried next is tried whole."""
    run = Plan.simulated(
        load_spec(failing / "spec.json"), schedule.load(failing / "schedule.jsonl")
    )
    whole = Candidate(run.spec, tuple(run.faults))
    (fails,) = Pool(1)([whole])

    def rolled(*_: object) -> None:
        pool.halt()

    def within(plan: Plan, options: RunOptions) -> SimRun:
        signal.raise_signal(signal.SIGALRM)
        return simulate(plan, options)

    def for_ever(*_: object) -> None:
        os.kill(os.getppid(), signal.SIGALRM)
        Event().wait()

    before = signal.signal(signal.SIGALRM, rolled)
    try:
        with Pool(1) as pool:
            with monkeypatch.context() as patched:
                patched.setattr(shrink_runs, "simulate", within)
                with pytest.raises(HaltedError):
                    next(pool([whole]))
            assert list(pool([whole])) == [fails]

        with monkeypatch.context() as patched:
            patched.setattr(shrink_runs, "simulate", for_ever)
            with Pool(2) as pool:
                with pytest.raises(HaltedError):
                    next(pool([whole, whole.with_spec(voters=2)]))
                patched.undo()
                assert list(pool([whole])) == [fails]
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_seed_is_simulated_with_its_options(tmp_path: Path) -> None:
    pins = "--voters 1 --observers 0 --workload register --nemesis kill --time-limit 6 --rate 5"
    seed = ("shrink", "--seed", "3", *pins.split(), "--jobs", "1", "--store", str(tmp_path))
    ended = krucible(*seed, "--mutant", "forgotten-vote", "--tries", "3")
    assert ended.code == 1
    assert "S3 is still broken with" in ended.out
    assert "4 tries in " in ended.out
    assert "stopped by the budget" in ended.out
    assert "krucible repro " in ended.out
    ended = krucible(*seed)
    assert ended.code == 2
    assert "seed 3: it broke nothing: there is nothing to shrink" in ended.err


def test_a_failure_that_is_gone_is_told(failing: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("results.json", "schedule.jsonl", "history.jsonl"):
        (copy / name).write_bytes((failing / name).read_bytes())
    spec = json.loads((failing / "spec.json").read_text())
    (copy / "spec.json").write_text(json.dumps({**spec, "mutant": None}))
    ended = krucible("shrink", str(copy), "--jobs", "1", "--json")
    assert ended.code == 2
    assert ended.json["reproduced"] is False

    (copy / "spec.json").write_text(json.dumps({**spec, "env": "local"}))
    assert "was not simulated" in krucible("shrink", str(copy)).complaint
    (copy / "spec.json").write_text(json.dumps(spec))
    (copy / "results.json").write_text(json.dumps({"system": "valid", "anomalies": []}))
    ended = krucible("shrink", str(copy))
    assert ended.code == 254
    assert "no invariant was broken" in ended.complaint


@pytest.mark.parametrize(
    ("argv", "what"),
    [
        (("nowhere",), "has the id or name 'nowhere'"),
        (("7",), "to simulate that seed: krucible shrink --seed 7"),
        (("--seed", "7", "--mutant", "none-such"), "no mutant is called"),
    ],
)
def test_bad_arguments_are_told(argv: tuple[str, ...], what: str, tmp_path: Path) -> None:
    ended = krucible("shrink", *argv, "--store", str(tmp_path))
    assert ended.code == 254
    assert what in ended.complaint


def test_ops_and_faults_that_are_left_out_do_not_move_the_others() -> None:
    """The others are what they were: the same op at the same time, the same target."""
    whole = short_run(stop_at=())
    assert len(whole.data.faults) > 1
    first = whole.data.faults[0]
    ops = [op for op in whole.data.history.clients() if op.type == "invoke"]
    spec = replace(whole.data.spec, only_ops=(1, 4, 6))
    less = simulate(Plan.simulated(spec, (first,)))
    kept = [op for op in less.data.history.clients() if op.type == "invoke"]
    moments = [(op.time_ns, op.f, op.value, op.key) for op in ops]
    assert [(op.time_ns, op.f, op.value, op.key) for op in kept[:3]] == [
        moments[n] for n in (1, 4, 6)
    ]
    assert less.data.faults == (first,)
    targets = [report.injection.targets for report in less.result.faults]
    assert targets == [report.injection.targets for report in whole.result.faults[:1]]


def test_other_luck_changes_no_op_and_no_fault_and_replays() -> None:
    first, other = short_run(stop_at=()), short_run(stop_at=(), luck=1)
    assert other.trace_sha256 == short_run(stop_at=(), luck=1).trace_sha256
    assert other.trace_sha256 != first.trace_sha256
    assert other.data.faults == first.data.faults

    def drawn(run: SimRun) -> list[Any]:
        invoked = (op for op in run.data.history.clients() if op.type == "invoke")
        return [(op.f, op.key) for op in invoked][:10]

    assert drawn(other) == drawn(first)


def test_the_pool_answers_in_order_whatever_its_size() -> None:
    one = short_run().data
    start = Candidate(one.spec, one.faults)
    tried = [start.with_spec(time_limit_s=limit) for limit in (0.2, 3.5, 0.3)]
    with Pool(1) as alone, Pool(2) as pair:
        assert list(alone(tried)) == list(pair(tried))


def test_a_try_that_breaks_is_told_and_costs_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def stalls(plan: Plan, _: RunOptions) -> SimRun:
        raise StalledError(f"time stands still with {plan.spec.voters} voters")

    monkeypatch.setattr(shrink_runs, "simulate", stalls)
    with Pool(1) as pool:
        assert list(pool([candidate().with_spec(settings={})])) == [None]
    (why,) = pool.broken
    assert why.endswith("StalledError: time stands still with 3 voters")


def test_options_that_do_not_go_together_do_not_fail() -> None:
    with Pool(1) as pool:
        assert list(pool([candidate()])) == [None], "there is no setting called a"
    assert pool.broken == []


def test_a_story_tells_of_a_list_what_is_in_it() -> None:
    params = {"target": "leader", "requests": ["Vote voter_id = most", "Fetch topics = empty"]}
    told = {"outcome": "installed", "targets": ["n1"], "params": params}
    data = of_three([nemesis(0, 1_000, "inject", "odd-requests", **told)])
    lines = story(data, Anomaly("crash", "n1 has ended", time_ns=2_000_000_000))
    asked = "odd-requests at n1 (requests Vote voter_id = most; Fetch topics = empty)"
    assert any(asked in line for line in lines), lines
