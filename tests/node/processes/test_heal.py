"""What a dead harness has ordered of local nodes' disks and clocks is taken away by a heal."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from random import Random

from harness.contracts.hosts import Clocks, Disks
from harness.envs.local.plugin import Local
from harness.healing.heal import heal_all
from harness.healing.journal import Journal


def test_a_heal_takes_orders_of_a_dead_harness_away(tmp_path: Path) -> None:
    journal = Journal.open("dead", folder=tmp_path / "state")
    env = Local(tmp_path / "run", journal)
    env.expect({Disks}, Random(1))
    asyncio.run(env.disks.slow_fsync("n1", 50))
    folder = env.node_dir("n1") / "faults"
    assert (folder / "trouble.json").exists()
    (folder / "clock").write_text("+60 x1\n")
    journal.record("clock", node="n1", folder=str(folder))
    journal.close()
    path = tmp_path / "state" / "dead.jsonl"
    header, *lines = path.read_text().splitlines()
    owner = json.loads(header)
    owner["harness"]["start"] = 1  # nobody's: the pid is ours, but we began later
    path.write_text("\n".join([json.dumps(owner), *lines, ""]))

    healed = heal_all(tmp_path / "state")
    assert [(item.kind, item.done) for item in healed] == [("clock", True), ("disk", True)], healed
    assert not (folder / "trouble.json").exists()
    assert not (folder / "clock").exists()
    assert not path.exists()


def test_without_disk_or_clock_faults_in_the_run_nodes_start_as_ever(tmp_path: Path) -> None:
    journal = Journal.open("plain", folder=tmp_path)
    env = Local(tmp_path / "run", journal)
    env.expect(frozenset(), Random(1))
    assert {**env.disks.environ("n1"), **asyncio.run(env.clocks.environ("n1"))} == {}
    env.expect({Disks}, Random(1))
    assert set(env.disks.environ("n1")) == {"KRUCIBLE_DISK_FAULTS"}
    assert env.why_not(Disks) is None
    assert isinstance(env, Disks)
    assert isinstance(env, Clocks)
    journal.close()
