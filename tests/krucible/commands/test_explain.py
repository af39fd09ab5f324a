"""``krucible explain``: all that the catalogue has of an invariant, to be read at 80 columns."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

from harness import catalogue
from krucible.commands import explain as explain_module
from krucible.commands.explain import rows
from tests.support.commands.command import krucible


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("name", catalogue.meanings())
def test_it_says_all_that_is_known_plainly_and_within_80_columns(name: str) -> None:
    ended = krucible("explain", name)
    assert ended.code == 0
    assert not ended.err
    entry = catalogue.entry(name)
    lines = ended.out.splitlines()
    assert lines[0] == entry.meaning.full_name
    assert max(map(len, lines)) <= 80
    assert not any(line != line.rstrip() or "\x1b" in line for line in lines)
    told = words(ended.out)
    for label, text in rows(entry):
        assert f"{label} {words(text)}" in told


def test_it_names_the_checker_and_the_bugs() -> None:
    told = words(krucible("explain", "S3").out)
    assert "judged by checker consensus" in told
    assert "broken by the seeded bug forgotten-vote: After a restart" in told
    assert "see it krucible zoo --only forgotten-vote --arm directed" in told
    assert "and by ignored-quorum-state, revoked-vote" in told


def test_the_command_that_it_names_shows_the_bug(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    argv = dict(rows(catalogue.entry("S3")))["see it"].split()
    ended = krucible(*argv[1:], "--json")
    assert (argv[0], ended.code) == ("krucible", 0)
    (hunt,) = (json.loads(line) for line in ended.out.splitlines()[:1])
    assert hunt["mutant"] == "forgotten-vote"
    assert hunt["caught"]


def test_it_says_when_no_bug_breaks_one_and_as_what_one_is_found() -> None:
    entries = catalogue.entries()
    without = next(name for name, entry in entries.items() if not entry.bugs)
    assert "broken by no seeded bug yet" in words(krucible("explain", without).out)
    assert "judged by checkers observers, reads, as C8" in words(krucible("explain", "C9").out)


def test_several_are_explained_one_after_the_other_each_once() -> None:
    ended = krucible("explain", "l8", "S3", "S3", "s3")
    assert ended.out == "\n".join(krucible("explain", name).out for name in ("L8", "S3"))


def test_json_has_the_whole_entry() -> None:
    (entry,) = krucible("explain", "S3", "--json").json
    assert entry["meaning"]["name"] == "S3"
    assert entry["meaning"]["why"]
    assert entry["checkers"] == ["consensus"]
    assert entry["bugs"][0]["name"] == "forgotten-vote"


def test_an_unknown_name_says_which_there_are() -> None:
    ended = krucible("explain", "S99")
    assert ended.code == 254
    assert "no invariant is called 'S99': there are S1 to S38, C1 to C19" in ended.complaint


@pytest.mark.parametrize("width", [30, 80, 200])
def test_on_a_terminal_it_has_colours_and_fits(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()

    def out() -> Console:
        return Console(file=shown, force_terminal=True, width=width, highlight=False)

    monkeypatch.setattr(explain_module, "out", out)
    assert not krucible("explain", "S31").out
    text = shown.getvalue()
    assert "\x1b[1mS31 epoch fencing\x1b[0m" in text
    lines = [Text.from_ansi(line).plain for line in text.splitlines()]
    assert max(map(len, lines)) <= min(max(width, 32), 80)
