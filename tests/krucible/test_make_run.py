"""README's first command: it has time for faults of all kinds, as README says."""

from __future__ import annotations

import re

import pytest

from harness.faults import choice as nemeses
from harness.faults.schedule import paced
from harness.spec import RunSpec
from tests.support.places import ROOT

FAULTS_MIN = 25
RUN = re.compile(r"^run:.*\n\t\S+ run (?P<options>.+)$", re.M)


@pytest.mark.parametrize("seed", range(20))
def test_make_run_has_time_for_all_kinds_of_fault_at_full_length(seed: int) -> None:
    found = RUN.search((ROOT / "Makefile").read_text(encoding="utf-8"))
    assert found is not None
    words = found["options"].split()
    given = dict(zip(words[::2], words[1::2], strict=True))
    assert given["--nemesis"] == "all"
    spec = RunSpec(
        seed=seed,
        nemeses=("all",),
        voters=int(given["--voters"]),
        observers=int(given["--observers"]),
        time_limit_s=float(given["--time-limit"]),
        pace=given["--pace"],
    )
    _, faults = nemeses.plan(spec)
    kinds = {fault.nemesis for fault in faults}
    possible = {name for name, _ in nemeses.select(["all"], spec)}
    assert kinds == possible
    assert len(faults) >= FAULTS_MIN
    assert not any(fault.late for fault in faults)
    low_ms, high_ms = paced(spec.pace).fault_ms
    assert all(low_ms <= fault.duration_ms <= high_ms for fault in faults)
