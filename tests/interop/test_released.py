"""Bugs of Kafka's releases, found again by the zoo: with the release that has them, and not after.

Each hunt runs in a process of its own: a JVM cannot be started twice in one, nor forked.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.registry import released_bugs
from harness.systems.kafka.distribution import (
    REQUIRE_VARIABLE,
    KafkaMissingError,
    fetch_classes,
)
from harness.systems.kafka.releases import Release

pytestmark = pytest.mark.slow

TIMEOUT_S = 900
BUGS = {bug.name: bug for _, bug in released_bugs()}


@pytest.mark.parametrize(
    "name",
    [
        "late-high-watermark",
        *(pytest.param(n, marks=pytest.mark.long) for n in ("equal-backoffs",)),
    ],
)
def test_a_bug_is_caught_where_it_was_and_gone_where_it_is_fixed(name: str, tmp_path: Path) -> None:
    bug = BUGS[name]
    try:
        for version in filter(None, (bug.affected, bug.fixed)):
            fetch_classes(Release(version))
    except KafkaMissingError as error:
        if os.environ.get(REQUIRE_VARIABLE) == "1":
            pytest.fail(f"{REQUIRE_VARIABLE}=1, but {error}", pytrace=False)
        pytest.skip(f"no Apache Kafka here: {error}")
    argv = [sys.executable, "-m", "krucible", "zoo", "--arm", "releases", "--only", name]
    argv += ["--budget", "5m", "--jobs", "1", "--json"]
    done = subprocess.run(
        argv, cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told, every = (json.loads(line) for line in done.stdout.splitlines())
    assert every["hunts"] == [told]
    assert (told["affected"], told["fixed"]) == (bug.affected, bug.fixed)
    assert set(told["caught_by"]) <= set(bug.breaks)
    assert not told["alarms"]
