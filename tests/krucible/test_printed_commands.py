"""Every command that a run, a report or a night prints does what it says, from any folder."""

from __future__ import annotations

import html
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import fromstring

import pytest

from harness.healing.journal import STATE_VARIABLE
from harness.store.folder import RunDir, Store
from harness.store.reading import load_results, load_spec
from krucible.program import typed
from tests.support.commands.process import COMMAND

KRUCIBLE = shlex.join(typed().argv)
PRINTED = re.compile(rf"{re.escape(KRUCIBLE)} .+")
COMMAND_OF_PAGE = re.compile(r"<code[^>]*>([^<]*krucible [^<]*)</code>")
SIM = (
    "sim --seed 3 --mutant forgotten-vote --nemesis kill --voters 1 --observers 0 --workload "
    "register --time-limit 6 --rate 5 --store mine --save"
)
ATOM = (
    "run --system atom --time-limit 1 --rate 400 --seed 3 --store mine "
    "--set atom.bug=lost-write --set atom.bug-rate=0.3"
)
PLAN = """
budget = "4s"
[on-failure]
shrink = "3s"
repro-times = 2
[[sim]]
name = "bug"
voters = 3
observers = 0
workload = "register"
time-limit = 6
mutant = "ack-before-commit"
[[canary]]
mutant = "forgotten-vote"
budget = "1s"
"""


@dataclass
class Folder:
    """A folder that commands are typed in, and one far from it."""

    path: Path
    said: str = field(default="")

    @property
    def store(self) -> Store:
        """The store that the first commands name by a relative path."""
        return Store(self.path / "here" / "mine")

    def call(self, words: str) -> str:
        """Run ``krucible`` with these words in the first folder; its standard output."""
        return self._do([*COMMAND, *shlex.split(words)], "here")

    def shell(self, line: str, *more: str) -> Any:
        """Type a printed line into a shell in the other folder; what it tells machines."""
        told = self._do(["sh", "-c", f"{line} {shlex.join(more)} --json"], "elsewhere")
        assert not (self.path / "elsewhere" / "store").exists(), f"not in its own store: {line}"
        return json.loads(told.splitlines()[-1])

    def _do(self, argv: Sequence[str], place: str) -> str:
        (self.path / place).mkdir(exist_ok=True)
        done = subprocess.run(
            argv,
            cwd=self.path / place,
            env={**os.environ, STATE_VARIABLE: str(self.path / "state")},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode in (0, 1), f"{argv}: {done.returncode}\n{done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """A store with a simulated and a live run of one seed."""
    made = Folder(tmp_path_factory.mktemp("printed commands"))  # a name to be quoted
    made.said = made.call(SIM) + made.call(ATOM)
    return made


def commands_of(page: Path) -> list[str]:
    """The commands of a page."""
    text = page.read_text(encoding="utf-8")
    return [html.unescape(found) for found in COMMAND_OF_PAGE.findall(text)]


def the_run(folder: Folder, by: str, env: str) -> RunDir:
    """The first run of the store that this command made in this environment."""
    return next(
        run
        for run in folder.store.runs()
        if run.read_origin().by == by and load_spec(run.spec).env == env
    )


def assert_replays(folder: Folder, line: str, of: RunDir) -> None:
    """The command replays this run and no other, and puts the replay into its store."""
    told = folder.shell(line)
    assert told["id"] == of.id
    assert 0 < told["reproduced"] <= told["times"]
    spec = load_spec(of.spec)
    assert told["same_as_before"] is (True if spec.env == "sim" and "--go-on" not in line else None)
    for path in map(Path, told["stores"]):
        assert path.is_relative_to(folder.store.root)
        assert RunDir(path).read_origin().of == of.id
        replayed = load_spec(path / "spec.json")
        assert (replayed.seed, replayed.env, replayed.mutant) == (spec.seed, spec.env, spec.mutant)
        assert path != of.path


def test_a_run_prints_how_to_bring_it_back_from_anywhere(folder: Folder) -> None:
    """A simulated and a live run of one seed are not mixed up."""
    again, longer, live = PRINTED.findall(folder.said)
    simulated = the_run(folder, "sim", "sim")
    assert_replays(folder, again, simulated)
    assert longer == f"{again} --go-on"
    assert_replays(folder, longer, simulated)
    assert_replays(folder, live, the_run(folder, "run", "local"))


def test_a_report_prints_commands_that_do_what_they_say(folder: Folder) -> None:
    simulated, live = the_run(folder, "sim", "sim"), the_run(folder, "run", "local")
    again, shrink = commands_of(simulated.report)
    assert_replays(folder, again, simulated)
    told = folder.shell(shrink, "--tries", "3", "--jobs", "1")
    assert told["reproduced"] is True
    smaller = RunDir(Path(told["store"]))
    assert str(smaller.read_origin()) == f"shrink of {simulated.id}"

    again, often, anew = commands_of(live.report)
    assert_replays(folder, again, live)
    assert often == f"{again} --times 10"
    assert_replays(folder, f"{again} --times 2", live)
    told = folder.shell(anew)
    new = RunDir(Path(told["store"]))
    assert load_spec(new.spec) == load_spec(live.spec)
    assert new.read_origin().by == "run"
    assert new.path.is_relative_to(folder.store.root)


def test_a_replay_and_a_shrunk_run_print_themselves_and_not_the_original(folder: Folder) -> None:
    simulated = the_run(folder, "sim", "sim")
    said = folder.call(f"repro {simulated.id} --store mine")
    replay = folder.store.resolve("latest")
    assert_replays(folder, PRINTED.findall(said)[0], replay)
    said = folder.call(f"shrink {simulated.id} --store mine --tries 3 --jobs 1")
    small = folder.store.resolve("latest")
    assert small.read_origin().by == "shrink"
    (line,) = PRINTED.findall(said)
    assert_replays(folder, line, small)
    assert commands_of(small.report)[0] == line


def test_many_seeds_print_how_to_bring_each_back(folder: Folder) -> None:
    said = folder.call(SIM.replace("--seed 3", "--seeds 3..4"))
    found = [line for line in said.splitlines() if line.startswith("seed ")]
    assert len(found) == 2
    for line in found:
        number = int(line.split(":")[0].removeprefix("seed "))
        (again,) = PRINTED.findall(line)
        told = folder.shell(again)
        run = folder.store.resolve(told["id"])
        assert run.seed == number
        assert told["same_as_before"] is True


def test_the_fleet_page_prints_commands_of_its_runs(folder: Folder) -> None:
    page = Path(folder.call("report mine").strip())
    found = commands_of(folder.path / "here" / page)
    assert found
    for line in found:
        again = shlex.split(line)
        run = folder.store.resolve(again[again.index("--store") - 1])
        if "repro" in again:
            assert_replays(folder, line, run)
        else:
            told = folder.shell(line, "--tries", "2", "--jobs", "1")
            assert str(RunDir(Path(told["store"])).read_origin()) == f"shrink of {run.id}"


def test_a_night_prints_commands_that_do_what_they_say(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "plan.toml").write_text(PLAN, encoding="utf-8")
    said = folder.call("nightly --plan plan.toml --store mine --seed 1")
    (night,) = (folder.store.root / "nights").iterdir()
    told = json.loads((night / "summary.json").read_bytes())
    texts = [each.text or "" for each in fromstring((night / "junit.xml").read_bytes()).iter()]
    printed = {
        line.partition("  #")[0] for text in (said, *texts) for line in PRINTED.findall(text)
    }
    printed |= set(commands_of(night / "fleet.html"))
    printed |= {canary["command"] for canary in told["canaries"].values()}
    verbs = {shlex.split(line)[len(typed().argv)] for line in printed}
    assert {"repro", "zoo"} <= verbs
    for line in printed:
        words = shlex.split(line)[len(typed().argv) :]
        if words[0] == "zoo":
            (hunt,) = folder.shell(line)["hunts"]
            assert (hunt["mutant"], hunt["caught"]) == ("forgotten-vote", True)
            continue
        run = folder.store.resolve(words[1])
        if words[0] == "repro":
            assert_replays(folder, line, run)
        else:
            assert words[0] == "shrink"
            told = folder.shell(line, "--tries", "2", "--jobs", "1")
            assert str(RunDir(Path(told["store"])).read_origin()) == f"shrink of {run.id}"


def test_a_run_copied_out_of_its_store_is_named_by_its_folder(
    folder: Folder, tmp_path: Path
) -> None:
    run = the_run(folder, "sim", "sim")
    copy = tmp_path / run.path.name
    subprocess.run(["cp", "-r", run.path, copy], check=True)
    folder.call(f"report {shlex.quote(str(copy))}")
    again = commands_of(copy / "report.html")[0]
    assert shlex.split(again)[-1] == str(copy)
    told = folder.shell(again, "--store", str(tmp_path / "store"))
    assert (told["id"], told["same_as_before"]) == (run.id, True)


def test_what_is_printed_is_typed_as_it_was_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its path, unless the shell finds this very script by its bare name."""
    script = tmp_path / "bin" / "krucible"
    script.parent.mkdir()
    script.write_text("")
    script.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["bin/krucible", "run"])
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    assert typed().line("repro", "a b") == f"{script} repro 'a b'"
    monkeypatch.setenv("PATH", str(script.parent))
    assert typed().line("repro", "a b") == "krucible repro 'a b'"
    other = tmp_path / "other" / "krucible"
    other.parent.mkdir()
    other.write_text("")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", f"{other.parent}:{script.parent}")
    assert typed().argv == (str(script),), "another krucible would be found"


def test_an_id_or_a_seed_that_is_not_found_is_an_error(folder: Folder) -> None:
    done = subprocess.run(
        [*COMMAND, "repro", "29923343000006"],
        cwd=folder.path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (254, "")
    assert "has the seed 29923343000006: the store is empty" in done.stderr
    assert "to simulate that seed: krucible repro --seed 29923343000006" in done.stderr
    assert not (folder.path / "store").exists()
    assert load_results(the_run(folder, "sim", "sim")) is not None
