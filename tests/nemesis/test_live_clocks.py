"""Clocks of real processes: what each fault does to what the process reads, and that it ends."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import pytest

from harness.contracts.hosts import Clocks
from harness.envs.clocks import orders as node_clocks
from harness.envs.clocks.orders import Dial
from harness.envs.local.plugin import Local
from harness.errors import EnvError
from harness.faults.choice import select
from harness.healing.journal import Journal
from harness.registry import nemeses
from tests.support.live.scene import SPEC, LiveScene, play

needs_library = pytest.mark.skipif(
    node_clocks.no_fake_clocks() is not None, reason=str(node_clocks.no_fake_clocks())
)
HOUR_MS = 3_600_000


@needs_library
def test_a_jump_is_read_in_the_process_alone_outlives_it_and_is_gone_after_the_heal(
    tmp_path: Path,
) -> None:
    async def main(scene: LiveScene) -> None:
        async def off_ms(node: str) -> float:
            """How far a node's wall clock is from the host's, but for the age of the reading."""
            return float((await scene.env.clocks.clock(node))["wall_ms"] - time.time() * 1e3)

        strobe = await scene.inject("clock-strobe", target="leader", ms=5_000, period_ms=20)
        (seen,) = strobe.saw("strobe")
        assert (strobe.injection.outcome, seen["running"]) == ("installed", True)
        assert min(seen["ahead"], seen["behind"]) > 0, "the process read its clock on both sides"
        (healed,) = (await strobe.heal())["nodes"]
        assert (healed["right"], healed["jumps"] >= seen["jumps"]) == (True, True)
        assert abs(await off_ms(seen["node"])) < 1_000

        fault = await scene.inject("clock-jump", target="leader", ms=-HOUR_MS)
        (seen,) = fault.saw("wall clock")
        node = seen["node"]
        other = next(n for n in scene.system.nodes if n != node)
        assert (seen["seen"], seen["running"]) == (True, True)
        assert [e.what["node"] for e in scene.journal.open_entries() if e.kind == "clock"] == [node]
        assert abs(await off_ms(node) + HOUR_MS) < 1_000
        assert abs(await off_ms(other)) < 1_000

        await scene.system.kill(node)
        await scene.system.start(node)
        assert abs(await off_ms(node) + HOUR_MS) < 1_000
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
        assert abs(await off_ms(node)) < 5_000  # what the wrong rate has gained is not taken back
        assert not [e for e in scene.journal.open_entries() if e.kind == "clock"]

    play(tmp_path, main, abilities=frozenset({Clocks}))


def test_without_the_library_the_reason_is_said_and_all_leaves_it_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(node_clocks, "LIBRARIES", (str(tmp_path),))
    for name in ("clock-jump", "clock-rate", "clock-strobe"):
        assert "apt-get install faketime" in str(nemeses.get(name)().misfit(SPEC))
    assert not [name for name, _ in select(["all"], SPEC) if name.startswith("clock-")]
    assert nemeses.get("clock-jump")().misfit(replace(SPEC, env="sim")) is None


def test_clocks_that_no_fault_asked_for_are_the_hosts_own(tmp_path: Path) -> None:
    journal = Journal.open("no-clocks", folder=tmp_path)
    env = Local(tmp_path / "run", journal)
    assert asyncio.run(env.clocks.environ("n1")) == {}
    with pytest.raises(EnvError, match="no fault of this run needs clocks"):
        asyncio.run(env.clocks.jump_wall("n1", 5))
    journal.close()


@pytest.mark.parametrize("ppm", [500_000, 1_000_000, 2_000_000])
def test_a_dial_goes_on_from_where_it_stands_when_its_rate_changes(ppm: int) -> None:
    dial = Dial(since_s=100.0, start_s=90.0)
    dial.jumps_ms = 5_000
    dial.set_rate(ppm, 110.0)
    assert dial.shown_ms(110.0) == 115_000
    offset_s, rate = dial.order().split()
    assert rate == f"x{ppm / 1e6:.6f}"

    def faked_ms(now_s: float) -> int:
        """As libfaketime has it: an offset, and a rate since the process began."""
        return round((90.0 + float(offset_s) + (now_s - 90.0) * ppm / 1e6) * 1e3)

    assert [faked_ms(t) for t in (110.0, 112.0)] == [dial.shown_ms(t) for t in (110.0, 112.0)]
    dial.set_rate(1_000_000, 112.0)
    assert dial.shown_ms(113.0) == 116_000 + 2 * ppm // 1_000
