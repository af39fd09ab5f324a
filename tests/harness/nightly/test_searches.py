"""Searches of a night: they go on from slice to slice, and when the night was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.errors import UsageError
from harness.explore.search import CUT_FROM
from harness.nightly import ledger
from harness.nightly.entries import Explore
from harness.nightly.ledger import Ledger, Night
from harness.nightly.searches import APART, FAR, Searching, Stored
from harness.processes.crew import Local
from harness.sessions.plan import Plan
from harness.sessions.simulated import SimRun, simulate
from harness.sessions.swarm import draw
from harness.spec import RunSpec
from harness.store.folder import RunDir, Store
from harness.verdict import EXIT_INVALID, EXIT_VALID
from krucible.app import main

PLAN = """
budget = "{budget}"
jobs = 2
[on-failure]
shrink = "5s"
kept = 2
[[explore]]
name = "search"
twice = 0.3
voters = {voters}
observers = 0
workload = "register"
time-limit = 2
rate = 20
concurrency = 1
{more}
"""
SHORT = Explore(
    name="a",
    twice=0.0,
    voters=1,
    observers=0,
    workload="register",
    nemesis=("none",),
    time_limit=1,
    rate=5,
)


def searching(folder: Path, night: Night, wanted: Explore = SHORT, jobs: int = 2) -> Searching:
    return Searching("explore:a", wanted, night, folder, Stored(Store(folder), 2), Local(jobs))


def begun(folder: Path) -> Ledger:
    book = Ledger(folder)
    book.add({"t": "begin", "plan": "p", "at": "now", "first_seed": 7})
    return book


def bytes_of(folder: Path) -> dict[int, str]:
    """The bytes of each run that a ledger knows."""
    lines = map(msgspec.json.decode, (folder / "ledger.jsonl").read_bytes().splitlines())
    return {line["seed"]: line["sha256"] for line in lines if line["t"] == "seed"}


def test_a_search_goes_on_from_slice_to_slice_and_after_a_kill(tmp_path: Path) -> None:
    """Slices in one piece, and cut into pieces after any line: the same runs, each once."""
    folders = [tmp_path / name for name in ("whole", "pieces")]
    for folder in folders:
        folder.mkdir()
    book = begun(folders[0])
    its = searching(folders[0], book.night)
    for _ in range(2):
        for line in its.slice(0):
            book.add(line)
    its.close()
    book.close()
    book = begun(folders[1])
    for most in (3, 9, 99):
        its, left = searching(folders[1], book.night, jobs=1), most
        while left and len(book.night.seeds.get("explore:a", ())) < 16:
            slice_ = its.slice(0)
            for line in slice_:
                book.add(line)
                left -= 1
                if not left:
                    break
            slice_.close()
        its.close()
    book.close()
    assert len(bytes_of(folders[0])) == 16
    assert bytes_of(folders[0]) == bytes_of(folders[1])
    assert book.night.histories == 16
    assert ledger.read(folders[1]).features.keys() == ledger.read(folders[0]).features.keys()
    assert book.night.features


def test_a_changed_run_in_which_too_little_happened_is_no_failure(tmp_path: Path) -> None:
    """A whole seed is one: so much is drawn for it that something has to happen."""
    idle = msgspec.structs.replace(SHORT, workload="isr", voters=3, observers=3, rate=2)
    book = begun(tmp_path)
    its = searching(tmp_path, book.night, idle)
    tentative = {step.number for step in its._memory.left if step.tentative}
    for line in its.slice(0):
        book.add(line)
        if line["t"] == "seed" and line["verdict"] != "valid":
            is_tentative = line["seed"] in tentative
            assert line["verdict"] == ("undecided" if is_tentative else "unknown")
            assert not (is_tentative and "store" in line)
    its.close()
    book.close()
    verdicts = book.night.verdicts["explore:a"]
    assert verdicts["undecided"] > 0
    assert sum(failing.times for failing in book.night.failing.values()) == verdicts["unknown"]


def test_its_fresh_seeds_are_others_than_those_of_the_swarm(tmp_path: Path) -> None:
    """Else the first of them would be simulated twice in one night."""
    book = begun(tmp_path)
    its = searching(tmp_path, book.night)
    steps = its._memory.left
    its.close()
    book.close()
    whole = iter(range(7 + APART, 7 + APART + len(steps)))
    assert [step.candidate.spec.seed for step in steps] == [
        7 + APART + CUT_FROM + step.number if step.tentative else next(whole) for step in steps
    ]


def test_a_seed_that_does_not_go_with_the_plan_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one is drawn in its place; when none goes with it, the plan is at fault."""
    second = 7 + APART + CUT_FROM + 1
    refused = {second}

    def choosy(seed: int, pinned: Any) -> RunSpec:
        if seed in refused or -1 in refused:
            raise UsageError("these options do not go together")
        return draw(seed, pinned)

    monkeypatch.setattr("harness.nightly.searches.draw", choosy)
    book = begun(tmp_path)
    its = searching(tmp_path, book.night)
    seeds = [step.candidate.spec.seed for step in its._memory.left]
    assert seeds[:3] == [second - 1, second + FAR, second + 1]
    its.close()
    refused.add(-1)
    with pytest.raises(UsageError, match="do not go together"):
        searching(tmp_path, book.night)
    book.close()


def test_a_run_that_ends_its_process_is_one_broken_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is stored, and the search goes on."""

    def deadly(plan: Plan) -> SimRun:
        if plan.spec.seed == deadly_seed:
            os.kill(os.getpid(), signal.SIGKILL)
        return simulate(plan)

    monkeypatch.setattr("harness.nightly.searches.simulate", deadly)
    book = begun(tmp_path)
    its = searching(tmp_path, book.night)
    deadly_seed = its._memory.left[2].candidate.spec.seed
    for line in its.slice(0):
        book.add(line)
    its.close()
    book.close()
    (failing,) = book.night.failing.values()
    assert (failing.first_seed, failing.times, len(failing.runs)) == (2, 1, 1)
    assert book.night.broken == ["explore:a, run 2: its process was killed by signal 9"]
    assert book.night.histories == 8


def night(path: Path, store: Path, capfd: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    """Run the command; its exit code and what it printed."""
    with pytest.raises(SystemExit) as left:
        main(["nightly", "--plan", str(path), "--store", str(store), "--seed", "1", "--json"])
    told: dict[str, Any] = msgspec.json.decode(capfd.readouterr().out.splitlines()[-1])
    assert isinstance(left.value.code, int)
    return left.value.code, told


def test_failures_of_a_search_are_stored_run_again_and_shrunk(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """As those of seeds, and no more of them than the plan wants."""
    path, store = tmp_path / "plan.toml", tmp_path / "store"
    path.write_text(PLAN.format(budget="3s", voters=3, more='mutant = "ack-before-commit"'))
    code, told = night(path, store, capfd)
    assert code == EXIT_INVALID, told["reasons"]
    failing = told["failing"][0]
    assert failing["entry"] == "explore:search"
    assert failing["reproduced"] == [2, 2]
    assert 0 < len(failing["runs"]) <= 2
    origin = RunDir(Path(failing["runs"][0])).read_origin()
    assert origin.by == "explore"
    assert (Path(failing["shrunk"]) / "schedule.jsonl").is_file()
    assert any("broken (" in reason and ", run" in reason for reason in told["reasons"]), told
    page = Path(told["report"]).read_text()
    assert "explore:search" in page


def test_a_night_that_is_killed_goes_on_with_its_search(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """SIGKILL in the midst: what was judged stays judged, and no run is judged twice."""
    path, store = tmp_path / "plan.toml", tmp_path / "store"
    path.write_text(PLAN.format(budget="4s", voters=1, more='nemesis = ["none"]'))
    command = [sys.executable, "-c", "from krucible.app import main; main()", "nightly", "--plan"]
    process = subprocess.Popen(
        [*command, str(path), "--store", str(store), "--seed", "1", "--json"],
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline_s, found = time.monotonic() + 60, list[Path]()
    while time.monotonic() < deadline_s:
        found = list(store.glob("nights/*/ledger.jsonl"))
        if found and b'"t":"seed"' in found[0].read_bytes():
            break
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    before = ledger.read(found[0].parent).seeds["explore:search"]
    code, told = night(path, store, capfd)
    assert (code, told["resumed"]) == (EXIT_VALID, 1), told["reasons"]
    lines = [msgspec.json.decode(line) for line in found[0].read_bytes().splitlines()]
    judged = [line["seed"] for line in lines if line["t"] == "seed"]
    assert before
    assert before <= set(judged)
    assert len(judged) == len(set(judged)) == told["histories"]
