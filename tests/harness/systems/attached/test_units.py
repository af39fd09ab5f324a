"""Runs on a cluster whose nodes are units of a real systemd, each on a host reached over ssh."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from harness.verdict import EXIT_UNKNOWN, EXIT_VALID
from tests.support.attached.units import UNIT, Units, units
from tests.support.commands.process import journals, krucible, run
from tests.support.commands.victim import running

pytestmark = pytest.mark.slow

GUARD = "no_leader_s = 60\nunreachable_s = 60"
ALL = ("kill", "pause", "stop", "partition")


@pytest.fixture(
    scope="module",
    params=["no", pytest.param("always", marks=pytest.mark.long)],
    ids=lambda restart: f"restart={restart}",
)
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Units]:
    """Start units that systemd leaves down when they end, or that it starts again by itself."""
    with units(tmp_path_factory.mktemp("units"), request.param) as found:
        yield found


def test_units_are_hurt_in_every_way_and_left_as_they_were(
    cluster: Units, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("run")
    wanted = {"kill", "pause", "stop", "partition-isolate-leader"}
    options = {"attach": cluster.attach(ALL, GUARD), "nemesis": ",".join(sorted(wanted))}
    ran = run(folder, **options, seed=4, time_limit=20, rate=30)
    assert ran.code in (EXIT_VALID, EXIT_UNKNOWN), ran.explain()
    tried = [op.value for op in ran.nemesis_ops("inject", "outcome")]
    assert [value for value in tried if value["outcome"] == "failed"] == []
    installed = [value for value in tried if value["outcome"] == "installed"]
    assert {value["nemesis"] for value in installed} == wanted, tried
    cluster.await_well()
    assert journals(folder / "state") == []


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param("pause", marks=pytest.mark.long),
        "kill",
        pytest.param("stop", marks=pytest.mark.long),
    ],
)
def test_a_killed_harness_leaves_units_running(
    cluster: Units, tmp_path_factory: pytest.TempPathFactory, fault: str
) -> None:
    folder = tmp_path_factory.mktemp("killed")
    options = {"attach": cluster.attach((fault,), GUARD), "seed": 2, "pace": "lasting"}
    with running(folder, options | {"time-limit": 60, "rate": 30}) as victim:
        victim.until_said(f"{fault} installed")
        victim.send(signal.SIGKILL)
        cluster.await_well()  # before anybody heals: the keepers do
        healed = krucible(folder, "heal")
        assert healed.code == 0, healed.explain()
        assert journals(victim.state) == []


START = f"from harness.agent import foreign; print(foreign.start({{'unit': '{UNIT}'}}))"


@pytest.mark.long
def test_a_unit_that_ended_too_often_is_started_all_the_same(cluster: Units) -> None:
    """Systemd itself refuses the sixth start of a unit within ten seconds."""
    with pytest.raises(subprocess.CalledProcessError, match="start"):
        end_until_refused(cluster, 1)
    assert cluster.do(1, sys.executable, "-c", START) == "True"
    cluster.await_well()


def end_until_refused(cluster: Units, id_: int) -> None:
    """Kill a unit and start it again, for as long as systemd does that."""
    while True:
        cluster.ask(id_, "kill", "--signal=KILL", UNIT)
        cluster.ask(id_, "start", UNIT)
