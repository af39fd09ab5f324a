"""The head of a report: when, where and by which version it was made; from what it was shrunk."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from harness.spec import RunSpec
from harness.store.folder import Store
from harness.store.origin import Origin
from harness.store.provenance import commit_of, provenance
from reports.making import made
from reports.run_report import render_run
from tests.support.reports.runs import empty_run

BEGUN = datetime(2026, 1, 2, 12, 0, 0, 5000, tzinfo=UTC)
KEPT = {"faults": [2, 15], "ops": [40, 900], "nodes": [3, 5], "seconds": [2.5, 30.0]}


def test_the_head_says_when_where_and_by_which_version(tmp_path: Path) -> None:
    spec = RunSpec(seed=7, mutant="lost-append", nemeses=("a", "b"), asked=("all",))
    place = Store(tmp_path / "store", now=lambda: BEGUN).new_run(spec, Origin("run"))
    facts = dict(made(spec, {}, place).facts)
    assert facts["begun"] == "2026-01-02 12:00:00 UTC"
    assert facts["on"] == provenance().host
    assert facts["krucible"].startswith(provenance().version)
    assert (facts["environment"], facts["faults"]) == ("local", "all")
    assert facts["folder"] == str(place.path)
    html = render_run(replace(empty_run(), spec=spec), {}, place)
    assert "seeded bug: lost-append" in html
    assert provenance().host in html


def test_many_kinds_of_fault_are_counted() -> None:
    spec = RunSpec(seed=7, nemeses=tuple(f"kind-{n}" for n in range(24)))
    assert "kind-3" not in str(made(spec, {}, None))


def test_a_shrunk_run_says_of_what_it_is_left(tmp_path: Path) -> None:
    place = Store(tmp_path / "store").new_run(RunSpec(seed=7), Origin("shrink", "abc2345"))
    told = made(
        RunSpec(seed=7), {"shrunk": {"kept": KEPT, "story": ["n1 leads", "n2 dies"]}}, place
    )
    assert told.shrunk == (
        "Shrunk from abc2345: 2 of 15 faults, 40 of 900 ops, 3 of 5 nodes, 2.5 of 30 s"
    )
    assert told.story == ("n1 leads", "n2 dies")


def test_an_older_run_has_no_host_and_no_version(tmp_path: Path) -> None:
    spec = RunSpec(seed=7)
    place = Store(tmp_path / "store").new_run(spec)
    place.origin.write_text('{"by": "run", "of": null, "begun": "", "hosts": null}')
    assert {"on", "krucible", "begun"}.isdisjoint(dict(made(spec, {}, place).facts))


def test_the_commit_of_a_checkout(tmp_path: Path) -> None:
    assert commit_of(tmp_path) == ""
    git, commit = tmp_path / ".git", "ab" * 20
    (git / "refs/heads").mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "packed-refs").write_text(f"# pack-refs\n{commit} refs/heads/main\n")
    assert commit_of(tmp_path) == commit
    (git / "refs/heads/main").write_text("cd" * 20 + "\n")
    assert commit_of(tmp_path) == "cd" * 20
    (git / "HEAD").write_text(commit)
    assert commit_of(tmp_path) == commit
