"""Clocks of real processes: what each fault does to what the process reads, and that it ends."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from live_scene import SPEC, LiveScene, play

from harness.envs import local_clocks
from harness.errors import EnvError
from harness.hosts import Clocks
from harness.nemeses import select
from harness.registry import nemeses

needs_library = pytest.mark.skipif(
    local_clocks.no_fake_clocks() is not None, reason=str(local_clocks.no_fake_clocks())
)
HOUR_MS = 3_600_000


@needs_library
def test_a_jump_is_read_in_the_process_alone_outlives_it_and_is_gone_after_the_heal(
    tmp_path: Path,
) -> None:
    async def main(scene: LiveScene) -> None:
        def off_ms(node: str) -> float:
            """How far a node's wall clock is from the host's, but for the age of the reading."""
            return scene.env.clock(node)["wall_ms"] - time.time() * 1e3

        fault = await scene.inject("clock-jump", target="leader", ms=-HOUR_MS)
        (seen,) = fault.saw("wall clock")
        node = seen["node"]
        other = next(n for n in scene.system.nodes if n != node)
        assert (seen["seen"], seen["running"]) == (True, True)
        assert [e.what["node"] for e in scene.journal.open_entries() if e.kind == "clock"] == [node]
        assert abs(off_ms(node) + HOUR_MS) < 1_000
        assert abs(off_ms(other)) < 1_000

        await scene.system.kill(node)
        await scene.system.start(node)
        assert abs(off_ms(node) + HOUR_MS) < 1_000
        first, second = (e["inc"] for e in scene.events("start", node))
        assert first < second, "a clock that goes back must not turn the order of processes round"
        leader = await scene.leader()
        further = await scene.inject("clock-rate", target="leader", ppm=2_000_000)
        (seen,) = further.saw("steady clock")
        assert further.injection.outcome == "installed"
        assert seen["running"]
        assert seen["ppm"] == pytest.approx(2_000_000, rel=0.02)
        (now,) = (await further.heal())["nodes"]
        assert (now["node"], now["running"]) == (leader, True)
        assert now["ppm"] == pytest.approx(1_000_000, rel=0.02)

        await fault.heal()
        assert abs(off_ms(node)) < 5_000  # what the wrong rate has gained is not taken back
        assert not [e for e in scene.journal.open_entries() if e.kind == "clock"]

    play(tmp_path, main, abilities=frozenset({Clocks}))


def test_without_the_library_the_reason_is_said_and_all_leaves_it_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(local_clocks, "LIBRARIES", (str(tmp_path),))
    for name in ("clock-jump", "clock-rate"):
        assert "apt-get install faketime" in str(nemeses.get(name)().misfit(SPEC))
    assert not [name for name, _ in select(["all"], SPEC) if name.startswith("clock-")]
    assert nemeses.get("clock-jump")().misfit(replace(SPEC, env="sim")) is None


def test_clocks_that_no_fault_asked_for_are_the_hosts_own(tmp_path: Path) -> None:
    async def main(scene: LiveScene) -> None:
        assert scene.env.fake_clock_environ("n1") == {}
        with pytest.raises(EnvError, match="no fault of the run asked for more"):
            scene.env.jump_wall("n1", 5)

    play(tmp_path, main, replace(SPEC, voters=1), frozenset())
