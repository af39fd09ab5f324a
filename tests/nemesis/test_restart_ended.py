"""Nodes that ended by themselves are started again, with real processes."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

from harness.faults.choice import plan, what_does_not_fit
from harness.registry import nemeses
from harness.spec import SIM, RunSpec
from tests.support.live.cluster import eventually
from tests.support.live.scene import SPEC, LiveScene, play

NAME = "restart-ended"


def test_it_lasts_as_long_as_the_run_beside_the_schedule_of_the_others() -> None:
    for seed in range(20):
        spec = RunSpec(seed, env="local", nemeses=("all",), time_limit_s=30.0)
        _, without = plan(spec)
        with_it = replace(spec, nemeses=("all", NAME))
        chosen, faults = plan(with_it)
        assert faults[:-1] == without
        assert (faults[-1].nemesis, faults[-1].at_ms, faults[-1].duration_ms) == (NAME, 0, 30_000)
        assert NAME in dict(chosen)
        assert len({fault.id for fault in faults}) == len(faults)
    alone = RunSpec(1, env="local", nemeses=(NAME,))
    assert [fault.nemesis for fault in plan(alone)[1]] == [NAME]
    assert list(what_does_not_fit(alone, plan(alone)[1])) == []


def test_a_simulation_has_none_as_it_ends_with_a_node() -> None:
    spec = RunSpec(1, env=SIM, nemeses=("all", NAME))
    assert nemeses.get(NAME)().misfit(spec) is not None
    assert nemeses.get(NAME)().misfit(replace(spec, env="local")) is None


def test_what_ended_by_itself_comes_back_and_what_a_fault_has_ended_stays_down(
    tmp_path: Path,
) -> None:
    async def main(scene: LiveScene) -> None:
        killed = await scene.inject("kill", target="follower")
        (down,) = killed.injection.targets
        watch = await scene.inject(NAME, after_ms=100)
        first = await _end(scene, next(n for n in scene.system.nodes if n != down))
        await eventually(lambda: _runs_anew(scene, first), "it is started again", 20.0)
        assert scene.env.process(down).state == "gone", "its fault is not over"
        await killed.heal()
        second = await _end(scene, down)
        healed = await watch.heal()  # at once: it starts what is down now
        assert _runs_anew(scene, second)
        assert [each["restarted"] for each in healed["restarts"]] == [[first[0]], [second[0]]]
        assert all("ended" in each["was"] for each in healed["restarts"]), healed
        assert await scene.system.await_recovery(20.0)

    play(tmp_path, main, SPEC, frozenset())


async def _end(scene: LiveScene, node: str) -> tuple[str, int]:
    """End a node as nothing of ours does; returns it with the process that it was."""
    pid = scene.env.process(node).pid
    os.kill(pid, signal.SIGKILL)
    await eventually(lambda: scene.env.process(node).has_ended, "it has ended")
    return node, pid


def _runs_anew(scene: LiveScene, before: tuple[str, int]) -> bool:
    now = scene.env.process(before[0])
    return not now.has_ended and now.pid != before[1]
