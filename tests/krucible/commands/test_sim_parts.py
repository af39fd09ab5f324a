"""How many simulations are shared out: each once, in parts that are worth their way."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.batch import trial
from harness.batch.trial import Result, Trial
from harness.processes.crew import Ended, Job, Local, Said
from harness.store.folder import Store
from krucible.commands import sim


class Crew:
    """Does jobs here, and notes how many results each brought."""

    places = 2

    def __init__(self) -> None:
        self.parts: list[int] = []

    def work_off(self, jobs: Sequence[Job]) -> Generator[Said | Ended]:
        """One job after the other."""
        for job in jobs:
            said = list(job.work())
            self.parts.append(len(said))
            yield from (Said(job, each) for each in said)
            yield Ended(job)


def played(count: int, cpu_s: float, monkeypatch: pytest.MonkeyPatch, crew: Any) -> list[Result]:
    """Share out so many trials that take as long; the results."""

    def each(trials: Sequence[Trial]) -> Iterator[Result]:
        blank: dict[str, Any] = {name: [] for name in ("features", "harness_reasons", "anomalies")}
        for one in trials:
            yield {
                "seed": one.seed,
                "verdict": "valid",
                "same_bytes": None,
                "cpu_s": cpu_s,
                **blank,
            }

    monkeypatch.setattr(trial, "each", each)
    store = Store(Path("nowhere"))
    batch = sim._Batch([Trial(seed, {}, False, False, store) for seed in range(count)])
    batch.run(crew, stop=False, loud=False)
    return batch.results


@pytest.mark.parametrize(
    ("cpu_s", "longest", "parts"),
    [(1.0, 30, 34), (0.01, 111, 9), (100.0, 1, 996), (0.0, 111, 9)],
    ids=["30 s each", "some for each place", "one by one", "never played"],
)
def test_a_cluster_gets_parts_by_what_the_first_have_cost(
    cpu_s: float, longest: int, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    crew = Crew()
    results = played(1_000, cpu_s, monkeypatch, crew)
    assert sorted(each["seed"] for each in results) == list(range(1_000))
    assert crew.parts[:2] == [2, 2]
    assert max(crew.parts[2:]) == longest
    assert len(crew.parts[2:]) == parts


@pytest.mark.parametrize("count", [1, 3, 5])
def test_few_are_shared_out_as_well(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    crew = Crew()
    results = played(count, 1.0, monkeypatch, crew)
    assert sorted(each["seed"] for each in results) == list(range(count))
    assert max(crew.parts) <= 2


def test_one_process_of_this_machine_does_all_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    results = played(7, 1.0, monkeypatch, Local(1))
    assert [each["seed"] for each in results] == list(range(7))
