"""The memory of a search: one that was killed goes on as if nothing had been."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from harness.errors import UsageError
from harness.explore.features import Seen
from harness.explore.memory import Memory
from harness.explore.search import ROUND, Search, Step
from harness.sessions.plan import Plan
from harness.sessions.swarm import draw
from harness.shrink.moves import Candidate

ROUNDS = 4


def drawn(seed: int) -> Candidate:
    plan = Plan.simulated(draw(seed), asked_for=False)
    return Candidate(plan.spec, plan.faults)


def shown(step: Step) -> Seen | None:
    """Make up features of a run; of one in nine there are none, for it broke the harness."""
    rng = Random(step.candidate.fingerprint())
    if step.number % 9 == 5:
        return None
    sizes = [10 ** rng.randint(1, 4) for _ in range(9)]
    return {f"then {rng.randrange(size)}": rng.randrange(9_000) for size in sizes}


def play(memory: Memory, until: int = ROUNDS * ROUND) -> Iterator[Step]:
    """Play round after round, each backwards, as processes may end, until a run's number."""
    while memory.steps[0].number < until:
        for step in reversed(memory.left):
            memory.keep(step.number, shown(step), playable=step.number % 7 > 0)
            yield step
        assert memory.learn()


def whole(path: Path) -> dict[int, Step]:
    memory = Memory(Search(3, drawn), path, ())
    steps = {step.number: step for step in play(memory)}
    memory.close()
    return steps


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.6, 0.95, 1.0])
def test_a_search_that_was_killed_goes_on_as_it_would_have(tmp_path: Path, share: float) -> None:
    expected = whole(tmp_path / "whole")
    written = (tmp_path / "whole").read_bytes()
    torn = tmp_path / "torn"
    torn.write_bytes(written[: int(len(written) * share)])
    complete = torn.read_bytes().count(b"\n")
    judged = set(list(expected)[: max(0, complete - 1)])  # the last was not in the ledger yet
    again = Memory(Search(3, drawn), torn, judged)
    played = {step.number: step for step in play(again)}
    again.close()
    unplayable = {number for number in expected if number % 7 == 0}
    assert not played.keys() & judged - unplayable, "no run is judged twice"
    assert judged | played.keys() | unplayable == expected.keys()
    assert all(expected[number] == step for number, step in played.items())


def test_what_was_read_is_what_was_learnt(tmp_path: Path) -> None:
    path = tmp_path / "memory"
    first = Memory(Search(3, drawn), path, ())
    numbers = [step.number for step in play(first)]
    first.close()
    again = Memory(Search(3, drawn), path, set(numbers))
    again.close()
    assert again.search.corpus.counts == first.search.corpus.counts
    assert [entry.candidate for entry in again.search.corpus.entries] == [
        entry.candidate for entry in first.search.corpus.entries
    ]
    assert [entry.chosen for entry in again.search.corpus.entries] == [
        entry.chosen for entry in first.search.corpus.entries
    ]
    assert again.steps == first.steps


def test_a_round_is_learnt_when_all_of_it_was_played(tmp_path: Path) -> None:
    memory = Memory(Search(3, drawn), tmp_path / "memory", ())
    for step in memory.left[1:]:
        memory.keep(step.number, shown(step))
    assert not memory.learn()
    (last,) = memory.left
    memory.keep(last.number, shown(last))
    assert memory.learn()
    assert memory.left[0].number == ROUND
    memory.close()


def test_a_search_that_played_other_runs_is_refused(tmp_path: Path) -> None:
    """Another version of the program may draw others; what they showed says nothing of these."""
    path = tmp_path / "memory"
    first = Memory(Search(3, drawn), path, ())
    numbers = {step.number for step in play(first)}
    first.close()
    written = path.read_bytes()
    with pytest.raises(UsageError, match=r"memory: run \d+ of this search was another one"):
        Memory(Search(4, drawn), path, numbers)
    assert path.read_bytes() == written
