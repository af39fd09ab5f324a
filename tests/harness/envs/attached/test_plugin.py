"""Containers that the test started by itself: cut off, frozen and killed, and left as they were."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator

import pytest

from harness.verdict import EXIT_UNKNOWN, EXIT_VALID
from tests.support.attached.containers import Contained, contained
from tests.support.commands.process import journals, krucible, run
from tests.support.commands.victim import running
from tests.support.docker.cluster import need_engine

pytestmark = [
    pytest.mark.docker,
    pytest.mark.slow,
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("nsenter") is None,
        reason="links of containers are cut by root, with nsenter",
    ),
]

GUARD = "no_leader_s = 60\nunreachable_s = 60"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Contained]:
    need_engine()
    with contained(tmp_path_factory.mktemp("contained")) as found:
        yield found


@pytest.mark.long
def test_containers_are_cut_off_and_killed_and_left_as_they_were(
    cluster: Contained, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("run")
    file = cluster.attach(("kill", "pause", "partition"), GUARD)
    wanted = {"kill", "pause", "partition-isolate-leader"}
    options = {"attach": file, "nemesis": ",".join(sorted(wanted)), "seed": 4}
    ran = run(folder, **options, time_limit=12, rate=30)
    assert ran.code in (EXIT_VALID, EXIT_UNKNOWN), ran.explain()
    tried = [op.value for op in ran.nemesis_ops("inject", "outcome")]
    installed = [value for value in tried if value["outcome"] == "installed"]
    assert {value["nemesis"] for value in installed} == wanted, tried
    cut = next(v for v in installed if v["nemesis"] == "partition-isolate-leader")
    seen = [e for e in cut["evidence"] if e["saw"] == "cut link"]
    assert seen
    assert not any(e["passed"] for e in seen)
    cluster.await_well()
    assert journals(folder / "state") == []


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        ("partition", None),
        pytest.param("pause", "paused", marks=pytest.mark.long),
        pytest.param("kill", "exited", marks=pytest.mark.long),
    ],
)
def test_a_killed_harness_leaves_links_whole_and_containers_running(
    cluster: Contained,
    tmp_path_factory: pytest.TempPathFactory,
    fault: str,
    status: str | None,
) -> None:
    folder = tmp_path_factory.mktemp("killed")
    file = cluster.attach((fault,), GUARD)
    options = {"attach": file, "time-limit": 60, "rate": 30, "seed": 2, "pace": "lasting"}
    with running(folder, options) as victim:
        victim.until_said(f"{fault}(-[a-z-]+)? installed")
        if status is None:
            assert any(map(cluster.rules, cluster.names))
        else:
            assert status in set(map(cluster.status, cluster.names))
        victim.send(signal.SIGKILL)
        cluster.await_well()
        healed = krucible(folder, "heal")
        assert healed.code == 0, healed.explain()
        assert journals(victim.state) == []
        cluster.await_well()
