"""Starting corpora: written, read, and what of them a search may begin with."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.errors import UsageError
from harness.explore.moves import TIME_MAX_S
from harness.explore.play import play
from harness.explore.search import Step
from harness.explore.starting import OURS, fitting, load, save
from harness.sessions.plan import Plan
from harness.sessions.swarm import draw
from harness.shrink.moves import Candidate
from harness.verdict import Valid

PLAYED = 6


def drawn(seed: int) -> Candidate:
    plan = Plan.simulated(draw(seed), asked_for=False)
    return Candidate(plan.spec, plan.faults)


RUNS = [drawn(seed) for seed in range(40)]


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    save(path, RUNS)
    assert load(path) == RUNS
    assert [each.name for each in tmp_path.iterdir()] == ["corpus.jsonl"]
    save(path, RUNS[:2])
    assert load(path) == RUNS[:2]
    save(path, ())
    assert load(path) == []


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[]",
        b'{"spec": {}}',
        b'{"spec": {"seed": 1, "nemeses": [], "wrong": 2}, "faults": []}',
        b'{"spec": {"seed": 1, "nemeses": []}, "faults": [7]}',
        b'{"spec": {"seed": "one", "nemeses": []}, "faults": []}',
    ],
)
def test_what_is_no_run_is_told_with_its_line(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "corpus.jsonl"
    save(path, RUNS[:1])
    path.write_bytes(path.read_bytes() + line + b"\n")
    with pytest.raises(UsageError, match=r"corpus.jsonl:2: not a run of a corpus"):
        load(path)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read the corpus: No such file"):
        load(tmp_path / "none.jsonl")
    with pytest.raises(UsageError, match="cannot write the corpus"):
        save(tmp_path / "none" / "corpus.jsonl", RUNS[:1])


@pytest.mark.parametrize(
    "given",
    [
        {"workload": "register"},
        {"voters": 5, "observers": 2},
        {"settings": {"krucible.quorum": "dynamic"}},
        {"weather": "fair", "moments": 0},
    ],
)
def test_only_runs_that_have_what_was_given_fit(given: Mapping[str, Any]) -> None:
    fit = fitting(RUNS, given)
    assert 0 < len(fit) < len(RUNS)
    assert fit == [run for run in RUNS if run in fit], "the order stays"
    for run in RUNS:
        spec = run.spec
        has = all(
            value.items() <= spec.settings.items()
            if name == "settings"
            else getattr(spec, name) == value
            for name, value in given.items()
        )
        assert has == (run in fit)


def test_nemeses_are_given_by_name_or_by_family() -> None:
    kills = [(run, fault) for run in RUNS for fault in run.faults if fault.nemesis == "kill"]
    one = replace(kills[0][0], faults=(kills[0][1],))
    calm = next(run for run in RUNS if not run.faults)
    runs = [*RUNS, one]
    assert one in fitting(runs, {"nemeses": ("kill",)})
    assert calm not in fitting(runs, {"nemeses": ("kill",)})
    assert fitting(runs, {"nemeses": ("none",)}) == [run for run in runs if not run.faults]
    assert len(fitting(runs, {"nemeses": ("all",)})) > len(fitting(runs, {"nemeses": ("disk",)}))
    with pytest.raises(UsageError, match="no nemesis is called 'kil'"):
        fitting(runs, {"nemeses": ("kil",)})


def test_a_seeded_bug_and_the_end_are_put_in() -> None:
    (run, *_) = fitting(RUNS, {"mutant": "log-gap", "stop_at": ("S4",)})
    assert run == RUNS[0].with_spec(mutant="log-gap", stop_at=("S4",))
    assert fitting(RUNS, {"system": "kafka"}) == []


def test_all_that_comes_with_krucible_can_be_played() -> None:
    runs = load(OURS)
    assert len({run.fingerprint() for run in runs}) == len(runs) >= 100
    for run in runs:
        plan = Plan.simulated(run.spec, run.faults, asked_for=False)
        assert plan.faults == run.faults
        assert run.spec.time_limit_s <= TIME_MAX_S
        assert run.spec.mutant is None
    assert len({run.spec.workload for run in runs}) > len(runs) // 20
    assert fitting(runs, {}) == runs


def test_the_first_of_them_show_much_and_are_valid() -> None:
    played = [play(Step(n, run, fresh=False), None) for n, run in enumerate(load(OURS)[:PLAYED])]
    assert [each.verdict for each in played] == [Valid.VALID] * PLAYED
    features = {name for each in played for name in each.seen or ()}
    assert len(features) > 700
