"""Apache Kafka's disks: what its nodes fsynced survives a power failure, as a control shows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.agent import mounts
from harness.contracts.nemesis import Fault
from harness.sessions.live import Session, execute, prepare
from harness.spec import RunSpec
from harness.store.folder import Store
from harness.systems.kafka.distribution import KafkaDist
from harness.verdict import Valid

REASON = mounts.cannot_mount()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(REASON is not None, reason=str(REASON))]
SPEC = RunSpec(
    5,
    system="kafka",
    workload="producer-ids",
    voters=3,
    observers=0,
    rate_hz=50.0,
    time_limit_s=4.0,
)


def played(folder: Path, spec: RunSpec, faults: list[Fault]) -> tuple[Session, dict[int, Any]]:
    """A run under these faults, and how each was installed."""
    session = prepare(spec, Store(folder / "store"), faults=faults)
    execute(session, state_dir=folder / "state")
    lines = (session.run_dir.path / "history.jsonl").read_text().splitlines()
    ops = [op for op in map(json.loads, lines) if op["f"] == "inject"]
    return session, {op["value"]["id"]: op["value"] for op in ops if "outcome" in op["value"]}


def _full_until_met(folder: Path) -> tuple[Session, Any, list[Any]]:
    """A leader's disk is full until it writes, be the machine ever so busy; then power is lost.

    Gives the run, what was seen of the disk, and of the loss of power.
    """
    for full_ms in (1_500, 5_000, 20_000):
        spec = replace(SPEC, nemeses=("power", "disk-full"), time_limit_s=full_ms / 1_000 + 3.5)
        faults = [
            Fault(0, "disk-full", 300, full_ms, {"target": "leader"}, 0.5),
            Fault(1, "power", full_ms + 1_500, 300, {"target": "all", "mid_write": True}, 0.5),
        ]
        session, installed = played(folder / str(full_ms), spec, faults)
        assert session.judgement is not None
        assert session.judgement.system is Valid.VALID, session.judgement
        (full,) = (seen for seen in installed[0]["evidence"] if seen["saw"] == "disk")
        if full["met"]:
            lost = [seen for seen in installed[1]["evidence"] if seen["saw"] == "power loss"]
            return session, full, lost
    raise AssertionError("no leader wrote anything in 20 s")


def test_kafka_keeps_through_a_full_disk_and_a_loss_of_power_what_it_acknowledged(
    kafka: KafkaDist, tmp_path: Path
) -> None:
    assert kafka.archive.is_file()
    session, full, lost = _full_until_met(tmp_path)
    # who died of the full disk may still be on its way back
    assert {full["node"], *(seen["node"] for seen in lost)} == {"n1", "n2", "n3"}
    assert any(seen["torn_write"] or seen["lost"] for seen in lost)
    printed = (session.run_dir.logs_dir / f"{full['node']}.log").read_text()
    assert "java.io.IOException: No space left on device" in printed


def test_on_disks_that_lie_about_fsync_it_loses_what_it_acknowledged_and_that_is_caught(
    kafka: KafkaDist, tmp_path: Path
) -> None:
    """The control: without durable fsyncs the same loss of power is no harmless one."""
    assert kafka.archive.is_file()
    spec = replace(SPEC, voters=1, nemeses=("power",), settings={"krucible.fsync": "false"})
    fault = Fault(0, "power", 1_500, 300, {"target": "all", "mid_write": False}, 0.5)
    session, installed = played(tmp_path, spec, [fault])
    assert session.judgement is not None
    assert installed[0]["evidence"][-1]["lost_bytes"] > 0
    assert session.judgement.system is Valid.INVALID
    broken = {a.invariant for each in session.judgement.results for a in each.anomalies}
    assert "C11" in broken, "a producer id is given twice"
    assert session.exit_code == 1
