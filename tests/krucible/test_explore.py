"""``krucible explore``: a corpus saved by one search is what another begins with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.explore.starting import OURS, fitting, load
from harness.verdict import EXIT_USAGE, EXIT_VALID
from tests.support.commands.command import krucible

SMALL = (
    *("--voters", "1", "--observers", "0", "--workload", "register", "--nemesis", "kill"),
    *("--time-limit", "3s", "--rate", "5", "--json"),
)


def searched(folder: Path, *options: str) -> dict[str, Any]:
    """Search a little; the figures."""
    done = krucible("explore", *SMALL, "--store", str(folder / "store"), *options)
    assert done.code == EXIT_VALID, done.err
    figures: dict[str, Any] = done.json
    return figures


def test_a_saved_corpus_is_what_the_next_search_begins_with(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    first = searched(tmp_path, "--corpus", "none", "--runs", "8", "--save-corpus", str(path))
    assert first["starting_runs"] == 0
    runs = load(path)
    assert len(runs) == first["saved_runs"] > 0
    assert all(run.spec.voters == 1 for run in runs)
    again = searched(tmp_path, "--corpus", str(path), "--runs", "16")
    assert again["starting_runs"] == len(runs)
    assert again["features"] >= first["features"]
    assert "saved_runs" not in again


def test_by_default_it_begins_with_what_comes_with_krucible(tmp_path: Path) -> None:
    given = {"workload": "register", "voters": 3}
    options = ("--workload", "register", "--voters", "3", "--runs", "1", "--json")
    done = krucible("explore", *options, "--store", str(tmp_path))
    assert done.json["starting_runs"] == len(fitting(load(OURS), given)) > 0


def test_files_that_cannot_be_read_or_written_are_told_at_once(tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text("{}\n", encoding="utf-8")
    done = krucible("explore", *SMALL, "--corpus", str(bad))
    assert done.code == EXIT_USAGE
    assert "bad.jsonl:1: not a run of a corpus" in done.complaint
    where = tmp_path / "none" / "corpus.jsonl"
    done = krucible("explore", *SMALL, "--save-corpus", str(where))
    assert done.code == EXIT_USAGE
    assert "there is no folder" in done.complaint


def test_a_corpus_that_cannot_be_written_in_the_end_costs_no_figures(tmp_path: Path) -> None:
    place = tmp_path / "a-folder"
    place.mkdir()
    options = ("--runs", "8", "--corpus", "none", "--save-corpus", str(place))
    done = krucible("explore", *SMALL, "--store", str(tmp_path / "store"), *options)
    assert done.code == EXIT_USAGE
    assert "cannot write the corpus" in done.err.splitlines()[-1]
    assert done.json["runs"] == 8
    assert "saved_runs" not in done.json
