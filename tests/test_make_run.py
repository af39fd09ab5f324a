"""README's first command: what it asks for can be had in the time that it gives."""

from __future__ import annotations

import re

import pytest
from source import ROOT

from harness import nemeses, schedule
from harness.spec import RunSpec

RUN = re.compile(r"^run:.*\n\t\S+ run (?P<options>.+)$", re.M)


@pytest.mark.parametrize("seed", range(20))
def test_make_run_has_time_for_a_fault_of_each_kind(seed: int) -> None:
    found = RUN.search((ROOT / "Makefile").read_text(encoding="utf-8"))
    assert found is not None
    words = found["options"].split()
    given = dict(zip(words[::2], words[1::2], strict=True))
    assert given["--nemesis"] == "all"
    spec = RunSpec(
        seed=seed,
        voters=int(given["--voters"]),
        observers=int(given["--observers"]),
        time_limit_s=float(given["--time-limit"]),
    )
    chosen = nemeses.select(["all"], spec)
    faults = schedule.build(seed, chosen, spec.time_limit_s)
    assert {fault.nemesis for fault in faults} == {name for name, _ in chosen}
    assert len(chosen) > 20
