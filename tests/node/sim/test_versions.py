"""A simulation gives the same bytes in every Python that the project can run in.

CI makes the other Pythons with ``.ci/pythons``; where there are none the comparison is skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands.pythons import VARIABLE, PythonMissingError, find
from tests.support.places import ROOT

SEEDS = (3, 5, 8)  # three and five voters, all workloads, snapshots and none
TIME_LIMIT_S = 3
PROGRAM = """
import json, logging, sys
from harness.sessions.simulated import simulate
from harness.sessions.plan import Plan
from harness.sessions.swarm import draw

logging.disable(logging.CRITICAL)
for seed in map(int, sys.argv[2:]):
    plan = Plan.simulated(draw(seed, {"time_limit_s": float(sys.argv[1])}), asked_for=False)
    run = simulate(plan)
    print(json.dumps({**run.summary(), "calls": run.calls}))
"""


@cache
def told_by(python: Path, hash_seed: str) -> list[Mapping[str, Any]]:
    """What a Python says of each seed: hash of all events and ops, callbacks made, verdict."""
    argv = [str(python), "-c", PROGRAM, str(TIME_LIMIT_S), *map(str, SEEDS)]
    done = subprocess.run(
        argv,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("version", ["3.12", "3.13", "3.14"])
def test_other_pythons_give_the_same_bytes(version: str) -> None:
    try:
        other = find(version)
    except PythonMissingError as error:
        if VARIABLE in os.environ:
            raise
        pytest.skip(str(error))
    here, there = told_by(Path(sys.executable), "0"), told_by(other, version[-2:])
    assert [told["seed"] for told in here] == list(SEEDS)
    assert all(told["events"] > 500 for told in here)
    assert there == here


def test_what_is_named_and_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(ROOT / "no-such-python"))
    with pytest.raises(PythonMissingError, match=r"\.ci/pythons 3\.12"):
        find("3.12")
