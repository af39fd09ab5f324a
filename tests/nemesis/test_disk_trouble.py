"""The heal of a disk that misbehaves, on hosts that are made up for it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest

from harness.contracts.environment import ProcessState
from harness.contracts.nemesis import Cluster, Fault, Injection
from nemesis.disk_trouble import DiskFull, DiskTrouble, SlowFsync, _Undo
from tests.support.simulated.virtual_time import run_virtual

NODE = "n1"
FAULT = Fault(0, "disk-full", 0, 1_000, {"target": "one"}, 0.5)


class Host:
    """An environment, its disks, and a system, of one node; which ends at a time."""

    name = "local"

    def __init__(self, ends_at_s: float, refused: int) -> None:
        self.disks = self
        self.ends_at_s, self.refused = ends_at_s, refused
        self.started: list[str] = []
        self.began_s: float | None = None

    def elapsed_s(self) -> float:
        now_s = asyncio.get_running_loop().time()
        self.began_s = now_s if self.began_s is None else self.began_s
        return now_s - self.began_s

    def process(self, node: str) -> ProcessState:
        assert node == NODE
        if self.started:
            return ProcessState(8, "S")
        gone = self.elapsed_s() >= self.ends_at_s
        return ProcessState(None, "gone", "exit code 1") if gone else ProcessState(7, "S")

    async def try_disk(self, node: str) -> Mapping[str, Any]:
        assert node == NODE
        return {"errno": None, "refused": self.refused, "slowed": self.refused, "fsync_ms": 0}

    async def fill(self, node: str, *, full: bool) -> None:
        assert (node, full) == (NODE, False)

    async def slow_fsync(self, node: str, ms: int) -> None:
        assert (node, ms) == (NODE, 0)

    async def ask(self, node: str, *, timeout_s: float) -> tuple[bool, str, float]:
        assert node == NODE
        assert timeout_s > 0
        return bool(self.started), "", 1.0

    async def kill(self, node: str) -> None:
        raise AssertionError(f"nobody kills {node}")

    async def start(self, node: str) -> None:
        self.started.append(node)


def healed(kind: DiskTrouble, host: Host) -> tuple[Mapping[str, Any], float]:
    """Heal the fault; give what the heal reports, and the seconds that it took."""

    async def main() -> tuple[Mapping[str, Any], float]:
        before = {"errno": None, "refused": 0, "slowed": 0, "fsync_ms": 0}
        host.elapsed_s()
        undo = _Undo({NODE: 7}, {NODE: before})
        cluster = Cluster(cast("Any", host), cast("Any", host))
        done = await kind.heal(FAULT, Injection("installed", (NODE,), None, (), undo), cluster)
        return done, host.elapsed_s()

    return run_virtual(main())


@pytest.mark.parametrize("ends_at_s", [0.0, 0.4, 1.5])
def test_a_node_that_ends_of_what_it_met_is_started_though_it_ends_a_little_later(
    ends_at_s: float,
) -> None:
    host = Host(ends_at_s, refused=3)
    done, _ = healed(DiskFull(), host)
    assert (done["restarted"], host.started) == ([NODE], [NODE])


def test_a_node_that_met_nothing_is_not_waited_for() -> None:
    done, took_s = healed(DiskFull(), Host(60.0, refused=0))
    assert done["restarted"] == []
    assert took_s < 0.5


def test_a_node_that_lives_with_what_it_met_is_waited_for_a_while() -> None:
    done, took_s = healed(DiskFull(), Host(60.0, refused=3))
    assert done["restarted"] == []
    assert took_s >= 2.0


def test_nobody_ends_of_a_slow_disk() -> None:
    done, took_s = healed(SlowFsync(), Host(60.0, refused=3))
    assert done["restarted"] == []
    assert took_s < 0.5
