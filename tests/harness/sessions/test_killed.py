"""A harness that is killed at any moment leaves a readable run, and nothing that heal misses."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from harness.history.ops import read_jsonl
from tests.support.commands.process import journals, marked
from tests.support.commands.victim import TITLE, Victim, kills, running

pytestmark = pytest.mark.slow

ALL_FAULTS = "all"
KILLS = kills(1)


@contextlib.contextmanager
def faulty(folder: Path, *, nemesis: str, time_limit: int, seed: int = 1) -> Iterator[Victim]:
    """A run of our own nodes, with an observer."""
    options = {"nemesis": nemesis, "time-limit": time_limit, "seed": seed}
    with running(folder, {**options, "rate": 150, "observers": 1}) as victim:
        yield victim


@pytest.mark.parametrize(
    ("nemesis", "time_limit", "moment"),
    [
        ("none", 5, TITLE),
        ("pause", 5, "pause installed"),
        ("partition-halves", 5, "partition-halves installed"),
        ("none", 1, "phase close"),
    ],
    ids=["setup", "pause", "partition", "teardown"],
)
def test_killed_at_a_delicate_moment(
    tmp_path: Path, nemesis: str, time_limit: int, moment: str
) -> None:
    with faulty(tmp_path, nemesis=nemesis, time_limit=time_limit) as victim:
        victim.until_said(moment)
        time.sleep(Random(moment).uniform(0.0, 0.3))
        victim.send(signal.SIGKILL)
        victim.assert_healed()


@pytest.mark.parametrize("number", range(KILLS))
def test_killed_at_any_moment(tmp_path: Path, number: int) -> None:
    with faulty(tmp_path, nemesis=ALL_FAULTS, time_limit=14, seed=number) as victim:
        victim.kill_within(14.0, f"moment {number}")
        victim.assert_healed()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_in_the_middle_of_a_fault(tmp_path: Path, number: signal.Signals) -> None:
    """Faults are healed, the run is judged and reported, nothing is left to heal."""
    with faulty(tmp_path, nemesis="pause", time_limit=20) as victim:
        victim.until_said("pause installed")
        code = victim.send(number)
        assert code == 130, victim.said
        assert "Traceback" not in victim.said
        assert marked(victim.state) == []
        assert journals(victim.state) == []
        assert victim.run_dir.report.is_file()
        assert victim.run_dir.results.is_file()
        nemesis = read_jsonl(victim.run_dir.history).nemesis()
        assert sum(op.f == "heal" and "evidence" in (op.value or {}) for op in nemesis) == 1


@pytest.mark.parametrize(
    "moment", [TITLE, "phase open", pytest.param("phase close", marks=pytest.mark.long)]
)
def test_interrupted_while_nodes_come_and_go(tmp_path: Path, moment: str) -> None:
    with faulty(tmp_path, nemesis="none", time_limit=1) as victim:
        victim.until_said(moment)
        code = victim.send(signal.SIGINT)
        assert code in (130, 0), victim.said
        assert "Traceback" not in victim.said
        assert marked(victim.state) == []
        assert journals(victim.state) == []
