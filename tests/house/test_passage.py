"""The files that a Fetch and a fault pass through, as this tree runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.places import ROOT
from tools import passage

pytestmark = pytest.mark.slow


def test_a_fetch_passes_from_the_socket_through_the_core_to_the_answer() -> None:
    files = set(passage.passages(ROOT, "fetch"))
    way = {
        "node/wire/link.py",
        "node/driver/apis/dispatch.py",
        "node/driver/pump.py",
        "node/core/replica.py",
        "node/core/leader/fetches.py",
        "node/log/file_log.py",
        "node/driver/effects.py",
    }
    assert way <= files
    assert all(file.startswith("node/") for file in files)
    elsewhere = ("node/sim/", "node/mutants/", "node/broker/", "node/core/follower/")
    assert not [file for file in files if file.startswith(elsewhere)]


def test_a_fault_passes_from_the_schedule_through_its_nemesis_to_the_end_of_its_heal() -> None:
    files = set(passage.passages(ROOT, "fault"))
    way = {
        "harness/faults/schedule.py",
        "harness/run/player.py",
        "harness/run/guard.py",
        "nemesis/partition.py",
        "harness/envs/sim/net.py",
        "node/sim/fabric.py",
        "node/sim/network.py",  # of probes, which are tasks of their own
        "harness/run/recorder.py",
    }
    assert way <= files
    assert not [file for file in files if file.startswith(("reports/", "krucible/", "pipeline/"))]
    assert "nemesis/kill.py" not in files
    assert "node/core/replica.py" not in files, "what nodes do of it is their own way"


def test_a_tree_that_does_not_run_has_no_figures(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        """[project.scripts]
krucible-node = "nothing.at:all"
"""
    )
    with pytest.raises(RuntimeError, match=r"(?s)no passage of a fetch: .*nothing"):
        passage.passages(tmp_path, "fetch")
