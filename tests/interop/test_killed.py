"""A harness that is killed leaves no JVM, no file system under one, and no socket to ask one."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.agent.mounts import cannot_mount
from harness.envs.clocks.jvm_attach import socket_of
from harness.envs.clocks.orders import no_fake_clocks
from harness.systems.kafka.distribution import KafkaDist
from tests.support.commands.victim import kills, running

REASON = cannot_mount() or no_fake_clocks()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(REASON is not None, reason=str(REASON))]

KILLS = kills(1)
MOMENT_MAX_S = 22.0  # of start-up, faults and recovery
SMALL = {"system": "kafka", "workload": "producer-ids", "voters": 2, "observers": 0, "rate": 30}


@pytest.mark.parametrize("number", range(KILLS))
def test_killed_at_any_moment_nothing_of_ours_stays_and_all_else_does(
    kafka: KafkaDist, tmp_path: Path, number: int
) -> None:
    assert kafka.archive.is_file()
    options = {**SMALL, "nemesis": "power,disk,clock", "time-limit": 14, "seed": number}
    with somebody_elses_jvm() as somebody, running(tmp_path, options) as victim:
        victim.kill_within(MOMENT_MAX_S, f"moment {number}")
        victim.assert_healed()
        assert somebody.is_file()


@contextlib.contextmanager
def somebody_elses_jvm() -> Iterator[Path]:
    """What a JVM looks like that somebody else has made to listen; its socket."""
    with subprocess.Popen(["sleep", "600"]) as process:
        path = socket_of(process.pid)
        path.touch()
        try:
            yield path
            assert process.poll() is None
        finally:
            process.kill()
            path.unlink()
