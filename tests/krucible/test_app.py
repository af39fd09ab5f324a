"""The command line: help, mistakes in one line, lists, host commands."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from harness.catalogue import meanings, place
from harness.errors import EnvError
from harness.healing.heal import Leftover
from harness.processes.command import PARENT
from harness.processes.python import module_argv
from harness.verdict import EXIT_HARNESS, EXIT_USAGE
from krucible import app as app_module
from krucible.app import GROUPS, VERBS
from krucible.commands import heal as heal_module
from krucible.console import plain_table
from krucible.program import program
from tests.support.commands.command import krucible

PLUGINS = ("systems", "environments", "workloads", "nemeses", "checkers", "models", "mutants")
KINDS = (*PLUGINS, "invariants")
START_S = 0.15  # of Python itself, which is not ours to quieten


# --------------------------------------------------------------------------- help


def test_the_help_lists_verbs_by_what_they_are_for() -> None:
    text = krucible("--help").out
    places = [text.index(f"\n{group}:\n") for group in ("Run", "Judge", "Report", "Host")]
    assert places == sorted(places)
    for group, verbs in GROUPS.items():
        section = text.split(f"\n{group}:\n")[1].split("\n\n")[0]
        listed = re.findall(r"^  (\w+) ", section, re.MULTILINE)
        assert listed == list(verbs)


@pytest.mark.parametrize("verb", VERBS)
def test_help_says_what_to_write_and_not_a_type(verb: str) -> None:
    text = krucible(verb, "--help").out
    assert not re.findall(r"--\S+ <[a-z ]+>|<=x|(if|when) not given", text)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("krucible shr", {"shrink"}),
        ("krucible run --workload regis", {"register"}),
        ("krucible run --nemesis kill,partition-h", {"kill,partition-halves"}),
        ("krucible sim --mutant forgotten-v", {"forgotten-vote"}),
    ],
)
def test_a_shell_completes_verbs_and_names(line: str, found: set[str]) -> None:
    words = {
        "COMP_WORDS": line,
        "COMP_CWORD": str(line.count(" ")),
        "_KRUCIBLE_COMPLETE": "complete_bash",
    }
    done = subprocess.run(
        module_argv("krucible"),
        env={**os.environ, **words},
        capture_output=True,
        text=True,
        check=False,
    )
    assert set(done.stdout.split()) == found


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example_and_json(verb: str) -> None:
    ended = krucible(verb, "--help")
    assert ended.code == 0
    assert f"Usage: krucible {verb}" in ended.out
    assert f"Example: krucible {verb}" in ended.out
    assert "--json" in ended.out
    assert not ended.err
    assert krucible(verb, "-h") == ended


def test_without_a_verb_comes_the_help() -> None:
    ended = krucible()
    assert ended.code == 0
    assert all(f"  {verb} " in ended.out for verb in VERBS)
    assert krucible("--help").out.split() == ended.out.split()


def test_the_version() -> None:
    ended = krucible("--version")
    assert (ended.code, ended.out) == (0, "krucible 0.1.0\n")


def test_help_loads_no_plugins_so_that_it_is_quick() -> None:
    code = (
        "import sys\n"
        "from krucible.app import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'networkx', 'kio', 'docker', 'paramiko', 'jinja2', 'checkers', 'node'}\n"
        "heavy |= {'prometheus_client', 'opentelemetry'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"


def test_a_command_that_outlived_who_began_it_ends_before_it_does_anything() -> None:
    """Whoever begins it as a ``Program`` names itself; here that one is already gone."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    environ = {**os.environ, PARENT: str(gone.pid)}
    done = subprocess.run(
        [*program().argv, "list"], env=environ, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (EXIT_HARNESS, "", "")


def test_the_program_answers_with_what_its_verb_prints() -> None:
    answer = program().run(["zoo", "--only", "no-such-bug"], 60.0)
    assert answer.code == EXIT_USAGE
    assert "no-such-bug" in (answer.broken or "")


# --------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("chek", "No such command 'chek'. Did you mean 'check'? (see 'krucible --help')"),
        ("--bogus", "No such option: --bogus"),
        ("run --sed 3", "No such option: --sed (Possible options: --seed"),
        ("run --observers -1", "'--observers'"),
        ("run --concurrency 0", "'--concurrency'"),
        ("run --rate -1", "'--rate'"),
        ("run --rate nan", "'--rate'"),
        ("run --time-limit 0", "'--time-limit'"),
        ("run --voters x", "'--voters': 'x': want a whole number from 1 to 7, as in 1"),
        ("run --voters 9", "'--voters': 9: want a whole number from 1 to 7"),
        ("run --time-limit x", "'--time-limit': 'x': want a time from 1s to 24h, as in 30s; units"),
        ("run --time-limit 0", "'0': want a time from 1s to 24h"),
        ("run --time-limit 2d", "'2d': want a time from 1s to 24h"),
        ("run --rate fast", "'--rate': 'fast': want a number from 0 to 100000, as in 1"),
        ("run --rate nan", "'--rate': 'nan': want a number from 0 to 100000, as in 1"),
        ("run --rate -1", "'--rate': -1: want a number from 0 to 100000"),
        ("shrink latest --budget soon", "'soon': want a time from 0s to 24h"),
        ("nightly --budget soon", "'soon': want a time from 1s to 720h"),
        ("zoo --budget 0", "'0': want a time from 0.1s to 24h"),
        ("check x --memory-limit 1", "'--memory-limit': 1: want a whole number of 64 or more"),
        ("run --seed -1", "'--seed': -1: want a whole number from 0 to 9223372036854775807"),
        ("run --seed 9223372036854775808", "'--seed'"),
        ("run --voters", "--voters"),
        ("run stray", "unexpected extra argument"),
        ("run --system krafft", "no system is called 'krafft': did you mean 'kraft' or"),
        ("run --env locl", "no environment is called 'locl': did you mean 'local'?"),
        ("run --workload registr", "no workload is called 'registr': did you mean 'register'"),
        ("run --nemesis kil", "no nemesis is called 'kil': did you mean 'kill'?"),
        ("run --nemesis none,kill", "nemesis 'none' goes with nothing else"),
        ("run --nemesis ,", "--nemesis ',': want names or families"),
        ("run --mutant forgoten-vote", "did you mean 'forgotten-vote'"),
        ("run --mutant zzzz", "no mutant is called 'zzzz': there are: "),
        ("run --system atom --mutant x", "system 'atom' has no mutants"),
        ("run --set colour", "--set 'colour': want KEY=VALUE"),
        ("run --set =red", "--set '=red': want KEY=VALUE"),
        ("run --set a=1 --set a=2", "--set a: given twice"),
        ("run --set read.barier=true", "did you mean 'read.barrier'?"),
        ("run --set read.barrier=maybe", "read.barrier"),
        ("run --set node.id=3", "--set node.id: the harness sets it"),
        ("run --system atom --set atom.bug=x", "atom.bug is 'x', want one of: none, stale-read"),
        ("run --system atom --set atom.bug-rate=2", "want a number from 0 to 1"),
        ("run --system atom --set colour=red", "unknown settings ['colour']"),
        ("run --workload observers --observers 0", "needs a client on a broker"),
        ("check", "Missing argument"),
        ("check x --format yaml", "no history format is called 'yaml': there are: auto"),
        ("check x --model registr", "no model is called 'registr': did you mean 'register'"),
        ("check x --time-limit 0", "'--time-limit'"),
        ("repro latest --times 0", "'--times'"),
        ("repro latest --store no-such-store", "there is no run yet; `krucible run` makes one"),
        ("repro x7 --store no-such-store", "has the id or name 'x7'"),
        ("report latest --store no-such-store", "there is no run yet"),
        ("list nemesis", "no list is called 'nemesis': did you mean 'nemeses'?"),
        ("doctor now", "unexpected extra argument"),
    ],
)
def test_a_mistake_is_one_line_and_254(
    line: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = krucible(*line.split())
    assert ended.code == 254
    assert says in ended.complaint
    assert not list(tmp_path.iterdir())  # nothing was begun


def test_a_store_that_cannot_be_written_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ended = krucible("run", "--system", "atom", "--store", tmp_path / "file" / "store")
    assert ended.code == 254
    assert "choose a writable --store" in ended.complaint


def _verb_that(raises: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def heal_all() -> list[Leftover]:
        raise raises

    monkeypatch.setattr(heal_module, "heal_all", heal_all)


def test_a_harness_that_breaks_is_255(monkeypatch: pytest.MonkeyPatch) -> None:
    _verb_that(EnvError("no /proc here:\n  mount it"), monkeypatch)
    ended = krucible("heal")
    assert (ended.code, ended.complaint) == (255, "no /proc here: mount it")


def test_a_host_that_refuses_is_255_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    _verb_that(PermissionError(13, "Permission denied", "/var/x"), monkeypatch)
    ended = krucible("heal")
    assert ended.code == 255
    assert "Permission denied: '/var/x'" in ended.complaint


def test_a_bug_of_ours_is_255_with_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    _verb_that(ZeroDivisionError("oops"), monkeypatch)
    ended = krucible("heal")
    assert ended.code == 255
    assert "Traceback" in ended.err
    assert ended.err.splitlines()[-1].startswith("krucible: this is a bug of krucible")


def test_ctrl_c_is_130_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    _verb_that(KeyboardInterrupt(), monkeypatch)
    ended = krucible("heal")
    assert (ended.code, ended.complaint) == (130, "interrupted")


def test_sigterm_is_handled_only_while_a_verb_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    import signal  # noqa: PLC0415 - only here

    before = signal.getsignal(signal.SIGTERM)
    during: list[Any] = []

    def heal_all() -> list[Leftover]:
        during.append(signal.getsignal(signal.SIGTERM))
        signal.raise_signal(signal.SIGTERM)
        return []

    monkeypatch.setattr(heal_module, "heal_all", heal_all)
    assert krucible("heal").code == 130
    assert during != [before]
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    read, write = os.pipe()
    os.close(read)
    argv = [sys.executable, "-c", "from krucible.app import main; main(['list', 'models'])"]
    with os.fdopen(write, "wb") as gone:
        done = subprocess.run(argv, stdout=gone, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (app_module.EXIT_PIPE, "")


# --------------------------------------------------------------------------- list, doctor, heal


@pytest.mark.parametrize("kind", KINDS)
def test_a_list_is_objects_with_names(kind: str) -> None:
    rows = krucible("list", kind, "--json").json
    names = [row["name"] for row in rows]
    assert names
    assert names == sorted(set(names), key=None if kind != "invariants" else list(meanings()).index)
    assert all(row["description"] for row in rows)


def test_lists_name_what_is_there() -> None:
    everything = krucible("list", "--json").json
    assert tuple(everything) == KINDS
    for kind, found in everything.items():
        assert krucible("list", kind, "--json").json == found
        listed = [row["name"] for row in found]
        if kind == "invariants":  # what checkers judge, and then what only models do
            listed = listed[: listed.index("linearizability")]
        assert listed == sorted(set(listed), key=place if kind == "invariants" else None) != []
        assert all(row["description"] for row in found)
    names = {kind: [row["name"] for row in rows] for kind, rows in everything.items()}
    assert {"atom", "kraft"} <= set(names["systems"])
    assert {"register", "cas-register", "kv-append"} <= set(names["models"])
    assert {"kill", "pause"} <= set(names["nemeses"])
    assert all(row["family"] for row in everything["nemeses"])
    assert all(row["breaks"] and row["system"] for row in everything["mutants"])


def test_a_list_of_invariants_has_their_titles_and_promises() -> None:
    rows = {row["name"]: row for row in krucible("list", "invariants", "--json").json}
    assert rows["S3"]["title"] == "vote durability"
    lines = krucible("list", "invariants").out.splitlines()
    assert len(lines) == 1 + len(rows)
    found = next(line for line in lines if line.split()[1] == "S3")
    assert found.endswith(f"vote durability: {rows['S3']['description']}")
    crash = next(line for line in lines if line.split()[1] == "crash")
    assert crash.endswith(f" {rows['crash']['description']}")


def test_a_list_for_people_has_a_line_for_each() -> None:
    rows = krucible("list", "models", "--json").json
    lines = krucible("list", "models").out.splitlines()
    assert lines[0].split() == ["kind", "name", "what", "it", "does"]
    assert [line.split()[1] for line in lines[1:]] == [row["name"] for row in rows]
    assert "[old new]" in "".join(lines)  # brackets are not markup


def test_plain_tables_are_aligned() -> None:
    text = plain_table(("a", "b"), [("1", "x"), ("long", "y\nz")])
    assert text == "a     b\n1     x\nlong  y z\n"


def test_doctor_lists_findings_and_exits_by_them(monkeypatch: pytest.MonkeyPatch) -> None:
    from krucible.commands import doctor as doctor_module  # noqa: PLC0415 - patched here only
    from krucible.doctor.finding import Finding  # noqa: PLC0415

    findings = [Finding("cores", "ok", "2"), Finding("java", "warn", "none", "install one")]
    monkeypatch.setattr(doctor_module, "examine", lambda: findings)
    ended = krucible("doctor", "--json")
    assert ended.code == 0
    assert ended.json == [json.loads(json.dumps(f.to_json())) for f in findings]
    assert "java   warn    none   install one" in krucible("doctor").out
    findings.append(Finding("processes", "bad", "no /proc", "mount it"))
    assert krucible("doctor").code == 255


def test_heal_says_what_it_did(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Leftover] = []
    monkeypatch.setattr(heal_module, "heal_all", lambda: found)
    assert krucible("heal").out == "nothing to heal\n"
    found.append(Leftover("r1", "process", {"pid": 7}, "killed", done=True))
    ended = krucible("heal")
    assert (ended.code, ended.out) == (0, "r1: process (pid 7): healed: killed\n")
    assert krucible("heal", "--json").json[0]["run"] == "r1"
    found.append(Leftover("r1", "relay", {"pid": 8}, "not permitted", done=False))
    ended = krucible("heal")
    assert ended.code == 255
    assert "STILL THERE: not permitted" in ended.out


@pytest.mark.parametrize("command", ["list mutants", "run --help", "sim --seeds 1..9 --jobs 2"])
def test_ctrl_c_is_quiet_at_any_moment(command: str, tmp_path: Path) -> None:
    """Also while Python is still importing, and while it ends."""
    argv = [*module_argv("krucible"), *command.split()]
    began_s = time.monotonic()
    subprocess.run([*argv[:4], "list"], cwd=tmp_path, capture_output=True, check=True)
    usual_s = time.monotonic() - began_s
    moments_s = [START_S + usual_s * part / 8 for part in (1, 5, 9)]
    codes: set[int] = set()
    while moments_s:
        wait_s = moments_s.pop()
        process = subprocess.Popen(
            argv,
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        with suppress(subprocess.TimeoutExpired):
            process.wait(wait_s)
        with suppress(ProcessLookupError):  # it has ended
            os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=60)
        codes.add(process.returncode)
        assert "Traceback" not in err, err
        if not moments_s and codes == {0} and wait_s > START_S:
            moments_s = [wait_s * 0.8]  # the one to compare with was slow: it always came too late
    assert codes <= {0, 130, -signal.SIGINT}
    assert codes & {130, -signal.SIGINT}
