"""``docs/findings.md``: a cut that a loss of power takes back, with Kafka's own log class."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from harness.systems.kafka.distribution import KafkaDist, fetch_classes
from harness.systems.kafka.releases import DEFAULT, KNOWN, Release
from tests.support.kafka.cut_log import CUT, NEW, OLD
from tests.support.places import ROOT

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("release", [DEFAULT, KNOWN[-1]])
def test_records_that_were_cut_off_are_read_as_committed(
    kafka: KafkaDist, release: str, tmp_path: Path
) -> None:
    assert kafka.archive.is_file()
    jars = fetch_classes(Release(release)).jars
    argv = [sys.executable, "-m", "tests.support.kafka.cut_log", str(jars), str(tmp_path)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    old = [[offset, 1] for offset in OLD]
    assert told["before"] == [*old[:CUT], [CUT, 2]]  # one segment of the new leader's is read
    assert told["end"] == NEW.stop
    assert told["after"] == old  # those of the new leader's are not read, and more than there are
