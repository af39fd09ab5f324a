"""A turn of Apache Kafka's classes that never comes back ends the simulation: a finding (L12)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from harness.systems.kafka.distribution import KafkaDist

pytestmark = pytest.mark.slow

TIMEOUT_S = 120
LIMIT_MS = 2000  # of CPU time; 30 s where nothing else is said
# Kafka reads a file of a disk, and that never ends: a loop of Java, called from one of Java.
SCRIPT = """
from harness.sessions.plan import Plan
from harness.sessions.simulated import simulate
from harness.spec import RunSpec
from harness.systems.kafka.simulated.bridge import bridge
from harness.systems.kafka.simulated.disk import PartitionDisk

def read(self, path):
    return bridge().JClass("java.util.stream.LongStream").range(0, 2**62).sum()

PartitionDisk.read = read
run = simulate(Plan.simulated(RunSpec(seed=1, system="kafka", nemeses=("none",), voters=3)))
for anomaly in run.judgement.anomalies:
    print(anomaly.invariant, anomaly.message)
"""


def test_a_turn_that_never_ends_is_told_with_its_place(kafka: KafkaDist) -> None:
    assert kafka.archive.is_file()
    environment = {**os.environ, "JAVA_TOOL_OPTIONS": f"-Dkrucible.turn.cpu.ms={LIMIT_MS}"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    (told,) = [line for line in done.stdout.splitlines() if line.startswith("L12 ")]
    assert "a turn of n1 takes too long in Java, and is at " in told
    assert "called by" in told
