"""``docs/findings.md``: what it says of a live Apache Kafka happens there, not in a control."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.agent import mounts
from harness.contracts.nemesis import Fault
from harness.sessions.live import execute, prepare
from harness.spec import RunSpec
from harness.store.folder import Store
from harness.systems.kafka.distribution import KafkaDist
from harness.verdict import Valid
from krucible.meant import meant
from tests.support.places import ROOT

REASON = mounts.cannot_mount()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(REASON is not None, reason=str(REASON))]
FOLDER = ROOT / "docs" / "findings" / "before-the-flush"


def judged(folder: Path, spec: RunSpec, faults: tuple[Fault, ...]) -> tuple[Valid, set[str]]:
    """The verdict of a run, and the invariants that it broke."""
    session = prepare(spec, Store(folder / "store"), faults=faults)
    execute(session, state_dir=folder / "state")
    assert session.judgement is not None
    return session.judgement.system, {a.invariant for a in session.judgement.anomalies}


def test_a_quorum_of_one_acknowledges_before_it_flushes(kafka: KafkaDist, tmp_path: Path) -> None:
    assert kafka.archive.is_file()
    found = meant(str(FOLDER), {}, None, Store(Path("nowhere")))
    valid, broken = judged(tmp_path, found.spec, found.faults)
    assert valid is Valid.INVALID
    assert "C11" in broken


@pytest.mark.long
def test_three_voters_do_not_though_all_lose_their_power(kafka: KafkaDist, tmp_path: Path) -> None:
    assert kafka.archive.is_file()
    found = meant(str(FOLDER), {}, None, Store(Path("nowhere")))
    faults = tuple(
        replace(fault, params={**fault.params, "target": "all"}) for fault in found.faults
    )
    valid, broken = judged(tmp_path, replace(found.spec, voters=3), faults)
    assert (valid, broken) == (Valid.VALID, set())
