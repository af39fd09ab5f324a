"""The documentation: made pages are up to date, links lead somewhere, examples work."""

from __future__ import annotations

import ast
import importlib
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.systems.kafka import bugs
from harness.systems.kafka.known import known_of
from harness.systems.kafka.mixed import OF_MIXTURES
from harness.systems.kafka.releases import Release
from krucible.app import VERBS
from krucible.commands.listing import PLUGINS, rows
from node import mutants
from node.catalogue.impossible import PENDING, ROWS
from node.catalogue.rows import NAMES, row_of
from tests.support.commands.command import krucible
from tests.support.commands.source import tracked
from tests.support.pages.design import design_page
from tests.support.pages.docs import cli_page, plugins_page
from tests.support.pages.invariants import invariants_page
from tests.support.pages.nemeses import nemeses_page
from tests.support.pages.pipeline import pipeline_page
from tests.support.pages.releases import chases, key, releases_page
from tests.support.pages.zoo import hunts, readme_page, zoo_page
from tests.support.places import ROOT

PAGES = {
    "docs/cli.md": cli_page,
    "docs/design.md": design_page,
    "docs/invariants.md": invariants_page,
    "docs/nemeses.md": nemeses_page,
    "docs/pipeline.md": pipeline_page,
    "docs/plugins.md": plugins_page,
    "docs/releases.md": releases_page,
    "docs/zoo.md": zoo_page,
    "README.md": readme_page,
}
TEXTS = [path for path in tracked() if path.suffix == ".md"]
FOLDERS = {top for path in tracked() if (top := path.relative_to(ROOT).parts[0]) != path.name}
IDS = [str(path.relative_to(ROOT)) for path in TEXTS]
LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)")
IMAGE = re.compile(r"!\[[^\]\n]*\]\(([^)\s]+)\)")
COMMAND = re.compile(r"(?:^|`)[ $]*(krucible [a-z][^`\n#]*)", re.MULTILINE)
BENCH = re.compile(r"python (bench/\w+\.py)([^`\n#|]*)")
PLACE = re.compile(r"(?<![\w./~-])((?:{})/[\w./*-]+)".format("|".join(sorted(FOLDERS))))
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@pytest.mark.parametrize(("name", "make"), PAGES.items(), ids=list(PAGES))
def test_made_pages_are_up_to_date(name: str, make: Callable[[], str], rewrite: bool) -> None:
    path = ROOT / name
    if rewrite:
        path.write_text(make(), encoding="utf-8")
    assert path.read_text(encoding="utf-8") == make(), (
        "run pytest tests/house/test_docs.py --rewrite"
    )


def test_every_command_and_plugin_is_documented() -> None:
    cli = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
    for verb in VERBS:
        assert f"## krucible {verb}\n" in cli
        assert f"Example: `krucible {verb}" in cli
    plugins = (ROOT / "docs/plugins.md").read_text(encoding="utf-8")
    for kind in PLUGINS:
        assert f"## {kind}\n" in plugins
        assert all(f"| `{row['name']}` |" in plugins for row in rows(kind))


def test_what_kafka_is_known_to_do_is_told_where_it_says() -> None:
    for each in (*known_of([Release("3.7.2"), Release("4.4.0")]), *OF_MIXTURES):
        page, name = each.finding.split(", ", 1)
        text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
        assert re.search(rf"(?:\*|#) ?{re.escape(name)}", text, re.IGNORECASE), each.finding


def test_every_seeded_bug_was_caught_in_its_scenario() -> None:
    """As docs/zoo.jsonl has it, which a new one is added to by ``krucible zoo --only``."""
    found = hunts()
    caught = {name for (name, arm), hunt in found.items() if arm == "directed" and hunt["caught"]}
    missing = sorted(set(mutants.load()) - caught)

    assert not missing, "krucible zoo --arm directed --only NAME --json >> docs/zoo.jsonl"


def test_every_bug_of_a_release_was_hunted_and_the_fixed_release_had_no_alarm() -> None:
    """As docs/releases.jsonl has it, which ``krucible zoo --arm releases`` printed."""
    found = chases()
    hunted = [bug for bug in bugs.load() if bug.is_hunted]
    asked = "krucible zoo --arm releases --only NAME --json >> docs/releases.jsonl"

    assert not [bug.name for bug in hunted if key(bug) not in found], asked
    for bug in hunted:
        told = found[key(bug)]
        assert not told["alarms"], bug.name
        assert told["caught"] is not bool(bug.missed), f"{bug.name}: caught, or why not"


def test_every_row_of_the_catalogue_has_a_seeded_bug_or_a_reason_why_not() -> None:
    seeded = {row_of(mutant.source) for mutant in mutants.load().values()}
    reasons = {*ROWS, *PENDING}
    assert seeded - {None} | reasons == NAMES.keys()


def _anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as code hosts make them."""
    headings = HEADING.findall(path.read_text(encoding="utf-8"))
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in kept}


@pytest.mark.parametrize("path", TEXTS, ids=IDS)
def test_links_lead_to_files_that_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for target in (*LINK.findall(text), *IMAGE.findall(text)):
        if re.match(r"[a-z]+:", target):
            assert target.startswith(("https://", "mailto:")), target
            continue
        name, _, anchor = target.partition("#")
        linked = (path.parent / name).resolve() if name else path
        assert linked.exists(), f"{target} leads nowhere"
        assert linked.is_relative_to(ROOT)
        if anchor and linked.suffix == ".md":
            assert anchor in _anchors(linked), f"{target} names no heading"


@pytest.mark.parametrize("path", TEXTS, ids=IDS)
def test_command_lines_in_the_text_have_options_that_exist(path: Path) -> None:
    for line in COMMAND.findall(path.read_text(encoding="utf-8")):
        words = shlex.split(re.sub(r"[\[\]|<>]", " ", line))[1:]
        if words[0] not in VERBS:
            continue
        text = " ".join(krucible(words[0], "--help").out.split())
        for option in (word.partition("=")[0] for word in words if word.startswith("--")):
            assert re.search(rf"{re.escape(option)}\b", text), f"{line!r}: no {option}"


def test_examples_of_the_help_are_understood() -> None:
    for verb in VERBS:
        text = " ".join(krucible(verb, "--help").out.split())
        example = text.rpartition("Example: ")[2].split()
        assert example[:2] == ["krucible", verb]
        # with a mistake at its end, the only complaint is about that
        ended = krucible(*example[1:], "--no-such-option")
        assert "No such option: --no-such-option" in ended.complaint


@pytest.mark.parametrize("path", TEXTS, ids=IDS)
def test_files_that_the_text_names_are_there(path: Path) -> None:
    for named in PLACE.findall(path.read_text(encoding="utf-8")):
        if Path(named).name == "__init__.py":
            continue  # said of those that must not be
        assert any(ROOT.glob(named.rstrip("./"))), f"{named} is not there"


@pytest.mark.parametrize("bench", sorted((ROOT / "bench").glob("*.py")), ids=lambda path: path.stem)
def test_a_bench_starts_and_has_the_options_that_are_told_of_it(
    bench: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In its docstring, and in every text that gives a command with it."""
    monkeypatch.setattr(sys, "argv", [bench.name, "--help"])
    with pytest.raises(SystemExit, match="0"):
        importlib.import_module(f"bench.{bench.stem}").main()
    known = set(re.findall(r"--[a-z][a-z-]*", capsys.readouterr().out))
    name = str(bench.relative_to(ROOT))
    usage = (ast.get_docstring(ast.parse(bench.read_text(encoding="utf-8"))) or "").split("\n\n")[1]
    assert f"python {name}" in usage
    told = [usage]
    for text in TEXTS:
        told += [rest for what, rest in BENCH.findall(text.read_text("utf-8")) if what == name]
    for options in told:
        assert set(re.findall(r"--[a-z][a-z-]*", options)) <= known, options
