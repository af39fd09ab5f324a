"""Bugs of releases in processes: the commands that are run, and what their answers mean."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from harness.contracts.released import ReleasedBug
from harness.processes.command import Program
from harness.sessions.released.chase import chase
from harness.sessions.released.live import player, run_words
from harness.sessions.released.quarry import LIVE_ARM, Quarry
from harness.systems.kafka.releases import VERSION

BUG = ReleasedBug(
    name="bug",
    source="a test",
    affected="4.0.2",
    fixed="4.1.2",
    breaks=("L10",),
    live={"workload": "brokers", "observers": 0, "nemeses": ("kill",), "settings": {"a.b": "1"}},
)
# A command line that says what it was asked, and that the affected release broke something.
SAYS = """
import json, sys
words = sys.argv[1:]
open({file!r}, "a").write(json.dumps(words) + "\\n")
broke = "{version}=4.0.2" in words
anomalies = [{{"invariant": "L10", "message": "was refused"}}] if broke else []
print(json.dumps({{"anomalies": anomalies, "harness_error": None}}))
sys.exit(1 if broke else 0)
"""


def test_both_releases_have_the_same_run(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    code = SAYS.format(file=str(asked), version=VERSION)
    play = player(Program((sys.executable, "-c", code)), tmp_path / "store")
    (told,) = chase(Quarry("kafka", BUG), 60, play, LIVE_ARM)
    assert (told.arm, told.caught_by, told.seed) == (LIVE_ARM, ["L10"], 1)
    assert (told.said, told.alarms, told.broken) == ("was refused", {}, {})
    first, second = map(json.loads, asked.read_text().splitlines())
    assert [w for w in first if w not in second] == [f"{VERSION}=4.0.2"]
    assert [w for w in second if w not in first] == [f"{VERSION}=4.1.2"]
    assert first[:3] == ["run", "--seed", "1"]
    assert "a.b=1" in first


def test_what_names_a_bug_in_processes_may_be_another_invariant(tmp_path: Path) -> None:
    code = SAYS.format(file=str(tmp_path / "asked"), version=VERSION)
    play = player(Program((sys.executable, "-c", code)), tmp_path / "store")
    other = Quarry("kafka", replace(BUG, breaks=("L8",), live_breaks=("L10",)))
    (told,) = chase(other, 60, play, LIVE_ARM)
    assert told.caught_by == ["L10"]


def test_a_run_that_breaks_costs_no_other(tmp_path: Path) -> None:
    quarry = Quarry("kafka", replace(BUG, live={"time_limit_s": 1.0}))
    play = player(Program((sys.executable, "-c", "import sys; sys.exit('no Java')")), tmp_path)
    run, reason = play(quarry, 1, "4.0.2")
    assert run is None
    assert reason is not None
    assert "no Java" in reason


@pytest.mark.parametrize("nemeses", [(), ("kill", "pause")])
def test_words_of_a_run_name_all_faults(nemeses: tuple[str, ...], tmp_path: Path) -> None:
    spec = replace(Quarry("kafka", BUG).live_spec(1, "4.0.2"), nemeses=nemeses)
    words = run_words(spec, tmp_path)
    assert words[words.index("--nemesis") + 1] == (",".join(nemeses) or "none")
