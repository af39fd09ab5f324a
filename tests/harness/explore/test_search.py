"""The search: repeatable, whatever is played at a time, and of runs that can be played."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from harness.explore.corpus import ENTRIES_MAX, RARE_MAX, Corpus
from harness.explore.features import Seen
from harness.explore.moves import TAIL_MS, TIME_MAX_S, WITH_FAULTS, Stuff, changed, cut_short
from harness.explore.search import CUT_FROM, FRESH_SHARE, ROUND, WHOLE_FIRST, Search, Step
from harness.registry import nemeses
from harness.sessions.plan import Plan
from harness.sessions.swarm import draw
from harness.shrink.moves import Candidate
from harness.spec import RunSpec


def drawn(seed: int) -> Candidate:
    plan = Plan.simulated(draw(seed), asked_for=False)
    return Candidate(plan.spec, plan.faults)


def shown(step: Step) -> Seen:
    """Make up features of a run: a few that many have, and some of its own."""
    rng = Random(step.candidate.fingerprint())
    sizes = [10 ** rng.randint(1, 4) for _ in range(9)]
    return {f"then {rng.randrange(size)}": rng.randrange(9_000) for size in sizes}


def search(rounds: int) -> list[bytes]:
    found, its = [], Search(3, drawn)
    for _ in range(rounds):
        steps = its.round()
        found += [step.candidate.fingerprint() for step in steps]
        for step in steps:
            its.learn(step, shown(step))
    return found


def test_the_same_seed_makes_the_same_search() -> None:
    assert search(6) == search(6)


def test_three_of_ten_are_fresh_and_most_of_these_cut_short() -> None:
    its, fresh, whole = Search(3, drawn), Counter[bool](), Counter[bool]()
    for _ in range(24):
        for step in its.round():
            fresh[step.fresh] += 1
            if step.fresh:
                next_ = drawn(3 + whole[True])
                cut = cut_short(drawn(3 + CUT_FROM + step.number))
                assert step.candidate == (cut if step.tentative else next_)
                whole[not step.tentative] += 1
            assert step.fresh or step.tentative, "it is changed"
            its.learn(step, shown(step))
    expected = ROUND + 23 * ROUND * FRESH_SHARE  # of the first round all are
    assert abs(fresh[True] - expected) <= 16
    assert whole[False] > whole[True] > 0


def test_a_starting_corpus_comes_first_and_in_its_order() -> None:
    starting = [drawn(seed) for seed in range(900, 940)]
    its, played, whole = Search(3, drawn, starting), [], 0
    for _ in range(10):
        for step in its.round():
            if not step.fresh:
                played.append(step.candidate)
                assert step.tentative == (len(played) > len(starting))
            elif len(played) < len(starting):
                assert step.candidate == drawn(3 + whole), "whole seeds, in their order"
                whole += 1
            its.learn(step, shown(step))
    assert whole >= len(WHOLE_FIRST)
    assert played[: len(starting)] == starting
    assert len(played) > len(starting)
    assert played[len(starting)] not in starting, "then they are changed"


@pytest.mark.parametrize("seed", range(60))
def test_a_run_that_is_cut_short_is_the_beginning_of_it(seed: int) -> None:
    whole, cut = drawn(seed), cut_short(drawn(seed))
    assert Plan.simulated(cut.spec, cut.faults, asked_for=False).faults == cut.faults
    assert cut.spec.time_limit_s <= whole.spec.time_limit_s
    by_time = [f for f in whole.faults if not f.late and f.trigger is None]
    if not by_time:
        assert cut == whole
        return
    first = min(by_time, key=lambda fault: fault.at_ms)
    kept = [f for f in cut.faults if not f.late and f.trigger is None]
    assert [replace(fault, id=first.id) for fault in kept] == [first]
    assert [f.nemesis for f in cut.faults if f.late] == [f.nemesis for f in whole.faults if f.late]
    assert sum(fault.trigger is not None for fault in cut.faults) <= 1
    drawn_otherwise = {"time_limit_s", "nemeses", "asked"}
    for name in RunSpec.__dataclass_fields__.keys() - drawn_otherwise:
        assert getattr(cut.spec, name) == getattr(whole.spec, name)


@pytest.mark.parametrize("seed", range(40))
def test_what_is_changed_can_be_played(seed: int) -> None:
    """Each candidate has a plan, with faults in order and room for them, many steps away, too."""
    rng, candidate = Random(seed), drawn(seed)
    for step in range(8):
        fresh = drawn(100 + 8 * seed + step)
        stuff = Stuff([rng.randrange(20_000) for _ in range(step)], drawn(seed + 50), fresh, rng)
        candidate = changed(candidate, stuff)
        plan = Plan.simulated(candidate.spec, candidate.faults, asked_for=False)
        assert plan.faults == candidate.faults
        timed = [fault for fault in candidate.faults if not fault.late]
        assert [f.at_ms for f in timed] == sorted(f.at_ms for f in timed)
        assert [f.id for f in candidate.faults] == list(range(len(candidate.faults)))
        limit_ms = candidate.spec.time_limit_s * 1_000
        assert limit_ms <= TIME_MAX_S * 1_000
        assert all(fault.at_ms < limit_ms - TAIL_MS for fault in timed)


@pytest.mark.parametrize("move", WITH_FAULTS, ids=lambda move: str(move.__name__).strip("_"))
def test_each_move_changes_something(move: object) -> None:
    assert callable(move)
    candidate = drawn(6)
    others = [
        move(candidate, Stuff([4_000], drawn(9), drawn(17), Random(seed))) for seed in range(12)
    ]
    assert any(other != candidate for other in others)


def test_where_clients_change_the_voters_no_disk_is_lost() -> None:
    """One disk may be all that a majority has: what it loses is nobody's mistake."""
    candidate = drawn(1).with_spec(workload="membership")
    for seed in range(200):
        stuff = Stuff([], drawn(seed + 2), drawn(seed + 300), Random(seed))
        candidate = changed(candidate, stuff)
        if candidate.spec.workload != "membership":
            candidate = candidate.with_spec(workload="membership")
            continue
        families = {nemeses.get(fault.nemesis)().family for fault in candidate.faults}
        assert families.isdisjoint({"disk", "membership"})


def test_pinned_options_stay_pinned() -> None:
    def pinned(seed: int) -> Candidate:
        given = {"voters": 5, "workload": "register", "nemeses": ("kill",), "mutant": "log-gap"}
        plan = Plan.simulated(draw(seed, given))
        return Candidate(plan.spec, plan.faults)

    its = Search(1, pinned)
    for _ in range(5):
        for step in its.round():
            spec = step.candidate.spec
            assert (spec.voters, spec.workload, spec.mutant) == (5, "register", "log-gap")
            assert {fault.nemesis for fault in step.candidate.faults} <= {"kill"}
            its.learn(step, shown(step))


def test_only_what_shows_something_new_is_kept() -> None:
    corpus, first = Corpus(), drawn(1)
    assert corpus.learn(first, {"a": 5, "b": 7}) == 2
    assert corpus.learn(drawn(2), {"a": 9}) == 0
    assert corpus.learn(drawn(3), {"a": 9, "c": 2}) == 1
    assert [entry.candidate for entry in corpus.entries] == [first, drawn(3)]
    assert corpus.counts == {"a": 3, "b": 1, "c": 1}
    assert corpus.entries[0].moments == {"a": 5, "b": 7}


def test_what_has_become_common_is_worth_nothing() -> None:
    corpus = Corpus()
    corpus.learn(drawn(1), {"a": 0, "b": 0})
    before = corpus.worth(corpus.entries[0])
    for seed in range(2, 2 + RARE_MAX):
        corpus.learn(drawn(seed), {"a": 0})
    assert list(corpus.rare(corpus.entries[0])) == ["b"]
    assert corpus.worth(corpus.entries[0]) < before


def test_the_rarer_and_the_less_tried_is_chosen_more_often() -> None:
    corpus, rng = Corpus(), Random(1)
    corpus.learn(drawn(1), {"a": 0})
    corpus.learn(drawn(2), {f"rare {n}": 0 for n in range(9)})
    chosen = Counter(corpus.choose(rng).candidate.spec.seed for _ in range(60))
    assert chosen[2] > chosen[1] > 0  # but nothing is gone on from for ever


def test_a_full_corpus_drops_the_least_worth() -> None:
    corpus, one = Corpus(), drawn(1)
    for number in range(ENTRIES_MAX):
        corpus.learn(one, {f"only {number}": 0, f"too {number}": 0})
    corpus.entries[7].chosen = 1_000
    least = corpus.entries[7]
    corpus.learn(one, {"one more": 0, "and more": 0})
    assert len(corpus.entries) == ENTRIES_MAX
    assert least not in corpus.entries
